"""What the slices in force do is what the proxy of every node selects, on clusters of any mixture of proxies; loads
after a change of the cluster against those before.
"""

from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.structs import a_node, a_service, a_slice, an_endpoint, hints, nodes_in, pods_in
from tests.clusters import Cluster
from tests.properties.random_clusters import examples

from zoneward.advice.deciders import ClusterStates
from zoneward.advice.node_proxies import (
    PROXY_KINDS,
    ZONEWARD_PROXY,
    NodeProxies,
    kube_proxy,
    same_proxy_everywhere,
)
from zoneward.advice.now import LoadChange, load_change, plans_before, traffic_now
from zoneward.cli.options import Options
from zoneward.cli.planned_services import SelectedServices
from zoneward.cli.route import node_routes
from zoneward.kube import names
from zoneward.kube.objects import Endpoint, EndpointSlice, Node, Service
from zoneward.kube.zone_weights import ZoneWeights, format_zone_weights
from zoneward.routing.configuration import Configuration, FeatureGates
from zoneward.routing.demand import compute_demand
from zoneward.routing.selection.endpoint_selection import endpoints_of_all_ports
from zoneward.slices.cluster_state import ClusterState
from zoneward.snapshots.cluster_snapshot import Snapshot

ZONES: Final = ("a", "b", "c")
NEARLY: Final = 1e-9


class Drawn(NamedTuple):
    """A Service, its slices, and nodes with a proxy each."""

    service: Service
    slices: tuple[EndpointSlice, ...]
    nodes: tuple[Node, ...]
    proxies: NodeProxies


def an_endpoint_of(index: int, value: int, hinted: str, nodes: int) -> Endpoint:
    """``value`` is a byte of choices: where the endpoint is, its state, and where its hints point to."""
    zone, node, state, other = ZONES[value % 3], f"n{value % nodes}", value // 3 % 8, ZONES[value // 16 % 3]
    pointed = {
        "zones": hints(other if value & 1 else zone),
        "wide": hints(zone, other),
        "nodes": hints(nodes=[node]),
        "both": hints(zone, nodes=[node]),
        "gaps": hints(zone) if value % 5 else None,
    }.get(hinted)
    return an_endpoint(
        f"10.0.0.{index + 1}",
        None if state == 7 else zone,
        node=node,
        ready=state not in (5, 6),
        serving=state != 6,
        terminating=state == 5,
        hinted=pointed,
    )


@st.composite
def clusters_in_force(draw: st.DrawFn) -> Drawn:
    index = draw(st.integers(1, 6))
    hinted = draw(st.sampled_from(("none", "zones", "zones", "wide", "nodes", "both", "gaps")))
    values = draw(st.binary(max_size=12))
    endpoints = [an_endpoint_of(at, value, hinted, index) for at, value in enumerate(values)]
    counts = {zone: sum(endpoint.zone == zone for endpoint in endpoints) for zone in ZONES}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    match draw(st.sampled_from(("plain", "plain", "labelled", "shared", "weights"))):
        case "labelled":
            labels = {names.ZONE_LABEL: "a"}
        case "shared":
            labels, annotations = {names.ZONE_LABEL: "a"}, {names.ZONES_ANNOTATION: "a=0.7,b=0.3"}
        case "weights":
            shares = {"a": {"a": 0.8, "b": 0.2}, "b": {"b": 1.0}}
            weights = ZoneWeights(shares, {zone: count for zone, count in counts.items() if count})
            annotations = {names.ZONE_WEIGHTS_ANNOTATION: format_zone_weights(weights) or ""}
    at = draw(st.integers(0, len(endpoints)))
    slices = (
        a_slice("one", *endpoints[:at], labels=labels, annotations=annotations),
        a_slice("two", *endpoints[at:], manager=names.BUILT_IN_MANAGER),
    )
    service = a_service(
        draw(st.sampled_from((None, "Auto", "ProportionalZoneCPU", "Disabled"))),
        distribution=draw(st.sampled_from((None, *names.TRAFFIC_DISTRIBUTIONS))),
        internal=draw(st.sampled_from((None, None, "Local"))),
    )
    places = draw(st.lists(st.sampled_from((*ZONES, *ZONES, None)), min_size=index, max_size=index))
    nodes = tuple(a_node(f"n{at}", zone, cpu=2 + at) for at, zone in enumerate(places))
    kinds = draw(st.lists(st.sampled_from(sorted(PROXY_KINDS)), min_size=index, max_size=index))
    kind_of = {f"n{at}": PROXY_KINDS[kind] for at, kind in enumerate(kinds)}
    default = draw(st.sampled_from((ZONEWARD_PROXY, *kind_of.values())))
    return Drawn(service, slices, nodes, NodeProxies(kind_of, {}, default))


