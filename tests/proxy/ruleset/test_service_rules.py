"""What one Service adds to a table: its entries, its parts, and its slots.

Slots change as little as possible, and weights are correct within 1 %.
"""

import tracemalloc
from collections import Counter
from dataclasses import replace
from time import process_time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builders import structs
from tests.builders.structs import an_endpoint
from tests.proxy.drawn_services import node_service, one_port, services

from zoneward.kube import names
from zoneward.kube.objects import EndpointPort, ServicePort
from zoneward.netlink.messages import FAMILIES
from zoneward.proxy.model.node_service import Backend, NodeService, ProxyNode
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.proxy.ruleset.ruleset import ServiceRuleset
from zoneward.proxy.ruleset.service_rules import (
    ServiceParts,
    ServiceTooLarge,
    assign_slots,
    check_requested_entries,
    count_entries,
    keep_endpoints,
    next_parts,
    node_services_within,
    place_in_slots,
    service_rules,
    slots_per_endpoint,
)
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import ZONEWARD, SelectionRule

_ENDPOINTS = st.lists(st.integers(0, 20), max_size=30)


@given(_ENDPOINTS, _ENDPOINTS)
def test_slots_hold_what_is_wanted(wanted: list[int], before: list[int]) -> None:
    assert Counter(place_in_slots(wanted, before)) == Counter(wanted)


@given(st.lists(st.integers(0, 1000), unique=True, min_size=1, max_size=60), st.data())
def test_a_deleted_endpoint_changes_at_most_one_other_slot(before: list[int], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(before))
    after = place_in_slots([endpoint for endpoint in before if endpoint != gone], before)
    assert sum(one != other for one, other in zip(before, after, strict=False)) <= 1


@given(st.lists(st.integers(0, 1000), unique=True, max_size=60))
def test_an_added_endpoint_changes_no_slot(before: list[int]) -> None:
    assert place_in_slots([*before, -1], before) == (*before, -1)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [((), ()), ((2.0,), (1,)), ((1.0, 1.0, 1.0), (1, 1, 1)), ((0.5, 1.0), (1, 2)), ((0.75, 0.25), (3, 1))],
)
def test_as_few_slots_as_will_do(weights: tuple[float, ...], expected: tuple[int, ...]) -> None:
    assert slots_per_endpoint(weights) == expected


@given(st.lists(st.floats(0.2, 5), min_size=1, max_size=8))
def test_shares_are_within_one_percent(weights: list[float]) -> None:
    slots = slots_per_endpoint(tuple(weights))
    for count, weight in zip(slots, weights, strict=True):
        assert abs(count / sum(slots) / (weight / sum(weights)) - 1) <= 0.010001


def test_many_weights_take_little_time_and_many_endpoints_no_memory() -> None:
    """Anyone who may write slices chooses both, and other Services wait meanwhile."""
    began = process_time()
    assert min(slots_per_endpoint(tuple(1.0 + index / 7 for index in range(600)))) >= 1
    assert process_time() - began < 5
    tracemalloc.start()
    for index in range(300):
        slots_per_endpoint((0.25,) * index + (0.75,) * (5000 - index))
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert current < 2 << 20


def a_service(ports: int, *, endpoints: int = 2, **about: Any) -> NodeService:
    targets = tuple(Backend(f"10.1.0.{host}", 8080) for host in range(1, endpoints + 1))
    return node_service(*(one_port(*targets, name=f"p{port}", port=port) for port in range(1, ports + 1)), **about)


def test_entries_are_addresses_and_endpoints_of_each_port() -> None:
    one = a_service(1)
    assert count_entries(one) == 1 + 1 + 2
    outer = a_service(3, endpoints=5, external_ips=("198.51.100.1",), load_balancer_ips=("203.0.113.1",))
    assert count_entries(outer) == 1 + 3 * (3 + 5)
    more: dict[int, dict[str, Any]] = {
        1: {"node_port": 30_000},
        2: {"weights": (1.0, 3.0)},
        40: {"affinity_seconds": 60},
    }
    for extra, fields in more.items():
        assert count_entries(replace(one, ports=(replace(one.ports[0], **fields),))) == count_entries(one) + extra


def test_source_ranges_are_entries() -> None:
    ranges = ("10.0.0.0/8", "192.0.2.0/24", "198.51.100.0/24")
    outer = a_service(3, load_balancer_ips=("203.0.113.1",))
    assert count_entries(replace(outer, source_ranges=ranges)) == count_entries(outer) + 3 + 3


def test_addresses_and_source_ranges_are_counted_before_they_are_parsed() -> None:
    service = structs.a_service(
        ports=[ServicePort(name=name, port=80) for name in "ab"],
        external_ips=("192.0.2.1", "garbage", "2001:db8::1"),
        load_balancer_source_ranges=("10.0.0.0/8", "fd00::/8", " "),
    )
    check_requested_entries(service, (), most=6)
    with pytest.raises(ServiceTooLarge, match="come to 6 entries in IPv4, expected at most 5"):
        check_requested_entries(service, (), most=5)


