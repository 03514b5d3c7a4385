"""A controller on a sandbox over HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol
from unittest.mock import patch

import msgspec
from tests.builders.objects import a_node, a_pod, a_service
from tests.client.calling import transport
from tests.client.serving import access_to
from tests.patience import PATIENCE
from tests.sandbox.server.faults import add_faults
from tests.sandbox.server.local_client import LocalClient

from zoneward.client.backoff import Backoff
from zoneward.client.informer_cache import InformerCache
from zoneward.client.resources import CACHED_RESOURCES
from zoneward.client.transport import RetryPolicy, Transport
from zoneward.client.writer import Writer
from zoneward.controller import endpointslice_controller
from zoneward.controller.context import ControllerContext, ControllerOptions
from zoneward.controller.controller_configuration import Mode
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.handover.service_handover import ReadWriteConnection
from zoneward.controller.queue.work_queue import RequeueDelay
from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, Node, Pod, Service, node_zone
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import Registry
from zoneward.sandbox.server.sandbox_server import SandboxServer
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan, plan_service
from zoneward.snapshots.cluster_snapshot import Snapshot

Object = dict[str, Any]
KEPT: Final = "endpointslices.discovery.k8s.io"
LABELS: Final = {"app": "cart"}
PODS: Final = 9
LIMIT: Final = PATIENCE
HASTE: Final = RequeueDelay(backoff=Backoff(initial=0.02, cap=0.2, jitter=0.5), with_news=0.1)


@dataclass
class SandboxObjects:
    """Objects of a sandbox, in one namespace, and a connection to its server."""

    registry: Registry
    link: ReadWriteConnection

    @property
    def store(self) -> LocalClient:
        return LocalClient(self.registry)

    def make_ready(self, index: int, ready: bool) -> None:
        self._status(f"cart-{index}", {"conditions": [{"type": "Ready", "status": str(ready)}]})

    def _status(self, name: str, fields: Object) -> None:
        def change(pod: Object) -> Object:
            return pod | {"status": (pod.get("status") or {}) | fields}

        self.store.patch_status(self.registry.kinds["pods"], "default", name, change)

    def node(self, name: str, zone: str) -> None:
        self.store.create(self.registry.kinds["nodes"], "", a_node(name, zone=zone))

    def pod(self, index: int, *, node: str) -> None:
        pod = a_pod(f"cart-{index}", node=node, ips=[f"10.0.{index // 250}.{index % 250}"], labels=LABELS)
        self.store.create(self.registry.kinds["pods"], "default", pod)
        self._status(f"cart-{index}", pod["status"])

    def service(self, name: str = "cart", **options: Any) -> None:
        given = {"selector": LABELS} | options
        self.store.create(self.registry.kinds["services"], "default", a_service(name, **given))

    def change(self, plural: str, namespace: str, name: str, change: Callable[[Object], Object]) -> None:
        kind = self.registry.kinds[plural]
        self.store.update(kind, namespace, name, lambda old: change(deepcopy(old)))

    def objects(self, resource: str) -> list[Object]:
        return [record.object() for _, record in self.registry.store.records(self.registry.kinds[resource])]

    def service_now(self, name: str = "cart") -> Object:
        (service,) = (object_ for object_ in self.objects("services") if object_["metadata"]["name"] == name)
        return service

    def condition(self, type_: str) -> Object | None:
        """Of the Service ``cart``."""
        conditions = self.service_now()["status"].get("conditions") or ()
        return next((condition for condition in conditions if condition["type"] == type_), None)

    def listed(self) -> set[str]:
        return {
            address
            for object_ in self.objects(KEPT)
            for one in object_.get("endpoints") or ()
            if one["conditions"].get("ready") is not False
            for address in one["addresses"]
        }


class Place(SandboxObjects):
    def annotate(self, name: str, annotations: Mapping[str, str]) -> None:
        def change(object_: Object) -> Object:
            return object_ | {"metadata": object_["metadata"] | {"annotations": dict(annotations)}}

        self.change("services", "default", name, change)

    def slices(self, service: str = "cart") -> list[EndpointSlice]:
        result = msgspec.convert(self.objects(KEPT), list[EndpointSlice])
        return [slice_ for slice_ in result if (slice_.metadata.labels or {}).get(names.SERVICE_NAME_LABEL) == service]


@asynccontextmanager
async def a_sandbox(*faults: str) -> AsyncIterator[tuple[Registry, SandboxServer, Transport]]:
    registry = new_registry()
    async with (
        add_faults(SandboxServer(registry), *faults) as server,
        transport(access_to(server.address), retries=RetryPolicy()) as link,
    ):
        yield registry, server, link


@asynccontextmanager
async def a_place(*faults: str) -> AsyncIterator[Place]:
    async with a_sandbox(*faults) as (registry, _, link):
        yield Place(registry, link)


class HasLink(Protocol):
    @property
    def link(self) -> ReadWriteConnection: ...


@asynccontextmanager
async def at_work(
    sandbox: HasLink, *, mode: Mode = Mode.TAKE_OVER, **options: Any
) -> AsyncIterator[EndpointSliceController]:
    """A controller that runs; it is over when the block is. Options are fields of its context and options, or its own
    arguments."""
    given: Object = {"configuration": Configuration(), "writer": Writer(sandbox.link), "back_off": HASTE} | options
    of_context, of_options = (
        {option.name: given.pop(option.name) for option in fields(kind) if option.name in given}
        for kind in (ControllerContext, ControllerOptions)
    )
    context = ControllerContext(connection=sandbox.link, mode=mode, **of_context)
    controller = EndpointSliceController(context, ControllerOptions(**of_options), **given)
    with patch.object(endpointslice_controller, "_RECHECK_PERIOD", 0.05):
        running = asyncio.create_task(controller.run())
        try:
            yield controller
            assert not running.done(), running.exception()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def settle(sandbox: Place, controller: EndpointSliceController) -> None:
    """Until the cache has all that the server has, and all that it leads to is written."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        version = sandbox.registry.store.version
        if (
            await controller.wait_until_idle(0.2)
            and has_seen(sandbox.registry, controller.cache)
            and version == sandbox.registry.store.version
        ):
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"not settled after {LIMIT:g} s: {controller.queue.depth()}")


