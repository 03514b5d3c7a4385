"""The kinds of proxies that run on nodes, by names that explain themselves, and what hints each honors.

kube-proxy by its minor version (KEP-2433, KEP-4444 and KEP-3015 § Implementation History and § Version Skew Strategy):

- to 1.23: the gate TopologyAwareHints is off.
- 1.24 to 1.26: hints for zones, where the annotation ``topology-aware-hints`` is ``Auto``: they do not know
  ``topology-mode``. 1.27 to 1.30: where either annotation is not ``Disabled``.
- from 1.31 (ServiceTrafficDistribution is beta): hints for zones always. From 1.34 (PreferSameTrafficDistribution is
  beta): hints for nodes first.

Cilium honors hints for zones only with ``enable-service-topology``, and only for Services that request them: from 1.11
by the topology annotation, from 1.16 also by ``PreferClose``, from 1.20 also by ``PreferSameZone`` and
``PreferSameNode``. From 1.19 an endpoint that is not ready and has no hint turns hints for zones off for the whole
Service (cilium/cilium#47960); a terminating one does not (cilium/cilium#45947). kube-router and kube-proxy on Windows
honor none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from zoneward.kube import names
from zoneward.kube.proxy_programs import FEATURE_GATES
from zoneward.routing.selection.endpoint_selection import CONSUMERS, CURRENT, ZONEWARD, Consumer

OLDEST_KUBE_PROXY: Final = 21
NEWEST_KUBE_PROXY: Final = 37
"""Minor versions that are offered by name; older and newer ones are known by the same rules."""
_OLDEST_CILIUM: Final = 11
_NEWEST_CILIUM: Final = 20
_USUAL_CILIUM: Final = 18
_CILIUM_WITH_UNREADY: Final = 19
"""From this version on, endpoints that are not ready count when it looks for hints."""

GATE_HINTS, GATE_DISTRIBUTION, GATE_SAME_NODE = FEATURE_GATES
_GATES: Final[Mapping[str, tuple[int, int, int]]] = {
    GATE_HINTS: (21, 24, 33),
    GATE_DISTRIBUTION: (30, 31, 33),
    GATE_SAME_NODE: (33, 34, 35),
}
"""The minor versions of kube-proxy that know a gate, that have it on by default, and that have it locked to on."""
_NO_HINTS: Final = CONSUMERS["no-hints"]
_ZONE_HINTS: Final = CONSUMERS["zone-hints"]
_OLD_ANNOTATION: Final = Consumer(
    "old-annotation", "honors forZones only beside topology-aware-hints: Auto", "old-annotation", node_hints=False
)
_ANY_ANNOTATION: Final = Consumer(
    "any-annotation", "honors forZones only beside an annotation that is not Disabled", "any-annotation", False
)


@dataclass(frozen=True, slots=True)
class ProxyKind:
    """One kind of proxy. ``about`` says in one phrase what it honors, ``alias_of`` what an alias means.
    ``can_switch_on``: it ignores hints by a setting.
    """

    name: str
    consumer: Consumer
    about: str
    alias_of: str = ""
    can_switch_on: bool = False

    @property
    def title(self) -> str:
        """The name in a sentence: ``kube-proxy 1.33``."""
        if self.alias_of:
            return self.alias_of
        program, dash, version = self.name.rpartition("-1.")
        return f"{program} 1.{version.replace('-', ' ')}" if dash else self.name


def kube_proxy(minor: int, gates: Mapping[str, bool] = MappingProxyType({})) -> ProxyKind:
    """kube-proxy 1.``minor``, with feature gates as its configuration or arguments set them."""
    on = {gate: _is_on(gate, minor, gates) for gate in _GATES}
    changed = [gate for gate in _GATES if on[gate] != _is_on(gate, minor, {})]
    marks = "".join(f"-{'with' if on[gate] else 'without'}-{gate}" for gate in changed)
    consumer = _kube_proxy_consumer(minor, on)
    return ProxyKind(f"kube-proxy-1.{minor}{marks}", consumer, consumer.about.partition(" (")[0])


def _is_on(gate: str, minor: int, gates: Mapping[str, bool]) -> bool:
    known, default, locked = _GATES[gate]
    if minor >= locked or minor < known:
        return minor >= locked
    return gates.get(gate, minor >= default)


def _kube_proxy_consumer(minor: int, on: Mapping[str, bool]) -> Consumer:
    if not on[GATE_HINTS]:
        return _NO_HINTS
    if on[GATE_SAME_NODE]:
        return CURRENT
    if on[GATE_DISTRIBUTION]:
        return _ZONE_HINTS
    return _ANY_ANNOTATION if minor >= 27 else _OLD_ANNOTATION


def cilium(minor: int | None, *, service_topology: bool | None) -> ProxyKind:
    """Cilium 1.``minor``, without or with ``enable-service-topology`` (None: not known, so off, its default). Of an
    unknown version, as most of them are.
    """
    name = "cilium" if minor is None else f"cilium-1.{minor}"
    if minor is None:
        minor = _USUAL_CILIUM
    if not service_topology or minor < _OLDEST_CILIUM:
        about = "ignores hints, as enable-service-topology is off"
        if service_topology is None:
            about += " by default"
        return ProxyKind(name, _NO_HINTS, about, can_switch_on=minor >= _OLDEST_CILIUM)
    name += "-service-topology"
    counts_unready = minor >= _CILIUM_WITH_UNREADY
    if minor >= 20:
        honored: tuple[str, ...] = (names.PREFER_CLOSE, names.PREFER_SAME_ZONE)
        about = (
            "honors forZones beside a topology annotation, PreferClose or PreferSameZone, forNodes for PreferSameNode"
        )
        consumer = Consumer(
            name, about, "any-annotation", node_hints=True, distributions=honored, counts_unready=counts_unready
        )
    elif minor >= 16:
        about = "honors forZones beside a topology annotation or PreferClose, not beside PreferSameZone"
        consumer = Consumer(
            name,
            about,
            "any-annotation",
            node_hints=False,
            distributions=(names.PREFER_CLOSE,),
            counts_unready=counts_unready,
        )
    else:
        consumer = _ANY_ANNOTATION if minor >= 14 else _OLD_ANNOTATION
        about = consumer.about.partition(" (")[0]
    return ProxyKind(name, consumer, about)


def switched_on(kind: ProxyKind) -> ProxyKind:
    """The same with ``enable-service-topology``, where only that is off."""
    if not kind.can_switch_on:
        return kind
    _, _, minor = kind.name.partition("-1.")
    return cilium(int(minor) if minor else None, service_topology=True)


KUBE_PROXY_ON_WINDOWS: Final = ProxyKind("kube-proxy-windows", _NO_HINTS, "ignores hints, in all versions")
KUBE_ROUTER: Final = ProxyKind("kube-router", _NO_HINTS, "ignores hints")
ZONEWARD_PROXY: Final = ProxyKind("zoneward", ZONEWARD, "honors all hints, slice groups and weights of zones")
_KINDS: Final = (
    ZONEWARD_PROXY,
    *(kube_proxy(minor) for minor in range(NEWEST_KUBE_PROXY, OLDEST_KUBE_PROXY - 1, -1)),
    *(cilium(minor, service_topology=True) for minor in range(_NEWEST_CILIUM, _OLDEST_CILIUM - 1, -1)),
    *(cilium(minor, service_topology=False) for minor in range(_NEWEST_CILIUM, _OLDEST_CILIUM - 1, -1)),
    KUBE_ROUTER,
    KUBE_PROXY_ON_WINDOWS,
)
_ALIASES: Final = {
    "current": "kube-proxy 1.34 and later",
    "zone-slices": "a proxy that reads zones' slices",
    "zone-hints": "kube-proxy 1.31 to 1.33",
    "annotation": "kube-proxy 1.24 to 1.30",
    "no-hints": "a proxy without hints",
}
"""What the names of consumers mean."""
PROXY_KINDS: Final[Mapping[str, ProxyKind]] = MappingProxyType(
    {kind.name: kind for kind in _KINDS}
    | {
        consumer.name: ProxyKind(consumer.name, consumer, consumer.about, _ALIASES[consumer.name])
        for consumer in CONSUMERS.values()
        if consumer is not ZONEWARD
    }
)
"""By name: what ``--proxy`` takes. The names of `CONSUMERS` are aliases."""
