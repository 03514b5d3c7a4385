"""YAML text to documents, of which only the wanted fields are built.

PyYAML composes nodes in C but resolves and constructs them in Python, at 1.5 MB a second. Here its parser gives events,
and values are built from those alone whose fields are wanted: many times as fast, and a ``List`` of any length is
handed over item by item, so that it never stands in memory. Where a wanted value makes use of an alias, a merge or a
tag, PyYAML does it all after all: such files are rare, and small.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import yaml
from yaml.events import (
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from zoneward.kube.malformed import Malformed

Shape = dict[str, "Shape | None"]
"""The wanted fields of a mapping, or of each mapping in a list, and what is wanted of them; None: all of it."""
Take = Callable[[str, object], object]
"""Called with place (``[3]``, ``items[3]``) and value of each item as soon as it is built; its answer stands there."""

MAX_DEPTH: Final = 100
MAX_FIELDS: Final = 1000
"""Fields at the top of a document. An object has a handful; a log of ``key: value`` lines has any number."""

_Event = Any
_Next = Callable[[], _Event]
_OPENING: Final = frozenset((MappingStartEvent, SequenceStartEvent))
_CLOSING: Final = frozenset((MappingEndEvent, SequenceEndEvent))
_LONGEST_NUMBER: Final = 64
_TAG: Final = "tag:yaml.org,2002:"


def documents(data: bytes | bytearray, *, start: int, shape: Shape, take: Take) -> Iterator[object]:
    """Each document of the stream that starts at an offset, as dicts, lists and scalars; None for an empty one.

    ``take`` gets the items of a list at the top of a document, or of a list ``items`` there. Raises Malformed; what
    ``take`` raises passes through.
    """
    done = 0
    with _malformed(data, start):
        try:
            for document in _built(_events(data, start), shape, take):
                yield document
                done += 1
        except _Unusual:
            _check_depth(_events(data, start))
            loaded = yaml.load_all(_Window(data, start), Loader)
            yield from (_taken(document, take) for document in islice(loaded, done, None))


def whole_documents(data: bytes | bytearray) -> list[object]:
    """Each document of a small file with all of its fields. Raises Malformed."""
    with _malformed(data, 0):
        _check_depth(_events(data, 0))
        return list(yaml.load_all(_Window(data, 0), Loader))


@contextmanager
def _malformed(data: bytes | bytearray, start: int) -> Iterator[None]:
    """Tell the parser's mistakes by their place in the whole data."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark else (0, 0)
        line += data.count(b"\n", 0, start)
        raise Malformed(line + 1, column + 1, f"malformed YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        raise Malformed.at(data, start + error.position, f"malformed YAML: {error.reason}") from None


class _TooDeep(yaml.MarkedYAMLError):
    def __init__(self, event: _Event) -> None:
        super().__init__(problem=f"more than {MAX_DEPTH} levels", problem_mark=event.start_mark)


class _Unusual(Exception):  # noqa: N818
    """A wanted value is none that is built here."""


# --- PyYAML -----------------------------------------------------------------------------------------------------------


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """``yaml.safe_load``, but timestamps, numbers to base 60 (``12:30``) and ``=`` stay text, as for kubectl."""

    yaml_implicit_resolvers: Final = {
        first: [(tag, form) for tag, form in resolvers if tag not in (f"{_TAG}timestamp", f"{_TAG}value")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _number(construct: Callable[[Any, yaml.ScalarNode], object]) -> Callable[[Any, yaml.ScalarNode], object]:
    def number(loader: Any, node: yaml.ScalarNode) -> object:
        try:
            return node.value if ":" in node.value else construct(loader, node)
        except ValueError:  # such as 0b_, or more digits than Python converts
            return node.value

    return number


Loader.add_constructor(f"{_TAG}int", _number(yaml.SafeLoader.construct_yaml_int))
Loader.add_constructor(f"{_TAG}float", _number(yaml.SafeLoader.construct_yaml_float))
_resolver: Final = Loader("")


def _plain(text: str) -> object:
    """What a scalar without quotes and tag means. No number that is read is as long as the text that is left alone."""
    return _resolved(text) if len(text) <= _LONGEST_NUMBER else text


@lru_cache(maxsize=1 << 14)
def _resolved(text: str) -> object:
    tag = _resolver.resolve(yaml.ScalarNode, text, (True, False))
    construct = Loader.yaml_constructors.get(tag)
    return text if construct is None else construct(_resolver, yaml.ScalarNode(tag, text))


class _Window:
    """What lies behind an offset, as a file: given bytes, the parser would copy them all."""

    def __init__(self, data: bytes | bytearray, start: int) -> None:
        self._data, self._at = memoryview(data), start

    def read(self, size: int = -1, /) -> bytes:
        block = bytes(self._data[self._at :][: None if size < 0 else size])
        self._at += len(block)
        return block


def _events(data: bytes | bytearray, start: int) -> _Next:
    next_event: _Next = Loader(_Window(data, start)).get_event
    return next_event


# --- events to values -------------------------------------------------------------------------------------------------


def _built(events: _Next, shape: Shape, take: Take) -> Iterator[object]:
    while (event := events()).__class__ is not StreamEndEvent:
        if event.__class__ is DocumentStartEvent:
            event = events()
            if event.__class__ is SequenceStartEvent:
                yield _list(event, events, shape, 1, take, "")
            else:
                yield _value(event, events, shape, 0, take)


def _value(event: _Event, events: _Next, shape: Shape | None, depth: int, take: Take | None = None) -> object:
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


def _mapping(event: _Event, events: _Next, shape: Shape | None, depth: int, take: Take | None) -> dict[object, object]:
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
            values[key] = _value(events(), events, None, depth)
            continue
        name = event.value
        event = events()
        if name not in shape:
            _skip(event, events, depth)
        elif take is not None and name == "items" and event.__class__ is SequenceStartEvent:
            values[name] = _list(event, events, shape[name], depth + 1, take, name)
        else:
            values[name] = _value(event, events, shape[name], depth)
    return values


def _list(
    event: _Event, events: _Next, shape: Shape | None, depth: int, take: Take | None = None, field: str = ""
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
        raise _TooDeep(event)


def _skip(event: _Event, events: _Next, depth: int) -> None:
    level = 0
    while True:
        kind = event.__class__
        if kind in _OPENING:
            level += 1
            if depth + level > MAX_DEPTH:
                raise _TooDeep(event)
        elif kind in _CLOSING:
            level -= 1
        if level == 0:
            return
        event = events()


def _check_depth(events: _Next) -> None:
    """PyYAML composes by recursion in C: what is nested too deep would end the process."""
    try:
        while (event := events()).__class__ is not StreamEndEvent:
            if event.__class__ in _OPENING:
                _skip(event, events, 0)
    except _TooDeep:
        raise
    except yaml.YAMLError:
        # Told when it is met again, after the documents before it.
        return


def _taken(document: object, take: Take) -> object:
    """The same as happens while building, for a document that has been loaded whole."""
    if isinstance(document, list):
        return [take(f"[{index}]", item) for index, item in enumerate(document)]
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        document["items"] = [take(f"items[{index}]", item) for index, item in enumerate(document["items"])]
    return document
