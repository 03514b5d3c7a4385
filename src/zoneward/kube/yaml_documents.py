"""Decodes YAML to documents with only the wanted fields.

PyYAML composes nodes in C but constructs values in Python, at 1.5 MB/s. This module takes the events of its C parser
and constructs only the values of wanted fields, which is many times faster, and passes on the items of a ``List`` one
by one, to save memory. If a wanted value uses an alias, a merge or a tag, PyYAML constructs the whole document: such
files are rare and small. Before that, a pass over the events limits the values that aliases expand to.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
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
_Next = Callable[[], _Event]
_OPENING: Final = frozenset((MappingStartEvent, SequenceStartEvent))
_CLOSING: Final = frozenset((MappingEndEvent, SequenceEndEvent))
_VALUES: Final = _OPENING | {ScalarEvent, AliasEvent}
_LONGEST_NUMBER: Final = 64
_TAG: Final = "tag:yaml.org,2002:"


def documents(data: bytes | bytearray, *, start: int, shape: FieldTree, take: Take) -> Iterator[object]:
    """The documents of the stream that starts at an offset, as dicts, lists and scalars; None for an empty one.

    ``take`` gets the items of a list at the top of a document, or of a list ``items`` there. Raises MalformedText, and
    the errors of ``take``.
    """
    done = 0
    with _malformed(data, start):
        try:
            for document in _built(_events(data, start), shape, take):
                yield document
                done += 1
        except _Unusual:
            for index, document in enumerate(_loaded(data, start)):
                if index >= done:
                    yield _taken(document, take)


def whole_documents(data: bytes | bytearray) -> list[object]:
    """The documents of a small file with all fields. Raises MalformedText."""
    with _malformed(data, 0):
        return list(_loaded(data, 0))


def read_document(file: str, *, what: str, most: int) -> object:
    """The only document of a small file; None if the file is empty. Raises InputError.

    ``what`` names the expected content, ``most`` is the largest size in MiB.
    """
    return one_document(file, read_limited(file, what=what, most=most))


def one_document(source: str, data: bytes) -> object:
    """As `read_document`, for data with the name ``source`` in errors."""
    try:
        documents = whole_documents(data)
    except MalformedText as error:
        raise InputError(source, f"line {error.line}, column {error.column}", error.problem) from None
    if len(documents) > 1:
        raise InputError(source, f"expected one document, got {len(documents)}")
    return documents[0] if documents else None


@contextmanager
def _malformed(data: bytes | bytearray, start: int) -> Iterator[None]:
    """Convert the parser's errors to MalformedText, with the line in the whole data."""
    if data.count(b"\n%TAG", start) > MAX_TAG_DIRECTIVES:
        raise MalformedText.at(data, start, f"malformed YAML: more than {MAX_TAG_DIRECTIVES} %TAG directives")
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark else (0, 0)
        line += data.count(b"\n", 0, start)
        problem = _CLEARER.get(str(error.problem), error.problem)
        raise MalformedText(line + 1, column + 1, f"malformed YAML: {problem}") from None
    except yaml.reader.ReaderError as error:
        raise MalformedText.at(data, start + error.position, f"malformed YAML: {error.reason}") from None


_CLEARER: Final = {
    "found invalid Unicode character escape code": "found an escape that is no character, or half of a surrogate pair"
}


class _Refused(yaml.MarkedYAMLError):
    """YAML that the parser accepts and Zoneward does not."""

    def __init__(self, problem: str, event: _Event) -> None:
        super().__init__(problem=problem, problem_mark=event.start_mark)


class _Unusual(Exception):  # noqa: N818
    """A wanted value has an alias, a merge or a tag."""


