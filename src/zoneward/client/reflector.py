"""Keeps one kind of object current: lists it, then watches it, for as long as it runs (client-go's ``Reflector``).

What can happen, and what the reflector does:

- The server ends a watch after a while, or a connection breaks: the reflector watches again from the last version seen,
  that of an object or of a bookmark. No event is lost, since the server remembers the last few minutes.
- The server no longer remembers the version (410 Gone, as an answer or as an event): the reflector lists again at once
  (`run`, `_handle_error`). The store sees the differences as additions, changes and deletions.
- The other end disappears without closing the connection: the kernel notices within half a minute
  (`zoneward.client.http_connection`). If the server is frozen, or a proxy keeps the connection open, the reflector
  watches again after `ReflectorSettings.bookmark_silence` without a line, since API servers send a bookmark every
  minute. A server that sends no bookmarks may be silent for longer than the timeout of a watch.
  The server's data may also have been restored from a backup: an API server sends nothing to a watch from a version
  that it has not reached yet, and later only what comes after that version. So after such a silence the reflector
  compares its version with that of the server's data first, and lists again if it is newer.
- An event is late or a duplicate: its version is not newer than the last one seen, and it is dropped. If several such
  events come in a row, in increasing order, the last version seen cannot be right (some server sent a version of 10^18,
  or the server's data were restored): the reflector lists again, and accepts the list.
- A list is older than the last version seen: a replica lags behind, and the reflector lists again. If the lists stay
  older, the server's data were restored from a backup, and the reflector accepts the list.
- An object cannot be decoded: the store records it (`mark_unreadable`) and keeps the state that it has. The version of
  the event counts as seen, and the watch continues.
- After any other failure the reflector backs off and retries, with jitter, so that many clients do not retry at the
  same time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, Generic, NoReturn

from zoneward.client.api_errors import (
    ApiError,
    CallFailed,
    Gone,
    ListTooLarge,
    SilentConnection,
    TimedOut,
    TooManyRequests,
    UnexpectedResponse,
)
from zoneward.client.backoff import Backoff
from zoneward.client.list_pager import EVERYTHING, MAX_LIST_BYTES, ListScope, list_pages
from zoneward.client.list_watch_decoder import Bookmark, UnreadableObject, decode_watch_event
from zoneward.client.object_store import ObjectStore
from zoneward.client.resources import WatchedResource, WatchedT, object_key_of
from zoneward.client.transport_interface import ReadTransport
from zoneward.kube.objects import ObjectKey, parse_resource_version

_PERMANENT_ERRORS: Final = frozenset({400, 401, 403, 404, 405, 406, 422})
"""Statuses for which a retry does not help."""
_SUSPICIOUS: Final = frozenset({500, 504})
"""The server fails on an event, or waits for a version that it never reaches."""
_MAX_SUSPICIONS: Final = 5
"""Consecutive suspicious failures after which the reflector lists again."""
_MAX_STALE_LISTS: Final = 3
_MAX_OUTDATED: Final = 3
"""Consecutive events, in increasing order, that are older than the last version seen."""
_MAX_BROKEN_LISTS: Final = 3
_EXTEND_PERIOD: Final = 1.0
"""Seconds between two extensions of a timeout: one for every line would cost more than decoding some lines."""


BACKOFF: Final = Backoff(initial=0.5, cap=30.0, jitter=0.5)


@dataclass(frozen=True, slots=True)
class ReflectorSettings:
    """Times are in seconds."""

    watch: float = 240.0
    """Requested timeout of a watch; up to half as much is added at random."""
    silence: float = 30.0
    """How much longer than that a watch may be silent."""
    bookmark_silence: float = 90.0
    """How long a watch that has sent a bookmark may be silent."""
    listing: float = 120.0
    """Time limit for the initial list of a watch that begins with all objects."""
    backoff: Backoff = BACKOFF
    settled: float = 10.0
    """After a connection that lasted this long, the backoff starts again."""
    fail_fast: bool = False
    """Raise any failure before the first watch is open, not only those for which a retry does not help."""


@dataclass(frozen=True, slots=True)
class ReflectorRuntime:
    """The clock (monotonic seconds), the sleep and the random numbers that a reflector uses."""

    random: Random = field(default_factory=Random)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic


@dataclass(slots=True)
class ServerFeatures:
    """Features that a server is known to have; all reflectors of a server share it."""

    streams_lists: bool = True
    """Whether a watch may begin with all objects (KEP-3157); False once the server has refused."""


class Reflector(Generic[WatchedT]):
    """Keeps a store in sync with the objects of one kind that ``options`` select; others are deleted from it.

    ``on_version`` is called with a version once the store has seen all changes up to it; versions increase, unless the
    server's data were restored. Versions that are not numbers are not reported.
    ``on_error`` is called with every error after which the reflector retries.
    """

    def __init__(
        self,
        transport: ReadTransport,
        resource: WatchedResource[WatchedT],
        store: ObjectStore[WatchedT],
        *,
        options: ListScope = EVERYTHING,
        features: ServerFeatures | None = None,
        settings: ReflectorSettings | None = None,
        runtime: ReflectorRuntime | None = None,
        on_error: Callable[[CallFailed], None] = lambda _error: None,
        on_version: Callable[[int], None] = lambda _version: None,
    ) -> None:
        runtime = runtime or ReflectorRuntime()
        self._transport, self._resource, self._store = transport, resource, store
        self._path, self._options = resource.path(namespace=options.namespace), options
        self._features, self._settings = features or ServerFeatures(), settings or ReflectorSettings()
        self._random, self._sleep, self._clock = runtime.random, runtime.sleep, runtime.clock
        self._on_error, self._on_version = on_error, on_version
        self._version: str | None = None
        """Where the next watch starts; None: a list is needed."""
        self._newest: int | None = None
        """The newest version seen, which is kept when a list is needed."""
        self._outdated: list[int] = []
        """The versions of the last events, while they are older than that, but increase."""
        self._listed_keys: set[ObjectKey] | None = None
        """The objects of the streaming list so far; None if no list is in progress."""
        self._has_watched = self._is_open = self._has_progressed = False
        self._sends_bookmarks = False
        """Whether a bookmark has been received since a watch was last silent for too long."""
        self._was_silent = False
        """Whether the last watch was silent for too long."""
        self._failures = self._suspicions = self._stale_lists = self._broken_lists = 0

    async def run(self) -> NoReturn:
        """List and watch until cancelled.

        Raises CallFailed if a retry does not help (no permission, no such kind) and no watch was ever open, and any
        error of a handler of the store.
        """
        has_relisted = False
        while True:
            self._has_progressed, start = False, self._clock()
            failure: CallFailed | None = None
            try:
                if self._was_silent:
                    await self._check_version()
                if self._version is None and (self._stale_lists or not self._features.streams_lists):
                    await self._list()
                await self._watch()
            except CallFailed as error:
                failure = error
                self._handle_error(error)
            is_settled = self._clock() - start >= self._settings.settled
            if self._has_progressed or is_settled:
                self._failures = 0
                if failure is None:
                    continue
            if is_settled:
                has_relisted = False
            if isinstance(failure, Gone) and not has_relisted:
                # 410: the server works, and a list makes up for missed events; so list at once. But do not list in a
                # tight loop if the server forgets versions faster than it lists.
                has_relisted = True
                continue
            self._failures += 1
            await self._sleep(self._pause(failure))

    # --- errors -------------------------------------------------------------------------------------------------------

    def _handle_error(self, error: CallFailed) -> None:
        status = error.status if isinstance(error, ApiError) else 0
        if isinstance(error, Gone):
            self._version = None  # a list is needed
        elif isinstance(error, TooManyRequests):
            # The server says when to retry.
            pass
        elif not self._has_watched and (self._settings.fail_fast or status in _PERMANENT_ERRORS):
            raise error
        elif isinstance(error, UnexpectedResponse) or status in _SUSPICIOUS:
            self._suspicions = 1 if self._has_progressed else self._suspicions + 1
            if self._suspicions >= _MAX_SUSPICIONS:
                self._version, self._suspicions = None, 0
        self._on_error(error)

    def _pause(self, failure: CallFailed | None) -> float:
        retry_after = (failure.retry_after if isinstance(failure, ApiError) else None) or 0.0
        return max(retry_after, self._settings.backoff.delay(self._failures, random=self._random.random()))

    # --- lists --------------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        """List in pages. The store ignores objects that are older than the state that it has."""
        allow_older = False
        keys: set[ObjectKey] = set()
        async for page in list_pages(self._transport, self._resource, self._options):
            if page.is_first:
                keys, allow_older = set(), self._is_stale(page.version)
                if not allow_older:
                    self._newest = parse_resource_version(page.version)
            for obj in page.objects:
                keys.add(object_key_of(obj))
                self._store.put(obj, allow_older=allow_older)
            for unreadable in page.unreadable:
                keys.add(unreadable.key)
                self._store.mark_unreadable(unreadable, allow_older=allow_older)
            if page.is_last:
                self._finish_list(page.version, keys)

    async def _check_version(self) -> None:
        """List again if the server's data are older than what was seen. The first page of a list has their version."""
        async for page in list_pages(self._transport, self._resource, self._options, size=1):
            version = parse_resource_version(page.version)
            if version is not None and self._newest is not None and version < self._newest:
                self._version, self._stale_lists = None, _MAX_STALE_LISTS
            self._was_silent = False
            return

    def _is_stale(self, version: str) -> bool:
        """Whether to accept a list that is older than what was seen. Raises CallFailed if a replica may lag behind."""
        parsed = parse_resource_version(version)
        if parsed is None or self._newest is None or parsed >= self._newest:
            return False
        self._stale_lists += 1
        if self._stale_lists <= _MAX_STALE_LISTS:
            raise UnexpectedResponse(f"expected a list not older than {self._newest}, got version {version}")
        return True

    def _finish_list(self, version: str, keys: set[ObjectKey]) -> None:
        self._version, self._newest, self._listed_keys = version, parse_resource_version(version), None
        self._stale_lists = self._broken_lists = 0
        self._store.retain_only(keys)
        self._report_version()

    # --- watches ------------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Watch until the server ends the watch. Raises CallFailed."""
        seconds = round(self._settings.watch * self._random.uniform(1.0, 1.5))
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(max(seconds, 1))}
        query |= self._options.query
        idle = seconds + self._settings.silence
        if self._version is not None:
            await self._stream(query | {"resourceVersion": self._version}, idle=idle, limit=None)
            return
        query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        if self._newest is not None:
            query["resourceVersion"] = str(self._newest)
        self._listed_keys, self._is_open = set(), False
        try:
            await self._stream(query, idle=idle, limit=self._settings.listing)
        except ApiError as error:
            if error.status in (400, 422) and not self._is_open:
                # The answer of servers without streaming lists. If something else is wrong, a list in pages fails too.
                self._features.streams_lists, self._has_progressed = False, True
                return
            if error.status >= 500 and self._newest is not None:
                self._stale_lists += 1
            raise
        finally:
            is_incomplete, self._listed_keys = self._is_open and self._listed_keys is not None, None
            if is_incomplete:
                self._broken_lists += 1
                if self._broken_lists >= _MAX_BROKEN_LISTS:
                    self._features.streams_lists = False
        if is_incomplete:
            raise UnexpectedResponse(f"expected all {self._resource.plural}, got a stream that ends before that")

    async def _stream(self, query: dict[str, str], *, idle: float, limit: float | None) -> None:
        """Read the lines of a watch. ``limit``: time limit of a streaming list, in seconds."""
        loop, silence = asyncio.get_running_loop(), self._settings.bookmark_silence
        extended = -_EXTEND_PERIOD
        try:
            async with (
                asyncio.timeout(limit or (silence if self._sends_bookmarks else None)) as timeout,
                self._transport.stream(self._path, query, idle=idle) as lines,
            ):
                self._has_watched = self._is_open = True
                size = 0
                async for line in lines:
                    size += len(line)
                    if self._listed_keys is not None and size > MAX_LIST_BYTES:
                        what = f"expected a list of {self._resource.plural}"
                        raise ListTooLarge(f"{what} of at most {MAX_LIST_BYTES:,} bytes, got more")
                    self._handle_line(line)
                    if self._listed_keys is not None:
                        continue
                    limit = None
                    if self._sends_bookmarks and (now := loop.time()) - extended >= _EXTEND_PERIOD:
                        timeout.reschedule(now + silence)
                        extended = now
        except TimeoutError:
            if not timeout.expired():
                raise
            if limit is None:
                self._sends_bookmarks, self._was_silent = False, True
                raise SilentConnection(f"nothing came for {silence:g} s, not even a bookmark") from None
            # A server that ignores sendInitialEvents would never complete the list.
            self._features.streams_lists = False
            raise TimedOut(f"expected all {self._resource.plural} within {limit:g} s, got a part of them") from None

    def _handle_line(self, line: bytes) -> None:
        """Raises CallFailed for a line that is not an event, or is an ERROR event."""
        event = decode_watch_event(line, self._resource)
        if isinstance(event, Bookmark):
            self._sends_bookmarks = True
            if self._listed_keys is None:
                if self._accept(event.version):
                    self._report_version()
            elif event.ends_list:
                self._is_stale(event.version)
                self._finish_list(event.version, self._listed_keys)
            return
        obj = event.object
        if self._listed_keys is None:
            if not self._accept(event.version):
                return
        else:
            # The objects of a list are unordered; the store compares their versions.
            self._listed_keys.add(obj.key if isinstance(obj, UnreadableObject) else object_key_of(obj))
        if isinstance(obj, UnreadableObject):
            self._store.mark_unreadable(obj, is_gone=event.is_gone)
        elif event.is_gone:
            self._store.delete(obj)
        else:
            self._store.put(obj)
        if self._listed_keys is None:
            self._report_version()

    def _report_version(self) -> None:
        if self._newest is not None:
            self._on_version(self._newest)

    def _accept(self, version: str) -> bool:
        """Record a version. False if it is not newer than the last one: events of a kind are ordered by version."""
        parsed = parse_resource_version(version)
        if parsed is not None and self._newest is not None and parsed <= self._newest:
            self._note_outdated(parsed)
            return False
        self._outdated.clear()
        self._version, self._newest, self._has_progressed = version, parsed, True
        self._suspicions = 0
        return True

    def _note_outdated(self, version: int) -> None:
        """Raises CallFailed if the last version seen cannot be right."""
        if version == self._newest:
            return
        if self._outdated and version <= self._outdated[-1]:
            self._outdated.clear()
        self._outdated.append(version)
        if len(self._outdated) < _MAX_OUTDATED:
            return
        self._outdated.clear()
        self._version, self._stale_lists = None, _MAX_STALE_LISTS
        raise UnexpectedResponse(f"expected events newer than version {self._newest}, got several up to {version}")
