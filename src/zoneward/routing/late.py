"""A field whose value is made when it is first asked for: what most readers of a value never look at."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast, overload

T = TypeVar("T")
V = TypeVar("V")


class Late(Generic[T]):
    """A descriptor for a field of a frozen dataclass without slots, which is given its value, or a function for it."""

    __slots__ = ("_default", "_name")

    def __init__(self, *default: T) -> None:
        self._default = default

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> T: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T:
        if instance is None:
            # A dataclass asks for the default like this.
            if not self._default:
                raise AttributeError(self._name)
            return self._default[0]
        value = instance.__dict__[self._name]
        if callable(value):
            value = instance.__dict__[self._name] = value()
        return cast(T, value)

    def __set__(self, instance: object, value: T | Callable[[], T]) -> None:
        instance.__dict__[self._name] = value


def altered(value: V, **changes: Any) -> V:
    """A dataclass without slots with other fields; what has not been asked for stays unmade."""
    copy = object.__new__(type(value))
    copy.__dict__.update(value.__dict__, **changes)
    return copy
