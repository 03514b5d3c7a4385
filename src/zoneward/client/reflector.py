"""One kind of object kept current: listed, then watched, for as long as it runs.

What can happen on the way, and what is done:

- The server ends a watch after a while, or a connection breaks: watch again from the last version seen, be it an
  object's or a bookmark's. No event is lost, for the server remembers the last few minutes.
- It no longer remembers (410, as the answer or as an event): list again. What differs from what is held is told as
  additions, changes and deletions; what is the same is not told.
- The other end is gone without a word: the system notices within half a minute (`zoneward.client.sockets`). Where
  a proxy keeps the connection open to nobody: nothing comes for longer than the server would let a watch last.
- An event comes late or twice: its version is not newer than what was seen, and it is dropped.
- A list is older than what was seen: a replica lags behind, and is asked again. If it stays so, the server's data were
  restored from a backup, and are taken as they are.
- An object cannot be read: it is set aside, and told to the sink. What is held of it stays, the version of its event is
  seen, and the watch goes on.
- All else that fails is tried again, each time after a longer pause, with chance in it so that many clients do not
  come back at once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass
from random import Random
from typing import Final, Generic, NoReturn, Protocol

from zoneward.client.api_errors import ApiError, CallFailed, Gone, TimedOut, TooManyRequests
from zoneward.client.list_pager import LIMITS, ListTooLarge, UnexpectedResponse, list_pages
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.resources import (
    ObjectKey,
    WatchedResource,
    WatchedT,
    WatchedT_contra,
    object_key_of,
    parse_resource_version,
)
from zoneward.client.transport_interface import ReadTransport, ServerFeatures
from zoneward.client.watch_events import Bookmark, parse_watch_line

_REFUSALS: Final = frozenset({400, 401, 403, 404, 405, 406, 422})
"""Answers that trying again does not change."""
_SUSPICIOUS: Final = frozenset({500, 504})
"""It stumbles over an event, or waits for a version that never comes."""
_SUSPICIONS: Final = 5
"""So often in a row, and the version from which the watches start is given up."""
_STALE_LISTS: Final = 3
_BROKEN_LISTS: Final = 3


class ReflectorStore(Protocol[WatchedT_contra]):
    """Takes what is seen; `zoneward.client.object_store.Store` is one. None of them may wait."""

    def put(self, thing: WatchedT_contra, *, even_older: bool = False) -> None: ...
    def delete(self, thing: WatchedT_contra) -> None: ...
    def set_aside(self, found: UnreadableObject, *, is_gone: bool = False) -> None: ...
    def keep_only(self, keys: Set[ObjectKey]) -> None: ...


@dataclass(frozen=True, slots=True)
class ReflectorTiming:
    """In seconds."""

    watch: float = 240.0
    """A watch is asked to last this long, and up to half as long again."""
    silence: float = 30.0
    """How much longer than that nothing may come."""
    listing: float = 120.0
    """In which a watch that begins with all objects must have sent them."""
    pause: float = 0.5
    """Before a second attempt; twice as long before each further one."""
    longest_pause: float = 30.0
    settled: float = 10.0
    """A connection that lived so long was a good one: the next pause is short again."""


class Reflector(Generic[WatchedT]):
    """Makes a sink show what the server has of one kind, in one namespace or all.

    ``query`` goes into every list and watch, and limits what the sink is told of: ``{"labelSelector": "app=cart"}``,
    ``{"fieldSelector": "metadata.name=n1"}``. To the sink an object that ceases to match is deleted.
    ``on_current`` is told of a version when the sink has seen all that happened up to it; each is newer than the one
    before, unless the server's data were restored. Versions that are no numbers are not told.

    ``patient`` False: whatever fails before the first watch stands is raised. Otherwise only refusals are (no right, no
    such kind), for as long. ``on_trouble`` is told of all that is tried again.
    """

    def __init__(
        self,
        connection: ReadTransport,
        resource: WatchedResource[WatchedT],
        sink: ReflectorStore[WatchedT],
        *,
        namespace: str | None = None,
        query: Mapping[str, str] | None = None,
        abilities: ServerFeatures | None = None,
        timing: ReflectorTiming | None = None,
        patient: bool = True,
        on_trouble: Callable[[CallFailed], None] = lambda _trouble: None,
        on_current: Callable[[int], None] = lambda _version: None,
        random: Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection, self._resource, self._sink = connection, resource, sink
        self._path = resource.path(namespace=namespace)
        self._namespace, self._query = namespace, dict(query or {})
        self._abilities = abilities or ServerFeatures()
        self._timing, self._patient, self._on_trouble = timing or ReflectorTiming(), patient, on_trouble
        self._on_current = on_current
        self._random, self._sleep, self._clock = random or Random(), sleep, clock
        self._version: str | None = None
        """From which the next watch goes on; None: a list is needed."""
        self._newest: int | None = None
        """The newest version ever seen, which stays when a list is needed."""
        self._keys: set[ObjectKey] | None = None
        """While a list is coming: what it has so far."""
        self._stands = self._is_open = self._has_progressed = False
        self._failures = self._suspicions = self._stale_lists = self._broken_lists = 0

    async def run(self) -> NoReturn:
        """Go on until cancelled. Raises CallFailed as said above, and whatever a handler raises."""
        was_gone = False
        while True:
            self._has_progressed, start = False, self._clock()
            trouble: CallFailed | None = None
            try:
                if self._version is None and not self._can_stream_list():
                    await self._list()
                await self._watch()
            except CallFailed as error:
                trouble = error
                self._judge(error)
            is_settled = self._clock() - start >= self._timing.settled
            if self._has_progressed or is_settled:
                self._failures = 0
                if trouble is None:
                    continue
            if is_settled:
                was_gone = False
            if isinstance(trouble, Gone) and not was_gone:
                # The server is well: a list brings everything back, and what was missed has waited long enough. But one
                # whose memory is shorter than a list takes must not be asked without end.
                was_gone = True
                continue
            self._failures += 1
            await self._sleep(self._pause(trouble))

    # --- when something went wrong ------------------------------------------------------------------------------------

    def _judge(self, error: CallFailed) -> None:
        status = error.status if isinstance(error, ApiError) else 0
        if isinstance(error, Gone):
            self._version = None
        elif isinstance(error, TooManyRequests):
            # It will have time for us later, and says when.
            pass
        elif not self._stands and (not self._patient or status in _REFUSALS):
            raise error
        elif isinstance(error, UnexpectedResponse) or status in _SUSPICIOUS:
            self._suspicions = 1 if self._has_progressed else self._suspicions + 1
            if self._suspicions >= _SUSPICIONS:
                self._version, self._suspicions = None, 0
        self._on_trouble(error)

    def _pause(self, trouble: CallFailed | None) -> float:
        longest = min(self._timing.longest_pause, self._timing.pause * 2.0 ** min(self._failures - 1, 20))
        asked = (trouble.retry_after if isinstance(trouble, ApiError) else None) or 0.0
        return max(asked, longest * self._random.uniform(0.5, 1.0))

    # --- lists --------------------------------------------------------------------------------------------------------

    def _can_stream_list(self) -> bool:
        return self._abilities.streams_lists and self._stale_lists == 0

    async def _list(self) -> None:
        """Pages, told one by one: each object in them is newer than what is held of it, or is left alone."""
        even_older = False
        keys: set[ObjectKey] = set()
        async for page in list_pages(self._connection, self._resource, namespace=self._namespace, query=self._query):
            if page.is_first:
                keys, even_older = set(), self._is_stale(page.version)
                self._newest = parse_resource_version(page.version)
            for thing in page.objects:
                keys.add(object_key_of(thing))
                self._sink.put(thing, even_older=even_older)
            for unreadable in page.unreadable:
                keys.add(unreadable.key)
                self._sink.set_aside(unreadable)
            if page.is_last:
                self._complete(page.version, keys)

    def _is_stale(self, version: str) -> bool:
        """True where a list that is older than what was seen is to be believed. Raises CallFailed where it is not."""
        number = parse_resource_version(version)
        if number is None or self._newest is None or number >= self._newest:
            return False
        self._stale_lists += 1
        if self._stale_lists <= _STALE_LISTS:
            raise UnexpectedResponse(f"expected a list not older than {self._newest}, got version {version}")
        return True

    def _complete(self, version: str, keys: set[ObjectKey]) -> None:
        self._version, self._newest, self._keys = version, parse_resource_version(version), None
        self._stale_lists = self._broken_lists = 0
        self._sink.keep_only(keys)
        self._tell_current()

    # --- watches ------------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Until the server ends it. Raises CallFailed."""
        seconds = round(self._timing.watch * self._random.uniform(1.0, 1.5))
        query = self._query | {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(max(seconds, 1))}
        idle = seconds + self._timing.silence
        if self._version is not None:
            await self._stream(query | {"resourceVersion": self._version}, idle=idle, limit=None)
            return
        query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        if self._newest is not None:
            query["resourceVersion"] = str(self._newest)
        self._keys, self._is_open = set(), False
        try:
            await self._stream(query, idle=idle, limit=self._timing.listing)
        except ApiError as error:
            if error.status in (400, 422) and not self._is_open:
                # What servers without streaming lists say. If it is about something else, a list in pages says so too.
                self._abilities.streams_lists, self._has_progressed = False, True
                return
            if error.status >= 500 and self._newest is not None:
                self._stale_lists += 1
            raise
        finally:
            is_broken, self._keys = self._is_open and self._keys is not None, None
            if is_broken:
                self._broken_lists += 1
                if self._broken_lists >= _BROKEN_LISTS:
                    self._abilities.streams_lists = False
        if is_broken:
            raise UnexpectedResponse(f"expected all {self._resource.plural}, got a stream that ends before that")

    async def _stream(self, query: dict[str, str], *, idle: float, limit: float | None) -> None:
        """``limit``: seconds in which a list must be complete. The stream goes on after that."""
        try:
            async with (
                asyncio.timeout(limit) as timeout,
                self._connection.stream(self._path, query, idle=idle) as lines,
            ):
                self._stands = self._is_open = True
                size = 0
                async for line in lines:
                    size += len(line)
                    if self._keys is not None and size > LIMITS.bytes:
                        what = self._resource.plural
                        raise ListTooLarge(f"expected a list of {what} of at most {LIMITS.bytes:,} bytes, got more")
                    self._take(line)
                    if limit is not None and self._keys is None:
                        timeout.reschedule(None)
                        limit = None
        except TimeoutError:
            if limit is None:
                raise
            # A server that does not know the wish would never come to the end.
            self._abilities.streams_lists = False
            raise TimedOut(f"expected all {self._resource.plural} within {limit:g} s, got a part of them") from None

    def _take(self, line: bytes) -> None:
        """Raises CallFailed where it is no event, or is the server's own word that something failed."""
        event = parse_watch_line(line, self._resource)
        if isinstance(event, Bookmark):
            if self._keys is None:
                if self._advance(event.version):
                    self._tell_current()
            elif event.ends_list:
                self._is_stale(event.version)
                self._complete(event.version, self._keys)
            return
        thing = event.object
        if self._keys is None:
            if not self._advance(event.version):
                return
        else:
            # While all objects come they are in no order; the sink knows which of them it has already.
            self._keys.add(thing.key if isinstance(thing, UnreadableObject) else object_key_of(thing))
        if isinstance(thing, UnreadableObject):
            self._sink.set_aside(thing, is_gone=event.is_gone)
        elif event.is_gone:
            self._sink.delete(thing)
        else:
            self._sink.put(thing)
        if self._keys is None:
            self._tell_current()

    def _tell_current(self) -> None:
        if self._newest is not None:
            self._on_current(self._newest)

    def _advance(self, version: str) -> bool:
        """False where the version is no newer than what was seen: events of a kind come in the order of versions."""
        number = parse_resource_version(version)
        if number is not None and self._newest is not None and number <= self._newest:
            return False
        self._version, self._newest, self._has_progressed = version, number, True
        self._suspicions = 0
        return True
