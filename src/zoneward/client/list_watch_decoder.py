"""Decodes lists and watches object by object: an object that cannot be decoded does not affect the others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic

import msgspec

from zoneward.client.api_errors import UnexpectedResponse, watch_error
from zoneward.client.resources import (
    RAW_SLICES,
    AnyWatchedResource,
    EventOf,
    ListMetadata,
    ListOf,
    RawEndpointSlice,
    WatchedResource,
    WatchedT,
)
from zoneward.kube.json_documents import DECODE_ERRORS, decode_json
from zoneward.kube.objects import Endpoint, EndpointSlice, ObjectKey
from zoneward.kube.schema import field_mismatch


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableObject:
    """An object that cannot be decoded. ``name`` is empty if it cannot be decoded either; ``problem`` is one line."""

    resource: AnyWatchedResource
    namespace: str = ""
    name: str = ""
    uid: str = ""
    version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    problem: str

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name

    def __str__(self) -> str:
        name = "/".join(part for part in (self.namespace, self.name) if part) or "without a name that can be read"
        return f"{self.resource.kind} {name}: {self.problem}"


def unreadable_endpoints(slice_: EndpointSlice | RawEndpointSlice, error: Exception) -> UnreadableObject:
    """The error for a slice of `RAW_SLICES` whose endpoints cannot be decoded."""
    metadata = slice_.metadata
    return UnreadableObject(
        resource=RAW_SLICES,
        namespace=metadata.namespace,
        name=metadata.name,
        version=metadata.resource_version or "",
        labels=metadata.labels or {},
        problem=f"endpoints: {decode_problem(error, tuple[Endpoint, ...])}",
    )


def skipped_message(unreadable: UnreadableObject) -> str:
    """The warning of a command that skips the object."""
    return f"left out, as it cannot be read: {unreadable}"


UnreadableHandler = Callable[[UnreadableObject], None]


def decode_list_page(
    data: bytes, resource: WatchedResource[WatchedT]
) -> tuple[ListOf[WatchedT], tuple[UnreadableObject, ...]]:
    """Decode a page of a list: the list without the objects that cannot be decoded, and those objects.

    Raises `DECODE_ERRORS` if the page is not a list.
    """
    try:
        return resource.lists.decode(data), ()
    except DECODE_ERRORS:
        page = decode_json(data, _Page)
    objects, unreadable = [], []
    for item in page.items or ():
        try:
            objects.append(decode_json(item, resource.struct))
        except DECODE_ERRORS as error:
            unreadable.append(_unreadable(item, resource, error))
    return ListOf(metadata=page.metadata, items=tuple(objects)), tuple(unreadable)


INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial list of a watch (KEP-3157)."""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """All events up to this version have been sent. ``ends_list``: the initial list is complete too."""

    version: str
    ends_list: bool


@dataclass(frozen=True, slots=True)
class WatchChange(Generic[WatchedT]):
    """An object was added, modified or deleted. ``version`` is never empty."""

    object: WatchedT | UnreadableObject
    version: str
    is_gone: bool


def decode_watch_event(line: bytes, resource: WatchedResource[WatchedT]) -> WatchChange[WatchedT] | Bookmark:
    """Decode a line of a watch. Raises UnexpectedResponse, or the ApiError of an ERROR event."""
    try:
        event = _decode_line(line, resource)
    except DECODE_ERRORS as error:
        raise UnexpectedResponse(f"expected an event of a watch, got something else: {error}") from None
    if isinstance(event, Bookmark):
        return event
    type_, obj = event
    version = obj.version if isinstance(obj, UnreadableObject) else obj.metadata.resource_version
    if not version:
        raise UnexpectedResponse(f"expected an event with a resourceVersion, got one without: {type_}")
    return WatchChange(obj, version, type_ == "DELETED")


def _decode_line(
    line: bytes, resource: WatchedResource[WatchedT]
) -> tuple[str, WatchedT | UnreadableObject] | Bookmark:
    """A bookmark, or the type and the object of a change."""
    try:
        event: EventOf[WatchedT] = resource.events.decode(line)
    except DECODE_ERRORS:
        pass
    else:
        if event.type in _CHANGES:
            return event.type, event.object
    # The object of a bookmark has only metadata, and that of an ERROR is a Status.
    raw = decode_json(line, _Event)
    if raw.type == "ERROR":
        raise watch_error(raw.object)
    if raw.type == "BOOKMARK":
        bookmark = decode_json(raw.object, _BookmarkObject).metadata
        return Bookmark(bookmark.resource_version, (bookmark.annotations or {}).get(INITIAL_EVENTS_END) == "true")
    if raw.type not in _CHANGES:
        raise UnexpectedResponse(f"expected an event of a watch, got one of type {raw.type!r}")
    try:
        return raw.type, decode_json(raw.object, resource.struct)
    except DECODE_ERRORS as error:
        return raw.type, _unreadable(raw.object, resource, error)


class _BookmarkMetadata(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str
    annotations: dict[str, str] | None = None


class _BookmarkObject(msgspec.Struct, gc=False):
    metadata: _BookmarkMetadata


_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class _Page(msgspec.Struct, gc=False):
    metadata: ListMetadata = ListMetadata()
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _ObjectHead(msgspec.Struct, gc=False):
    metadata: dict[str, msgspec.Raw]


_HEADS = msgspec.json.Decoder(_ObjectHead)


def _unreadable(item: msgspec.Raw, resource: WatchedResource[WatchedT], error: Exception) -> UnreadableObject:
    try:
        metadata = _HEADS.decode(item).metadata
    except DECODE_ERRORS:
        metadata = {}
    return UnreadableObject(
        resource=resource,
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        version=_text(metadata, "resourceVersion"),
        labels=_labels(metadata),
        problem=decode_problem(error, resource.struct),
    )


def _text(fields: Mapping[str, msgspec.Raw], name: str) -> str:
    """The text of a field; empty if its value is not text."""
    try:
        return msgspec.json.decode(fields.get(name, b'""'), type=str)
    except DECODE_ERRORS:
        return ""


def _labels(metadata: Mapping[str, msgspec.Raw]) -> dict[str, str]:
    try:
        labels = msgspec.json.decode(metadata.get("labels", b"{}"), type=dict[str, msgspec.Raw])
    except DECODE_ERRORS:
        return {}
    return {name: _text(labels, name) for name in labels}


def decode_problem(error: Exception, type_: Any) -> str:
    """One line that says what is wrong with what was decoded as ``type_``: the field, what was expected, and the
    value."""
    if isinstance(error, msgspec.ValidationError):
        return str(field_mismatch(error, type_))
    if isinstance(error, UnicodeDecodeError):
        return f"expected UTF-8 text, got 0x{error.object[error.start]:02x}"
    return " ".join(str(error).split())
