"""Expected traffic from what proxies select, and measured traffic from what nodes counted."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from tests.builders.structs import a_node, an_endpoint, hints
from tests.clusters import ALL_HINTS, CLUSTER, demand_in

from zoneward.kube.demand import MeasuredTraffic, ServiceTraffic
from zoneward.kube.objects import Endpoint, Node
from zoneward.kube.zone_weights import ZoneWeights
from zoneward.routing.demand import Demand, compute_demand
from zoneward.routing.selection.endpoint_selection import HonoredHints, Policies
from zoneward.routing.selection.traffic import (
    ExpectedTraffic,
    ExpectedZoneTraffic,
    ServiceMeasurement,
    SliceReading,
    TrafficMeasurements,
    combine_measurements,
    predict_traffic,
    predicted_in_zone_share,
)

# --- expected ---------------------------------------------------------------------------------------------------------


INTERNAL_LOCAL: Final = Policies(uses_cluster=False, uses_local=True, internal_local=True)
EQUAL: Final = demand_in(a=1, b=1)


def predicted(
    *endpoints: Endpoint, demand: Demand = EQUAL, policies: Policies = CLUSTER, honored: HonoredHints = ALL_HINTS
) -> ExpectedTraffic:
    traffic = predict_traffic(endpoints, readings=[SliceReading(demand, honored)], policies=policies)
    assert traffic is not None
    assert traffic.served + traffic.dropped == pytest.approx(1)
    assert sum(traffic.load) == pytest.approx(traffic.served)
    return traffic


def some(
    count: int, zone: str | None, *, to: str | None = None, block: int = 0, node: str | None = None
) -> list[Endpoint]:
    """``count`` ready endpoints in a zone, hinted to a zone or not."""
    hinted = hints(to) if to is not None else None
    return [an_endpoint(f"10.{block}.0.{index}", zone, hinted=hinted, node=node) for index in range(count)]


def loads(*shares: float) -> object:
    return pytest.approx(shares)


def test_without_hints_everybody_gets_the_same_and_half_leaves_its_zone() -> None:
    traffic = predicted(*some(2, "a"), *some(2, "b", block=1))
    assert traffic.load == loads(0.25, 0.25, 0.25, 0.25)
    assert (traffic.in_zone, traffic.max_overload, traffic.mean_overload) == (0.5, 0.0, 0.0)


def test_with_hints_traffic_stays_in_its_zone_and_load_follows_demand() -> None:
    traffic = predicted(*some(2, "a", to="a"), *some(2, "b", to="b", block=1), demand=demand_in(a=3, b=1))
    assert traffic.load == loads(0.375, 0.375, 0.125, 0.125)
    assert (traffic.in_zone, traffic.max_overload, traffic.mean_overload) == (1.0, 0.5, 0.5)
    a = traffic.zones["a"]
    assert (a.demand, a.located, a.consumed, a.expected, a.overload) == (0.75, 2, 2, 3.0, 0.5)
    b = traffic.zones["b"]
    assert (b.demand, b.located, b.consumed, b.expected, b.overload) == (0.25, 2, 2, 1.0, -0.5)


def test_with_weights_of_zones_each_zone_sends_its_shares() -> None:
    """Zone a sends a fifth of its half to zone b."""
    endpoints = [*some(2, "a", to="a"), *some(2, "b", to="b", block=1)]
    shares = {"a": {"a": 0.8, "b": 0.2}, "b": {"b": 1.0}}
    weights = ZoneWeights(shares, {"a": 2, "b": 2})
    reading = SliceReading(EQUAL, ALL_HINTS, zone_weights=weights)
    traffic = predict_traffic(endpoints, readings=[reading], policies=CLUSTER)
    assert traffic is not None
    assert traffic.load == loads(0.2, 0.2, 0.3, 0.3)
    assert traffic.in_zone == pytest.approx(0.9)
    assert traffic.max_overload == pytest.approx(0.2)
    assert traffic.zones["a"].in_zone == pytest.approx(0.8)


@pytest.mark.parametrize("zone_count", range(1, 60))
def test_all_is_exactly_all_and_nothing_exactly_nothing(zone_count: int) -> None:
    """Ten times 0.1 is not 1 in floats."""
    demand = demand_in(**{f"zone{index}": 1 for index in range(zone_count)})
    traffic = predicted(demand=demand)
    assert (traffic.dropped, traffic.served) == (1.0, 0.0)
    assert {zone.dropped for zone in traffic.zones.values()} == {1.0}
    traffic = predicted(*some(1, "zone0"), demand=demand)
    assert (traffic.dropped, traffic.served) == (0.0, 1.0)
    assert {zone.dropped for zone in traffic.zones.values()} == {0.0}


def test_a_zone_with_endpoints_but_without_demand_has_no_overload() -> None:
    traffic = predicted(*some(1, "a", to="a"), *some(1, "c", to="b", block=1), *some(1, None, to="a", block=2))
    c = traffic.zones["c"]
    assert (c.demand, c.located, c.consumed, c.expected, c.overload) == (0.0, 1, 0, 0.0, None)
    assert traffic.zones[""].located == 1
    assert traffic.in_zone == 0.25


def nodes(*specs: tuple[str, str | None, int]) -> Sequence[Node]:
    return [a_node(name, zone, cpu=cpu) for name, zone, cpu in specs]


def on_node(address: str, node: str, zone: str) -> Endpoint:
    return an_endpoint(address, zone, node=node, hinted=hints(zone, nodes=[node]))


def test_nodes_of_a_zone_may_pick_differently() -> None:
    """n1 uses its own endpoint, n2 its own two, n3 all three of the zone: three in all are consumed there."""
    demand = compute_demand(nodes(("n1", "a", 2), ("n2", "a", 4), ("n3", "a", 2), ("n4", "b", 8)))
    endpoints = (on_node("10.0.0.1", "n1", "a"), on_node("10.0.0.2", "n2", "a"), on_node("10.0.0.3", "n2", "a"))
    traffic = predicted(*endpoints, on_node("10.0.0.4", "n4", "b"), demand=demand)
    third = 2 / 16 / 3
    assert traffic.load == loads(2 / 16 + third, 2 / 16 + third, 2 / 16 + third, 0.5)
    assert traffic.zones["a"].consumed == 3
    assert traffic.in_zone == pytest.approx(1.0)


def test_with_the_internal_policy_local_nodes_without_an_endpoint_drop() -> None:
    """A quarter of the CPU is on a node without an endpoint."""
    demand = compute_demand(nodes(("n1", "a", 4), ("n2", "a", 4), ("n3", "b", 4), ("n4", "b", 4)))
    endpoints = [an_endpoint(f"10.0.0.{index}", "a" if index < 3 else "b", node=f"n{index}") for index in (1, 2, 3)]
    traffic = predicted(*endpoints, demand=demand, policies=INTERNAL_LOCAL)
    assert traffic.load == loads(0.25, 0.25, 0.25)
    assert (traffic.served, traffic.dropped, traffic.in_zone) == (0.75, 0.25, 0.75)
    assert traffic.zones["b"].consumed == 1


def test_traffic_from_nodes_without_a_zone_heeds_no_zone_hints_and_is_never_in_zone() -> None:
    """A third of the CPU has no zone: its traffic is sent to all endpoints, also to those without a zone."""
    demand = compute_demand(nodes(("n1", "a", 1), ("n2", "b", 1), ("n3", None, 1)))
    traffic = predicted(*some(1, "a", to="a"), *some(1, "b", to="b", block=1), demand=demand)
    assert traffic.load == loads(0.5, 0.5)
    assert traffic.in_zone == pytest.approx(2 / 3)
    assert traffic.zones[""].demand == pytest.approx(1 / 3)


@pytest.mark.parametrize("nowhere", [None, ""])
def test_without_zones_of_nodes_or_of_endpoints_nobody_knows_what_stays_in_its_zone(nowhere: str | None) -> None:
    labelled = compute_demand(nodes(("n1", "a", 1), ("n2", "b", 1)))
    traffic = predicted(*some(2, nowhere), demand=labelled)
    assert (traffic.in_zone, traffic.zones["a"].in_zone) == (None, None)
    assert (traffic.max_overload, traffic.served) == (0.0, 1.0)
    bare = compute_demand(nodes(("n1", None, 1), ("n2", None, 1)))
    traffic = predicted(*some(2, "a"), demand=bare)
    assert (traffic.in_zone, traffic.zones[""].in_zone) == (None, None)
    # Of nothing, nothing stays, where it is known where it starts.
    assert (predicted(demand=labelled).in_zone, predicted(demand=bare).in_zone) == (0.0, None)


def test_an_endpoint_with_a_zone_beside_others_is_enough_to_know() -> None:
    """Half of the half that starts in a."""
    assert predicted(*some(1, "a"), *some(1, None, block=1)).in_zone == 0.25


@pytest.mark.parametrize("endpoints", [[], [an_endpoint(ready=False)]], ids=["none", "none ready"])
def test_without_usable_endpoints_everything_is_dropped(endpoints: list[Endpoint]) -> None:
    traffic = predicted(*endpoints)
    assert (traffic.served, traffic.dropped, traffic.in_zone) == (0.0, 1.0, 0.0)
    assert (traffic.max_overload, traffic.mean_overload) == (0.0, 0.0)
    assert traffic.zones["a"].overload is None


@pytest.mark.parametrize(
    "demand", [demand_in(), compute_demand([a_node("n1", ready=False)])], ids=["no nodes", "none ready"]
)
def test_without_demand_nothing_can_be_predicted(demand: Demand) -> None:
    assert predict_traffic([an_endpoint()], readings=[SliceReading(demand, ALL_HINTS)], policies=CLUSTER) is None


# --- measured ---------------------------------------------------------------------------------------------------------


START = datetime(2026, 3, 1, tzinfo=UTC)


def counted(
    node: str,
    zone: str | None,
    to: Mapping[str, int],
    *,
    external: Mapping[str, int] | None = None,
    since: datetime = START,
    hours: int = 1,
    complete: bool = True,
) -> MeasuredTraffic:
    service = ServiceTraffic(
        namespace="shop", service="cart", address_type="IPv4", zones=dict(to), external=dict(external or {})
    )
    until = since + timedelta(hours=hours)
    return MeasuredTraffic(node=node, zone=zone, since=since, until=until, services=(service,), complete=complete)


def together(*documents: MeasuredTraffic) -> tuple[TrafficMeasurements, ServiceMeasurement]:
    measurements = combine_measurements(documents)
    assert measurements is not None
    cart = measurements.of("shop", "cart", "IPv4")
    assert cart is not None
    return measurements, cart


def test_the_share_is_of_connections_whichever_zone_they_come_from() -> None:
    _, cart = together(counted("n1", "a", {"a": 90, "b": 10}), counted("n2", "b", {"a": 5, "b": 5}))
    assert (cart.connections, cart.share) == (110, 95 / 110)
    assert {zone: measured.share for zone, measured in cart.zones.items()} == {"a": 0.9, "b": 0.5}


def test_of_one_life_of_a_proxy_the_last_document_counts_and_several_lives_add_up() -> None:
    early, late = counted("n1", "a", {"a": 1}), counted("n1", "a", {"a": 10}, hours=2)
    other = counted("n1", "a", {"a": 100}, since=START + timedelta(days=1))
    for order in ((early, late, other), (other, late, early)):
        assert together(*order)[1].connections == 110


def test_what_started_is_of_the_same_time_on_all_nodes() -> None:
    _, cart = together(counted("n1", "a", {"a": 40}, hours=4), counted("n2", "b", {"a": 10}))
    assert {zone: measured.started for zone, measured in cart.zones.items()} == {"a": 40, "b": 40}
    _, timeless = together(counted("n1", "a", {"a": 40}, hours=0), counted("n2", "b", {"a": 10}, hours=0))
    assert {zone: measured.started for zone, measured in timeless.zones.items()} == {"a": 40, "b": 10}


def test_what_stays_in_its_zone_is_unknown_of_nodes_without_one_and_nothing_stays_with_endpoints_without_one() -> None:
    _, cart = together(counted("n1", None, {"": 3, "a": 4}), counted("n2", "a", {"": 5, "a": 5}))
    assert (cart.connections, cart.from_known_zones, cart.share) == (17, 10, 5 / 10)
    assert {zone: measured.share for zone, measured in cart.zones.items()} == {"": None, "a": 0.5}
    _, unknown = together(counted("n1", None, {"": 3, "a": 4}))
    assert (unknown.connections, unknown.share) == (7, None)


def test_external_connections_are_in_no_share() -> None:
    _, cart = together(counted("n1", "a", {"a": 1}, external={"b": 50, "a": 2}))
    assert (cart.connections, cart.share, cart.external) == (1, 1.0, 52)


def test_what_was_not_counted_is_told() -> None:
    measurements, _ = together(counted("n1", "a", {}, complete=False), counted("n2", "b", {}))
    assert measurements.missing(["a", "b", "c"]) == ("c",)
    assert measurements.incomplete == {"n1"}
    assert measurements.of("shop", "cart", "IPv6") is None
    assert combine_measurements([]) is None


def test_a_prediction_is_made_for_traffic_that_starts_as_it_did() -> None:
    _, cart = together(counted("n1", "a", {"a": 30}), counted("n2", "b", {"a": 10}), counted("n3", "x", {"x": 7}))
    zones = {
        "a": ExpectedZoneTraffic(0.5, 2, 2, 1.0, 0.0, in_zone=1.0),
        "b": ExpectedZoneTraffic(0.5, 0, 2, 1.0, 0.0, in_zone=0.0),
        "c": ExpectedZoneTraffic(0.0, 0, 0, 0.0, None),
    }
    traffic = ExpectedTraffic(zones, (), 0.5, 1.0, 0.0, 0.0, 0.0)
    assert predicted_in_zone_share(cart, traffic) == pytest.approx(0.75)
    _, elsewhere = together(counted("n3", "x", {"x": 7}))
    assert predicted_in_zone_share(elsewhere, traffic) is None
