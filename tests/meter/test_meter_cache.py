"""A meter indexes the objects that it watches, and sets aside only those that it cannot read."""

import socket
import tracemalloc
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders.objects import a_node, a_service, a_slice, with_field

from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.resources import NODES, RAW_SLICES, SERVICES, LiveNode, WatchedResource, WatchedT
from zoneward.kube.objects import ObjectKey, Service
from zoneward.meter.meter_cache import (
    GONE_ENDPOINT_AGE,
    MAX_GONE_ENDPOINTS,
    EndpointZones,
    MeterCache,
    MeteredNode,
    ServiceIndex,
    packed,
)
from zoneward.routing.selection.entry_budget import EntryBudget

TCP, UDP = socket.IPPROTO_TCP, socket.IPPROTO_UDP
CART: Final = ("default", "cart")


def address(text: str) -> bytes:
    packed_address = packed(text)
    assert packed_address is not None
    return packed_address


class Watched:
    """A cache, and the objects that it could not read."""

    def __init__(self) -> None:
        self.unreadable: list[UnreadableObject] = []
        self.now = 0.0
        self.cache = MeterCache("n1", on_unreadable=self.unreadable.append, clock=lambda: self.now)

    def put(self, resource: WatchedResource[WatchedT], document: dict[str, Any]) -> None:
        self.cache.store(resource).put(msgspec.json.decode(msgspec.json.encode(document), type=resource.struct))

    @property
    def zone(self) -> str | None:
        return self.cache.endpoints.zone(CART, address("10.1.0.1"))


def a_cart_slice(version: int, zone: str = "a") -> dict[str, Any]:
    return a_slice("cart-1", service="cart", addresses=["10.1.0.1"], zone=zone, version=version)


async def test_a_slice_is_known_by_its_addresses_until_it_is_gone() -> None:
    watched = Watched()
    watched.put(RAW_SLICES, a_cart_slice(1))
    assert watched.zone == "a"
    watched.put(RAW_SLICES, a_cart_slice(2, zone="b"))
    assert watched.zone == "b"
    watched.cache.store(RAW_SLICES).retain_only(set())
    watched.now = 10_000.0
    watched.cache.endpoints.forget_gone(now=watched.now)
    assert watched.zone is None


async def test_a_slice_that_cannot_be_read_keeps_what_was_known_and_is_reported() -> None:
    watched = Watched()
    watched.put(RAW_SLICES, a_cart_slice(1))
    watched.put(RAW_SLICES, a_cart_slice(2) | {"endpoints": [{"addresses": 7}]})
    assert watched.zone == "a"
    (unreadable,) = watched.unreadable
    assert (unreadable.name, unreadable.problem) == (
        "cart-1",
        "endpoints: [0].addresses: expected a list of strings, got an integer",
    )
    assert watched.cache.unreadable == (unreadable,)
    watched.put(RAW_SLICES, a_cart_slice(3, zone="b"))
    assert watched.zone == "b"
    assert not watched.cache.unreadable


async def test_the_node_stays_what_it_was_where_it_is_gone_and_others_do_not_matter() -> None:
    watched = Watched()
    assert not watched.zone
    node = with_field(a_node("n1", "a", address="192.0.2.1", version=1), "spec.podCIDRs", ["10.1.0.0/16"])
    watched.put(NODES, node)
    watched.put(NODES, a_node("n2", "b", version=2))
    watched.cache.store(NODES).retain_only(set())
    assert watched.cache.node.zone == "a"
    assert watched.cache.node.is_local(address("10.1.0.1"))
    assert watched.cache.node.is_local(address("192.0.2.1"))


async def test_a_service_is_found_until_it_is_gone() -> None:
    watched = Watched()
    watched.put(SERVICES, a_service("cart", clusterIP="10.96.0.1", version=1))
    assert watched.cache.services.find(address("10.96.0.1"), TCP, (80).to_bytes(2)) == (CART, "cluster IP")
    assert watched.cache.counts == (1, 0)
    (cart,) = watched.cache.store(SERVICES)
    assert isinstance(cart, Service)
    watched.cache.store(SERVICES).retain_only(set())
    assert watched.cache.services.find(address("10.96.0.1"), TCP, (80).to_bytes(2)) is None


# --- what addresses are enough to look up -----------------------------------------------------------------------------


def decoded(**spec: Any) -> Service:
    return msgspec.convert(a_service("cart", **spec), Service)


