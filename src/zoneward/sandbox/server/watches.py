"""Watches: what has changed since a version, as it happens."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final

import msgspec

from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.list_pages import ListOptions, check_version, list_objects
from zoneward.sandbox.server.status_errors import StatusError, too_old
from zoneward.sandbox.server.versioned_store import Forgotten, Record, StoredChange, VersionedStore

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
            thing = change.old.object()
            thing["metadata"]["resourceVersion"] = str(change.version)
            yield self._line("DELETED", thing)

    def line(self, event: str, record: Record | None) -> bytes:
        assert record is not None
        if self._shaper is None:
            return b'{"type":"%s","object":%s}\n' % (event.encode(), record.data)
        return self._line(event, record.object())

    def bookmark(self, version: int, annotations: Object) -> bytes:
        metadata: Object = {"resourceVersion": str(version)}
        if annotations:
            metadata["annotations"] = annotations
        thing = {"kind": self._kind.kind, "apiVersion": self._kind.api, "metadata": metadata}
        return self._line("BOOKMARK", thing)

    def _line(self, event: str, thing: Object) -> bytes:
        shaped = self._shaper(thing) if self._shaper else thing
        return msgspec.json.encode({"type": event, "object": shaped}) + b"\n"
