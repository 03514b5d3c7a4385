"""Which endpoints a node's proxy uses: upstream's choice, in full, for every version of kube-proxy, and zone-labelled
slices. `_HintedEndpoints` falls back to all endpoints.

KEP-2433 § Kube-Proxy, KEP-3015 § Addition of PreferSameNode, KEP-4444 § Intersection with
internal/externalTrafficPolicy, KEP-2004 § Kube-Proxy and § Version Skew Strategy.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import Endpoint, EndpointPort, EndpointSlice, Service, is_ready, is_serving, is_terminating
from zoneward.kube.zone_weights import ZoneWeights, parse_zone_weights
from zoneward.routing.configuration import Configuration, FeatureGates
from zoneward.routing.request import Approach, requested_approach, topology_annotation
from zoneward.routing.rules import RuleLog
from zoneward.routing.zone_groups import ZoneGroup, ZoneSlices, group_of_slice

LOCAL: Final = "Local"
_MAX_PORT: Final = 65535
_MAX_ZONE_WEIGHTS: Final = 4
"""Slices whose weights are read. One has them, or two while the controller writes others."""
_WEIGHT_DIGITS: Final = 12
"""Decimals of an endpoint's weight: what is beyond is noise, by which alike weights would differ."""
_LEAST_SHARE: Final = 0.01
"""Of a zone's traffic for the endpoints of another: less needs many slots in the kernel."""
_ALWAYS_TOLERATED: Final = 1
"""Endpoints by which a zone may differ, however few it has."""
_TOLERATED_PART: Final = 10
"""And a tenth of them."""


class SelectionRule(StrEnum):
    """The rule by which a proxy chose the cluster endpoints."""

    NODE_HINTS = "node-hints"
    ZONE_HINTS = "zone-hints"
    ZONE_SLICES = "zone-slices"
    ZONE_WEIGHTS = "zone-weights"
    ALL = "all"
    TERMINATING = "terminating"


@dataclass(frozen=True, slots=True)
class Consumer:
    """How one kind of proxy treats hints, slices with a zone label, and weights of zones.

    ``zone_hints``: it honors them always, only where the old topology annotation of the Service is ``Auto``, only where
    either of them is, only where it is anything but ``Disabled``, or never. ``distributions`` are values of
    ``spec.trafficDistribution`` beside which it honors them, too; hints for nodes then need ``PreferSameNode``.
    ``zone_weights``: it prefers them to those for zones. ``counts_unready``: it ignores hints for zones also while an
    endpoint that is not ready has none. ``distribution_gate``: with the gate ServiceTrafficDistribution off, it honors
    no hints of ``spec.trafficDistribution``.
    """

    name: str
    about: str
    zone_hints: Literal["always", "old-annotation", "annotated", "any-annotation", "never"] = "always"
    node_hints: bool = True
    zone_slices: ZoneSlices = "ignored"
    zone_weights: bool = False
    distributions: tuple[str, ...] = ()
    counts_unready: bool = False
    distribution_gate: bool = False


ZONEWARD: Final = Consumer(
    "zoneward",
    "as current, and reads slice groups with their weights, and weights of zones (our own)",
    zone_slices="groups",
    zone_weights=True,
    distribution_gate=True,
)
CURRENT: Final = Consumer("current", "honors forNodes, then forZones (kube-proxy 1.34 and later)")
CONSUMERS: Final = {
    consumer.name: consumer
    for consumer in (
        ZONEWARD,
        CURRENT,
        Consumer(
            "zone-slices",
            "as current, and uses slices labelled for its zone or for none (KEP-2004's rule alone)",
            zone_slices="labels",
        ),
        Consumer("zone-hints", "honors forZones, ignores forNodes (1.31 to 1.33)", node_hints=False),
        Consumer(
            "annotation", "honors forZones only beside the annotation (1.24 to 1.30)", "annotated", node_hints=False
        ),
        Consumer("no-hints", "ignores hints", "never", node_hints=False),
    )
}


