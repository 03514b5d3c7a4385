"""The proxies of ours that run on nodes, and what they say is in their kernels: from their Leases.

A proxy lives while its Lease is renewed, and its Node is there. Only renewals that are seen count, by our own clock.
Where none is seen of anybody, or the watch of Leases is in trouble, it is not the proxies that are silent: then none is
taken for dead until they had time to be heard again.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from zoneward.client.list_watch_decoder import UnreadableHandler
from zoneward.client.object_store import ObjectStore
from zoneward.kube.objects import Lease, ObjectKey
from zoneward.kube.proxy_lease import LEASE_DURATION, RENEW_INTERVAL, ProgrammedReport, parse_proxy_lease

FIRST: Final = 1.5 * RENEW_INTERVAL
"""Seconds in which a Lease that was there before us must be renewed. All proxies that live do so."""
SILENCE: Final = 1.5 * RENEW_INTERVAL
"""Seconds without a renewal by anybody, after which it is something else that keeps them all from it."""
GRACE: Final = 600.0
"""Seconds in which it is not known whether proxies are gone for good, of which we saw nothing since our beginning, or
since they were last there."""
_NOTHING: Final = ProgrammedReport(-1, -1)


class Presence(StrEnum):
    ABSENT = "absent"
    """There are none: somebody else's proxy serves the Services."""
    UNKNOWN = "unknown"
    PRESENT = "present"


@dataclass(frozen=True, slots=True)
class Proxies:
    """All proxies of one name. ``nodes``: what each that lives has programmed; ``services`` and ``slices``: what all
    have, -1 where there is one of which nothing is known; ``unable``: Services that some node could not program."""

    presence: Presence
    nodes: Mapping[str, ProgrammedReport]
    services: int = -1
    slices: int = -1
    unable: frozenset[ObjectKey] = frozenset()

    def behind(self, service: ObjectKey, services: int, slices: int) -> list[str]:
        """The nodes that live and do not have these versions of a Service and its slices, sorted."""
        return sorted(
            node
            for node, has in self.nodes.items()
            if has.services < services or has.slices < slices or service in has.excluded
        )


NONE: Final = Proxies(Presence.ABSENT, {})
UNHEARD: Final = Proxies(Presence.UNKNOWN, {})


@dataclass(slots=True)
class _Proxy:
    node: str
    proxy_name: str
    programmed: ProgrammedReport
    renewed: str | None
    seen: float
    """When it was last seen to be renewed, or first seen at all."""
    has_renewed: bool
    is_dead: bool = False


class NodeProxies:
    """Feed `leases` by a reflector; `look` now and then. ``has_node`` says whether there is a Node of a name,
    ``on_unreadable`` is told of Leases that cannot be read."""

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
        self._heard = clock()
        """The last renewal of anybody."""
        self._excused = clock()
        """Until when silence was not the proxies' own."""
        self._present: dict[str, float] = {}
        """When there last were proxies of a name."""
        self.leases: Final = ObjectStore[Lease](self._change, on_listed=self._listed, on_unreadable=on_unreadable)

    def __len__(self) -> int:
        return len(self._proxies)

    def trouble(self) -> None:
        """The watch of Leases broke off."""
        self._excused = self._clock()

    def look(self) -> Mapping[str, Proxies]:
        """The proxies that there are, by the name for which they serve Services. Of a name that is not there, there are
        none: `NONE`, but `UNHEARD` before all Leases were listed."""
        now = self._clock()
        if now - self._heard > SILENCE:
            self._excused = now
        by_name: dict[str, list[_Proxy]] = {name: [] for name in self._present}
        for each in self._proxies.values():
            each.is_dead = each.is_dead or now > self._limit(each)
            if self._has_node(each.node):
                by_name.setdefault(each.proxy_name, []).append(each)
        return {name: self._together(name, some, now) for name, some in by_name.items()}

    @property
    def are_listed(self) -> bool:
        return self._began is not None

    def _limit(self, proxy: _Proxy) -> float:
        if not proxy.has_renewed:
            return proxy.seen + FIRST
        return max(proxy.seen, self._excused) + LEASE_DURATION

    def _together(self, name: str, everyone: Collection[_Proxy], now: float) -> Proxies:
        nodes = {each.node: each.programmed for each in everyone if not each.is_dead}
        if any(each.has_renewed for each in everyone):
            presence, self._present[name] = Presence.PRESENT, now
        else:
            # Those that were there before us may be of living proxies, and Nodes may come back.
            since = self._present.get(name, now if self._began is None else self._began)
            presence = Presence.UNKNOWN if now - since < GRACE else Presence.ABSENT
            if presence is Presence.ABSENT:
                self._present.pop(name, None)
        return Proxies(
            presence,
            nodes,
            services=min((each.services for each in nodes.values()), default=-1),
            slices=min((each.slices for each in nodes.values()), default=-1),
            unable=frozenset(key for each in nodes.values() for key in each.excluded),
        )

    def _listed(self) -> None:
        if self._began is None:
            self._began = self._heard = self._clock()

    def _change(self, key: ObjectKey, _old: Lease | None, new: Lease | None) -> None:
        if new is None:
            self._proxies.pop(key, None)
            return
        said, renewed, now = parse_proxy_lease(new), new.spec.renew_time, self._clock()
        before = self._proxies.get(key)
        has_renewed = self._began is not None if before is None else before.has_renewed or renewed != before.renewed
        is_seen = before is None or renewed != before.renewed
        if has_renewed and is_seen:
            self._heard = now
        self._proxies[key] = _Proxy(
            node=said.node,
            proxy_name=said.proxy_name,
            programmed=said.programmed or _NOTHING,
            renewed=renewed,
            seen=now if before is None or is_seen else before.seen,
            has_renewed=has_renewed,
            is_dead=before is not None and not is_seen and before.is_dead,
        )
