"""What a node serves of a Service: its addresses in each family, and the policies beside whom it selects."""

from collections.abc import Sequence
from typing import Any

import pytest

from zoneward.kube import names
from zoneward.kube.objects import (
    ClientIPConfig,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    LoadBalancerIngress,
    LoadBalancerStatus,
    ObjectMeta,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
    SessionAffinityConfig,
)
from zoneward.proxy.model.node_service import Backend, NodeService, ProxyNode, node_services
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import ZONEWARD, SelectionRule

HTTP = ServicePort(name="http", port=80, node_port=30_080)
HTTPS = ServicePort(name="https", port=443)


def a_service(*, ingress: Sequence[LoadBalancerIngress] = (), **spec: Any) -> Service:
    defaults: dict[str, Any] = {"type": "ClusterIP", "cluster_ip": "10.96.0.1", "ports": (HTTP,)}
    status = ServiceStatus(load_balancer=LoadBalancerStatus(ingress=tuple(ingress)))
    return Service(
        metadata=ObjectMeta(namespace="shop", name="cart"), spec=ServiceSpec(**(defaults | spec)), status=status
    )


def an_endpoint(address: str, *, node: str = "n1", ready: bool = True) -> Endpoint:
    return Endpoint(addresses=(address,), node_name=node, conditions=EndpointConditions(ready=ready))


def a_slice(
    *endpoints: Endpoint,
    port: str = "http",
    address_type: str = "IPv4",
    zone: str | None = None,
    zones: str | None = None,
) -> EndpointSlice:
    metadata = ObjectMeta(
        name=f"{port}-{zone}-{zones}",
        labels={names.ZONE_LABEL: zone} if zone else {},
        annotations={names.ZONES_ANNOTATION: zones} if zones else {},
    )
    return EndpointSlice(
        metadata=metadata, address_type=address_type, endpoints=endpoints, ports=(EndpointPort(name=port, port=8080),)
    )


def in_families(service: Service, *slices: EndpointSlice, zone: str | None = "a") -> dict[str, NodeService]:
    node = ProxyNode(name="n1", zone=zone)
    return {
        each.family: each for each in node_services(service, slices, node=node, consumer=ZONEWARD, gates=FeatureGates())
    }


def in_v4(service: Service, *slices: EndpointSlice) -> NodeService:
    return in_families(service, *slices)["ip"]


@pytest.mark.parametrize(
    "spec", [{"cluster_ip": "None"}, {"cluster_ip": None}, {"cluster_ip": ""}, {"type": "ExternalName"}]
)
def test_headless_services_and_names_are_left_to_dns(spec: dict[str, Any]) -> None:
    assert in_families(a_service(**spec)) == {}


def test_a_service_is_served_in_each_of_its_families_by_endpoints_of_that_one() -> None:
    service = a_service(cluster_ips=("10.96.0.1", "fd96::1"), external_ips=("198.51.100.1", "2001:db8::1"))
    found = in_families(
        service, a_slice(an_endpoint("10.0.0.1")), a_slice(an_endpoint("fd00::1", node="n2"), address_type="IPv6")
    )
    assert {
        family: (each.cluster_ip, each.external_ips, each.ports[0].cluster_endpoints) for family, each in found.items()
    } == {
        "ip": ("10.96.0.1", ("198.51.100.1",), (Backend("10.0.0.1", 8080, is_local=True),)),
        "ip6": ("fd96::1", ("2001:db8::1",), (Backend("fd00::1", 8080),)),
    }


def test_every_address_of_a_service_is_written_in_canonical_form() -> None:
    found = in_families(
        a_service(
            cluster_ip="FD96::0:1",
            external_ips=("2001:DB8::1", "2001:db8:0::1"),
            ingress=[LoadBalancerIngress(ip="2001:DB8::2")],
        ),
        a_slice(an_endpoint("FD00::1"), address_type="IPv6"),
    )["ip6"]
    assert (found.cluster_ip, found.external_ips, found.load_balancer_ips) == (
        "fd96::1",
        ("2001:db8::1",),
        ("2001:db8::2",),
    )
    assert found.ports[0].cluster_endpoints == (Backend("fd00::1", 8080, is_local=True),)


