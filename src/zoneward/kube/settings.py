"""Settings as their own schema, which msgspec reads from a document.

A settings type is a `Settings` struct: its fields are the keys, with defaults and bounds. ``docs/configuration.md`` is
checked against these types.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo, fields

from zoneward.kube.formats import label_value_problems
from zoneward.kube.input_error import ConfigurationError, show
from zoneward.kube.schema import bare_type, expected_of, field_mismatch, field_types, is_struct

_Type = TypeVar("_Type", bound=Struct)
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LONGEST_DURATION: Final = 200
"""Characters. Go's own parser takes any number of parts."""
_SHOWN_NUMBER: Final = 10**15


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A section of settings. Raises ConfigurationError for a value out of its bounds, wherever the value comes from."""

    def __post_init__(self) -> None:
        for field in _bounded_fields(type(self)):
            if not _is_within(value := getattr(self, field.name), field.type):
                raise ConfigurationError(
                    f"{field.encode_name}: expected {expected_of(field.type)}, got {_shown(value, field.type)}"
                )


def read_settings(document: object, type_: type[_Type], *, within: str = "") -> _Type:
    """A parsed YAML or JSON document as settings; a key without a value counts as absent.

    Raises ConfigurationError with the path of the field (below ``within``), what was expected, and what was there.
    """
    values = {} if document is None else _without_nulls(document, type_)
    try:
        return msgspec.convert(values, type_, dec_hook=_parse)
    except msgspec.ValidationError as error:
        mismatch = field_mismatch(error, type_, values)
        mismatch.field = ".".join(filter(None, (within, mismatch.field)))
        raise ConfigurationError(str(mismatch)) from None


# --- types of values --------------------------------------------------------------------------------------------------


def bounds(
    expected: str, *, ge: float | None = None, gt: float | None = None, le: float | None = None, is_secret: bool = False
) -> Meta:
    """Bounds of types that msgspec cannot bound: exact numbers and durations. ``expected`` words them for messages."""
    limits = {"ge": ge, "gt": gt, "le": le}
    extra: dict[str, Any] = {name: limit for name, limit in limits.items() if limit is not None}
    return Meta(description=expected, extra=extra | ({"is_secret": True} if is_secret else {}))


def setting_type(base: type, parse: Callable[[object], Any]) -> Any:
    """A type of values that a document writes differently. ``parse`` raises ValueError."""
    return type(base.__name__, (base,), {"from_setting": classmethod(lambda cls, value: cls(parse(value)))})


def parse_duration(text: str) -> float:
    """Seconds of a duration as Go writes it, and as kube-controller-manager's flags take it.

    Raises ValueError for anything else, and for a negative one.
    """
    if text == "0":
        return 0.0
    parts = list(_DURATION_PART.finditer(text)) if len(text) <= _LONGEST_DURATION else []
    if not parts or "".join(part[0] for part in parts) != text:
        raise ValueError(f"expected a duration (500ms, 15s, 1m30s), got {text!r}")
    return sum(float(part[1]) * _SECONDS[part[2]] for part in parts)


def _seconds(value: object) -> float:
    # A number without a unit is refused: programs disagree on what it means.
    return parse_duration(value if isinstance(value, str) else show(value))


def exact_number(value: object) -> Fraction:
    """The number that a document has. Raises ValueError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if not isinstance(value, float) or not isfinite(value):
        raise ValueError("Expected `number`")
    # The shortest text of a float is what the file has: 0.2 is a fifth here, not the double next to it.
    return Fraction(repr(value))


if TYPE_CHECKING:
    Seconds = float
else:
    Seconds = setting_type(float, _seconds)

Name = Annotated[str, Meta(min_length=1, description="a name")]
FileName = Annotated[str, Meta(min_length=1, description="the name of a file")]
AtLeastOne = Annotated[int, Meta(ge=1)]


def zone_items(value: object, what: str, path: str = "") -> Iterator[tuple[str, Any]]:
    """The items of a map whose keys are names of zones or regions (``what``). Raises ValueError with the path."""
    prefix = f"{path}: " if path else ""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise ValueError(f"{prefix}expected a mapping, got {show(value)}")
    for name in value:
        if not isinstance(name, str) or not name or any(label_value_problems(name)):
            raise ValueError(f"{prefix}expected names of {what}, got {show(name)}")
    yield from value.items()


def zone_pairs(value: object, what: str, read: Callable[[object, str, str], Any]) -> tuple[tuple[str, str, Any], ...]:
    """(from, to, value) of a map of maps. A pair that is given in one direction has its value in both.

    ``read`` takes a value and its pair. Raises ValueError with the path.
    """
    given = {
        (start, end): read(inner, start, end)
        for start, ends in zone_items(value, what)
        for end, inner in zone_items(ends, what, start)
    }
    both = {(end, start): inner for (start, end), inner in given.items()} | given
    return tuple((start, end, inner) for (start, end), inner in sorted(both.items()))


# --- the schema -------------------------------------------------------------------------------------------------------


@cache
def _bounded_fields(type_: type[Struct]) -> tuple[FieldInfo, ...]:
    return tuple(field for field in fields(type_) if _limits(field.type))


def _limits(type_: Any) -> dict[str, Any]:
    _, meta = bare_type(type_)
    extra = meta.extra or {}
    limits = {name: extra.get(name, getattr(meta, name)) for name in ("ge", "gt", "le")}
    return {name: limit for name, limit in limits.items() if limit is not None}


def _is_within(value: Any, type_: Any) -> bool:
    limits = _limits(type_)
    if value is None:
        return True
    return not (
        ("ge" in limits and value < limits["ge"])
        or ("gt" in limits and value <= limits["gt"])
        or ("le" in limits and value > limits["le"])
    )


def _shown(value: Any, type_: Any) -> str:
    if abs(value) >= _SHOWN_NUMBER:
        return "a number far above" if value > 0 else "a number far below"
    return f"{float(value):g}{'s' if bare_type(type_)[0] is Seconds else ''}"


# --- reading ----------------------------------------------------------------------------------------------------------


def _parse(type_: Any, value: object) -> Any:
    """For msgspec, which adds the path to a ValueError."""
    return exact_number(value) if type_ is Fraction else type_.from_setting(value)


def _without_nulls(value: object, type_: Any) -> object:
    if isinstance(value, list) and get_origin(type_) is tuple:
        return [_without_nulls(item, get_args(type_)[0]) for item in value]
    if not is_struct(type_) or not isinstance(value, dict):
        return value
    types_ = field_types(type_)
    return {
        key: _without_nulls(item, bare_type(types_.get(key))[0])
        for key, item in value.items()
        if item is not None or key not in types_
    }
