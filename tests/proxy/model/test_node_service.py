"""What a node serves of a Service: its addresses in each family, its policies and its endpoints."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import structs
from tests.builders.structs import an_endpoint
from tests.properties.random_clusters import examples
from tests.proxy.drawn_services import key, node_service, one_port

from zoneward.kube import names
from zoneward.kube.objects import (
    ClientIPConfig,
    Endpoint,
    EndpointPort,
    EndpointSlice,
    LoadBalancerIngress,
    LoadBalancerStatus,
    Service,
    ServicePort,
    ServiceStatus,
    SessionAffinityConfig,
)
from zoneward.proxy.model.node_service import (
    Backend,
    NodeService,
    NodeServicePort,
    OwnedServices,
    ProxyNode,
    ServiceKey,
    node_services,
    resolve_ownership,
    selection_document,
)
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import ZONEWARD, SelectionRule, select_endpoints

HTTP = ServicePort(name="http", port=80, node_port=30_080)
HTTPS = ServicePort(name="https", port=443)
BOTH = ("10.96.0.1", "fd96::1")


def a_service(*, ingress: Sequence[LoadBalancerIngress | str] = (), kind: str = "ClusterIP", **spec: Any) -> Service:
    """``ingress``: the addresses of its load balancer."""
    every = tuple(LoadBalancerIngress(ip=address) if isinstance(address, str) else address for address in ingress)
    status = ServiceStatus(load_balancer=LoadBalancerStatus(ingress=every))
    return structs.a_service(type_=kind, status=status, **{"ports": (HTTP,)} | spec)


def a_slice(
    *addresses: str | Endpoint, port: str = "http", family: str = "IPv4", zone: str = "", zones: str = ""
) -> EndpointSlice:
    """``zone`` and ``zones`` are its label and annotation. Addresses are of ready endpoints on this node."""
    return structs.a_slice(
        f"{port}-{zone}-{zones}",
        *(an_endpoint(address, node="n1") if isinstance(address, str) else address for address in addresses),
        family=family,
        ports=(EndpointPort(name=port, port=8080),),
        labels={names.ZONE_LABEL: zone} if zone else {},
        annotations={names.ZONES_ANNOTATION: zones} if zones else {},
    )


def serve(
    service: Service, *slices: EndpointSlice, zone: str | None = "a", service_ranges: Sequence[str] = ()
) -> tuple[dict[str, NodeService], list[str]]:
    """What is served in each family, and what is left out, without duplicates."""
    left_out: dict[str, None] = {}
    every = node_services(
        service,
        slices,
        node=ProxyNode(name="n1", zone=zone),
        consumer=ZONEWARD,
        gates=FeatureGates(),
        service_ranges=service_ranges,
        left_out=lambda what: left_out.setdefault(what),
    )
    return {served.family: served for served in every}, list(left_out)


def in_v4(service: Service, *slices: EndpointSlice) -> NodeService:
    return serve(service, *slices)[0]["ip"]


@pytest.mark.parametrize("spec", [{"cluster_ip": "None"}, {"cluster_ip": None}, {"kind": "ExternalName"}])
def test_headless_services_and_names_are_left_to_dns(spec: dict[str, Any]) -> None:
    assert serve(a_service(**spec))[0] == {}


def test_a_service_is_served_in_each_of_its_families_with_canonical_addresses() -> None:
    service = a_service(
        cluster_ips=("10.96.0.1", "FD96::0:1"),
        external_ips=("198.51.100.1", "2001:DB8::1", "2001:db8:0::1", "::ffff:192.0.2.1"),
        ingress=["2001:DB8::2"],
    )
    served, left_out = serve(service, a_slice("10.0.0.1"), a_slice(an_endpoint("FD00::1", node="n2"), family="IPv6"))
    assert {
        family: (
            node_service.cluster_ip,
            node_service.external_ips,
            node_service.load_balancer_ips,
            node_service.ports[0].cluster_endpoints,
        )
        for family, node_service in served.items()
    } == {
        "ip": ("10.96.0.1", ("198.51.100.1", "192.0.2.1"), (), (Backend("10.0.0.1", 8080, is_local=True),)),
        "ip6": ("fd96::1", ("2001:db8::1",), ("2001:db8::2",), (Backend("fd00::1", 8080),)),
    }
    assert left_out == []


@pytest.mark.parametrize(
    ("ranges", "sources", "is_balanced"),
    [
        ((), (), True),
        ((" 10.0.0.0/8 ", "10.0.0.7/8", "fd00::/8"), ("10.0.0.0/8",), True),
        (("10.0.0.0/8", "0.0.0.0/0"), (), True),
        (("10.0.0.0/8", "::/0"), ("10.0.0.0/8",), True),
        (("", " "), (), True),
        # An invalid range admits nobody: if it were only ignored, everybody would be admitted.
        (("nonsense/8",), (), False),
        (("10.0.0.0/8 }\nadd table inet X",), (), False),
        (("nonsense/8", "10.0.0.0/8"), ("10.0.0.0/8",), True),
        (("nonsense/8", "fd00::/8"), (), False),
        (("0.0.0.0/0", "nonsense"), (), True),
    ],
)
def test_ranges_of_sources_are_those_of_the_family(
    ranges: tuple[str, ...], sources: tuple[str, ...], is_balanced: bool
) -> None:
    service = a_service(kind="LoadBalancer", load_balancer_source_ranges=ranges, ingress=["192.0.2.1"])
    served, left_out = serve(service)
    assert (served["ip"].source_ranges, bool(served["ip"].load_balancer_ips)) == (sources, is_balanced)
    assert [line.partition(" '")[0] for line in left_out] == ["source range"] * (
        "nonsense" in str(ranges) or "}" in str(ranges)
    )


@pytest.mark.parametrize(
    ("spec", "is_local", "health_port"),
    [
        ({"kind": "ClusterIP"}, False, None),
        ({"kind": "ClusterIP", "external_ips": ("198.51.100.1",)}, True, None),
        ({"kind": "NodePort"}, True, None),
        ({"kind": "LoadBalancer"}, True, 32_000),
        ({"kind": "LoadBalancer", "external": "Cluster"}, False, None),
    ],
)
def test_the_external_policy_counts_where_there_is_outer_traffic(
    spec: dict[str, Any], is_local: bool, health_port: int | None
) -> None:
    """Load balancers with the policy Local also have a health check."""
    given: dict[str, Any] = {"external": "Local", "health_check_node_port": 32_000} | spec
    served = in_v4(a_service(**given))
    assert (served.external_policy_local, served.health_check_port) == (is_local, health_port)


def test_healthy_are_the_addresses_on_this_node_over_all_ports() -> None:
    service = a_service(kind="LoadBalancer", external="Local", ports=(HTTP, HTTPS))
    served = in_v4(
        service,
        a_slice("10.0.0.1", "10.0.0.2", an_endpoint("10.0.0.3", node="n2")),
        a_slice("10.0.0.2", "10.0.0.4", an_endpoint("10.0.0.5", node="n1", ready=False), port="https"),
    )
    assert served.ready_local_endpoints == 3


@pytest.mark.parametrize(
    ("affinity", "given", "expected", "left_out"),
    [
        (None, None, None, []),
        ("None", 7, None, []),
        ("ClientIP", None, 10_800, []),
        ("ClientIP", 7, 7, []),
        ("ClientIP", -5, 10_800, ["session affinity of -5 s is none from 1 to 86400"]),
    ],
)
def test_affinity_has_a_time(
    affinity: str | None, given: int | None, expected: int | None, left_out: list[str]
) -> None:
    config = None if given is None else SessionAffinityConfig(client_ip=ClientIPConfig(timeout_seconds=given))
    served, reported = serve(a_service(session_affinity=affinity, session_affinity_config=config))
    assert (served["ip"].ports[0].affinity_seconds, reported) == (expected, left_out)


def test_a_port_is_served_by_endpoints_of_its_own_name_and_protocol() -> None:
    dns = ServicePort(name="http", protocol="UDP", port=53)
    node_service = in_v4(a_service(ports=(HTTP, HTTPS, dns)), a_slice("10.0.0.1"), a_slice("10.0.0.2", port="https"))
    served = [[endpoint.address for endpoint in port.cluster_endpoints] for port in node_service.ports]
    assert served == [["10.0.0.1"], ["10.0.0.2"], []]
    assert [port.has_any_endpoints for port in node_service.ports] == [True, True, False]


def test_ports_with_the_same_slices_share_their_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    target_ports = {"a": 8080, "b": 8080, "c": 9090, "d": None}
    ports = tuple(EndpointPort(name=name, port=target_port) for name, target_port in target_ports.items())
    slices = [structs.a_slice(name, an_endpoint(f"10.0.0.{name}"), ports=ports) for name in "12"]
    selections: list[int] = []

    def select(endpoints: Sequence[Endpoint], **about: Any) -> Any:
        selections.append(len(endpoints))
        return select_endpoints(endpoints, **about)

    monkeypatch.setattr("zoneward.proxy.model.node_service.select_endpoints", select)
    spec_ports = tuple(ServicePort(name=name, port=port) for port, name in enumerate(target_ports, start=80))
    a, b, c, d = in_v4(a_service(ports=spec_ports), *slices).ports
    assert a.cluster_endpoints is b.cluster_endpoints
    assert [(endpoint.address, endpoint.port) for endpoint in a.cluster_endpoints] == [
        ("10.0.0.1", 8080),
        ("10.0.0.2", 8080),
    ]
    assert [(endpoint.address, endpoint.port) for endpoint in c.cluster_endpoints] == [
        ("10.0.0.1", 9090),
        ("10.0.0.2", 9090),
    ]
    assert (d.cluster_endpoints, d.has_any_endpoints) == ((), False)
    # Once for the ports with valid numbers, once for the other.
    assert selections == [2, 0]


def test_clients_of_udp_keep_every_endpoint_that_serves() -> None:
    endpoints = (
        an_endpoint("10.0.0.1", hinted=structs.hints("a")),
        an_endpoint("10.0.0.2", hinted=structs.hints("b")),
        an_endpoint("10.0.0.3", ready=False, serving=True, terminating=True),
        an_endpoint("10.0.0.4", ready=False, serving=False),
    )
    protocols = ("UDP", "TCP")
    ports = [EndpointPort(name=protocol, protocol=protocol, port=53) for protocol in protocols]
    service = a_service(ports=[ServicePort(name=protocol, protocol=protocol, port=53) for protocol in protocols])
    udp, tcp = in_v4(service, structs.a_slice("dns", *endpoints, ports=ports)).ports
    assert [endpoint.address for endpoint in udp.cluster_endpoints] == ["10.0.0.1"]
    assert [endpoint.address for endpoint in udp.serving_endpoints] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert tcp.serving_endpoints == ()


def test_weights_are_those_of_the_nodes_zone_and_a_node_without_one_uses_all_endpoints() -> None:
    slices = (
        a_slice("10.0.0.1", zone="a", zones="a=1,b=0.5"),
        a_slice("10.0.0.2", zone="b", zones="a=0.25,b=1"),
        a_slice("10.0.0.3", zone="b"),
    )
    served, _ = serve(a_service(), *slices)
    (port,) = selection_document(ProxyNode(name="n1", zone="a"), served.values())["ports"]
    assert dict(zip(port["cluster"], port["weights"], strict=True)) == {"10.0.0.1:8080": 1, "10.0.0.2:8080": 0.25}
    assert port["rule"] == "zone-slices"
    (port,) = serve(a_service(), *slices, zone=None)[0]["ip"].ports
    assert (len(port.cluster_endpoints), port.weights) == (3, None)


def weighted(text: str, *endpoints: Endpoint) -> EndpointSlice:
    ports = (EndpointPort(name="http", port=8080),)
    return structs.a_slice("cart-x", *endpoints, ports=ports, annotations={names.ZONE_WEIGHTS_ANNOTATION: text})


WEIGHTS = '{"counts":{"a":2,"b":1},"shares":{"a":{"a":0.6,"b":0.4}}}'
IN_ZONES = (an_endpoint("10.0.0.1", "a"), an_endpoint("10.0.0.2", "a"), an_endpoint("10.0.0.3", "b"))


def test_an_endpoint_that_a_port_lacks_leaves_its_part_to_the_others_of_its_zone() -> None:
    """Weights are for all endpoints of the Service; each port has those that serve it."""
    admin = structs.a_slice("cart-y", IN_ZONES[0], ports=(EndpointPort(name="https", port=8443),))
    (http, https) = in_v4(a_service(ports=(HTTP, HTTPS)), weighted(WEIGHTS, *IN_ZONES), admin).ports
    assert http.weights == (0.3, 0.3, 0.4)
    assert ([endpoint.address for endpoint in https.cluster_endpoints], https.weights) == (["10.0.0.1"], None)
    assert https.selection_rule is SelectionRule.ZONE_WEIGHTS


# --- what is left out -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1", "is loopback"),
        ("::ffff:169.254.169.254", "is link-local"),
        ("fe80::1", "is link-local"),
        # The owner is unknown to a proxy that does not serve all Services.
        ("10.96.0.10", "is in the range of cluster IPs"),
        ("fd96::a", "is in the range of cluster IPs"),
        ("192.0.2.9 }\nadd table inet X", "is no IP address"),
    ],
)
def test_an_address_that_no_service_can_have_is_left_out_and_the_rest_is_served(address: str, why: str) -> None:
    service = a_service(
        kind="LoadBalancer",
        cluster_ips=BOTH,
        external_ips=(address, "192.0.2.1"),
        ingress=[address, "192.0.2.2"],
    )
    served, left_out = serve(service, service_ranges=("10.96.0.0/12", "fd96::/108"))
    assert (served["ip"].external_ips, served["ip"].load_balancer_ips) == (("192.0.2.1",), ("192.0.2.2",))
    assert (served["ip6"].external_ips, served["ip6"].load_balancer_ips) == ((), ())
    assert [line.partition(" IP ")[0] for line in left_out] == ["external", "load balancer"]
    assert all(line.endswith(why) and line.isprintable() for line in left_out)


def test_invalid_weights_of_zones_are_left_out_in_one_line_and_all_endpoints_are_served() -> None:
    served, left_out = serve(a_service(ports=(HTTP, HTTPS)), weighted("nonsense\nand more", *IN_ZONES))
    assert len(served["ip"].ports[0].cluster_endpoints) == 3
    assert left_out == ["weights of zones on EndpointSlice 'cart-x' are invalid"]


def test_invalid_cluster_ips_and_endpoints_are_left_out_and_reported_in_one_line_each() -> None:
    hostile = "192.0.2.9 }\nadd table inet X"
    served, left_out = serve(a_service(cluster_ips=(hostile, "10.96.0.1")), a_slice(hostile, "fd00::1", "10.0.0.1"))
    assert served["ip"].cluster_ip == "10.96.0.1"
    assert served["ip"].ports[0].cluster_endpoints == (Backend("10.0.0.1", 8080, is_local=True),)
    assert [line.partition("'")[0] for line in left_out] == ["cluster IP ", "endpoint ", "endpoint "]
    assert all(line.isprintable() for line in left_out)


def test_an_endpoint_that_is_no_address_does_not_keep_others_from_being_chosen() -> None:
    served = in_v4(a_service(), a_slice("garbage"), a_slice(an_endpoint("10.0.0.1", ready=False)))
    assert not served.ports[0].has_any_endpoints


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
    served, left_out = serve(a_service(ports=(port, HTTP)))
    assert [served_port.name for served_port in served["ip"].ports] == ["http"]
    (line,) = left_out
    assert line.startswith("port 'a': ")


def test_an_invalid_node_port_or_health_check_port_is_left_out() -> None:
    ports = (ServicePort(name="http", port=80, node_port=70_000),)
    served, left_out = serve(a_service(kind="LoadBalancer", external="Local", health_check_node_port=-1, ports=ports))
    assert (served["ip"].ports[0].node_port, served["ip"].health_check_port) == (None, None)
    assert sorted(left_out) == [
        "health check node port -1 is no number of a port",
        "port 'http': node port 70000 is no number of a port",
    ]


# --- which Service owns an address, in any order of changes -----------------------------------------------------------

DNS: Final = "10.96.0.10"
OUTER: Final = "198.51.100.7"
NODE: Final = "192.0.2.1"


def a_claimant(
    name: str, cluster_ip: str, *ports: int, creation_timestamp: str = "2026-01-01T00:00:00Z", **more: Any
) -> NodeService:
    namespace, _, name = name.rpartition("/")
    every = more.pop("ports", None) or [a_port(port) for port in ports or (53,)]
    names = {"namespace": namespace or "shop", "name": name}
    return node_service(*every, **names, cluster_ip=cluster_ip, creation_timestamp=creation_timestamp, **more)


def a_port(port: int, node_port: int | None = None) -> NodeServicePort:
    return one_port(protocol="udp", name=str(port), port=port, node_port=node_port)


KUBE_DNS: Final = a_claimant("kube-system/kube-dns", DNS, 53, creation_timestamp="2026-01-02T00:00:00Z")


class Cluster:
    """Served Services, while Services are added and deleted."""

    def __init__(self, *, node: frozenset[str] = frozenset()) -> None:
        self.claims = OwnedServices()
        self.claims.set_node_addresses(node)
        self.served: dict[ServiceKey, NodeService] = {}

    def take(self, changes: Mapping[ServiceKey, NodeService | None]) -> None:
        for service, served in changes.items():
            self.served.pop(service, None)
            if served is not None:
                self.served[service] = served

    def put(self, *every: NodeService) -> "Cluster":
        for served in every:
            self.take(self.claims.set_service(key(served), served))
        return self

    def remove(self, served: NodeService) -> None:
        self.take(self.claims.set_service(key(served), None))

    def spots(self, served: NodeService) -> set[tuple[str, int]]:
        """Outer addresses and ports that a Service has."""
        current = self.served.get(key(served))
        return (
            {(address, port.port) for port in current.ports for address in current.external_addresses(port)}
            if current
            else set()
        )

    def lost(self, served: NodeService) -> tuple[str, ...]:
        return self.claims.ownership.conflicts(key(served))


def test_a_cluster_ip_wins_over_external_and_load_balancers_addresses_in_any_order() -> None:
    # Older, first by name, with another port and with ranges of sources: none of it helps.
    thief = a_claimant(
        "a/thief", "10.96.0.99", 53, 9153, creation_timestamp="2020-01-01T00:00:00Z", external_ips=(DNS, OUTER)
    )
    other = a_claimant(
        "a/other",
        "10.96.0.98",
        53,
        creation_timestamp="2020-01-01T00:00:00Z",
        load_balancer_ips=(DNS,),
        source_ranges=("192.0.2.0/24",),
    )
    for every in ((thief, other, KUBE_DNS), (KUBE_DNS, other, thief)):
        here = Cluster().put(*every)
        assert here.served[key(KUBE_DNS)] == KUBE_DNS
        assert here.spots(thief) == {(OUTER, 53), (OUTER, 9153)}
        assert here.served[key(other)].load_balancer_ips == ()
        assert here.lost(thief) == (f"{DNS} of kube-system/kube-dns",)
        here.remove(KUBE_DNS)
        # Of the remaining two, which are equally old, the first by name gets the port that both request.
        assert here.spots(thief) == {(OUTER, 53), (OUTER, 9153), (DNS, 9153)}
        assert here.spots(other) == {(DNS, 53)}
        assert here.lost(thief) == (f"{DNS} udp 53 of a/other",)
        here.put(KUBE_DNS)
        assert here.spots(other) == set()


def test_on_an_address_of_the_node_a_node_port_is_its_services() -> None:
    port = a_port(80, 30_080)
    victim = a_claimant("z/victim", "10.96.0.1", ports=(port,), creation_timestamp="2026-01-03T00:00:00Z")
    thief = a_claimant("a/thief", "10.96.0.2", 443, 30_080, external_ips=(NODE, OUTER))
    for every in ((victim, thief), (thief, victim)):
        here = Cluster(node=frozenset({NODE})).put(*every)
        assert here.spots(thief) == {(NODE, 443), (OUTER, 443), (OUTER, 30_080)}
        assert here.lost(thief) == (f"{NODE} udp 30080 of z/victim",)
        here.take(here.claims.set_node_addresses(frozenset()))
        assert (NODE, 30_080) in here.spots(thief)
        here.take(here.claims.set_node_addresses(frozenset({NODE})))
        here.remove(victim)
        assert (NODE, 30_080) in here.spots(thief)


def test_a_services_own_node_port_may_be_its_port_too() -> None:
    one = a_claimant("one", "10.96.0.1", ports=(a_port(30_080, 30_080),), external_ips=(NODE,))
    assert Cluster(node=frozenset({NODE})).put(one).spots(one) == {(NODE, 30_080)}


def test_of_two_with_one_cluster_ip_or_node_port_the_older_has_it() -> None:
    port = a_port(80, 30_080)
    old = a_claimant("z", "10.96.0.1", ports=(port,), creation_timestamp="2025-01-01T00:00:00Z")
    same_address, same_port = a_claimant("a", "10.96.0.1"), a_claimant("b", "10.96.0.2", ports=(port,))
    for every in ((old, same_address, same_port), (same_port, same_address, old)):
        here = Cluster().put(*every)
        assert here.served[key(old)] is old
        assert key(same_address) not in here.served
        assert here.served[key(same_port)].ports[0].node_port is None
        here.remove(old)
        assert here.served == {key(same_address): same_address, key(same_port): same_port}


ADDRESSES: Final = ("10.96.0.1", "10.96.0.2", "10.96.0.3", OUTER, NODE)


@st.composite
def services(draw: st.DrawFn, name: str) -> NodeService:
    ports = draw(st.lists(st.sampled_from([80, 30_080, 30_081]), min_size=1, max_size=2, unique=True))
    node_ports = draw(st.lists(st.sampled_from([None, 30_080, 30_081]), min_size=2, max_size=2))
    addresses = st.lists(st.sampled_from(ADDRESSES), max_size=3, unique=True).map(tuple)
    return a_claimant(
        name,
        draw(st.sampled_from(ADDRESSES[:3])),
        creation_timestamp=draw(st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"])),
        external_ips=draw(addresses),
        load_balancer_ips=draw(addresses),
        ports=tuple(map(a_port, ports, node_ports)),
    )


steps = st.lists(
    st.sampled_from("abc").flatmap(lambda name: st.tuples(st.just(name), st.none() | services(name))), max_size=8
)


@examples(50)
@given(steps=steps, node=st.sampled_from([frozenset[str](), frozenset({NODE})]), data=st.data())
def test_any_order_of_changes_ends_as_if_all_were_seen_at_once(
    steps: list[tuple[str, NodeService | None]], node: frozenset[str], data: st.DataObject
) -> None:
    here = Cluster(node=node)
    requested: dict[str, NodeService] = {}
    for name, served in steps:
        requested.pop(name, None)
        if served is None:
            here.take(here.claims.set_service(("shop", name), None))
        else:
            here.put(served)
            requested[name] = served
    order = data.draw(st.permutations(sorted(requested)))
    lost: list[str] = []
    assert (
        resolve_ownership((requested[name] for name in order), node_addresses=node, on_conflict=lost.append)
        == here.served
    )
    conflicts = {
        f"Service shop/{name}: it does not get {what}"
        for name in requested
        for what in here.claims.ownership.conflicts(("shop", name))
    }
    assert set(lost) == conflicts
    # No two Services have the same address and port.
    taken = [
        (address, port.protocol, port.port)
        for one in here.served.values()
        for port in one.ports
        for address in one.external_addresses(port)
    ]
    assert len(taken) == len(set(taken))
    cluster_ips = {one.cluster_ip for one in requested.values()}
    assert not cluster_ips & {address for address, _, _ in taken}