# --- PyYAML -----------------------------------------------------------------------------------------------------------


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """``yaml.safe_load``, but timestamps, numbers to base 60 (``12:30``) and ``=`` stay text, as for kubectl."""

    yaml_implicit_resolvers: Final = {
        first: [(tag, form) for tag, form in resolvers if tag not in (f"{_TAG}timestamp", f"{_TAG}value")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _number(construct: Callable[[Any, yaml.ScalarNode], object]) -> Callable[[Any, yaml.ScalarNode], object]:
    def number(loader: Any, node: yaml.ScalarNode) -> object:
        text = loader.construct_scalar(node)
        # No field that is read has such a long number.
        if len(text) > _LONGEST_NUMBER or ":" in text:
            return text
        try:
            return construct(loader, node)
        except (ValueError, IndexError):  # such as 0b_, or a tag before an empty value
            return text

    return number


def _switch(loader: Any, node: yaml.ScalarNode) -> object:
    text = loader.construct_scalar(node)
    return Loader.bool_values.get(text.lower(), text)


def _text(loader: Any, node: yaml.ScalarNode) -> object:
    return loader.construct_scalar(node)


Loader.add_constructor(f"{_TAG}int", _number(yaml.SafeLoader.construct_yaml_int))
Loader.add_constructor(f"{_TAG}float", _number(yaml.SafeLoader.construct_yaml_float))
# A tag may precede any text, and PyYAML requires text that fits.
Loader.add_constructor(f"{_TAG}bool", _switch)
Loader.add_constructor(f"{_TAG}timestamp", _text)
_resolver: Final = Loader("")


def _plain(text: str) -> object:
    """The value of a scalar without quotes and tag."""
    return _resolved(text) if len(text) <= _LONGEST_NUMBER else text


@lru_cache(maxsize=1 << 14)
def _resolved(text: str) -> object:
    tag = _resolver.resolve(yaml.ScalarNode, text, (True, False))
    construct = Loader.yaml_constructors.get(tag)
    return text if construct is None else construct(_resolver, yaml.ScalarNode(tag, text))


class _InputWindow:
    """The data from an offset, as a file: the parser would copy bytes."""

    def __init__(self, data: bytes | bytearray, start: int) -> None:
        self._data, self._at = memoryview(data), start

    def read(self, size: int = -1, /) -> bytes:
        block = bytes(self._data[self._at :][: None if size < 0 else size])
        self._at += len(block)
        return block


def _events(data: bytes | bytearray, start: int) -> _Next:
    next_event: _Next = Loader(_InputWindow(data, start)).get_event
    return next_event


# --- events to values -------------------------------------------------------------------------------------------------


def _built(events: _Next, shape: FieldTree, take: Take) -> Iterator[object]:
    while (event := events()).__class__ is not StreamEndEvent:
        if event.__class__ is DocumentStartEvent:
            event = events()
            if event.__class__ is SequenceStartEvent:
                yield _list(event, events, shape, 1, take, "")
            else:
                yield _value(event, events, shape, 0, take)


def _value(event: _Event, events: _Next, shape: FieldTree | None, depth: int, take: Take | None = None) -> object:
    kind = event.__class__
    if kind is ScalarEvent:
        if event.tag is not None:
            raise _Unusual
        return _plain(event.value) if event.implicit[0] else event.value
    if kind is MappingStartEvent:
        return _mapping(event, events, shape, depth + 1, take)
    if kind is SequenceStartEvent:
        return _list(event, events, shape, depth + 1)
    raise _Unusual


def _mapping(
    event: _Event, events: _Next, shape: FieldTree | None, depth: int, take: Take | None
) -> dict[object, object]:
    _check(event, depth)
    values: dict[object, object] = {}
    fields = 0
    while (event := events()).__class__ is not MappingEndEvent:
        fields += 1
        if fields > MAX_FIELDS and depth == 1:
            raise yaml.MarkedYAMLError(problem=f"more than {MAX_FIELDS} fields", problem_mark=event.start_mark)
        if event.__class__ is not ScalarEvent or event.tag is not None or (event.value == "<<" and event.implicit[0]):
            raise _Unusual
        if shape is None:
            key = _plain(event.value) if event.implicit[0] else event.value
            if key in values:
                raise _duplicate(event)
            values[key] = _value(events(), events, None, depth)
            continue
        name, key = event.value, event
        event = events()
        if name not in shape:
            _skip(event, events, depth)
            continue
        if name in values:
            raise _duplicate(key)
        if take is not None and name == "items" and event.__class__ is SequenceStartEvent:
            values[name] = _list(event, events, shape[name], depth + 1, take, name)
        else:
            values[name] = _value(event, events, shape[name], depth)
    return values


def _list(
    event: _Event, events: _Next, shape: FieldTree | None, depth: int, take: Take | None = None, field: str = ""
) -> list[object]:
    _check(event, depth)
    values: list[object] = []
    while (event := events()).__class__ is not SequenceEndEvent:
        value = _value(event, events, shape, depth)
        values.append(value if take is None else take(f"{field}[{len(values)}]", value))
    return values


def _check(event: _Event, depth: int) -> None:
    if event.tag is not None:
        raise _Unusual
    if depth > MAX_DEPTH:
        raise _too_deep(event)


def _skip(event: _Event, events: _Next, depth: int) -> None:
    level = 0
    while True:
        kind = event.__class__
        if kind in _OPENING:
            level += 1
            if depth + level > MAX_DEPTH:
                raise _too_deep(event)
        elif kind in _CLOSING:
            level -= 1
        if level == 0:
            return
        event = events()


def _duplicate(key: _Event) -> _Refused:
    return _Refused(f"expected each key once, got {show(key.value)} twice", key)


def _too_deep(event: _Event) -> _Refused:
    return _Refused(f"more than {MAX_DEPTH} levels", event)


# --- documents that PyYAML constructs ---------------------------------------------------------------------------------


def _loaded(data: bytes | bytearray, start: int) -> Iterator[object]:
    """The documents with all fields. Each is checked before PyYAML constructs it."""
    events, loader = _events(data, start), Loader(_InputWindow(data, start))
    while True:
        _check_document(events)
        if not loader.check_data():
            return
        yield loader.get_data()


@dataclass(slots=True)
class _Open:
    """A mapping or a list that has not ended. ``size``: its values, with expanded aliases."""

    anchor: str | None
    keys: set[str] | None
    """The scalar keys of a mapping."""
    size: int = 1
    entries: int = field(default=0)

    @property
    def awaits_key(self) -> bool:
        return self.keys is not None and self.entries % 2 == 0


def _check_document(events: _Next) -> None:
    """Refuse what PyYAML would not limit: it composes by recursion in C, copies merged mappings without a limit, and
    keeps the last of duplicate keys.
    """
    sizes: dict[str, int] = {}
    repeated = 0
    path: list[_Open] = []
    try:
        while (event := events()).__class__ not in (DocumentEndEvent, StreamEndEvent):
            kind = event.__class__
            if kind in _CLOSING:
                closed = path.pop()
                size = closed.size
                if closed.anchor is not None:
                    sizes[closed.anchor] = size
                if path:
                    path[-1].size += size
                continue
            if kind not in _VALUES:
                continue
            size = 1
            if kind is AliasEvent:
                if any(container.anchor == event.anchor for container in path):
                    raise _Refused("an alias refers to a value that contains it", event)
                size = sizes.get(event.anchor, 1)
                repeated += size
                if repeated > MAX_REPEATED:
                    raise _Refused(f"aliases expand to more than {MAX_REPEATED:,} values", event)
            if path:
                above = path[-1]
                if above.awaits_key and kind is ScalarEvent and above.keys is not None:
                    if event.value in above.keys:
                        raise _duplicate(event)
                    above.keys.add(event.value)
                above.entries += 1
            if kind in _OPENING:
                path.append(_Open(event.anchor, set() if kind is MappingStartEvent else None))
                if len(path) > MAX_DEPTH:
                    raise _too_deep(event)
                continue
            if kind is ScalarEvent and event.anchor is not None:
                sizes[event.anchor] = 1
            if path:
                path[-1].size += size
    except _Refused:
        raise
    except yaml.YAMLError:
        # Constructing the document reports the error.
        return


def _taken(document: object, take: Take) -> object:
    """Apply ``take`` to the items of a document that PyYAML constructed."""
    if isinstance(document, list):
        return [take(f"[{index}]", item) for index, item in enumerate(document)]
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        document["items"] = [take(f"items[{index}]", item) for index, item in enumerate(document["items"])]
    return document