def test_a_load_balancers_address_that_is_a_proxys_is_left_out() -> None:
    ingress = [
        LoadBalancerIngress(ip="203.0.113.1"),
        LoadBalancerIngress(ip="203.0.113.2", ip_mode="Proxy"),
        LoadBalancerIngress(ip="203.0.113.3", ip_mode="VIP"),
        LoadBalancerIngress(),
    ]
    assert in_v4(a_service(type="LoadBalancer", ingress=ingress)).load_balancer_ips == ("203.0.113.1", "203.0.113.3")


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ((), ()),
        ((" 10.0.0.0/8 ", "10.0.0.7/8", "fd00::/8"), ("10.0.0.0/8",)),
        (("010.0.0.0/8",), ("10.0.0.0/8",)),
        (("10.0.0.0/8", "0.0.0.0/0"), ()),
        (("10.0.0.0/8", "::/0"), ("10.0.0.0/8",)),
        (("nonsense/8", "10.0.0.0/8"), ("10.0.0.0/8",)),
        (("", " "), ()),
    ],
)
def test_ranges_of_sources_are_those_of_the_family(ranges: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert in_v4(a_service(type="LoadBalancer", load_balancer_source_ranges=ranges)).source_ranges == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"type": "ClusterIP"}, False),
        ({"type": "ClusterIP", "external_ips": ("198.51.100.1",)}, True),
        ({"type": "NodePort"}, True),
        ({"type": "LoadBalancer"}, True),
    ],
)
def test_the_external_policy_counts_where_there_is_outer_traffic(spec: dict[str, Any], expected: bool) -> None:
    assert in_v4(a_service(external_traffic_policy="Local", **spec)).external_policy_local is expected


@pytest.mark.parametrize(
    ("kind", "policy", "expected"),
    [("LoadBalancer", "Local", 32_000), ("LoadBalancer", "Cluster", None), ("NodePort", "Local", None)],
)
def test_health_is_asked_of_load_balancers_with_the_policy_local(kind: str, policy: str, expected: int | None) -> None:
    service = a_service(type=kind, external_traffic_policy=policy, health_check_node_port=32_000)
    assert in_v4(service).health_check_port == expected


def test_healthy_are_the_addresses_on_this_node_over_all_ports() -> None:
    service = a_service(type="LoadBalancer", external_traffic_policy="Local", ports=(HTTP, HTTPS))
    found = in_v4(
        service,
        a_slice(an_endpoint("10.0.0.1"), an_endpoint("10.0.0.2"), an_endpoint("10.0.0.3", node="n2")),
        a_slice(an_endpoint("10.0.0.2"), an_endpoint("10.0.0.4"), an_endpoint("10.0.0.5", ready=False), port="https"),
    )
    assert found.ready_local_endpoints == 3


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, None),
        ({"session_affinity": "None"}, None),
        ({"session_affinity": "ClientIP"}, 10_800),
        (
            {
                "session_affinity": "ClientIP",
                "session_affinity_config": SessionAffinityConfig(client_ip=ClientIPConfig(timeout_seconds=7)),
            },
            7,
        ),
    ],
)
def test_affinity_has_a_time(spec: dict[str, Any], expected: int | None) -> None:
    assert in_v4(a_service(**spec)).ports[0].affinity_seconds == expected


def test_a_port_is_served_by_endpoints_of_its_own_name_and_protocol() -> None:
    names_ = ServicePort(name="http", protocol="UDP", port=53)
    found = in_v4(
        a_service(ports=(HTTP, HTTPS, names_)),
        a_slice(an_endpoint("10.0.0.1")),
        a_slice(an_endpoint("10.0.0.2"), port="https"),
    )
    assert [[each.address for each in port.cluster_endpoints] for port in found.ports] == [
        ["10.0.0.1"],
        ["10.0.0.2"],
        [],
    ]
    assert [port.has_any_endpoints for port in found.ports] == [True, True, False]


