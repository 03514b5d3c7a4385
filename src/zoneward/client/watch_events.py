"""Lines of a watch to events: an object that changed, or a bookmark."""

from dataclasses import dataclass
from typing import Final, Generic

import msgspec

from zoneward.client.api_errors import watch_error
from zoneward.client.list_pager import UnexpectedResponse
from zoneward.client.list_watch_decoder import UnreadableObject, decode_watch_line
from zoneward.client.resources import WatchedResource, WatchedT
from zoneward.kube.readable_json import DECODE_ERRORS, decode_json

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the list with which a watch began (KEP-3157)."""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """All events up to this version have been sent. ``ends_list``: so have all objects, if it began with them."""

    version: str
    ends_list: bool


@dataclass(frozen=True, slots=True)
class WatchChange(Generic[WatchedT]):
    """An object came, changed or went. ``version`` is never empty."""

    object: WatchedT | UnreadableObject
    version: str
    is_gone: bool


def parse_watch_line(line: bytes, resource: WatchedResource[WatchedT]) -> WatchChange[WatchedT] | Bookmark:
    """One line. Raises UnexpectedResponse, or the ApiError that it tells of."""
    try:
        type_, found = decode_watch_line(line, resource)
        if isinstance(found, msgspec.Raw):
            return _other(type_, found)
    except DECODE_ERRORS as error:
        raise UnexpectedResponse(f"expected an event of a watch, got something else: {error}") from None
    version = found.version if isinstance(found, UnreadableObject) else found.metadata.resource_version
    if not version:
        raise UnexpectedResponse(f"expected an event with a resourceVersion, got one without: {type_}")
    return WatchChange(found, version, type_ == "DELETED")


def _other(type_: str, found: msgspec.Raw) -> Bookmark:
    if type_ == "ERROR":
        raise watch_error(found)
    if type_ == "BOOKMARK":
        mark = decode_json(found, _Mark).metadata
        return Bookmark(mark.resource_version, (mark.annotations or {}).get(INITIAL_EVENTS_END) == "true")
    raise UnexpectedResponse(f"expected an event of a watch, got something else: an event of type {type_!r}")


class _MarkMeta(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str
    annotations: dict[str, str] | None = None


class _Mark(msgspec.Struct, gc=False):
    metadata: _MarkMeta
