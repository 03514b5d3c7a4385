"""Decodes YAML to documents with only the wanted fields.

PyYAML composes nodes in C but constructs values in Python, at 1.5 MB/s. This module takes the events of its C parser
and constructs only the values of wanted fields, which is many times faster, and passes on the items of a ``List`` one
by one, to save memory. Values with an anchor are constructed with all fields, because an alias may be anywhere; a limit
on the values that aliases expand to stops bombs.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from zoneward.kube.input_error import InputError, MalformedText, show
from zoneward.kube.input_files import read_limited
from zoneward.kube.struct_decoder import FieldTree

Take = Callable[[str, object], object]
"""Called with the path (``[3]``, ``items[3]``) and the value of each item. Its result replaces the value."""

MAX_DEPTH: Final = 100
MAX_FIELDS: Final = 1000
"""Fields at the top of a document. An object has a few; a log of ``key: value`` lines has many."""
MAX_TAG_DIRECTIVES: Final = 100
"""The parser compares each ``%TAG`` with all earlier ones."""
MAX_REPEATED: Final = 100_000
"""Values that the aliases of one document may expand to, nested aliases included. People repeat some hundred values; a
bomb repeats billions."""

_Event = Any
_LONGEST_NUMBER: Final = 64
_TAG: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final = frozenset(f"{_TAG}{name}" for name in ("bool", "float", "int", "null", "str", "timestamp"))
_COLLECTION_TAGS: Final = {MappingStartEvent: (None, "!", f"{_TAG}map"), SequenceStartEvent: (None, "!", f"{_TAG}seq")}


def documents(
    data: bytes | bytearray, *, start: int = 0, shape: FieldTree | None = None, take: Take | None = None
) -> Iterator[object]:
    """The documents of the stream that starts at an offset, as dicts, lists and scalars; None for an empty one.

    ``take`` gets the items of a list at the top of a document, or of a list ``items`` there. Raises MalformedText, and
    the errors of ``take``.
    """
    if data.count(b"\n%TAG", start) > MAX_TAG_DIRECTIVES:
        raise MalformedText.at(data, start, f"malformed YAML: more than {MAX_TAG_DIRECTIVES} %TAG directives")
    try:
        yield from _Constructor(data, start).documents(shape, take)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark else (0, 0)
        line += data.count(b"\n", 0, start)
        problem = _CLEARER.get(str(error.problem), error.problem)
        raise MalformedText(line + 1, column + 1, f"malformed YAML: {problem}") from None
    except yaml.reader.ReaderError as error:
        raise MalformedText.at(data, start + error.position, f"malformed YAML: {error.reason}") from None


def read_document(file: str, *, what: str, most: int) -> object:
    """The only document of a small file; None if the file is empty. Raises InputError.

    ``what`` names the expected content, ``most`` is the largest size in MiB.
    """
    return one_document(file, read_limited(file, what=what, most=most))


def one_document(source: str, data: bytes) -> object:
    """As `read_document`, for data with the name ``source`` in errors."""
    try:
        values = list(documents(data))
    except MalformedText as error:
        raise InputError(source, f"line {error.line}, column {error.column}", error.problem) from None
    if len(values) > 1:
        raise InputError(source, f"expected one document, got {len(values)}")
    return values[0] if values else None


_CLEARER: Final = {
    "found invalid Unicode character escape code": "found an escape that is no character, or half of a surrogate pair"
}


class _Refused(yaml.MarkedYAMLError):
    """YAML that the parser accepts and Zoneward does not."""

    def __init__(self, problem: str, event: _Event) -> None:
        super().__init__(problem=problem, problem_mark=event.start_mark)


# --- scalars ----------------------------------------------------------------------------------------------------------


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """As ``yaml.safe_load`` resolves scalars, but timestamps and ``=`` stay text, as for kubectl."""

    yaml_implicit_resolvers: Final = {
        first: [(tag, form) for tag, form in resolvers if tag not in (f"{_TAG}timestamp", f"{_TAG}value")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_resolver: Final = Loader("")


def _scalar(event: _Event) -> object:
    if event.tag is None or event.tag == "!":
        return _plain(event.value) if event.implicit[0] else event.value
    if event.tag not in _SCALAR_TAGS:
        raise _unknown_tag(event)
    return _with_tag(event.tag, event.value)


def _plain(text: str) -> object:
    """The value of a scalar without quotes and tag."""
    return _resolved(text) if len(text) <= _LONGEST_NUMBER else text


@lru_cache(maxsize=1 << 14)
def _resolved(text: str) -> object:
    return _with_tag(_resolver.resolve(yaml.ScalarNode, text, (True, False)), text)


def _with_tag(tag: str, text: str) -> object:
    """The value of text with this tag. Text that does not fit, and numbers to base 60 (``12:30``), stay text."""
    match tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return Loader.bool_values.get(text.lower(), text)
        # No field that is read has a longer number.
        case "int" | "float" as number if len(text) <= _LONGEST_NUMBER and ":" not in text:
            construct = _resolver.construct_yaml_int if number == "int" else _resolver.construct_yaml_float
            try:
                value: object = construct(yaml.ScalarNode(tag, text))
            except (ValueError, IndexError):  # such as 0b_, or a tag before an empty value
                return text
            return value
        case _:
            return text


# --- events to values -------------------------------------------------------------------------------------------------


class _InputWindow:
    """The data from an offset, as a file: the parser would copy bytes."""

    def __init__(self, data: bytes | bytearray, start: int) -> None:
        self._data, self._at = memoryview(data), start

    def read(self, size: int = -1, /) -> bytes:
        block = bytes(self._data[self._at :][: None if size < 0 else size])
        self._at += len(block)
        return block


_OPEN: Final = object()
"""In place of an anchored value that has not ended."""


class _Constructor:
    """Constructs the values of a stream. A ``shape`` of None wants all fields."""

    def __init__(self, data: bytes | bytearray, start: int) -> None:
        self._next: Callable[[], _Event] = Loader(_InputWindow(data, start)).get_event
        self._anchors: dict[str, tuple[object, int]] = {}
        """Values with their sizes: the number of values in them, with expanded aliases."""
        self._size = 0
        """Of all values so far that were constructed with all fields."""
        self._repeated = 0

    def documents(self, shape: FieldTree | None, take: Take | None) -> Iterator[object]:
        while (event := self._next()).__class__ is not StreamEndEvent:
            if event.__class__ is DocumentStartEvent:
                self._anchors.clear()
                self._repeated = 0
                yield self._value(self._next(), shape, 0, take)

    def _value(
        self, event: _Event, shape: FieldTree | None, depth: int, take: Take | None = None, path: str = ""
    ) -> object:
        kind = event.__class__
        if kind is AliasEvent:
            return self._aliased(event)
        anchor, start = event.anchor, self._size
        if anchor is not None:
            self._anchors[anchor] = _OPEN, 0
            shape = take = None
        if shape is None:
            self._size += 1
        value: object
        if kind is ScalarEvent:
            value = _scalar(event)
        elif depth == MAX_DEPTH:
            raise _too_deep(event)
        elif event.tag not in _COLLECTION_TAGS[kind]:
            raise _unknown_tag(event)
        elif kind is MappingStartEvent:
            value = self._mapping(shape, depth + 1, take)
        else:
            value = self._list(shape, depth + 1, take, path)
        if anchor is not None:
            self._anchors[anchor] = value, self._size - start
        return value

    def _aliased(self, event: _Event) -> object:
        value, size = self._anchors.get(event.anchor, (None, 0))
        if not size:
            problem = "an alias refers to a value that contains it" if value is _OPEN else "found undefined alias"
            raise _Refused(problem, event)
        self._size += size
        self._repeated += size
        if self._repeated > MAX_REPEATED:
            raise _Refused(f"aliases expand to more than {MAX_REPEATED:,} values", event)
        return value

    def _mapping(self, shape: FieldTree | None, depth: int, take: Take | None) -> dict[Any, object]:
        values: dict[Any, object] = {}
        merged: dict[Any, object] | None = None
        fields = 0
        while (event := self._next()).__class__ is not MappingEndEvent:
            fields += 1
            if fields > MAX_FIELDS and depth == 1 and shape is not None:
                raise _Refused(f"more than {MAX_FIELDS} fields", event)
            if event.__class__ is ScalarEvent and event.value == "<<" and event.implicit[0]:
                if merged is not None:
                    raise _duplicate(event.value, event)
                self._size += 1
                merged = _merged(self._value(self._next(), shape, depth), event)
                continue
            key = event
            if shape is None:
                name = self._value(key, None, depth)
                if isinstance(name, list | dict):
                    raise _Refused("found unhashable key", key)
                inner = None
            else:
                is_plain = key.__class__ is ScalarEvent and key.anchor is None
                name = key.value if is_plain else self._value(key, None, depth)
                if not isinstance(name, str) or name not in shape:
                    self._skip(self._next(), depth)
                    continue
                inner = shape[name]
            if name in values:
                raise _duplicate(name, key)
            event = self._next()
            if take is not None and name == "items" and event.__class__ is SequenceStartEvent:
                values[name] = self._value(event, inner, depth, take, "items")
            else:
                values[name] = self._value(event, inner, depth)
        return values if merged is None else merged | values

    def _list(self, shape: FieldTree | None, depth: int, take: Take | None, path: str) -> list[object]:
        values: list[object] = []
        while (event := self._next()).__class__ is not SequenceEndEvent:
            value = self._value(event, shape, depth)
            values.append(value if take is None else take(f"{path}[{len(values)}]", value))
        return values

    def _skip(self, event: _Event, depth: int) -> None:
        """Construct only what has an anchor."""
        level = 0
        while True:
            kind = event.__class__
            if kind is MappingEndEvent or kind is SequenceEndEvent:
                level -= 1
            elif kind is not AliasEvent and event.anchor is not None:
                self._value(event, None, depth + level)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                level += 1
                if depth + level > MAX_DEPTH:
                    raise _too_deep(event)
            if level == 0:
                return
            event = self._next()


def _merged(value: object, key: _Event) -> dict[Any, object]:
    """The fields of one mapping, or of all in a list: the first one wins."""
    fields: dict[Any, object] = {}
    for source in reversed(value) if isinstance(value, list) else (value,):
        if not isinstance(source, dict):
            raise _Refused("expected a mapping or list of mappings for merging", key)
        fields |= source
    return fields


def _duplicate(name: object, key: _Event) -> _Refused:
    return _Refused(f"expected each key once, got {show(name)} twice", key)


def _too_deep(event: _Event) -> _Refused:
    return _Refused(f"more than {MAX_DEPTH} levels", event)


def _unknown_tag(event: _Event) -> _Refused:
    return _Refused(f"could not determine a constructor for the tag {event.tag!r}", event)
