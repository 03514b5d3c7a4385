"""How many entries a Service has, and how one that is too large for one transaction is programmed."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import structs
from tests.builders.structs import an_endpoint
from tests.proxy.drawn_services import node_service, one_port, services

from zoneward.kube import names
from zoneward.kube.objects import EndpointPort, ServicePort
from zoneward.proxy.model.node_service import Backend, NodeService, ProxyNode
from zoneward.proxy.ruleset.service_size import (
    ServiceParts,
    ServiceTooLarge,
    check_requested_entries,
    count_entries,
    keep_endpoints,
    next_parts,
    node_services_within,
)
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import ZONEWARD, SelectionRule


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


def way(there: ServiceParts, wanted: ServiceParts, *, most: int) -> list[ServiceParts]:
    steps = []
    while there != wanted:
        there = next_parts(there, wanted, most=most)
        steps.append(there)
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
    there, wanted = (() if service is None else (service,) for service in (old, new))
    assert way(there, wanted, most=most)[-1:] in ([], [wanted])


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