def load_by_routes(drawn: Drawn) -> tuple[dict[str, float], float, bool]:
    """The load of every address and the share in its zone, from what `zoneward route --as-is` says on each node; and
    whether traffic starts in a known zone and ends in one."""
    state = ClusterState(
        demand=compute_demand(drawn.nodes),
        node_zones={},
        configuration=Configuration(),
        consumer=drawn.proxies.default.consumer,
        consumer_by_node=drawn.proxies.consumer_by_node,
    )
    snapshot = Snapshot(services=(drawn.service,), nodes=drawn.nodes, slices=drawn.slices)
    selected = SelectedServices(Options(), snapshot, ClusterStates(state), drawn.proxies, (drawn.service,))
    zones = {(port.addresses or ("",))[0]: port.zone for port in endpoints_of_all_ports(drawn.slices)}
    load = dict.fromkeys(zones, 0.0)
    in_zone, total = 0.0, sum(node.weight for node in state.demand.nodes)
    for node in state.demand.nodes:
        (route,) = node_routes(selected, node=node.name, as_is=True).ports
        local = drawn.service.spec.internal_traffic_policy == "Local"
        chosen = (route.local if local else route.cluster) or ()
        weights = (None if local else route.weights) or (1.0,) * len(chosen)
        for target, weight in zip(chosen, weights, strict=True):
            address = target.rpartition(":")[0]
            part = node.weight / total * weight / sum(weights)
            load[address] += part
            in_zone += part if node.zone and zones[address] == node.zone else 0.0
    is_known = any(node.zone for node in state.demand.nodes)
    loaded = [zones[address] for address, part in load.items() if part]
    return load, in_zone, is_known and (not loaded or any(loaded))


@examples(150)
@given(clusters_in_force())
def test_traffic_now_matches_the_routes_of_all_nodes(drawn: Drawn) -> None:
    demand = compute_demand(drawn.nodes)
    now = traffic_now(
        drawn.service, slices=drawn.slices, demand=demand, node_proxies=drawn.proxies, gates=FeatureGates()
    )["IPv4"]
    load, in_zone, is_known = load_by_routes(drawn)
    assert now.traffic is not None
    assert now.traffic.load == pytest.approx(tuple(load.values()), abs=NEARLY)
    if is_known:
        assert now.traffic.in_zone == pytest.approx(in_zone, abs=NEARLY)
    else:
        assert not now.traffic.in_zone
    assert now.traffic.served == pytest.approx(sum(load.values()), abs=NEARLY)
    assert sum(now.proxies.values()) == len(drawn.nodes)


def hinted_slices() -> tuple[EndpointSlice, ...]:
    """One endpoint in zone a and three in zone b, all hinted to their own zones."""
    zones = ("a", "b", "b", "b")
    ends = [an_endpoint(f"10.0.0.{at}", zone, hinted=hints(zone)) for at, zone in enumerate(zones)]
    return (a_slice("one", *ends),)


NODES: Final = (a_node("n1", "a"), a_node("n2", "b"))


def test_zone_has_the_load_of_its_endpoints() -> None:
    now = traffic_now(
        a_service(),
        slices=hinted_slices(),
        demand=compute_demand(NODES),
        node_proxies=same_proxy_everywhere(NODES, kube_proxy(34)),
        gates=FeatureGates(),
    )["IPv4"]
    assert now.traffic is not None
    assert {zone: figures.load for zone, figures in now.traffic.zones.items()} == pytest.approx({"a": 2.0, "b": 2 / 3})
    assert now.proxies == {"kube-proxy 1.34": 2}


def test_no_traffic_without_slices_or_for_headless_services() -> None:
    same, demand = same_proxy_everywhere(NODES, kube_proxy(34)), compute_demand(NODES)
    assert not traffic_now(a_service(), slices=(), demand=demand, node_proxies=same, gates=FeatureGates())
    headless = a_service(cluster_ip="None")
    now = traffic_now(headless, slices=hinted_slices(), demand=demand, node_proxies=same, gates=FeatureGates())
    assert now["IPv4"].traffic is None


EIGHT_NODES = nodes_in({"a": 4, "b": 4})


def _change(before: Cluster, after: Cluster) -> LoadChange | None:
    (family,) = after.plan().families
    return load_change(family, plans_before([before.plan()]))


def test_the_busiest_endpoints_are_compared_and_each_endpoint_with_itself() -> None:
    before = Cluster(service=a_service("PreferZone"), nodes=EIGHT_NODES, pods=pods_in({"a": 1, "b": 5}))
    after = before.with_(pods=pods_in({"a": 2, "b": 4}))
    result = _change(before, after)
    assert result is not None
    assert (result.before, result.after, result.change) == pytest.approx((0.5, 0.25, -0.5))
    assert result.highest_rise == pytest.approx(5 / 4 - 1), "in zone b, where four endpoints do the work of five"


def test_with_fewer_pods_each_takes_more_though_none_is_above_fair() -> None:
    before = Cluster(service=a_service(), nodes=EIGHT_NODES, pods=pods_in({"a": 4, "b": 4}))
    after = before.with_(pods=pods_in({"a": 1, "b": 1}))
    result = _change(before, after)
    assert result is not None
    assert result.change == pytest.approx(3)
    (family,) = after.plan().families
    assert family.traffic is not None
    assert family.traffic.max_overload == 0


def test_where_no_endpoint_is_the_same_only_the_busiest_are_compared() -> None:
    before = Cluster(service=a_service(), nodes=EIGHT_NODES, pods=pods_in({"a": 1}))
    result = _change(before, before.with_(pods=pods_in({"b": 2})))
    assert result is not None
    assert (result.change, result.highest_rise) == (-0.5, None)


def test_without_endpoints_or_the_service_before_there_is_nothing_to_compare() -> None:
    cluster = Cluster(service=a_service(), nodes=EIGHT_NODES, pods=pods_in({"a": 1}))
    none = cluster.with_(pods=())
    assert _change(none, cluster) is None
    assert _change(cluster, none) is None
    assert _change(cluster.with_(service=a_service(name="other")), cluster) is None
    assert _change(cluster.with_(nodes=()), cluster) is None