def test_a_service_is_found_by_each_address_that_proxies_translate() -> None:
    index = ServiceIndex()
    port = {"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30_080}
    service = decoded(
        type="LoadBalancer",
        clusterIP="10.96.0.1",
        clusterIPs=["10.96.0.1", "fd00:96::1"],
        externalIPs=["192.0.2.7"],
        ports=[port, {"name": "dns", "port": 53, "protocol": "UDP"}],
    )
    balancer = {"ingress": [{"ip": "198.51.100.1"}, {"ip": "198.51.100.2", "ipMode": "Proxy"}]}
    index.set_service(
        CART, msgspec.convert(msgspec.to_builtins(service) | {"status": {"loadBalancer": balancer}}, Service)
    )
    for text, protocol, port_number, expected in (
        ("10.96.0.1", TCP, 80, "cluster IP"),
        ("fd00:96::1", TCP, 80, "cluster IP"),
        ("10.96.0.1", UDP, 53, "cluster IP"),
        ("192.0.2.7", TCP, 80, "external address"),
        ("198.51.100.1", TCP, 80, "external address"),
        ("203.0.113.1", TCP, 30_080, "node port"),
    ):
        assert index.find(address(text), protocol, port_number.to_bytes(2)) == (CART, expected), text
    # A load balancer with this mode sends to node ports.
    for text, protocol, port_number in (("198.51.100.2", TCP, 80), ("10.96.0.1", UDP, 80), ("10.96.0.1", TCP, 81)):
        assert index.find(address(text), protocol, port_number.to_bytes(2)) is None, text


@pytest.mark.parametrize(
    "spec",
    [
        {"clusterIP": "None"},
        {"type": "ExternalName"},
        {"clusterIP": "no address", "externalIPs": ["", "10.0.0.0/8", "::1%eth0"]},
        {"clusterIP": "10.96.0.1", "ports": [{"name": "x", "port": 0, "protocol": "TCP", "nodePort": 70_000}]},
        {"clusterIP": "10.96.0.1", "ports": [{"name": "x", "port": 80, "protocol": "QUIC"}]},
        {"clusterIP": "10.96.0.1", "ports": None},
    ],
)
def test_what_no_proxy_serves_is_not_found_and_breaks_nothing(spec: dict[str, Any]) -> None:
    index = ServiceIndex()
    index.set_service(CART, decoded(**spec))
    assert CART in index
    assert index.find(address("10.96.0.1"), TCP, (80).to_bytes(2)) is None


def requesting(name: str, cluster_ip: str, *external: str, created: str = "2026-01-02T00:00:00Z") -> Service:
    service = msgspec.convert(a_service(name, clusterIP=cluster_ip, externalIPs=list(external)), Service)
    return replace(service, metadata=replace(service.metadata, creation_timestamp=created))


def test_an_external_address_belongs_to_the_oldest_service_until_it_is_gone() -> None:
    index, thief = ServiceIndex(), ("a", "thief")
    index.set_service(thief, requesting("thief", "10.96.0.2", "192.0.2.7"))
    index.set_service(CART, requesting("cart", "10.96.0.1", "192.0.2.7", created="2026-01-01T00:00:00Z"))
    asked = address("192.0.2.7"), TCP, (80).to_bytes(2)
    assert index.find(*asked) == (CART, "external address")
    index.set_service(CART, None)
    assert index.find(*asked) == (thief, "external address")
    index.set_service(thief, requesting("thief", "10.96.0.2"))
    assert index.find(*asked) is None


def test_on_the_nodes_own_address_a_node_port_wins() -> None:
    index = ServiceIndex()
    index.set_node_addresses(["192.0.2.1", "worker-1"])
    port = {"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30_080}
    index.set_service(CART, decoded(clusterIP="10.96.0.1", ports=[port]))
    ports = [{"name": "http", "port": external_port, "protocol": "TCP"} for external_port in (30_080, 30_081)]
    thief = decoded(clusterIP="10.96.0.2", externalIPs=["192.0.2.1", "192.0.2.9"], ports=ports)
    index.set_service(("a", "thief"), thief)
    for text, port_number, owner in (
        ("192.0.2.1", 30_080, (CART, "node port")),
        ("192.0.2.1", 30_081, (("a", "thief"), "external address")),
        ("192.0.2.9", 30_080, (("a", "thief"), "external address")),
    ):
        assert index.find(address(text), TCP, port_number.to_bytes(2)) == owner, text


def test_services_that_exceed_the_budget_are_not_found_and_reported_once() -> None:
    set_aside: list[ObjectKey] = []
    index = ServiceIndex(
        EntryBudget(most=10, most_of_namespace=3), on_set_aside=lambda key, _why: set_aside.append(key)
    )
    outer = [f"198.51.100.{host}" for host in range(3)]
    index.set_service(("a", "large"), requesting("large", "10.96.0.2", *outer))
    index.set_service(CART, requesting("cart", "10.96.0.1"))
    assert index.find(address(outer[0]), TCP, (80).to_bytes(2)) is None
    assert index.find(address("10.96.0.1"), TCP, (80).to_bytes(2)) == (CART, "cluster IP")
    index.set_service(("a", "large"), requesting("large", "10.96.0.2", *outer))
    assert set_aside == [("a", "large")]
    index.set_service(("a", "large"), requesting("large", "10.96.0.2", outer[0]))
    assert index.find(address(outer[0]), TCP, (80).to_bytes(2)) == (("a", "large"), "external address")


def test_many_addresses_times_many_ports_take_no_memory_for_each_pair() -> None:
    index = ServiceIndex()
    outer = [f"198.51.{octet}.1" for octet in range(100)]
    ports = [{"name": f"p{port_number}", "port": port_number, "protocol": "TCP"} for port_number in range(1, 101)]
    services = [decoded(clusterIP=f"10.96.0.{host}", externalIPs=outer, ports=ports) for host in range(1, 31)]
    tracemalloc.start()
    for service_index, service in enumerate(services):
        index.set_service(("a", f"s{service_index}"), service)
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Of 300,000 pairs, the index stores only the owners of the 10,000 that several Services request.
    assert current < 10 << 20


def test_the_zone_of_an_endpoint_is_known_for_a_while_after_it_is_gone() -> None:
    zones = EndpointZones()
    zones.set_slice(("shop", "one"), CART, [("10.1.0.1", "a"), ("10.1.0.2", None), ("no address", "a")], now=0.0)
    zones.set_slice(("shop", "two"), CART, [("10.1.0.2", "b")], now=0.0)
    assert [zones.zone(CART, address(f"10.1.0.{host}")) for host in (1, 2, 3)] == ["a", "b", None]
    assert zones.zone(("shop", "other"), address("10.1.0.1")) is None
    zones.remove_slice(("shop", "two"), now=5.0)
    assert zones.zone(CART, address("10.1.0.2")) == ""
    zones.set_slice(("shop", "one"), CART, [("10.1.0.9", "c")], now=10.0)
    zones.forget_gone(now=9.0 + GONE_ENDPOINT_AGE)
    assert zones.zone(CART, address("10.1.0.1")) == "a"
    zones.forget_gone(now=10.0 + GONE_ENDPOINT_AGE)
    assert zones.zone(CART, address("10.1.0.1")) is None
    assert zones.zone(CART, address("10.1.0.9")) == "c"


def test_a_slice_that_moves_to_another_service_takes_its_endpoints_along() -> None:
    zones = EndpointZones()
    zones.set_slice(("shop", "one"), CART, [("10.1.0.1", "a")], now=0.0)
    zones.set_slice(("shop", "one"), ("shop", "mail"), [("10.1.0.1", "a")], now=1.0)
    zones.forget_gone(now=1.0 + GONE_ENDPOINT_AGE)
    assert zones.zone(CART, address("10.1.0.1")) is None
    assert zones.zone(("shop", "mail"), address("10.1.0.1")) == "a"


def test_endpoints_that_are_gone_take_bounded_memory() -> None:
    zones = EndpointZones()
    for batch in range(MAX_GONE_ENDPOINTS // 1000 + 2):
        zones.set_slice(
            ("shop", "one"), CART, [(f"10.{batch}.{index >> 8}.{index & 255}", "a") for index in range(1000)], now=0.0
        )
    assert zones.zone(CART, address("10.0.0.1")) is None
    assert zones.zone(CART, address(f"10.{batch}.0.1")) == "a"
    assert zones.zone(CART, address(f"10.{batch - 2}.0.1")) == "a"


def test_endpoints_that_stay_leave_others_their_room() -> None:
    zones = EndpointZones()
    gone = [(f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}", "a") for index in range(MAX_GONE_ENDPOINTS)]
    zones.set_slice(("shop", "one"), CART, gone, now=0.0)
    zones.remove_slice(("shop", "one"), now=0.0)
    for _ in range(2):
        zones.set_slice(("shop", "two"), CART, [("192.0.2.1", "a"), ("192.0.2.2", "b")], now=1.0)
    assert {zones.zone(CART, address(text)) for text, _ in gone} == {"a"}


def test_traffic_of_a_node_is_distinguished_from_that_of_others() -> None:
    addresses = [{"type": "InternalIP", "address": text} for text in ("192.0.2.1", "worker-1", "2001:db8::1")]
    document = {"spec": {"podCIDRs": ["10.1.0.0/16", "no range", "fd00:1::/64"]}, "status": {"addresses": addresses}}
    node = MeteredNode.of_node(msgspec.convert(document, LiveNode))
    local = ("192.0.2.1", "2001:db8::1", "10.1.200.1", "fd00:1::5", "127.0.0.1", "::1")
    others = ("192.0.2.2", "10.2.0.1", "203.0.113.9", "fd00:2::5")
    assert [node.is_local(address(other)) for other in (*local, *others)] == [True] * len(local) + [False] * len(others)