def way(parts: ServiceParts, wanted: ServiceParts, *, most: int) -> list[ServiceParts]:
    steps = []
    while parts != wanted:
        parts = next_parts(parts, wanted, most=most)
        steps.append(parts)
        assert len(steps) < 100
    return steps


def test_a_large_service_comes_changes_and_goes_some_ports_at_a_time() -> None:
    new = a_service(10)
    assert [sum(len(part.ports) for part in parts) for parts in way((), (new,), most=8)] == [2, 4, 6, 8, 10]
    other = replace(new, external_ips=("198.51.100.1",))
    steps = way((new,), (other,), most=8)
    assert [sum(len(part.ports) for part in parts if part.external_ips) for parts in steps] == [2, 4, 6, 8, 10]
    assert all(sum(len(part.ports) for part in parts) == 10 for parts in steps)
    assert [sum(len(part.ports) for part in parts) for parts in way((new,), (), most=8)] == [8, 6, 4, 2, 0]


def test_a_large_service_of_which_little_changes_takes_one_step() -> None:
    old = a_service(10)
    gone = Backend("10.1.0.1", 8080)
    new = replace(
        old,
        ports=tuple(
            replace(port, cluster_endpoints=tuple(endpoint for endpoint in port.cluster_endpoints if endpoint != gone))
            for port in old.ports
        ),
    )
    assert way((old,), (new,), most=20) == [(new,)]
    assert len(way((old,), (new,), most=5)) == 2


@given(old=st.none() | services("ip", name="1"), new=st.none() | services("ip", name="1"), most=st.integers(1, 30))
def test_every_way_ends_where_it_should(old: NodeService | None, new: NodeService | None, most: int) -> None:
    current, wanted = (() if service is None else (service,) for service in (old, new))
    assert way(current, wanted, most=most)[-1:] in ([], [wanted])


@pytest.mark.parametrize(
    ("most", "rule", "expected"),
    [
        (200, SelectionRule.ZONE_WEIGHTS, []),
        (50, SelectionRule.ALL, ["weights of zones take too many entries (--max-service-entries)"]),
    ],
)
def test_where_weights_of_zones_take_too_many_slots_the_service_is_served_without(
    most: int, rule: SelectionRule, expected: list[str]
) -> None:
    text = '{"counts":{"a":1,"b":1},"shares":{"a":{"a":0.99,"b":0.01}}}'
    endpoints = [an_endpoint(f"10.0.0.{host}", zone) for host, zone in enumerate("ab", start=1)]
    slice_ = structs.a_slice(
        "x",
        *endpoints,
        ports=(EndpointPort(name="http", port=8080),),
        annotations={names.ZONE_WEIGHTS_ANNOTATION: text},
    )
    left_out: list[str] = []
    served = node_services_within(
        most,
        structs.a_service(ports=(ServicePort(name="http", port=80),)),
        [slice_],
        node=ProxyNode(name="n1", zone="a"),
        consumer=ZONEWARD,
        gates=FeatureGates(),
        service_ranges=(),
        left_out=left_out.append,
    )
    (port,) = served["ip"].ports
    assert (port.selection_rule, len(port.cluster_endpoints), left_out) == (rule, 2, expected)


def test_endpoints_are_counted_for_each_port_that_their_slice_has() -> None:
    addresses = [f"10.0.0.{index}" for index in range(5)]
    ports = [EndpointPort(name=f"p{index}", protocol="TCP", port=80) for index in range(4)]
    service = structs.a_service(ports=[ServicePort(name=port.name or "", port=80) for port in ports])
    slices = [structs.a_slice("one", *map(structs.an_endpoint, addresses), ports=ports)]
    check_requested_entries(service, slices, most=20)
    expected = r"20 entries in IPv4, expected at most 19 \(--max-service-entries\)"
    with pytest.raises(ServiceTooLarge, match=expected) as error:
        check_requested_entries(service, slices, most=19)
    assert error.value.addresses == set(addresses)
    slices = [structs.a_slice("one", *map(structs.an_endpoint, addresses), ports=ports[:1])]
    check_requested_entries(service, slices, most=5)


def test_endpoints_that_are_gone_are_taken_away_with_their_weights() -> None:
    one, two = Backend("10.1.0.1", 8080), Backend("10.1.0.2", 8080)
    port = one_port(one, two, protocol="udp", weights=(1.0, 3.0), local_endpoints=(one,), serving_endpoints=(one, two))
    (left,) = keep_endpoints(replace(a_service(1), ports=(port,)), {"10.1.0.2"}).ports
    assert left == replace(port, cluster_endpoints=(two,), weights=(3.0,), local_endpoints=(), serving_endpoints=(two,))


HERE, THERE = Backend("10.1.0.1", 8080, is_local=True), Backend("10.2.0.1", 8080)


