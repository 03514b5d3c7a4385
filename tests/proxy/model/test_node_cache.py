"""Slices of other zones stay packed until a node needs them, and every change that matters is reported."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders.objects import a_node, a_service, a_slice

from zoneward.client.resources import LiveNode, RawEndpointSlice
from zoneward.kube.names import SERVICE_NAME_LABEL, ZONE_LABEL
from zoneward.kube.objects import ObjectKey, Service
from zoneward.proxy.model.node_cache import TRIGGER_TIME, NodeCache
from zoneward.proxy.model.node_service import NodeService
from zoneward.proxy.reporter import Reporter
from zoneward.proxy.ruleset.service_rules import ServiceTooLarge
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import SelectionRule

CART: ObjectKey = ("shop", "cart")


def service(version: int = 1, **spec: Any) -> Service:
    given = {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"]} | spec
    return msgspec.convert(a_service("cart", namespace="shop", version=version, **given), Service)


def slice_(
    name: str, *addresses: str, zone: str | None = None, version: int = 1, node: str = "elsewhere", **conditions: bool
) -> RawEndpointSlice:
    """A slice, with the label of ``zone`` if all its endpoints are there."""
    document = a_slice(
        name,
        service="cart",
        addresses=addresses,
        namespace="shop",
        node=node,
        zone=zone or "a",
        labels={ZONE_LABEL: zone} if zone else None,
        version=version,
        conditions=conditions,
    )
    return msgspec.json.decode(msgspec.json.encode(document), type=RawEndpointSlice)


def node(zone: str, version: int = 1) -> LiveNode:
    return msgspec.convert(a_node("n1", zone, version=version), LiveNode)


def known(*, zone: str | None = "a", **options: Any) -> NodeCache:
    return NodeCache("n1", zone=zone, gates=FeatureGates(), **options)


def addresses(served: dict[Any, NodeService]) -> list[str]:
    return sorted(endpoint.address for endpoint in served["ip"].ports[0].cluster_endpoints)


def test_slices_of_other_zones_stay_packed() -> None:
    here = known()
    here.services.put(service())
    here.slices.put(slice_("one", "10.0.0.1", zone="a"))
    here.slices.put(slice_("two", "10.0.0.2", zone="b"))
    here.slices.put(slice_("three", "10.0.0.3"))
    assert here.slice_counts == (2, 1)
    assert addresses(here.node_services(CART)) == ["10.0.0.1", "10.0.0.3"]
    assert here.node_services(CART)["ip"].ports[0].selection_rule is SelectionRule.ZONE_SLICES


def test_a_health_check_counts_local_endpoints_in_slices_of_other_zones() -> None:
    """Also before the load balancer has an address, when nothing else needs these slices."""
    here = known()
    here.services.put(service(type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=31000))
    here.slices.put(slice_("one", "10.0.0.1", zone="a"))
    here.slices.put(slice_("two", "10.0.0.2", zone="b", node="n1"))
    assert here.node_services(CART)["ip"].ready_local_endpoints == 1


def test_a_service_that_is_too_large_names_the_endpoints_of_other_zones_too() -> None:
    here = known(max_entries=2)
    here.services.put(service())
    here.slices.put(slice_("one", "10.0.0.1", "10.0.0.2", "10.0.0.3", zone="a"))
    here.slices.put(slice_("two", "10.0.0.4", zone="b"))
    with pytest.raises(ServiceTooLarge) as caught:
        here.node_services(CART)
    assert caught.value.addresses == {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}


def test_changes_in_slices_of_other_zones_are_reported_only_where_they_are_used() -> None:
    changed: list[ObjectKey] = []
    here = known(on_service=lambda key, _trigger: changed.append(key))
    here.services.put(service())
    here.slices.put(slice_("one", "10.0.0.1", zone="a", version=1))
    here.slices.put(slice_("two", "10.0.0.2", zone="b", version=2))
    here.node_services(CART)
    changed.clear()
    here.slices.put(slice_("two", "10.0.0.3", zone="b", version=3))
    assert changed == []
    here.slices.put(slice_("one", zone="a", version=4))
    assert addresses(here.node_services(CART)) == ["10.0.0.3"]
    changed.clear()
    here.slices.put(slice_("two", "10.0.0.4", zone="b", version=5))
    assert changed == [CART]
    assert addresses(here.node_services(CART)) == ["10.0.0.4"]


def test_what_is_written_again_without_a_change_that_matters_is_not_reported() -> None:
    changed: list[ObjectKey] = []
    here = known(on_service=lambda key, _trigger: changed.append(key))
    here.services.put(service())
    here.slices.put(slice_("one", "10.0.0.1"))
    changed.clear()

    def annotated(version: int, name: str) -> RawEndpointSlice:
        again = slice_("one", "10.0.0.1", version=version)
        return replace(again, metadata=replace(again.metadata, annotations={name: "2026-01-01T00:00:00Z"}))

    here.slices.put(annotated(2, TRIGGER_TIME))
    conditions = {"conditions": [{"type": "zoneward.dev/x", "status": "True"}]}
    here.services.put(msgspec.convert(msgspec.to_builtins(service(3)) | {"status": conditions}, Service))
    assert changed == []
    here.slices.put(annotated(4, "other"))
    here.slices.put(slice_("one", "10.0.0.1", version=5, ready=False))
    here.services.put(service(6, externalIPs=["192.0.2.1"]))
    assert changed == [CART] * 3


def test_a_slice_that_moves_to_another_service_is_reported_for_both() -> None:
    changed: list[ObjectKey] = []
    here = known(on_service=lambda key, _trigger: changed.append(key))
    here.slices.put(slice_("one", "10.0.0.1"))
    moved = slice_("one", "10.0.0.1", version=2)
    assert moved.metadata.labels is not None
    moved.metadata.labels[SERVICE_NAME_LABEL] = "mail"
    changed.clear()
    here.slices.put(moved)
    assert changed == [CART, ("shop", "mail")]


def test_omitted_values_of_a_service_are_reported_when_they_change() -> None:
    reported: list[tuple[ObjectKey, tuple[str, ...]]] = []

    class Recorder(Reporter):
        def values_left_out(self, service: ObjectKey, what: tuple[str, ...]) -> None:
            reported.append((service, what))

    here = known(reporter=Recorder())
    here.services.put(service(externalIPs=["127.0.0.1", "192.0.2.1"]))
    here.slices.put(slice_("one", "10.0.0.1", "garbage"))
    here.slices.put(slice_("two", "10.0.0.2", zone="b"))
    what = ("external IP 127.0.0.1 is loopback", "endpoint 'garbage:8080' is no IPv4 address with a port")
    for _ in range(2):
        assert here.node_services(CART)["ip"].external_ips == ("192.0.2.1",)
        assert reported == [(CART, what)]
    assert here.left_out_values == {CART: what}
    here.services.put(service(2, externalIPs=[f"127.0.0.{host}" for host in range(1, 20)]))
    here.node_services(CART)
    assert reported[-1] == (CART, (*(f"external IP 127.0.0.{host} is loopback" for host in range(1, 6)), "15 more"))
    here.services.retain_only(set())
    assert here.node_services(CART) == {}
    assert reported[-1] == (CART, ())
    assert here.left_out_values == {}
