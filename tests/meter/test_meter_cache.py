"""A meter indexes the objects that it watches, and sets aside only those that it cannot read."""

from typing import Any

import msgspec
from tests.builders.objects import a_node, a_service, a_slice, with_field

from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.resources import NODES, RAW_SLICES, SERVICES, WatchedResource, WatchedT
from zoneward.kube.objects import Service
from zoneward.meter.meter_cache import MeterCache, packed

CART = ("default", "cart")
ENDPOINT = packed("10.1.0.1") or b""


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
        return self.cache.endpoints.zone(CART, ENDPOINT)


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
    assert watched.cache.node.is_local(ENDPOINT)
    assert watched.cache.node.is_local(packed("192.0.2.1") or b"")


async def test_a_service_is_found_until_it_is_gone() -> None:
    watched = Watched()
    watched.put(SERVICES, a_service("cart", clusterIP="10.96.0.1", version=1))
    address = packed("10.96.0.1") or b""
    assert watched.cache.services.find(address, 6, b"\0\x50") == (CART, "cluster IP")
    assert watched.cache.counts == (1, 0)
    (cart,) = watched.cache.store(SERVICES)
    assert isinstance(cart, Service)
    watched.cache.store(SERVICES).retain_only(set())
    assert watched.cache.services.find(address, 6, b"\0\x50") is None
