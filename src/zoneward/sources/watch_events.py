"""Lines of a watch to events: an object that changed, or a bookmark."""

from dataclasses import dataclass
from typing import Final

import msgspec

from zoneward.sources.api_errors import watch_error
from zoneward.sources.listing import UnexpectedAnswer
from zoneward.sources.resources import EventOf, Resource, T

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the list with which a watch began (KEP-3157)."""
_CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})


@dataclass(frozen=True, slots=True)
class Bookmark:
    """All events up to this version have been sent. ``ends_list``: so have all objects, if it began with them."""

    version: str
    ends_list: bool


def parse(line: bytes, resource: Resource[T]) -> EventOf[T] | Bookmark:
    """One line; what is no bookmark has a version. Raises UnexpectedAnswer, or the ApiError that it tells of."""
    try:
        event = resource.events.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        # The object of an ERROR is a Status, and does not fit.
        return _other(line, problem=str(error))
    if event.type not in _CHANGES:
        return _other(line, problem=f"an event of type {event.type!r}")
    if not event.object.metadata.resource_version:
        raise UnexpectedAnswer(f"expected an event with a resourceVersion, got one without: {event.type}")
    return event


def _other(line: bytes, *, problem: str) -> Bookmark:
    try:
        other = _OTHERS.decode(line)
        if other.type == "ERROR":
            raise watch_error(other.object)
        if other.type == "BOOKMARK":
            mark = _MARKS.decode(other.object).metadata
            return Bookmark(mark.resource_version, (mark.annotations or {}).get(INITIAL_EVENTS_END) == "true")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    raise UnexpectedAnswer(f"expected an event of a watch, got something else: {problem}")


class _Other(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _MarkMeta(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str
    annotations: dict[str, str] | None = None


class _Mark(msgspec.Struct, gc=False):
    metadata: _MarkMeta


_OTHERS: Final = msgspec.json.Decoder(_Other)
_MARKS: Final = msgspec.json.Decoder(_Mark)
