"""A writer to a sandbox, and objects to write."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from tests.client.calling import transport
from tests.client.serving import access_to
from tests.sandbox.server.faults import add_faults

from zoneward.client.writer import Writer
from zoneward.kube.objects import (
    EndpointSlice,
    Event,
    EventRegarding,
    EventSeries,
    ObjectMeta,
    Service,
    ServicePort,
    ServiceSpec,
)
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import Registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

Object = dict[str, Any]
NAMESPACE = "default"
SLICE_JSON: Object = {
    "kind": "EndpointSlice",
    "apiVersion": "discovery.k8s.io/v1",
    "metadata": {
        "name": "cart-1",
        "namespace": NAMESPACE,
        "labels": {"kubernetes.io/service-name": "cart"},
        "annotations": {"zoneward.dev/approach": "Hints/Auto"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Service", "name": "cart", "uid": "u-1"}
            | {"controller": True, "blockOwnerDeletion": True}
        ],
    },
    "addressType": "IPv4",
    "endpoints": [
        {
            "addresses": ["10.0.0.1"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "hostname": "cart-0",
            "targetRef": {"kind": "Pod", "namespace": NAMESPACE, "name": "cart-0", "uid": "u-2"},
            "nodeName": "n1",
            "zone": "a",
            "hints": {"forZones": [{"name": "a"}], "forNodes": [{"name": "n1"}]},
        },
        {"addresses": ["10.0.0.2"], "conditions": {"serving": True}},
    ],
    "ports": [{"name": "", "protocol": "TCP", "port": 80, "appProtocol": "http"}],
}
SLICE = msgspec.convert(SLICE_JSON, EndpointSlice)
OWNER_JSON: Object = {
    "kind": "Service",
    "apiVersion": "v1",
    "metadata": {"name": "cart", "namespace": NAMESPACE, "uid": "u-1"},
    "spec": {"ports": [{"port": 80}], "selector": {"app": "cart"}},
}
EVENT = Event(
    metadata=ObjectMeta(name="cart.1", namespace=NAMESPACE),
    event_time="2026-01-01T12:00:00.000000Z",
    series=EventSeries(count=2, last_observed_time="2026-01-01T12:00:01.000000Z"),
    reporting_controller="zoneward.dev/controller",
    reporting_instance="zoneward-0",
    action="Decide",
    reason="TopologyAwareRoutingEnabled",
    regarding=EventRegarding(api_version="v1", kind="Service", namespace=NAMESPACE, name="cart", uid="u-1"),
    note="Topology Aware Routing has been enabled",
    type="Normal",
)
A_SERVICE = Service(
    metadata=ObjectMeta(name="shop", namespace=NAMESPACE, annotations={"a": "1", "b": "2"}),
    spec=ServiceSpec(ports=(ServicePort(port=80),), selector={"app": "cart"}),
)
SLICES_KEPT = "endpointslices.discovery.k8s.io"


@asynccontextmanager
async def a_writer(*faults: str, **options: Any) -> AsyncIterator[tuple[Writer, Registry]]:
    registry = new_registry()
    # Without its owner, the garbage collector of the sandbox would soon delete the slice.
    registry.restore(registry.kinds["services"], OWNER_JSON)
    async with (
        add_faults(SandboxServer(registry), *faults) as server,
        transport(access_to(server.address)) as connection,
    ):
        yield Writer(connection, **options), registry


def kept(registry: Registry, plural: str, name: str) -> Object | None:
    return registry.find(plural, NAMESPACE, name)