@dataclass(frozen=True, slots=True)
class Policies:
    """What a Service's traffic policies mean for a proxy: whether it needs cluster endpoints, local ones, or both.

    ``internal_local``: traffic that starts in the cluster uses the local ones.
    """

    uses_cluster: bool
    uses_local: bool
    internal_local: bool = False


class HonoredHints(msgspec.Struct, frozen=True, gc=False):
    """Which hints a proxy honors for one Service. ``weights``: those of zones take the place of hints for zones.
    ``unready``: those for zones count only while endpoints that are not ready have them, too.
    """

    zones: bool
    nodes: bool
    weights: bool = False
    unready: bool = False


class EndpointSelection(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a proxy uses for one Service port.

    ``cluster`` serves traffic under the policy Cluster, ``local`` under Local; each is None where the policies do not
    use it. ``weights`` are those of ``cluster``, one by one, where they differ. ``all_reachable`` is everything that
    this node may send to, ``has_any`` whether endpoints exist anywhere (a proxy rejects traffic to a Service without
    any, and drops it without local ones); ``healthy_local`` is what a health check node port reports.
    """

    cluster: tuple[Endpoint, ...] | None
    local: tuple[Endpoint, ...] | None
    all_reachable: tuple[Endpoint, ...]
    rule: SelectionRule
    has_any: bool
    healthy_local: int
    weights: tuple[float, ...] | None = None

    @property
    def only_remote(self) -> bool:
        """Whether endpoints exist, but this node may send to none of them."""
        return self.has_any and not self.all_reachable


def is_proxied(service: Service) -> bool:
    """Whether proxies serve a Service at all: DNS serves headless and ExternalName ones."""
    return service.spec.cluster_ip != names.HEADLESS and service.spec.type != "ExternalName"


def proxy_name_of(service: Service) -> str | None:
    """The name of the proxies that alone serve a Service; None for one of the nodes' usual proxies."""
    return (service.metadata.labels or {}).get(names.PROXY_NAME_LABEL)


def is_externally_accessible(service: Service) -> bool:
    """Whether traffic may come from outside: by node port, load balancer address or external address."""
    spec = service.spec
    return bool(
        any(port.node_port for port in spec.ports or ()) or spec.external_ips or load_balancer_addresses(service)
    )


def load_balancer_addresses(service: Service) -> tuple[str, ...]:
    """The addresses that a load balancer keeps as the destination; with ``ipMode: Proxy`` it keeps none."""
    status = service.status
    ingress = (status.load_balancer.ingress or ()) if status and status.load_balancer else ()
    return tuple(address.ip for address in ingress if address.ip and address.ip_mode != "Proxy")


def policies_of(service: Service, gates: FeatureGates | None = None) -> Policies:
    """What a Service's traffic policies mean; with the gate ServiceTrafficPolicy off, proxies ignore the internal one.

    Even an external policy of Local needs cluster endpoints: traffic from inside to external addresses uses them.
    """
    external = is_externally_accessible(service)
    gate_is_on = gates is None or gates.service_traffic_policy
    internal_local = gate_is_on and service.spec.internal_traffic_policy == LOCAL
    external_local = service.spec.external_traffic_policy == LOCAL
    return Policies(
        uses_cluster=not internal_local or external,
        uses_local=internal_local or (external_local and external),
        internal_local=internal_local,
    )


def honored_hints(service: Service, consumer: Consumer, gates: FeatureGates) -> HonoredHints:
    """Which hints a kind of proxy honors for a Service with these feature gates.

    None beside any ``topologyKeys`` (KEP-2433 § Interoperability). Where the gate
    ServiceTrafficDistribution was turned off, hints of that feature may still be in the slices (KEP-4444 § Feature
    Enablement and Rollback).
    """
    if service.spec.topology_keys:
        return HonoredHints(zones=False, nodes=False)
    if consumer.distribution_gate and not gates.service_traffic_distribution and _has_distribution_hints(service):
        return HonoredHints(zones=False, nodes=False)
    distribution = service.spec.traffic_distribution
    nodes = consumer.node_hints and (not consumer.distributions or distribution == names.PREFER_SAME_NODE)
    zones = _honors_zone_hints(service, consumer) and gates.topology_aware_hints
    return HonoredHints(
        zones=zones,
        nodes=nodes and gates.topology_aware_hints and gates.prefer_same_traffic_distribution,
        weights=zones and consumer.zone_weights,
        unready=zones and consumer.counts_unready,
    )


def _has_distribution_hints(service: Service) -> bool:
    """Whether hints of a Service are those of ``spec.trafficDistribution``: valid annotations win over it."""
    if not service.spec.traffic_distribution:
        return False
    requested = requested_approach(service, Configuration(), RuleLog())
    return requested.approach not in (Approach.HINTS, Approach.SUBSETTING)


def _honors_zone_hints(service: Service, consumer: Consumer) -> bool:
    if consumer.zone_hints in ("always", "never"):
        return consumer.zone_hints == "always"
    if service.spec.traffic_distribution in consumer.distributions:
        return True
    annotation = topology_annotation(service)
    if annotation is None:
        return False
    if consumer.zone_hints == "old-annotation" and annotation[0] != names.TOPOLOGY_AWARE_HINTS_ANNOTATION:
        return False
    if consumer.zone_hints in ("old-annotation", "annotated"):
        return annotation[1] in names.AUTO_VALUES
    return annotation[1] not in names.DISABLED_VALUES


def reads_slice_groups(consumer: Consumer, gates: FeatureGates) -> bool:
    """Whether a kind of proxy selects by the groups of slices."""
    return consumer.zone_slices != "ignored" and gates.topology_aware_subsetting


def slice_groups(slices: Iterable[EndpointSlice], consumer: Consumer, gates: FeatureGates) -> dict[int, ZoneGroup]:
    """The slice group of every endpoint (by ``id``) that has one for this consumer; the others are for all zones."""
    if not reads_slice_groups(consumer, gates):
        return {}
    assert consumer.zone_slices != "ignored"
    groups: dict[int, ZoneGroup] = {}
    for slice_ in slices:
        group = group_of_slice(slice_, reads=consumer.zone_slices)
        if group is not None:
            groups.update((id(endpoint), group) for endpoint in slice_.endpoints or ())
    return groups


def usable_zone_weights(
    slices: Iterable[EndpointSlice], honored: HonoredHints, *, on_invalid: Callable[[str], None] = lambda _slice: None
) -> ZoneWeights | None:
    """The weights that a proxy uses for a Service in one address family: the first valid ones by slice name.

    None where they were computed for other numbers of ready endpoints (`is_stale`), beside an endpoint without a zone,
    and beside slice groups. ``slices`` are all of the family, with any manager (of a group also without endpoints);
    ``on_invalid`` gets the names of those with weights that cannot be read.
    """
    if not honored.weights:
        return None
    slices = tuple(slices)
    annotated = [slice_ for slice_ in slices if names.ZONE_WEIGHTS_ANNOTATION in (slice_.metadata.annotations or {})]
    if not annotated or any(group_of_slice(slice_) is not None for slice_ in slices):
        return None
    weights = None
    for slice_ in _by_name(annotated)[:_MAX_ZONE_WEIGHTS]:
        weights = parse_zone_weights((slice_.metadata.annotations or {})[names.ZONE_WEIGHTS_ANNOTATION])
        if weights is not None:
            break
        on_invalid(slice_.metadata.name)
    if weights is None:
        return None
    counts = Counter(endpoint.zone or "" for endpoint in endpoints_of_all_ports(slices) if is_ready(endpoint))
    return None if "" in counts or is_stale(weights, counts) else weights


def is_stale(weights: ZoneWeights, counts: Mapping[str, int]) -> bool:
    """Whether the ready endpoints of some zone are too far from those that the weights were computed for."""
    for zone in weights.counts.keys() | counts.keys():
        counted = weights.counts.get(zone, 0)
        difference = abs(counts.get(zone, 0) - counted)
        if difference > _ALWAYS_TOLERATED and difference * _TOLERATED_PART > counted:
            return True
    return False


def endpoints_of_port(
    slices: Iterable[EndpointSlice], port: str, *, protocol: str = "TCP", node: str | None = None
) -> dict[str, Endpoint]:
    """Every endpoint of a Service port by ``address:port``, over all slices, with any manager.

    Name and protocol identify a port, as upstream. API servers accept any number for it; an invalid one is skipped.
    ``node`` is the proxy's own: see `_keep_better`. IPv6 addresses are in brackets.
    """
    endpoints: dict[str, Endpoint] = {}
    for slice_ in _by_name(slices):
        for numbered in slice_.ports or ():
            if port_key(numbered) != (port, protocol):
                continue
            if numbered.port is None or not 0 < numbered.port <= _MAX_PORT:
                continue
            for endpoint in slice_.endpoints or ():
                address = _address(endpoint)
                key = f"[{address}]:{numbered.port}" if ":" in address else f"{address}:{numbered.port}"
                _keep_better(endpoints, key, endpoint, node)
    return endpoints


def port_key(port: EndpointPort) -> tuple[str, str]:
    """The name and the protocol, which identify a port of a Service."""
    return port.name or "", port.protocol or "TCP"


def slices_by_port(slices: Iterable[EndpointSlice]) -> dict[tuple[str, str], list[EndpointSlice]]:
    """By `port_key`, slices with that port alone, so that a caller with many ports reads each slice once."""
    by_port: dict[tuple[str, str], list[EndpointSlice]] = {}
    for slice_ in slices:
        ports = slice_.ports or ()
        for port in ports:
            by_port.setdefault(port_key(port), []).append(slice_ if len(ports) == 1 else replace(slice_, ports=(port,)))
    return by_port


def endpoints_of_all_ports(slices: Iterable[EndpointSlice]) -> tuple[Endpoint, ...]:
    """Every endpoint of a Service that serves any port, each once by its address."""
    endpoints: dict[str, Endpoint] = {}
    for slice_ in _by_name(slices):
        if slice_.ports:
            for endpoint in slice_.endpoints or ():
                _keep_better(endpoints, _address(endpoint), endpoint, None)
    return tuple(endpoints.values())


def _by_name(slices: Iterable[EndpointSlice]) -> list[EndpointSlice]:
    return sorted(slices, key=lambda slice_: slice_.metadata.name)


def _address(endpoint: Endpoint) -> str:
    """Proxies only use the first of several addresses."""
    return (endpoint.addresses or ("",))[0]


def _keep_better(endpoints: dict[str, Endpoint], key: str, endpoint: Endpoint, node: str | None) -> None:
    """Keep one endpoint per address: a ready one first, then one on the own node, then the first by slice name.

    Upstream's proxy ignores readiness here: Pods on the host's network that replace each other may lose traffic there.
    """
    other = endpoints.get(key)
    if other is None or _rank(endpoint, node) > _rank(other, node):
        endpoints[key] = endpoint


def _rank(endpoint: Endpoint, node: str | None) -> tuple[bool, bool]:
    return is_ready(endpoint), node is not None and endpoint.node_name == node


def select_endpoints(
    endpoints: Sequence[Endpoint],
    *,
    policies: Policies,
    honored: HonoredHints,
    node: str,
    zone: str | None,
    groups: Mapping[int, ZoneGroup] = MappingProxyType({}),
    zone_weights: ZoneWeights | None = None,
) -> EndpointSelection:
    """Select for the proxy of one node; see `EndpointSelector`."""
    selector = EndpointSelector(endpoints, policies=policies, honored=honored, groups=groups, zone_weights=zone_weights)
    return selector.select(node, zone)


class EndpointSelector:
    """Selects for the proxies of one kind, node by node. ``endpoints`` hold each address once.

    ``groups`` come from `slice_groups`: cluster traffic only uses ready endpoints of groups that the zone consumes,
    unless that leaves none. ``zone_weights`` come from `usable_zone_weights`, and take the place of hints for zones;
    hints for nodes and groups win over them.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        policies: Policies,
        honored: HonoredHints,
        groups: Mapping[int, ZoneGroup] = MappingProxyType({}),
        zone_weights: ZoneWeights | None = None,
    ) -> None:
        self._endpoints = endpoints
        self._policies = policies
        if honored.unready and any(map(_is_starting_without_zone_hint, endpoints)):
            honored = replace(honored, zones=False)
        self._honored = honored
        self._groups = groups
        self._zone_weights = zone_weights
        self._ready = tuple(filter(is_ready, endpoints))
        self._leaving = tuple(
            endpoint
            for endpoint in endpoints
            if is_terminating(endpoint) and is_serving(endpoint) and not is_ready(endpoint)
        )
        self._ready_by_node: dict[str | None, list[Endpoint]] = {}
        for endpoint in self._ready:
            self._ready_by_node.setdefault(endpoint.node_name, []).append(endpoint)
        # By the zone that consumes groups; without groups all zones have the same candidates.
        self._candidates: dict[str | None, _HintedEndpoints] = {}

    def select(self, node: str, zone: str | None) -> EndpointSelection:
        """The endpoints for the proxy of one node; ``zone`` is None where the node has no label."""
        policies, ready, leaving = self._policies, self._ready, self._leaving
        cluster: tuple[Endpoint, ...] | None = None
        rule = SelectionRule.ALL
        weights: tuple[float, ...] | None = None
        if policies.uses_cluster:
            candidates = self._candidates_of(zone if self._groups else None)
            rule, cluster = candidates.choose(node, zone)
            if len(candidates.endpoints) < len(ready) and rule is SelectionRule.ALL:
                rule = SelectionRule.ZONE_SLICES
            if self._groups and zone:
                weights = _weights(cluster, self._groups, zone)
            elif self._zone_weights and zone and rule is not SelectionRule.NODE_HINTS:
                chosen, chosen_weights = _weigh_zones(ready, self._zone_weights.shares.get(zone, {}))
                if chosen:
                    rule, cluster, weights = SelectionRule.ZONE_WEIGHTS, chosen, _differing(chosen_weights)
            if not cluster and leaving:
                cluster, rule = leaving, SelectionRule.TERMINATING
        local: tuple[Endpoint, ...] | None = None
        ready_here = tuple(self._ready_by_node.get(node, ()))
        local_terminating = False
        if policies.uses_local:
            local = ready_here
            if not local:
                local = tuple(endpoint for endpoint in leaving if endpoint.node_name == node)
                local_terminating = bool(local)
            if not policies.uses_cluster and local_terminating:
                rule = SelectionRule.TERMINATING
        has_any = bool(cluster) or (policies.uses_local and bool(ready or leaving))
        if cluster is None:
            all_reachable = local or ()
        elif local is None or (rule in (SelectionRule.ALL, SelectionRule.TERMINATING) and not local_terminating):
            all_reachable = cluster
        else:
            inside = {id(endpoint) for endpoint in (*cluster, *local)}
            all_reachable = tuple(endpoint for endpoint in self._endpoints if id(endpoint) in inside)
        return EndpointSelection(
            cluster=cluster,
            local=local,
            all_reachable=all_reachable,
            rule=rule,
            has_any=has_any,
            healthy_local=len(ready_here),
            weights=weights,
        )

    def _candidates_of(self, zone: str | None) -> "_HintedEndpoints":
        hinted = self._candidates.get(zone)
        if hinted is None:
            endpoints = _in_groups_of(zone, self._ready, self._groups) if zone else self._ready
            hinted = self._candidates[zone] = _HintedEndpoints(endpoints, self._honored)
        return hinted


def _is_starting_without_zone_hint(endpoint: Endpoint) -> bool:
    """Whether an endpoint is neither ready nor terminating, and has no hint for zones."""
    hinted = endpoint.hints is not None and bool(endpoint.hints.for_zones)
    return not hinted and not is_ready(endpoint) and not is_terminating(endpoint)


def _in_groups_of(zone: str, ready: tuple[Endpoint, ...], groups: Mapping[int, ZoneGroup]) -> tuple[Endpoint, ...]:
    """Endpoints of groups that the zone consumes, and those without a group; all endpoints where that leaves none."""
    consumed = tuple(
        endpoint for endpoint in ready if (group := groups.get(id(endpoint))) is None or zone in group.zones
    )
    return consumed or ready


def _weights(cluster: tuple[Endpoint, ...], groups: Mapping[int, ZoneGroup], zone: str) -> tuple[float, ...] | None:
    """Weights of the chosen endpoints; None where all are alike, also where they are those that other zones consume."""
    weights = tuple(
        group.weight(zone) if (group := groups.get(id(endpoint))) is not None else 1.0 for endpoint in cluster
    )
    return _differing(weights)


def _differing(weights: tuple[float, ...]) -> tuple[float, ...] | None:
    return weights if len(set(weights)) > 1 else None


def _weigh_zones(
    ready: Sequence[Endpoint], shares: Mapping[str, float]
) -> tuple[tuple[Endpoint, ...], tuple[float, ...]]:
    """The endpoints in zones with a share, and their weights. The others get the share of a zone without endpoints
    in proportion, and one that is too small."""
    located = Counter(endpoint.zone for endpoint in ready)
    shares = {zone: share for zone, share in shares.items() if share >= _LEAST_SHARE}
    chosen = tuple(endpoint for endpoint in ready if endpoint.zone in shares)
    weights = tuple(
        round(shares[endpoint.zone] / located[endpoint.zone], _WEIGHT_DIGITS) for endpoint in chosen if endpoint.zone
    )
    return chosen, weights


class _HintedEndpoints:
    """Ready endpoints by the nodes and the zones that their hints name.

    Hints count only if every one of them has such hints; ``None`` is for those that do not count.
    """

    def __init__(self, endpoints: tuple[Endpoint, ...], honored: HonoredHints) -> None:
        self.endpoints = endpoints
        self._by_node = _by_hint(endpoints, "for_nodes") if honored.nodes else None
        self._by_zone = _by_hint(endpoints, "for_zones") if honored.zones else None

    def choose(self, node: str, zone: str | None) -> tuple[SelectionRule, tuple[Endpoint, ...]]:
        """By hints for nodes, else by hints for zones, else all endpoints: also where no hint matches."""
        if self._by_node is not None and (chosen := self._by_node.get(node)):
            return SelectionRule.NODE_HINTS, tuple(chosen)
        if self._by_zone is not None and zone and (chosen := self._by_zone.get(zone)):
            return SelectionRule.ZONE_HINTS, tuple(chosen)
        return SelectionRule.ALL, self.endpoints


def _by_hint(
    endpoints: Iterable[Endpoint], kind: Literal["for_nodes", "for_zones"]
) -> dict[str, list[Endpoint]] | None:
    """Endpoints by each name in their hints; None where one has no such hint."""
    by_name: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        hints = endpoint.hints
        named = None if hints is None else hints.for_nodes if kind == "for_nodes" else hints.for_zones
        if not named:
            return None
        for name in {hint.name for hint in named}:
            by_name.setdefault(name, []).append(endpoint)
    return by_name