def test_weights_are_those_of_the_nodes_zone() -> None:
    slices = (
        a_slice(an_endpoint("10.0.0.1"), zone="a", zones="a=1,b=0.5"),
        a_slice(an_endpoint("10.0.0.2"), zone="b", zones="a=0.25,b=1"),
        a_slice(an_endpoint("10.0.0.3"), zone="b"),
    )
    (port,) = in_v4(a_service(), *slices).ports
    weights = port.weights or ()
    assert dict(zip((each.address for each in port.cluster_endpoints), weights, strict=True)) == {
        "10.0.0.1": 1,
        "10.0.0.2": 0.25,
    }
    assert port.selection_rule is SelectionRule.ZONE_SLICES


def test_a_node_without_a_zone_uses_all_endpoints() -> None:
    slices = (a_slice(an_endpoint("10.0.0.1"), zone="a"), a_slice(an_endpoint("10.0.0.2"), zone="b"))
    (port,) = in_families(a_service(), *slices, zone=None)["ip"].ports
    assert len(port.cluster_endpoints) == 2
    assert port.weights is None


# --- what is left out -------------------------------------------------------------------------------------------------


def left_out(service: Service, *slices: EndpointSlice) -> tuple[dict[str, NodeService], list[str]]:
    """What is served, and what is not, each once."""
    told: dict[str, None] = {}
    node = ProxyNode(name="n1", zone="a")
    every = node_services(
        service, slices, node=node, consumer=ZONEWARD, gates=FeatureGates(), left_out=lambda what: told.setdefault(what)
    )
    return {each.family: each for each in every}, list(told)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "224.0.0.1",
        "0.0.0.0",
        "::1",
        "fe80::1",
        "ff02::1",
        "::",
    ],
)
def test_a_special_address_is_not_programmed_as_an_external_one_and_the_rest_is(address: str) -> None:
    service = a_service(
        type="LoadBalancer",
        cluster_ips=("10.96.0.1", "fd96::1"),
        external_ips=(address, "192.0.2.1"),
        ingress=[LoadBalancerIngress(ip=address), LoadBalancerIngress(ip="192.0.2.2")],
    )
    found, told = left_out(service, a_slice(an_endpoint("10.0.0.1")))
    assert {family: (each.external_ips, each.load_balancer_ips) for family, each in found.items()} == {
        "ip": (("192.0.2.1",), ("192.0.2.2",)),
        "ip6": ((), ()),
    }
    assert [each.partition(" IP ")[0] for each in told] == ["external", "load balancer"]
    assert all(each.endswith((" is loopback", " is link-local", " is multicast", " is unspecified")) for each in told)


def test_external_addresses_in_the_range_of_cluster_ips_are_left_out() -> None:
    """Who has one is not known where others' Services are not served."""
    told: list[str] = []
    service = a_service(external_ips=("10.96.0.10", "192.0.2.1"), ingress=[LoadBalancerIngress(ip="fd96::a")])
    (found,) = node_services(
        service,
        (),
        node=ProxyNode(name="n1", zone="a"),
        consumer=ZONEWARD,
        gates=FeatureGates(),
        service_ranges=("10.96.0.0/12", "fd96::/108"),
        left_out=told.append,
    )
    assert (found.external_ips, found.load_balancer_ips) == (("192.0.2.1",), ())
    assert told == [
        "external IP 10.96.0.10 is in the range of cluster IPs",
        "load balancer IP fd96::a is in the range of cluster IPs",
    ]


