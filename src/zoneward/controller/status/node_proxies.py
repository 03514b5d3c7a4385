"""Zoneward's node proxies and the versions that they have programmed: read from one Lease per node.

A proxy is live while its Lease is renewed and its Node exists. Only observed renewals count, by the controller's clock.
If no proxy renews its Lease, or the watch of Leases fails, the cause is not the proxies: none counts as dead until it
had time to renew its Lease again.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final, NoReturn

from zoneward.client.api_errors import CallFailed
from zoneward.client.list_pager import ListScope
from zoneward.client.list_watch_decoder import UnreadableHandler
from zoneward.client.object_store import ObjectStore
from zoneward.client.reflector import Reflector, ReflectorRuntime, ReflectorSettings
from zoneward.client.resources import LEASES
from zoneward.client.transport_interface import ReadTransport
from zoneward.kube.leases import (
    LEASE_DURATION,
    PROXY_LEASE_SELECTOR,
    RENEW_INTERVAL,
    ProgrammedReport,
    parse_proxy_lease,
)
from zoneward.kube.objects import Lease, ObjectKey

FIRST_RENEWAL: Final = 1.5 * RENEW_INTERVAL
"""Seconds within which a live proxy renews a Lease that is older than this controller."""
COMMON_SILENCE: Final = 1.5 * RENEW_INTERVAL
"""Seconds without a renewal of any Lease after which the proxies are not the cause."""
ABSENT_AFTER: Final = 600.0
"""Seconds until proxies count as absent, since the start or since the last one was seen."""
REFUSED_PAUSE: Final = 600.0
"""Seconds until Leases are requested again after a refusal."""
_NOTHING_PROGRAMMED: Final = ProgrammedReport(-1, -1)


class Presence(StrEnum):
    """Whether there are proxies of one name."""

    ABSENT = "absent"
    """None: another proxy serves the Services."""
    UNKNOWN = "unknown"
    PRESENT = "present"


@dataclass(frozen=True, slots=True)
class ProxyGroup:
    """All proxies of one name. ``nodes``: what each live proxy has programmed; ``services`` and ``slices``: the
    versions that all have, -1 if one is unknown; ``unable``: Services that some node could not program."""

    presence: Presence
    nodes: Mapping[str, ProgrammedReport]
    services: int = -1
    slices: int = -1
    unable: frozenset[ObjectKey] = frozenset()

    def behind(self, service: ObjectKey, services: int, slices: int) -> list[str]:
        """The nodes with a live proxy that lacks these versions of a Service or its slices, sorted."""
        return sorted(
            node
            for node, has in self.nodes.items()
            if has.services < services or has.slices < slices or service in has.excluded
        )


NO_PROXIES: Final = ProxyGroup(Presence.ABSENT, {})
UNKNOWN_PROXIES: Final = ProxyGroup(Presence.UNKNOWN, {})


@dataclass(slots=True)
class _Proxy:
    node: str
    proxy_name: str
    programmed: ProgrammedReport
    renewed: str | None
    seen: float
    """When a renewal, or the new Lease, was last observed."""
    has_renewed: bool
    is_dead: bool = False


class NodeProxies:
    """`follow` fills `leases`. ``has_node`` returns whether a Node exists; ``on_unreadable``
    gets the Leases that cannot be read."""

    def __init__(
        self,
        *,
        has_node: Callable[[str], bool],
        clock: Callable[[], float],
        on_unreadable: UnreadableHandler = lambda _found: None,
    ) -> None:
        self._has_node, self._clock = has_node, clock
        self._proxies: dict[ObjectKey, _Proxy] = {}
        self._began: float | None = None
        """When all Leases were first listed."""
        self._last_renewal = clock()
        """When any Lease was last renewed."""
        self._excused = clock()
        """Until when the proxies are not to blame for a missing renewal."""
        self._last_present: dict[str, float] = {}
        """By proxy name, when there last were proxies."""
        self.leases: Final = ObjectStore[Lease](self._change, on_listed=self._listed, on_unreadable=on_unreadable)

    def watch_failed(self) -> None:
        """The watch of Leases failed."""
        self._excused = self._clock()

    async def follow(
        self,
        connection: ReadTransport,
        *,
        namespace: str,
        timing: ReflectorSettings | None = None,
        on_watch_error: Callable[[CallFailed], None],
    ) -> NoReturn:
        """Keep `leases` current with the proxies' Leases in a namespace, until cancelled."""

        def watch_failed(error: CallFailed) -> None:
            self.watch_failed()
            on_watch_error(error)

        while True:
            reflector = Reflector(
                connection,
                LEASES,
                self.leases,
                options=ListScope(namespace=namespace, label_selector=PROXY_LEASE_SELECTOR),
                settings=timing,
                runtime=ReflectorRuntime(random=Random()),
                on_error=watch_failed,
            )
            try:
                await reflector.run()
            except CallFailed as error:
                # Nothing else depends on these Leases.
                on_watch_error(error)
                await asyncio.sleep(REFUSED_PAUSE)

    def groups(self) -> Mapping[str, ProxyGroup]:
        """The proxies by the proxy name of the Services that they serve. A name that is missing has `NO_PROXIES`, or
        `UNKNOWN_PROXIES` before all Leases were listed."""
        now = self._clock()
        if now - self._last_renewal > COMMON_SILENCE:
            self._excused = now
        by_name: dict[str, list[_Proxy]] = {name: [] for name in self._last_present}
        for proxy in self._proxies.values():
            proxy.is_dead = proxy.is_dead or now > self._limit(proxy)
            if self._has_node(proxy.node):
                by_name.setdefault(proxy.proxy_name, []).append(proxy)
        return {name: self._group(name, members, now) for name, members in by_name.items()}

    @property
    def are_listed(self) -> bool:
        return self._began is not None

    def _limit(self, proxy: _Proxy) -> float:
        if not proxy.has_renewed:
            return proxy.seen + FIRST_RENEWAL
        return max(proxy.seen, self._excused) + LEASE_DURATION

    def _group(self, name: str, members: Collection[_Proxy], now: float) -> ProxyGroup:
        nodes = {member.node: member.programmed for member in members if not member.is_dead}
        if any(member.has_renewed for member in members):
            presence, self._last_present[name] = Presence.PRESENT, now
        else:
            # Older Leases may belong to live proxies, and Nodes may return.
            since = self._last_present.get(name, now if self._began is None else self._began)
            presence = Presence.UNKNOWN if now - since < ABSENT_AFTER else Presence.ABSENT
            if presence is Presence.ABSENT:
                self._last_present.pop(name, None)
        return ProxyGroup(
            presence,
            nodes,
            services=min((node.services for node in nodes.values()), default=-1),
            slices=min((node.slices for node in nodes.values()), default=-1),
            unable=frozenset(key for node in nodes.values() for key in node.excluded),
        )

    def _listed(self) -> None:
        if self._began is None:
            self._began = self._last_renewal = self._clock()

    def _change(self, key: ObjectKey, _old: Lease | None, new: Lease | None) -> None:
        if new is None:
            self._proxies.pop(key, None)
            return
        report, renewed, now = parse_proxy_lease(new), new.spec.renew_time, self._clock()
        before = self._proxies.get(key)
        has_renewed = self._began is not None if before is None else before.has_renewed or renewed != before.renewed
        is_renewal = before is None or renewed != before.renewed
        if has_renewed and is_renewal:
            self._last_renewal = now
        self._proxies[key] = _Proxy(
            node=report.node,
            proxy_name=report.proxy_name,
            programmed=report.programmed or _NOTHING_PROGRAMMED,
            renewed=renewed,
            seen=now if before is None or is_renewal else before.seen,
            has_renewed=has_renewed,
            is_dead=before is not None and not is_renewal and before.is_dead,
        )