def has_seen(registry: Registry, cache: InformerCache) -> bool:
    """Whether the cache has all that the server has."""
    for resource in CACHED_RESOURCES:
        kind = registry.kinds[f"{resource.plural}.{resource.group}" if resource.group else resource.plural]
        held: Iterable[Any] = cache.store(resource)
        versions = {int(object_.metadata.resource_version) for object_ in held}
        if {record.version for _, record in registry.store.records(kind)} != versions:
            return False
    return True


def plans_of(objects: Callable[[str], list[Object]], configuration: Configuration) -> Iterator[ServicePlan]:
    """What every Service with a selector would come to now, planned from what the server has."""
    snapshot = Snapshot(
        services=msgspec.convert(objects("services"), tuple[Service, ...]),
        nodes=msgspec.convert(objects("nodes"), tuple[Node, ...]),
        pods=msgspec.convert(objects("pods"), tuple[Pod, ...]),
        slices=msgspec.convert(objects(KEPT), tuple[EndpointSlice, ...]),
        lists_pods=True,
    )
    cluster_state = ClusterState(
        demand=compute_demand(snapshot.nodes),
        node_zones={node.metadata.name: node_zone(node) for node in snapshot.nodes},
        configuration=configuration,
    )
    for service in snapshot.services:
        if service.spec.selector:
            pods, slices = snapshot.pods_of(service), snapshot.slices_of(service)
            yield plan_service(service, pods=pods, slices=slices, cluster_state=cluster_state)


def fill(sandbox: Place, pods: int = PODS, **service: Any) -> None:
    for zone in "abc":
        sandbox.node(f"node-{zone}", zone)
    for index in range(pods):
        sandbox.pod(index, node=f"node-{'abc'[index % 3]}")
    sandbox.service(**service)


def addresses(*numbers: int) -> set[str]:
    return {f"10.0.{index // 250}.{index % 250}" for index in numbers}