def test_invalid_addresses_are_left_out_and_reported_in_one_line_each() -> None:
    hostile = "192.0.2.9 }\nadd table inet X"
    service = a_service(
        cluster_ips=(hostile, "10.96.0.1"),
        external_ips=(hostile, "192.0.2.1"),
        ingress=[LoadBalancerIngress(ip=hostile)],
    )
    found, told = left_out(service, a_slice(an_endpoint(hostile), an_endpoint("fd00::1"), an_endpoint("10.0.0.1")))
    assert (found["ip"].cluster_ip, found["ip"].external_ips) == ("10.96.0.1", ("192.0.2.1",))
    assert found["ip"].ports[0].cluster_endpoints == (Backend("10.0.0.1", 8080, is_local=True),)
    assert [each.partition("'")[0] for each in told] == [
        "cluster IP ",
        "external IP ",
        "load balancer IP ",
        "endpoint ",
        "endpoint ",
    ]
    assert all(each.isprintable() for each in told)


def test_an_endpoint_that_is_no_address_does_not_keep_others_from_being_chosen() -> None:
    found, _ = left_out(a_service(), a_slice(an_endpoint("garbage")), a_slice(an_endpoint("10.0.0.1", ready=False)))
    assert not found["ip"].ports[0].has_any_endpoints


@pytest.mark.parametrize(
    "port",
    [
        ServicePort(name="a", protocol="TCP }\nadd table inet X", port=80),
        ServicePort(name="a", protocol="tcp", port=80),
        ServicePort(name="a", port=0),
        ServicePort(name="a", port=65_536),
        ServicePort(name="a", port=10**5000),
    ],
)
def test_an_invalid_port_is_left_out_and_the_others_are_served(port: ServicePort) -> None:
    found, told = left_out(a_service(ports=(port, HTTP)))
    assert [each.name for each in found["ip"].ports] == ["http"]
    assert len(told) == 1
    assert told[0].startswith("port 'a': ")


def test_an_invalid_node_port_or_health_check_port_is_left_out() -> None:
    service = a_service(
        type="LoadBalancer",
        external_traffic_policy="Local",
        health_check_node_port=-1,
        ports=(ServicePort(name="http", port=80, node_port=70_000),),
    )
    found, told = left_out(service)
    assert (found["ip"].ports[0].node_port, found["ip"].health_check_port) == (None, None)
    assert sorted(told) == [
        "health check node port -1 is no number of a port",
        "port 'http': node port 70000 is no number of a port",
    ]


def test_a_time_of_affinity_that_no_server_takes_is_the_usual_one() -> None:
    config = SessionAffinityConfig(client_ip=ClientIPConfig(timeout_seconds=-5))
    found, told = left_out(a_service(session_affinity="ClientIP", session_affinity_config=config))
    assert found["ip"].ports[0].affinity_seconds == 10_800
    assert told == ["session affinity of -5 s is none from 1 to 86400"]


@pytest.mark.parametrize(
    ("ranges", "sources", "balancers"),
    [
        (("nonsense/8",), (), ()),
        (("10.0.0.0/8 }\nadd table inet X",), (), ()),
        (("nonsense/8", "10.0.0.0/8"), ("10.0.0.0/8",), ("192.0.2.1",)),
        (("nonsense/8", "fd00::/8"), (), ()),
        (("0.0.0.0/0", "nonsense"), (), ("192.0.2.1",)),
    ],
)
def test_a_range_that_cannot_be_read_lets_nobody_in(
    ranges: tuple[str, ...], sources: tuple[str, ...], balancers: tuple[str, ...]
) -> None:
    """Left out without more, it would let in everybody."""
    ingress = [LoadBalancerIngress(ip="192.0.2.1")]
    found, told = left_out(a_service(type="LoadBalancer", load_balancer_source_ranges=ranges, ingress=ingress))
    assert (found["ip"].source_ranges, found["ip"].load_balancer_ips) == (sources, balancers)
    assert [each.partition(" '")[0] for each in told] == ["source range"]


def test_an_address_of_ipv4_in_the_form_of_ipv6_is_one_of_ipv4() -> None:
    found, told = left_out(a_service(cluster_ips=("10.96.0.1", "fd96::1"), external_ips=("::ffff:192.0.2.1",)))
    assert (found["ip"].external_ips, found["ip6"].external_ips, told) == (("192.0.2.1",), (), [])
