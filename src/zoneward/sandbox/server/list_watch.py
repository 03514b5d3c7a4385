"""Lists and watches: label and field selectors, pages with tokens that expire, changes."""

import asyncio
import base64
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec

from zoneward.kube.formats import quoted
from zoneward.kube.selectors import LabelSelector, SelectorError, parse_selector
from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.status_errors import StatusError, bad_request, expired, too_old
from zoneward.sandbox.server.versioned_store import Forgotten, Key, Record, StoredChange, VersionedStore

# --- selectors --------------------------------------------------------------------------------------------------------

_TERM: Final = re.compile(r"(?P<name>[^=!]+?)\s*(?P<operator>==|!=|=)\s*(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ObjectSelector:
    """Selects objects by labels, and by fields: name, value, and whether they must be equal."""

    labels: LabelSelector
    fields: tuple[tuple[str, str, bool], ...]

    @property
    def is_all(self) -> bool:
        return not self.labels.requirements and not self.fields

    def matches(self, key: Key, record: Record) -> bool:
        values = {"metadata.namespace": key[0], "metadata.name": key[1]} | record.fields
        if any((values[field] == value) is not wanted for field, value, wanted in self.fields):
            return False
        return not self.labels.requirements or self.labels.matches(record.labels)


def _term(kind: Kind, text: str) -> tuple[str, str, bool]:
    match = _TERM.fullmatch(text.strip())
    if match is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    name = match["name"].strip()
    known = name == "metadata.name" or (name == "metadata.namespace" and kind.is_namespaced) or name in kind.selectable
    if not known and not kind.selectable:
        raise bad_request(f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"')
    if not known:
        raise bad_request(f"field label not supported: {name}")
    return kind.selectable.get(name, name), match["value"], match["operator"] != "!="


# --- lists ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The options of a list or a watch, as upstream's ``ListOptions``."""

    namespace: str
    """Empty: of all namespaces."""
    selection: ObjectSelector
    limit: int = 0
    token: str = ""
    version: int | None = None
    timeout: float | None = None
    """Seconds."""
    wants_bookmarks: bool = False
    wants_initial_events: bool | None = None


@dataclass(frozen=True, slots=True)
class ListResult:
    """A page of objects; ``token`` continues with those that follow."""

    records: list[tuple[Key, Record]]
    version: int
    token: str = ""

    def metadata(self) -> Object:
        return {"resourceVersion": str(self.version)} | ({"continue": self.token} if self.token else {})


def list_options(kind: Kind, query: Mapping[str, str], *, namespace: str = "") -> ListOptions:
    """Parse the query of a request. Raises StatusError."""
    try:
        labels = parse_selector(query.get("labelSelector", ""))
    except SelectorError as error:
        raise bad_request(error.problem) from None
    terms = (term for term in query.get("fieldSelector", "").split(",") if term.strip())
    options = ListOptions(
        namespace=namespace if kind.is_namespaced else "",
        selection=ObjectSelector(labels, tuple(_term(kind, term) for term in terms)),
        limit=parse_number(query["limit"]) if query.get("limit") else 0,
        token=query.get("continue", ""),
        version=parse_number(query["resourceVersion"]) if query.get("resourceVersion") else None,
        timeout=parse_number(query["timeoutSeconds"]) if query.get("timeoutSeconds") else None,
        wants_bookmarks=is_true(query.get("allowWatchBookmarks")),
        wants_initial_events=is_true(query["sendInitialEvents"]) if "sendInitialEvents" in query else None,
    )
    if options.token and options.version:
        raise bad_request("specifying resource version is not allowed when using continue")
    return options


def list_objects(store: VersionedStore, kind: Kind, options: ListOptions) -> ListResult:
    """The current objects; with a token, those at the start of the list. Raises StatusError."""
    version, after = _parse_token(options.token) if options.token else (store.version, None)
    check_version(store, version if options.token else options.version or 0)
    try:
        states = store.page(kind, version=version, namespace=options.namespace, after=after)
    except Forgotten:
        raise expired() from None
    selected = states if options.selection.is_all else (state for state in states if options.selection.matches(*state))
    if options.limit <= 0 or options.version == 0:
        return ListResult(list(selected), version)
    records = list(islice(selected, options.limit))
    if next(selected, None) is None:
        return ListResult(records, version)
    return ListResult(records, version, _token(version, records[-1][0]))


def check_version(store: VersionedStore, wanted: int) -> None:
    """Raises StatusError for a version in the future; a real server waits three seconds for it first."""
    if wanted > store.version:
        causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        message = f"Timeout: Too large resource version: {wanted}, current: {store.version}"
        raise StatusError(504, "Timeout", message, details={"causes": causes, "retryAfterSeconds": 1})


def is_true(text: str | None) -> bool:
    """As Go's conversion of queries: anything but what clearly says no."""
    return text is not None and text.lower() not in ("false", "0")


_NUMBER: Final = re.compile(r"[0-9]{1,19}", re.ASCII)


def parse_number(text: str) -> int:
    """A number of a query. Raises StatusError."""
    if _NUMBER.fullmatch(text) is None:
        raise bad_request(f"expected a number of at most 64 bits, got {quoted(text)}")
    return int(text)


# --- tokens -----------------------------------------------------------------------------------------------------------


def _token(version: int, after: Key) -> str:
    value = {"v": "meta.k8s.io/v1", "rv": version, "start": f"{after[0]}/{after[1]}\0"}
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()


def _parse_token(text: str) -> tuple[int, Key]:
    try:
        value = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (ValueError, msgspec.MsgspecError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    namespace, _, name = value.start.removesuffix("\0").partition("/")
    return value.rv, (namespace, name)


class _Token(msgspec.Struct):
    rv: int
    start: str


# --- watches ----------------------------------------------------------------------------------------------------------

Shaper = Callable[[Object], Object]
"""Makes the form in which an object is sent: a table, its metadata, another version."""

LONGEST: Final = 3600.0
"""Seconds after which a watch ends by default."""
BOOKMARKS: Final = 60.0
"""Seconds between two bookmarks."""
_AT_ONCE: Final = 100
"""Changes sent together; the others wait in the history, which all watches share."""
_INITIAL_END: Final = "k8s.io/initial-events-end"


async def watch(
    store: VersionedStore,
    kind: Kind,
    options: ListOptions,
    *,
    shaper: Shaper | None = None,
    bookmarks: float = BOOKMARKS,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[list[bytes]]:
    """Lines, several at a time where several have happened. Raises StatusError, before the first.

    An empty list comes first of all: from then on the answer is a success.
    """
    since = options.version
    is_stream = bool(options.wants_initial_events)
    with_state = is_stream or (not since and options.wants_initial_events is None)
    if is_stream:
        check_version(store, since or 0)
    lines = _Lines(store, kind, options, shaper)
    first: list[bytes] = []
    if with_state:
        state = list_objects(store, kind, ListOptions(namespace=options.namespace, selection=options.selection))
        since = state.version
        first = [lines.line("ADDED", record) for _, record in state.records]
        if is_stream and options.wants_bookmarks:
            first.append(lines.bookmark(since, {_INITIAL_END: "true"}))
    since = since or store.version
    yield []
    if first:
        yield first
    del first
    end = clock() + (options.timeout or LONGEST)
    next_bookmark = clock() + bookmarks
    while (left := end - clock()) > 0:
        changed = store.changed(kind)
        try:
            changes = store.changes(kind, since)[:_AT_ONCE]
        except Forgotten as old:
            yield [error_line(too_old(since, old.oldest))]
            return
        if changes:
            since = changes[-1].version
            if sent := [line for change in changes for line in lines.of(change)]:
                yield sent
            continue
        now = clock()
        if options.wants_bookmarks and now >= next_bookmark:
            # All kinds share one count: nothing of this kind happened up to the last version of any.
            since = max(since, store.version)
            next_bookmark = now + bookmarks
            yield [lines.bookmark(since, {})]
        pause = min(left, next_bookmark - now) if options.wants_bookmarks else left
        try:
            async with asyncio.timeout(max(pause, 0.001)):
                await changed.wait()
        except TimeoutError:
            continue


def error_line(refusal: StatusError) -> bytes:
    """The last line of a watch that fails."""
    return msgspec.json.encode({"type": "ERROR", "object": refusal.status()}) + b"\n"


class _Lines:
    def __init__(self, store: VersionedStore, kind: Kind, options: ListOptions, shaper: Shaper | None) -> None:
        self._store, self._kind, self._shaper = store, kind, shaper
        self._namespace, self._selection = options.namespace, options.selection

    def of(self, change: StoredChange) -> Iterator[bytes]:
        """An object that begins to match is added for this watch, one that ceases to is deleted."""
        if self._namespace and change.key[0] != self._namespace:
            return
        if self._selection.is_all:
            yield self.line(change.type, change.new or change.last)
            return
        did = change.old is not None and self._selection.matches(change.key, change.old)
        does = change.new is not None and self._selection.matches(change.key, change.new)
        if does:
            yield self.line("MODIFIED" if did else "ADDED", change.new)
        elif did and change.new is None:
            yield self.line("DELETED", change.last)
        elif did and change.old is not None:
            # As it was while it still matched, at the version at which it ceased to.
            obj = change.old.object()
            obj["metadata"]["resourceVersion"] = str(change.version)
            yield self._line("DELETED", obj)

    def line(self, event: str, record: Record | None) -> bytes:
        assert record is not None
        if self._shaper is None:
            return b'{"type":"%s","object":%s}\n' % (event.encode(), record.data)
        return self._line(event, record.object())

    def bookmark(self, version: int, annotations: Object) -> bytes:
        metadata: Object = {"resourceVersion": str(version)}
        if annotations:
            metadata["annotations"] = annotations
        obj = {"kind": self._kind.kind, "apiVersion": self._kind.api, "metadata": metadata}
        return self._line("BOOKMARK", obj)

    def _line(self, event: str, obj: Object) -> bytes:
        shaped = self._shaper(obj) if self._shaper else obj
        return msgspec.json.encode({"type": event, "object": shaped}) + b"\n"
