"""Documents of nodes as amounts a month from zone to zone."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import msgspec
import pytest
from tests.builders.structs import a_node, nodes_in

from zoneward.advice.measured_flows import HOURS_IN_MONTH, Flow, MeasuredFlows, measure_flows
from zoneward.kube.demand import MeasuredTraffic, ServiceTraffic, TrafficBytes
from zoneward.routing.demand import compute_demand

START = datetime(2026, 3, 1, tzinfo=UTC)
CART = ("shop", "cart", "IPv4")


def sent(
    connections: Mapping[str, int], sizes: Mapping[str, tuple[int, int]] | None = None, family: str = "IPv4"
) -> ServiceTraffic:
    return ServiceTraffic(
        namespace="shop",
        service="cart",
        address_type="IPv6" if family == "IPv6" else "IPv4",
        zones=dict(connections),
        bytes=msgspec.UNSET if sizes is None else {zone: TrafficBytes(*size) for zone, size in sizes.items()},
    )


def of_node(
    node: str, zone: str | None, *services: ServiceTraffic, since: datetime = START, hours: float = 73
) -> MeasuredTraffic:
    until = since + timedelta(hours=hours)
    return MeasuredTraffic(node=node, zone=zone, since=since, until=until, services=services)


def together(*documents: MeasuredTraffic) -> MeasuredFlows:
    flows = measure_flows(documents)
    assert flows is not None
    return flows


def test_bytes_are_scaled_to_a_month_of_730_hours() -> None:
    flows = together(of_node("n1", "a", sent({"a": 5, "b": 3}, {"a": (10, 100), "b": (20, 200)})))
    assert HOURS_IN_MONTH == 730
    assert flows.has_bytes
    assert flows.services[CART].flows == {("a", "a"): Flow(5, 100.0, 1000.0), ("a", "b"): Flow(3, 200.0, 2000.0)}
    assert (flows.shortest, flows.longest) == (73.0, 73.0)


def test_documents_of_one_node_are_one_after_the_other() -> None:
    later = START + timedelta(hours=73)
    flows = together(
        of_node("n1", "a", sent({"b": 1}, {"b": (10, 0)})),
        of_node("n1", "a", sent({"b": 2}, {"b": (30, 0)}), since=later),
    )
    assert flows.services[CART].flows == {("a", "b"): Flow(3, 200.0, 0.0)}
    assert flows.connections[CART] == {"n1": {"b": 3}}


def test_the_latest_document_has_the_zone_of_a_node_in_any_order() -> None:
    first, second = (
        of_node("n1", zone, sent({"b": 1}), since=START + timedelta(hours=hours))
        for zone, hours in ((None, 0), ("a", 73))
    )
    assert together(first, second).zone_of == together(second, first).zone_of == {"n1": "a"}


def test_nodes_that_count_no_bytes_are_in_no_amount_beside_others_that_do() -> None:
    flows = together(of_node("n1", "a", sent({"b": 1}, {"b": (10, 0)})), of_node("n2", "a", sent({"b": 7})))
    assert flows.without_bytes == {"n2"}
    assert flows.services[CART].flows[("a", "b")].connections == 1
    assert flows.connections[CART] == {"n1": {"b": 1}, "n2": {"b": 7}}, "where these went does not depend on bytes"
    alone = together(of_node("n2", "a", sent({"b": 7})))
    assert (alone.has_bytes, alone.without_bytes) == (False, frozenset())
    assert alone.services[CART].flows == {("a", "b"): Flow(7, 70.0, 0.0)}


def test_the_size_of_a_connection_is_that_of_its_zone_and_elsewhere_the_mean() -> None:
    sizes = together(
        of_node("n1", "a", sent({"a": 30}, {"a": (10, 20)}), sent({"b": 10}, {"b": (50, 0)}, family="IPv6")),
        of_node("n2", "b", sent({"b": 10}, {"b": (20, 100)})),
    ).sizes_of(("shop", "cart"))
    assert (sizes["a"], sizes["b"], sizes["c"]) == pytest.approx((20, 120, 40))
    connections = together(of_node("n1", "a", sent({"a": 30})), of_node("n2", "b", sent({"b": 5}), hours=36.5))
    sizes = connections.sizes_of(("shop", "cart"))
    assert sizes["a"] == sizes["b"] == sizes["c"]
    assert connections.sizes_of(("shop", "other"))["a"] == 0


def test_a_document_of_no_time_is_named_and_left_out() -> None:
    flows = together(of_node("n1", "a", sent({"b": 1}, {"b": (10, 0)}), hours=0))
    assert flows.timeless == {"n1"}
    assert not flows.services
    assert flows.connections[CART] == {"n1": {"b": 1}}
    assert together(of_node("n1", "a", sent({"b": 1}), hours=-1)).timeless == {"n1"}
    assert measure_flows(()) is None


NODES = nodes_in({"a": 4, "b": 2})
DEMAND = compute_demand(NODES)
KEY = ("shop", "cart")


def test_demand_is_where_connections_start_in_all_families() -> None:
    flows = together(
        of_node("node-a", "a", sent({"a": 5, "b": 3}), sent({"b": 2}, family="IPv6")),
        of_node("node-b", "b", sent({"a": 4})),
        of_node("node-x", None, sent({"a": 9})),
    )
    assert flows.demand_parts(DEMAND) == {KEY: {"a": Fraction(10), "b": Fraction(4)}}
    # Connections that are older than the count have bytes alone.
    old = together(of_node("node-a", "a", sent({}, {"b": (10, 0)})), of_node("node-b", "b", sent({"a": 4}, {})))
    assert old.demand_parts(DEMAND) == {KEY: {"a": Fraction(1), "b": Fraction(4)}}


def test_demand_is_also_that_of_nodes_that_count_no_bytes() -> None:
    """Their connections load endpoints as those of others do."""
    flows = together(
        of_node("node-a", "a", sent({"a": 10}, {"a": (10, 0)})),
        of_node("node-b", "b", sent({"a": 60}), hours=146),
    )
    assert flows.demand_parts(DEMAND) == {KEY: {"a": Fraction(20), "b": Fraction(60)}}
    assert flows.sizes_of(KEY)["a"] == flows.sizes_of(KEY)["b"], "of which nobody knows"
    assert flows.longest == 73


def test_demand_is_of_the_same_time_on_all_nodes() -> None:
    """A node that joined an hour ago sends as much as the others."""
    flows = together(
        of_node("node-a", "a", sent({"a": 5000}), hours=100),
        of_node("node-a", "a", sent({"a": 5000}), since=START + timedelta(hours=100), hours=100),
        of_node("node-b", "b", sent({"a": 50}), hours=1),
    )
    assert flows.demand_parts(DEMAND) == {KEY: {"a": Fraction(10_000), "b": Fraction(10_000)}}


def test_what_was_not_measured_is_expected_to_be_like_the_rest() -> None:
    """One of two nodes in a, and nothing in b, which has half the CPU."""
    more = compute_demand([*NODES, a_node("node-a2", "a", cpu=4)])
    flows = together(of_node("node-a", "a", sent({"a": 5, "b": 3})))
    assert flows.demand_parts(more) == {KEY: {"a": Fraction(16), "b": Fraction(4)}}
