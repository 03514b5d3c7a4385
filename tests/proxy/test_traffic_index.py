"""The proxy's lookups of flows have the same answers as the meter's."""

from typing import Any, Final

import msgspec
import pytest
from tests.builders.objects import a_service, a_slice, with_field

from zoneward.client.resources import RAW_SLICES, SERVICES
from zoneward.meter.meter_cache import MeterCache, MeteredNode, packed
from zoneward.proxy.model.node_cache import NodeCache
from zoneward.proxy.proxier import Proxier
from zoneward.proxy.traffic_index import ProxyTrafficIndex
from zoneward.routing.configuration import FeatureGates

CART: Final = ("default", "cart")


@pytest.mark.parametrize("kind", ["meter", "proxy"])
def test_the_zone_of_an_endpoint_is_found_however_slices_write_it(kind: str) -> None:
    """Its address in any form, and its zone in any of two slices with it."""
    meter, proxy = MeterCache("n1"), NodeCache("n1", gates=FeatureGates())

    def put(name: str, address: str, zone: str | None) -> None:
        document: dict[str, Any] = a_slice(name, service="cart", addresses=[address], zone=zone, version=1)
        raw = msgspec.json.encode(with_field(document, "addressType", "IPv6"))
        for cache in (meter, proxy):
            cache.store(RAW_SLICES).put(msgspec.json.decode(raw, type=RAW_SLICES.struct))

    proxy.store(SERVICES).put(msgspec.convert(a_service("cart", clusterIP="fd01::1", version=1), SERVICES.struct))
    put("cart-1", "FD00:0::1", "a")
    put("cart-2", "fd00::2", "b")
    put("cart-3", "fd00::2", None)
    index = meter if kind == "meter" else ProxyTrafficIndex(proxy, Proxier(proxy), MeteredNode())
    zones = [index.endpoint_zone(CART, packed(address) or b"") for address in ("fd00::1", "fd00::2", "fd00::3")]
    assert zones == ["a", "b", None]
