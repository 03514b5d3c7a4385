"""Expected traffic: the load and the in-zone share that follow from what each node's proxy selects.

Traffic is what Pods send to the Service's own address. It starts in zones (and on nodes) in proportion to demand, and
the proxy there spreads it over what it selects, evenly or by weights. Traffic from outside the cluster is not included.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from zoneward.kube.objects import Endpoint, is_ready, is_serving, is_terminating
from zoneward.routing.demand import Demand
from zoneward.routing.placement.groups import ZoneGroup
from zoneward.routing.selection.endpoint_selection import HonoredHints, Policies, select_endpoints
from zoneward.routing.zone_weights import ZoneWeights


@dataclass(frozen=True, slots=True)
class ExpectedZoneTraffic:
    """One zone: its share of all traffic, the endpoints located there, and those its proxies select.

    ``consumed`` counts every endpoint that some proxy of the zone selects. ``expected`` is the fair number, demand
    times all endpoints; ``overload`` is expected / consumed - 1, negative where the zone has more than its fair part,
    and None where it has no demand or selects nothing. ``in_zone``: the share of its own traffic that stays in the
    zone; None where it has no demand.
    """

    demand: float
    located: int
    consumed: int
    expected: float
    overload: float | None
    in_zone: float | None = None


@dataclass(frozen=True, slots=True)
class ExpectedTraffic:
    """Where the traffic to a Service goes. Shares are of all requests; ``served`` and ``dropped`` add up to 1.

    ``load`` has a share for every endpoint in use, and the overload of an endpoint is its load over a fair one, minus
    1: ``max_overload`` is the worst, never below 0; ``mean_overload`` the mean distance from fair, in both directions.
    """

    zones: dict[str, ExpectedZoneTraffic]
    load: tuple[float, ...]
    in_zone: float
    served: float
    dropped: float
    max_overload: float
    mean_overload: float

    @property
    def busiest_load(self) -> float:
        """The share of the endpoint that gets the most; 0 where none gets any."""
        return max(self.load, default=0.0)


def predict_traffic(
    endpoints: Sequence[Endpoint],
    *,
    demand: Demand,
    policies: Policies,
    honored: HonoredHints,
    groups: Mapping[int, ZoneGroup] = MappingProxyType({}),
    zone_weights: ZoneWeights | None = None,
) -> ExpectedTraffic | None:
    """Predict for the endpoints of a Service (each address once), their slice groups, and the weights of zones. None
    where no demand is known.

    Demand of nodes without a zone counts as that of the zone ``""``.
    """
    total = sum(demand.weight_by_zone.values())
    if not total:
        return None
    picked: dict[int, int] = {id(endpoint): number for number, endpoint in enumerate(endpoints)}
    load = [0.0] * len(endpoints)
    in_zone = dropped = 0.0
    zone_weight: dict[str, float] = {}
    zone_picks: dict[str, set[int]] = {}
    zone_kept: dict[str, float] = {}
    for zone, node, weight in _consumers(endpoints, demand, policies, honored):
        selection = select_endpoints(
            endpoints,
            policies=policies,
            honored=honored,
            node=node,
            zone=zone or None,
            groups=groups,
            zone_weights=zone_weights,
        )
        chosen = (selection.local if policies.internal_local else selection.cluster) or ()
        share = weight / total
        zone_weight[zone] = zone_weight.get(zone, 0.0) + weight
        zone_picks.setdefault(zone, set()).update(map(id, chosen))
        if not chosen:
            dropped += share
            continue
        weights = None if policies.internal_local else selection.weights
        each = share / (sum(weights) if weights else len(chosen))
        for number, endpoint in enumerate(chosen):
            part = each * weights[number] if weights else each
            load[picked[id(endpoint)]] += part
            if zone and endpoint.zone == zone:
                in_zone += part
                zone_kept[zone] = zone_kept.get(zone, 0.0) + part
    return _traffic(endpoints, load, in_zone, dropped, total, zone_weight, zone_picks, zone_kept)


def _consumers(
    endpoints: Sequence[Endpoint], demand: Demand, policies: Policies, honored: HonoredHints
) -> Iterator[tuple[str, str, int]]:
    """(zone, node, weight) of every proxy, or of every group of proxies that must select the same.

    Only where nodes matter (node hints, or an internal policy of Local) nodes select for themselves, and then only
    those that have an endpoint: all others of a zone are one group, on a node without a name.
    """
    named: set[str] = set()
    if policies.internal_local:
        named.update(endpoint.node_name for endpoint in endpoints if endpoint.node_name)
    elif honored.nodes:
        for endpoint in endpoints:
            if endpoint.hints:
                named.update(each.name for each in endpoint.hints.for_nodes or ())
    grouped = dict(demand.weight_by_zone)
    if named:
        for node in demand.nodes:
            if node.name in named:
                grouped[node.zone or ""] -= node.weight
                yield node.zone or "", node.name, node.weight
    for zone, weight in grouped.items():
        if weight:
            yield zone, "", weight


def _traffic(
    endpoints: Sequence[Endpoint],
    load: Sequence[float],
    in_zone: float,
    dropped: float,
    total: int,
    weights: dict[str, float],
    picks: dict[str, set[int]],
    kept: dict[str, float],
) -> ExpectedTraffic:
    usable = [is_ready(endpoint) for endpoint in endpoints]
    if not any(usable):
        usable = [is_serving(endpoint) and is_terminating(endpoint) for endpoint in endpoints]
    used = [share for share, use in zip(load, usable, strict=True) if use]
    located: dict[str, int] = dict.fromkeys(weights, 0)
    for endpoint, use in zip(endpoints, usable, strict=True):
        if use:
            located[endpoint.zone or ""] = located.get(endpoint.zone or "", 0) + 1
    zones = {}
    for zone in sorted(located):
        share = weights.get(zone, 0.0) / total
        consumed = len(picks.get(zone, ()))
        expected = share * len(used)
        overload = expected / consumed - 1 if share and consumed else None
        stays = kept.get(zone, 0.0) / share if share else None
        zones[zone] = ExpectedZoneTraffic(share, located[zone], consumed, expected, overload, stays)
    deviations = [share * len(used) - 1 for share in used]
    return ExpectedTraffic(
        zones=zones,
        load=tuple(load),
        in_zone=in_zone,
        served=1 - dropped,
        dropped=dropped,
        max_overload=max(0.0, *deviations) if deviations else 0.0,
        mean_overload=sum(map(abs, deviations)) / len(used) if used else 0.0,
    )