def a_portion(
    *,
    cluster: tuple[Backend, ...] = (HERE, THERE),
    local: tuple[Backend, ...] = (),
    own: str | None = None,
    **about: Any,
) -> ServiceRuleset:
    """The rules of a Service with one port, and with an external address by default."""
    names = ("node_port", "affinity_seconds", "has_any_endpoints", "weights")
    given = {"has_any_endpoints": bool(cluster or local)} | {name: about.pop(name) for name in names if name in about}
    port = one_port(*cluster, local_endpoints=local, **given)
    served = node_service(port, name="cart", **{"external_ips": ("198.51.100.1",)} | about)
    options = RulesetOptions(node_ips=None if own is None else {"ip": own})
    return service_rules((served,), assign_slots((served,), {}), options)


INNER, OUTER, NODE = "10.96.0.1 . tcp . 80", "198.51.100.1 . tcp . 80", "tcp . 30080"


def test_a_further_address_takes_as_much_with_a_hundred_endpoints_as_with_one() -> None:
    def size(addresses: int, endpoints: int) -> int:
        external = tuple(f"198.51.100.{host}" for host in range(1, addresses + 1))
        cluster = tuple(Backend(f"10.1.0.{host}", 8080) for host in range(1, endpoints + 1))
        return sum(map(len, a_portion(external_ips=external, cluster=cluster).elements.values()))

    assert size(200, 100) - size(100, 100) == size(200, 1) - size(100, 1) == 200
    assert size(200, 100) - size(200, 1) == 99


def test_nobody_is_served_without_endpoints_or_from_outside_of_the_source_ranges() -> None:
    assert a_portion(cluster=()).elements["refused"] == {INNER: "goto nobody", OUTER: "goto nobody"}
    (guard,) = a_portion(load_balancer_ips=("203.0.113.1",), source_ranges=("192.0.2.0/24",)).chains.values()
    assert guard.rules == ("ip saddr != { 192.0.2.0/24 } drop",)


def test_the_external_policy_local_parts_inside_and_outside() -> None:
    elements = a_portion(local=(HERE,), external_policy_local=True, node_port=30_080).elements
    assert elements["services"] == {INNER: "goto c-2", OUTER: "goto external-local"}
    assert (elements["inside"], elements["outside"]) == ({OUTER: "goto to-cluster"}, {OUTER: "goto to-local"})
    assert elements["node-ports"] == {NODE: "goto node-external-local"}
    assert (elements["node-inside"], elements["node-outside"]) == (
        {NODE: "goto node-to-cluster"},
        {NODE: "goto node-to-local"},
    )
    assert (elements["policy-cluster"], elements["policy-local"]) == ({INNER: "goto c-2"}, {INNER: "goto l-1"})
    assert elements["local-endpoints"] == {f"{INNER} . 0": "10.1.0.1 . 8080"}
    assert "refused" not in elements


def test_the_policies_local_drop_where_others_have_endpoints() -> None:
    elements = a_portion(external_policy_local=True, internal_policy_local=True, node_port=30_080).elements
    assert elements["refused"] == {INNER: "drop", OUTER: "drop"}
    assert elements["node-refused"] == {NODE: "drop"}
    # Traffic from this node is still served.
    assert (elements["services"], elements["inside"]) == ({OUTER: "goto external-local"}, {OUTER: "goto to-cluster"})
    assert "outside" not in elements


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_address_leads_somewhere_or_is_refused(family: Any, data: st.DataObject) -> None:
    """Every slot that a rule can choose has an endpoint."""
    served = data.draw(services(family, name="1"))
    ruleset = service_rules((served,), assign_slots((served,), {}), RulesetOptions())
    addresses = (served.cluster_ip, *served.external_ips, *served.load_balancer_ips)
    elements = ruleset.elements
    for port in served.ports:
        inner = f"{served.cluster_ip} . {port.protocol} . {port.port}"
        keys = [("services", "refused", f"{address} . {port.protocol} . {port.port}") for address in addresses]
        # An API server gives no node port to two ports.
        if port.node_port is not None and port.node_port not in {
            other.node_port for other in served.ports if other is not port
        }:
            keys.append(("node-ports", "node-refused", f"{port.protocol} . {port.node_port}"))
        for leading, refused, key in keys:
            prefix = "node-" if leading == "node-ports" else ""
            verdict = elements.get(leading, {}).get(key)
            assert verdict is not None or key in elements[refused]
            if verdict is None or key == inner:
                continue
            led = [verdict]
            if verdict.endswith("external-local"):
                led = [
                    verdict for name in ("inside", "outside") if (verdict := elements.get(prefix + name, {}).get(key))
                ]
            for target in led:
                assert elements[f"{prefix}to-cluster-ip"][key] == served.cluster_ip
                assert not prefix or elements["node-to-port"][key] == str(port.port)
                assert elements[f"policy-{target.rpartition('-')[2]}"][inner]
    for name in ("services", "policy-cluster", "policy-local"):
        for key, verdict in elements.get(name, {}).items():
            kind, _, count = verdict.removeprefix("goto ").partition("-")
            if kind in ("c", "l"):
                assert verdict.removeprefix("goto ") in ruleset.shared_chains
                slots = "local-endpoints" if kind == "l" else "endpoints"
                assert {f"{key} . {slot}" for slot in range(int(count))} <= elements[slots].keys()
