"""Reads the fields of a small document by name and type; an error names the file and the field."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from zoneward.kube.input_error import InputError, show


class DocumentFields:
    """A mapping at a place in a file. A field that is null is the same as one that is absent.

    Every method raises InputError with file, field, what was expected and what was there.
    """

    def __init__(self, value: object, *, source: str, location: str = "") -> None:
        self.source, self.place = source, location
        if value is not None and not isinstance(value, dict):
            raise self.error("", "a mapping", show(value))
        self._values: Mapping[Any, object] = value or {}

    def error(self, name: str, expected: str, got: str) -> InputError:
        return InputError(self.source, self.at(name), f"expected {expected}, got {got}")

    def at(self, name: str) -> str:
        """The place of a field in the document."""
        return f"{self.place}.{name}" if self.place and name else self.place or name

    def raw(self, name: str) -> object:
        return self._values.get(name)

    def text(self, name: str, *, is_secret: bool = False) -> str:
        """Empty where absent. A value that ``is_secret`` is not shown."""
        value = self._values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            is_bare = isinstance(value, bool | int | float)
            if is_secret:
                raise self.error(name, "a string", "something else, without quotes" if is_bare else "something else")
            raise self.error(name, "a string", f"{show(value)} without quotes" if is_bare else show(value))
        return value

    def required(self, name: str, expected: str = "a string that is not empty") -> str:
        text = self.text(name)
        if not text:
            raise self.error(name, expected, "none")
        return text

    def flag(self, name: str) -> bool:
        """False where absent."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.error(name, "true or false", show(value))
        return bool(value)

    def data(self, name: str) -> bytes:
        """Base64, decoded; empty where absent. A value that is no base64 is not shown: it may be a key."""
        text = self.text(name, is_secret=True)
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.error(name, "base64", "something else") from None

    def inner(self, name: str) -> "DocumentFields":
        """A mapping; empty where absent."""
        return DocumentFields(self._values.get(name), source=self.source, location=self.at(name))

    def names(self) -> Iterator[str]:
        for name in self._values:
            if not isinstance(name, str):
                raise self.error("", "keys that are strings", show(name))
            yield name

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; empty where absent."""
        items = self._list(name)
        for index, item in enumerate(items):
            if not isinstance(item, str):
                raise self.error(f"{name}[{index}]", "a string", show(item))
        return tuple(str(item) for item in items)

    def items(self, name: str) -> Iterator["DocumentFields"]:
        """A list of mappings; empty where absent."""
        for index, item in enumerate(self._list(name)):
            yield DocumentFields(item, source=self.source, location=self.at(f"{name}[{index}]"))

    def _list(self, name: str) -> list[object]:
        value = self._values.get(name)
        if value is not None and not isinstance(value, list):
            raise self.error(name, "a list", show(value))
        return value or []
