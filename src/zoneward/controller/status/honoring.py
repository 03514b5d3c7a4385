"""Whether nodes have in their kernels what Services ask for: gathered from one Lease a node, told as a condition.

A revision of what a Service asks for is honored once every proxy that lives has come to two versions: that of the
Service in which we first saw it, and the newest of its slices when all that its first sync wrote is in our cache. Our
own writes of its status, and endpoints that change later, ask for no more. Once honored it stays so until another
revision is asked for; nodes that come later have listed all of it before they say anything.

Nothing here is done for each Lease that is renewed. Once a second the least that all proxies have is looked at, and
what waits stands in the order of what it needs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, islice
from random import Random
from typing import Final, NoReturn

from msgspec.structs import replace

from zoneward.client.api_errors import CallFailed
from zoneward.client.cache import Cache
from zoneward.client.connection import Connection
from zoneward.client.node_leases import QUERY
from zoneward.client.reflector import Reflector, Timing
from zoneward.client.resources import LEASES, Key, key_of, version_of
from zoneward.client.unreadable import OnUnreadable
from zoneward.controller.leader.leading import Leading
from zoneward.controller.status.conditions import ours
from zoneward.controller.status.honored import HonoredReason, condition, is_of, reason_of, revision_of
from zoneward.controller.status.needs import Need, Needs
from zoneward.controller.status.node_proxies import NONE, UNHEARD, NodeProxies, Presence, Proxies
from zoneward.controller.status.telling import Teller
from zoneward.controller.sync.tracker import Tracker
from zoneward.daemon.log import Log, SilentLog, UnexpectedErrorLog
from zoneward.kube import names
from zoneward.kube.objects import Condition, Service
from zoneward.routing.selection.endpoint_selection import is_proxied
from zoneward.routing.service_conditions import find_condition

LATE: Final = 90.0
"""Seconds after which it is told who is behind: a Lease may be renewed 11 s after the last time, and a bookmark, by
which a proxy hears of versions that are not its own, comes once a minute."""
SEEN_LATE: Final = 600.0
"""Seconds between that and the next time that it is told."""
TICK: Final = 1.0
"""Seconds between two looks."""
AGAIN: Final = 600.0
"""Seconds after which Leases are asked for again that we were refused."""
_REPORTS: Final = 10
"""Services, in one look, of which it is found out who is behind: that takes a walk through all nodes."""
_AT_ONCE: Final = 100
"""Services told of, or looked at, before others have their turn."""


@dataclass(slots=True, eq=False)
class _Wish:
    """A revision of what a Service asks for. ``need`` None: not known yet, or of no matter."""

    service: Service
    planned: tuple[Condition, ...]
    revision: str
    proxy_name: str
    condition: Condition
    version: int
    need: Need | None = None
    has_deleted: bool = False

    @property
    def key(self) -> Key:
        return key_of(self.service)

    def is_about(self, service: Service, planned: Iterable[Condition]) -> bool:
        """Whether nothing that makes a revision can have changed."""
        return service is self.service and [each.status for each in planned] == [each.status for each in self.planned]


class Honoring:
    """`run` it, beside a teller that tells. `conditions` adds our condition to those of a plan.

    ``namespace`` is that of the proxies' Leases. ``version`` is the one up to which the cache has all slices. ``clock``
    counts seconds; ``on_trouble`` is told why Leases cannot be followed, ``on_unreadable`` of those that can't be read.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        namespace: str,
        cache: Cache,
        tracker: Tracker,
        teller: Teller,
        leading: Leading,
        log: Log | None = None,
        timing: Timing | None = None,
        random: Random | None = None,
        on_trouble: Callable[[CallFailed], None] = lambda _trouble: None,
        on_unreadable: OnUnreadable = lambda _found: None,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connection, self._namespace = connection, namespace
        self._cache, self._tracker, self._teller, self._leading = cache, tracker, teller, leading
        self._timing, self._random, self._on_trouble = timing, random, on_trouble
        self._unexpected = UnexpectedErrorLog(log or SilentLog())
        self._clock = clock or asyncio.get_running_loop().time
        self._sleep = sleep
        self.slices_version = 0
        """Up to which the cache has all slices: for whoever follows them to set."""
        self.proxies: Final = NodeProxies(
            has_node=lambda name: cache.nodes.get("", name) is not None,
            clock=self._clock,
            on_unreadable=on_unreadable,
        )
        self._seen: Mapping[str, Proxies] = {}
        self._saw_all = False
        """Whether these are of all Leases."""
        self._told: dict[str, Presence] = {}
        """Presence of the proxies of each name, as all that is told has it."""
        self._wishes: dict[Key, _Wish] = {}
        self._unmeasured: dict[Key, None] = {}
        self._needs: dict[str, Needs] = {}
        self._unable: set[Key] = set()
        """What all would have, were there not a node that could not program it."""
        self._late: list[tuple[float, int, _Wish]] = []
        """A heap: when it is to be told who is behind."""
        self._next = count()
        self._news: dict[Key, None] = {}
        """Services to be told of."""
        self._knows_all = False
        """Whether what is told was looked at since they were."""

    def __len__(self) -> int:
        """Services that ask for something that proxies could honor."""
        return len(self._wishes)

    # --- what Services ask for ----------------------------------------------------------------------------------------

    def conditions(
        self, service: Service, planned: Iterable[Condition], *, has_deleted: bool = False
    ) -> tuple[Condition, ...]:
        """What is to be told of a Service whose plan is written. ``service`` is as in the cache, ``planned`` what the
        plan says; ``has_deleted``: slices were deleted for it."""
        key, planned, version = key_of(service), tuple(planned), version_of(service.metadata.resource_version)
        if not planned or version is None or not is_proxied(service):
            self.forget(key)
            return planned
        wish = self._wishes.get(key)
        if wish is None or not wish.is_about(service, planned):
            revision = revision_of(service, planned)
            # Data that were restored from a backup have lower versions.
            if wish is None or wish.revision != revision or version < wish.version:
                wish = self._begun(service, planned, revision, version)
        wish.service, wish.planned = service, planned
        if key in self._unmeasured:
            wish.has_deleted = wish.has_deleted or has_deleted
        return self._with_ours(wish)

    def forget(self, key: Key) -> None:
        """A Service is gone, asks for nothing, or is not ours."""
        wish = self._wishes.pop(key, None)
        if wish is not None:
            self._waits_no_more(wish)

    def clear(self) -> None:
        """Somebody else leads from now on."""
        for each in (self._wishes, self._unmeasured, self._needs, self._unable, self._late, self._news, self._told):
            each.clear()
        self._knows_all = False

    def _begun(self, service: Service, planned: tuple[Condition, ...], revision: str, version: int) -> _Wish:
        key, reason = key_of(service), reason_of(planned)
        self.forget(key)
        wish = self._wishes[key] = _Wish(
            service=service,
            planned=planned,
            revision=revision,
            proxy_name=(service.metadata.labels or {}).get(names.PROXY_NAME_LABEL, ""),
            condition=condition(reason, planned, revision),
            version=version,
        )
        if reason is not HonoredReason.PROGRAMMING:
            return wish
        told = self._told_of(service)
        if told is not None and is_of(told, revision):
            wish.condition = replace(told, last_transition_time=None)
            return wish
        self._await(wish)
        return wish

    def _await(self, wish: _Wish) -> None:
        wish.condition, wish.need = condition(HonoredReason.PROGRAMMING, wish.planned, wish.revision), None
        self._unmeasured[wish.key] = None
        self._look_later(wish, LATE)

    def _look_later(self, wish: _Wish, seconds: float) -> None:
        heappush(self._late, (self._clock() + seconds, next(self._next), wish))

    def _waits_no_more(self, wish: _Wish) -> None:
        key = wish.key
        self._unmeasured.pop(key, None)
        self._unable.discard(key)
        self._news.pop(key, None)
        if wish.proxy_name in self._needs:
            self._needs[wish.proxy_name].discard(key)

    def _told_of(self, service: Service) -> Condition | None:
        return find_condition(ours(self._teller.as_told(service)), names.HONORED_CONDITION)

    def _with_ours(self, wish: _Wish) -> tuple[Condition, ...]:
        presence = self._of(wish.proxy_name).presence
        if presence is Presence.ABSENT or (presence is Presence.UNKNOWN and self._told_of(wish.service) is None):
            return wish.planned
        return (*wish.planned, wish.condition)

    def _of(self, proxy_name: str) -> Proxies:
        return self._seen.get(proxy_name, NONE if self._saw_all else UNHEARD)

    # --- what nodes have ----------------------------------------------------------------------------------------------

    async def run(self) -> NoReturn:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow(), name="following proxies")
                group.create_task(self._look_again(), name="looking at proxies")
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        raise AssertionError("neither has an end")

    async def _follow(self) -> NoReturn:
        while True:
            reflector = Reflector(
                self._connection,
                LEASES,
                self.proxies.leases,
                namespace=self._namespace,
                query=QUERY,
                timing=self._timing,
                random=self._random,
                on_trouble=self._in_trouble,
            )
            try:
                await reflector.run()
            except CallFailed as error:
                # Nothing else depends on it.
                self._on_trouble(error)
                await self._sleep(AGAIN)

    def _in_trouble(self, error: CallFailed) -> None:
        self.proxies.trouble()
        self._on_trouble(error)

    async def _look_again(self) -> NoReturn:
        await self._cache.synced.wait()
        while True:
            try:
                self.look()
                while self.tell(_AT_ONCE):
                    await self._sleep(0)
            except Exception as error:
                # Slices are written all the same.
                self._unexpected.error("a mistake in the program kept a condition from being gathered", ("", ""), error)
            await self._sleep(TICK)

    def look(self) -> None:
        """At all proxies, and at the Services that wait for them."""
        self._seen, self._saw_all = self.proxies.look(), self.proxies.are_listed
        if not self._leading.is_set():
            return
        self._look_at_presence()
        for key in list(islice(self._unmeasured, 10 * _AT_ONCE)):
            self._measure(self._wishes[key])
        for key in self._unable:
            wish = self._wishes[key]
            assert wish.need is not None
            self._needs[wish.proxy_name].add(key, wish.need)
        self._unable.clear()
        for proxy_name, needs in self._needs.items():
            self._look_at_needs(needs, self._of(proxy_name))
        self._look_at_late()

    def _look_at_presence(self) -> None:
        every = {*self._seen, *self._told}
        if self._saw_all and not self._knows_all:
            self._knows_all = True
            every |= {wish.proxy_name for wish in self._wishes.values()}
            self._told = dict.fromkeys(every, Presence.UNKNOWN)
        now = {name: self._of(name).presence for name in every}
        changed = {name for name, presence in now.items() if presence is not self._told.get(name, Presence.ABSENT)}
        self._told = {name: presence for name, presence in now.items() if presence is not Presence.ABSENT}
        if not changed:
            return
        for key, wish in self._wishes.items():
            if wish.proxy_name in changed:
                self._news[key] = None
                if now[wish.proxy_name] is Presence.ABSENT and wish.condition.status == "True":
                    # It is told no more; and of proxies that come after that nothing is known.
                    self._await(wish)

    def _measure(self, wish: _Wish) -> None:
        slices = self._cache.slices_of(*wish.key)
        if self._tracker.is_stale(wish.key, slices):
            return
        newest = max((version_of(each.metadata.resource_version) or 0 for each in slices), default=0)
        if wish.has_deleted:
            # The version of a deletion is nowhere else.
            newest = max(newest, self.slices_version)
        wish.need = Need(wish.version, newest)
        del self._unmeasured[wish.key]
        self._needs.setdefault(wish.proxy_name, Needs()).add(wish.key, wish.need)

    def _look_at_needs(self, needs: Needs, proxies: Proxies) -> None:
        if not proxies.nodes:
            return
        for key in needs.met(Need(proxies.services, proxies.slices)):
            wish = self._wishes[key]
            if key in proxies.unable:
                self._unable.add(key)
                continue
            reason, nodes = HonoredReason.PROGRAMMED, len(proxies.nodes)
            wish.condition = condition(reason, wish.planned, wish.revision, nodes=nodes)
            self._news[key] = None

    def _look_at_late(self) -> None:
        now, left = self._clock(), _REPORTS
        while left and self._late and self._late[0][0] <= now:
            wish = heappop(self._late)[2]
            if self._wishes.get(wish.key) is not wish or wish.condition.status == "True":
                continue
            self._look_later(wish, SEEN_LATE)
            proxies = self._of(wish.proxy_name)
            if wish.need is None or proxies.presence is not Presence.PRESENT:
                continue
            left -= 1
            behind = proxies.behind(wish.key, *wish.need)
            if behind:
                reason, nodes = HonoredReason.NODES_BEHIND, len(proxies.nodes)
                wish.condition = condition(reason, wish.planned, wish.revision, nodes=nodes, behind=behind)
                self._news[wish.key] = None

    def tell(self, most: int) -> bool:
        """Tell what `look` found of so many Services; whether there are more."""
        for key in list(islice(self._news, most)):
            del self._news[key]
            self._tell(key)
        return bool(self._news)

    def _tell(self, key: Key) -> None:
        wish, service = self._wishes.get(key), self._cache.services.get(*key)
        if wish is None or service is None or service.metadata.uid != wish.service.metadata.uid:
            return
        if self._leading.is_set():
            self._teller.tell(service, conditions=self._with_ours(wish))
