"""The ConfigMaps of an overlay: what is written of them, and what a watch changes. ``e2e/test_overlay.py`` runs it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders.structs import a_service, a_slice, an_endpoint, hints, nodes_in, pods_in
from tests.client.recording import until
from tests.controller.a_controller import at_work
from tests.controller.model.network import in_no_time, in_virtual_time, seconds

from zoneward.client.api_errors import ApiError, CallFailed, Conflict, NotFound, TimedOut
from zoneward.client.informer_cache import InformerCache
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.resources import (
    CACHED_RESOURCES,
    CONFIG_MAPS,
    NAMESPACES,
    LiveConfigMap,
    LiveConfigMapMeta,
    LiveNode,
    LivePod,
)
from zoneward.client.writer import Writer
from zoneward.controller import overlay_reconciler
from zoneward.controller.context import WORKERS, ControllerContext
from zoneward.controller.controller_configuration import Mode
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.handover.service_handover import ReadWriteConnection
from zoneward.controller.overlay_reconciler import (
    MAX_BYTES,
    SETTLE_TIME,
    OverlayParameters,
    OverlayReconciler,
    OverlayStores,
)
from zoneward.controller.queue.work_queue import Urgency, WorkItem, WorkQueue, namespace_of
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.controller.sync.service_states import ServiceStates
from zoneward.controller.sync.slice_writer import SyncOutcome
from zoneward.kube.names import BUILT_IN_MANAGER, OVERLAY_CONFIG_MAP, OVERLAY_MARK, PROGRAMMED_CONDITION
from zoneward.kube.objects import (
    Condition,
    EndpointSlice,
    Namespace,
    ObjectKey,
    ObjectMeta,
    Service,
    ServiceEvent,
    ServiceStatus,
)
from zoneward.routing.configuration import Configuration
from zoneward.slices.overlay import overlay_configuration, read_entries, with_overlay_hints

CART, WEB = ("shop", "cart"), ("shop", "web")
ZONES = {"cart.IPv4": "zones Hints/Balanced", "cart.10.0.0.1": "b"}


class Server:
    """Answers writes as an API server does, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, object]] = []
        self.version = 10
        self.exists = False
        self.is_immutable = False
        self.binary_keys: set[str] = set()
        self.uid = "u1"
        self.data: dict[str, str] = {}
        self.slice: EndpointSlice | None = None
        self.before_answer: Callable[[], None] = lambda: None

    def once(self) -> "Server":
        return self

    def _metadata(self) -> ObjectMeta:
        self.version += 1
        metadata = ObjectMeta(name=OVERLAY_CONFIG_MAP, uid=self.uid, resource_version=str(self.version))
        self.before_answer()
        return metadata

    async def apply(self, _resource: object, obj: LiveConfigMap) -> ObjectMeta:
        self.asked.append(("apply", obj.data))
        self.exists = True
        self.data |= obj.data or {}
        return self._metadata()

    async def patch(self, _resource: object, change: Mapping[str, Any], **_place: str) -> ObjectMeta:
        if not self.exists:
            raise NotFound(404, "NotFound", "", method="PATCH", path="")
        if "metadata" in change:
            self.asked.append(("patch", dict(change["metadata"])))
            return self._metadata()
        if self.is_immutable:
            raise ApiError(422, "Invalid", "field is immutable when `immutable` is set", method="PATCH", path="")
        self.binary_keys = set() if change.get("binaryData", ...) is None else self.binary_keys
        if change["data"].keys() & self.binary_keys:
            raise ApiError(422, "Invalid", "duplicate of key present in binaryData", method="PATCH", path="")
        self.asked.append(("patch", dict(change["data"])))
        self.data = {entry: value for entry, value in {**self.data, **change["data"]}.items() if value is not None}
        return self._metadata()

    async def delete(self, _resource: object, obj: LiveConfigMap) -> None:
        self.before_answer()
        if obj.metadata.uid != self.uid:
            raise Conflict(409, "Conflict", "", method="DELETE", path="")
        self.asked.append(("delete", obj.metadata.uid))
        self.exists = self.is_immutable = False
        self.data = {}

    async def touch(self, _resource: object, *, namespace: str, name: str) -> EndpointSlice:
        assert self.slice is not None
        assert (namespace, name) == ("shop", self.slice.metadata.name)
        self.asked.append(("touch", name))
        overlay = read_entries(self.data).get(("cart", "IPv4"))
        self.slice = with_overlay_hints(self.slice, overlay)
        return self.slice


class Scene:
    def __init__(self) -> None:
        self.server = Server()
        self.stores = OverlayStores(on_unreadable=lambda _object: None)
        self.changed: list[ObjectKey] = []
        self.reapproached: list[ObjectKey] = []
        self.now = 1000.0
        self.parameters = OverlayParameters(
            self.stores,
            cast(Writer, self.server),
            on_change=self.changed.extend,
            on_approach=self.reapproached.append,
            clock=lambda: self.now,
        )

    def see(self, data: Mapping[str, str], *, version: int, uid: str = "u1", allow_older: bool = False) -> None:
        """The watch shows this state."""
        metadata = LiveConfigMapMeta(name=OVERLAY_CONFIG_MAP, namespace="shop", uid=uid, resource_version=str(version))
        config_map = LiveConfigMap(metadata=metadata, data=dict(data), immutable=self.server.is_immutable or None)
        self.stores.config_maps.put(config_map, allow_older=allow_older)


def a_namespace(labels: Mapping[str, str]) -> Namespace:
    return Namespace(metadata=ObjectMeta(name="shop", labels=dict(labels), resource_version="1"))


async def test_only_what_changed_is_written() -> None:
    scene = Scene()
    assert await scene.parameters.write(CART, ZONES)
    assert not await scene.parameters.write(CART, ZONES)
    assert await scene.parameters.write(WEB, {"web.IPv4": "none"})
    assert await scene.parameters.write(CART, {"cart.IPv4": "zones Hints/Balanced", "cart.10.0.0.2": "c"})
    assert scene.server.asked == [
        ("apply", ZONES),
        ("patch", {"web.IPv4": "none"}),
        ("patch", {"cart.10.0.0.2": "c", "cart.10.0.0.1": None}),
    ]
    assert scene.parameters.approach_of(CART, "IPv4") == "Hints/Balanced"
    assert scene.reapproached == [CART]


async def test_the_config_map_goes_with_its_last_service() -> None:
    scene = Scene()
    await scene.parameters.write(CART, ZONES)
    await scene.parameters.write(WEB, {"web.IPv4": "none"})
    await scene.parameters.write(CART, {})
    assert not scene.parameters.is_empty
    await scene.parameters.write(WEB, {})
    assert scene.server.asked[-2:] == [
        ("patch", {"cart.IPv4": None, "cart.10.0.0.1": None}),
        ("delete", "u1"),
    ]
    assert scene.parameters.is_empty


async def test_entries_of_services_that_are_gone_go_in_one_write() -> None:
    scene = Scene()
    scene.see(ZONES | {"web.IPv4": "none", "old.IPv4": "zones", "old.10.0.0.1": "a", "junk": "x"}, version=5)
    scene.server.exists = True
    assert await scene.parameters.remove("shop", lambda key: key not in (CART, WEB))
    assert not await scene.parameters.remove("shop", lambda key: key not in (CART, WEB))
    assert not await scene.parameters.remove("elsewhere", lambda _key: True)
    assert await scene.parameters.remove("shop", lambda _key: True)
    assert scene.server.asked == [
        ("patch", {"old.IPv4": None, "old.10.0.0.1": None, "junk": None}),
        ("delete", "u1"),
    ]


async def test_a_deleted_config_map_is_created_again_with_all_entries() -> None:
    scene = Scene()
    await scene.parameters.write(CART, ZONES)
    scene.server.exists = False
    await scene.parameters.write(WEB, {"web.IPv4": "none"})
    assert scene.server.asked[-1] == ("apply", ZONES | {"web.IPv4": "none"})


async def test_two_writers_do_not_replace_the_entries_of_a_service_in_turn_forever() -> None:
    scene, other = Scene(), ZONES | {"cart.10.0.0.1": "c"}
    pauses: list[float] = []
    web: dict[str, str] = {}
    for _ in range(9):
        before = scene.now
        while True:
            with suppress(CallFailed):
                assert await scene.parameters.write(CART, ZONES)
                break
            web = {"web.IPv4": f"zones {scene.now:.0f}"}
            assert await scene.parameters.write(WEB, web), "other Services are written"
            scene.now += 1.0
        pauses.append(scene.now - before)
        scene.server.version += 1
        scene.see(other | web, version=scene.server.version)
    assert pauses[:2] == [0.0, 0.0], "the first time may be a person"
    assert pauses[2:] == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    with pytest.raises(CallFailed, match="another program replaces its entries in the ConfigMap zoneward-overlay"):
        await scene.parameters.write(CART, ZONES)
    assert not await scene.parameters.write(CART, other), "they are what is wanted now"
    scene.now += 700.0
    assert await scene.parameters.write(CART, ZONES)
    scene.see(other | web, version=scene.server.version + 1)
    assert await scene.parameters.write(CART, ZONES)


async def test_an_immutable_config_map_is_replaced_though_a_finalizer_keeps_it() -> None:
    scene = Scene()
    scene.server.exists = scene.server.is_immutable = True
    scene.see({"web.IPv4": "none", "junk": "x"}, version=5)
    assert await scene.parameters.write(CART, ZONES)
    wanted = {"web.IPv4": "none", "junk": "x"} | ZONES
    assert scene.server.asked == [("patch", {"finalizers": None}), ("delete", "u1"), ("apply", wanted)]
    scene.see(wanted, version=scene.server.version)
    assert await scene.parameters.remove("shop", lambda key: key == ("shop", "junk"))
    assert scene.server.asked[-1] == ("patch", {"junk": None})


async def test_binary_data_of_somebody_else_keeps_no_entry_out() -> None:
    scene = Scene()
    scene.server.exists, scene.server.binary_keys = True, {"cart.IPv4"}
    scene.see({}, version=5)
    assert await scene.parameters.write(CART, ZONES)
    assert scene.server.data == ZONES


async def test_entries_that_somebody_else_changed_are_reported_and_own_writes_are_not() -> None:
    scene = Scene()
    scene.see(ZONES | {"junk": "x"}, version=5)
    assert scene.changed == [CART, ("shop", "junk")]
    scene.changed.clear()
    await scene.parameters.write(("shop", "junk"), {})
    own = scene.server.version
    scene.server.exists = True
    scene.see(ZONES, version=own)
    # A state before it, from a watch that lags behind.
    scene.see(ZONES | {"junk": "x"}, version=own - 1)
    assert scene.changed == []
    scene.see({"cart.IPv4": "none"}, version=own + 5)
    assert scene.changed == [CART]
    assert scene.parameters.entries_of(CART) == {"cart.IPv4": "none"}
    assert await scene.parameters.write(CART, ZONES)


async def test_a_change_by_somebody_else_before_own_write_is_seen() -> None:
    scene = Scene()
    scene.server.exists = True
    scene.see(ZONES, version=5)
    scene.changed.clear()
    # Somebody deletes an entry, and the watch shows it only after the answer to this write.
    await scene.parameters.write(WEB, {"web.IPv4": "none"})
    own = scene.server.version
    scene.see({"cart.IPv4": "zones Hints/Balanced"}, version=own - 1)
    scene.see({"cart.IPv4": "zones Hints/Balanced", "web.IPv4": "none"}, version=own)
    assert scene.changed == [CART]
    assert await scene.parameters.write(CART, ZONES)


async def test_a_later_state_that_the_watch_shows_before_the_answer_stays() -> None:
    scene = Scene()
    scene.server.exists = True
    scene.see(ZONES, version=5)
    scene.server.before_answer = lambda: scene.see({"web.IPv4": "zones"}, version=scene.server.version + 1)
    assert await scene.parameters.write(WEB, {"web.IPv4": "none"})
    scene.server.before_answer = lambda: None
    assert scene.parameters.entries_of(WEB) == {"web.IPv4": "zones"}
    assert await scene.parameters.write(WEB, {"web.IPv4": "none"})
    assert scene.server.asked[-1] == ("patch", {"web.IPv4": "none"})


async def test_a_config_map_that_somebody_replaces_while_it_is_deleted_keeps_its_entries() -> None:
    scene = Scene()
    scene.server.exists = True
    scene.see(ZONES, version=5)

    def replaced() -> None:
        scene.server.uid = "u2"
        scene.see(ZONES, version=7, uid="u2")

    scene.server.before_answer = replaced
    with pytest.raises(Conflict):
        await scene.parameters.write(CART, {})
    assert scene.parameters.entries_of(CART) == ZONES
    assert await scene.parameters.write(CART, {})
    assert scene.server.asked == [("delete", "u2")]


@pytest.mark.parametrize("seen_before", [False, True])
async def test_a_config_map_that_is_deleted_before_the_watch_shows_it_is_created_again(seen_before: bool) -> None:
    scene = Scene()
    if seen_before:
        # An earlier one, which is gone too.
        scene.see(ZONES, version=5, uid="u0")
    assert await scene.parameters.write(CART, ZONES | {"cart.10.0.0.2": "c"})
    own = scene.server.version
    scene.changed.clear()
    scene.parameters.seen(own - 1)
    assert scene.changed == []
    # Deleted by somebody, and listed again.
    scene.server.exists = False
    scene.stores.config_maps.retain_only(set())
    scene.parameters.seen(own + 1)
    assert scene.changed == [CART]
    assert scene.parameters.is_empty
    assert await scene.parameters.write(CART, ZONES)
    assert scene.server.asked[-1] == ("apply", ZONES)


@dataclass
class WithLink:
    link: ReadWriteConnection


class EmptyCluster:
    """Answers every watch with an empty list."""

    @asynccontextmanager
    async def stream(self, path: str, _query: object, *, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        kind = {resource.path(): resource.kind for resource in (*CACHED_RESOURCES, CONFIG_MAPS, NAMESPACES)}[path]

        async def lines() -> AsyncIterator[bytes]:
            metadata = {"resourceVersion": "20", "annotations": {"k8s.io/initial-events-end": "true"}}
            yield msgspec.json.encode({"type": "BOOKMARK", "object": {"kind": kind, "metadata": metadata}})
            await asyncio.sleep(idle)

        yield lines()


async def test_a_controller_forgets_a_config_map_that_a_list_does_not_have() -> None:
    connection = cast(ReadWriteConnection, EmptyCluster())
    async with at_work(WithLink(connection), mode=Mode.OVERLAY, writer=cast(Writer, Server())) as controller:
        assert controller._parameters is not None
        assert await controller._parameters.write(CART, ZONES)
        assert not controller._parameters.is_empty
        await until(lambda: controller.is_released)


async def test_a_config_map_that_cannot_be_read_is_not_deleted() -> None:
    scene = Scene()
    assert await scene.parameters.write(CART, ZONES)
    own = scene.server.version
    scene.stores.config_maps.mark_unreadable(
        UnreadableObject(resource=CONFIG_MAPS, namespace="shop", name=OVERLAY_CONFIG_MAP, version=str(own), problem="")
    )
    scene.parameters.seen(own + 1)
    assert scene.parameters.entries_of(CART) == ZONES


async def test_entries_of_restored_data_count_though_they_are_older() -> None:
    scene = Scene()
    scene.see(ZONES, version=900)
    scene.see({"cart.IPv4": "none"}, version=40, allow_older=True)
    assert scene.parameters.entries_of(CART) == {"cart.IPv4": "none"}


async def test_nothing_is_remembered_of_a_namespace_that_is_gone() -> None:
    scene = Scene()
    assert not await scene.parameters.remove("shop", lambda _key: True)
    scene.server.exists = True
    scene.see(ZONES, version=5)
    config_map = scene.stores.config_maps.get("shop", OVERLAY_CONFIG_MAP)
    assert config_map is not None
    namespace = a_namespace({})
    scene.stores.namespaces.put(namespace)
    scene.stores.namespaces.delete(namespace)
    scene.stores.config_maps.delete(config_map)
    assert not await scene.parameters.remove("shop", lambda _key: True)
    assert scene.parameters._namespaces == {}


def test_entries_have_room_up_to_the_limit_of_their_namespace() -> None:
    scene = Scene()
    half = {f"web.10.0.{index // 250}.{index % 250}": "z" * 500 for index in range(MAX_BYTES // 1_100)}
    scene.see(half, version=5)
    assert scene.parameters.fits(CART, ZONES)
    assert scene.parameters.fits(WEB, half)
    assert scene.parameters.fits(("elsewhere", "cart"), half)
    assert not scene.parameters.fits(CART, half | {"cart.fd00__1": "z" * (MAX_BYTES // 10)})


class Overlay(Scene):
    """A Service in the overlay, with a ready Pod in each of three zones and one slice of the built-in controller.

    The cache shows the slice as it was at the beginning.
    """

    def __init__(self) -> None:
        super().__init__()
        configuration = overlay_configuration(Configuration())
        self.cache = InformerCache()
        nodes, pods = nodes_in(dict.fromkeys("abc", 4)), pods_in(dict.fromkeys("abc", 2))
        states = ServiceStates(self.cache, configuration=configuration, as_planned=self.parameters.as_planned)
        for node in nodes:
            live = msgspec.convert(msgspec.to_builtins(node), LiveNode)
            self.cache.nodes.put(live)
            states.node_changed(None, live)
        for pod in pods:
            self.cache.pods.put(msgspec.convert(msgspec.to_builtins(pod), LivePod))
        endpoints = (
            an_endpoint(pod.status.pod_ip, zone=pod.spec.node_name[-1], node=pod.spec.node_name, pod=pod.metadata.name)
            for pod in pods
        )
        self.server.slice = a_slice("cart-1", *endpoints, manager=BUILT_IN_MANAGER)
        self.cache.slices.put(self.server.slice)
        context = ControllerContext(
            connection=cast(ReadWriteConnection, None),
            writer=cast(Writer, self.server),
            configuration=configuration,
            mode=Mode.OVERLAY,
            status_writer=cast(StatusWriter, self),
        )
        self.events: list[str] = []
        self.registry = context.metrics.registry
        self.queue = WorkQueue[ObjectKey](group_of=namespace_of, workers=WORKERS)
        self.reconciler = OverlayReconciler(
            context, cache=self.cache, queue=self.queue, states=states, parameters=self.parameters
        )
        self.parameters._on_approach = states.plan_afresh
        self.stores.synced.set()
        states.refresh_nodes()
        self._version = 0
        self.ask("zoneward.dev/Balanced")

    def ask(self, mode: str | None) -> None:
        self._version += 1
        self.cache.services.put(
            a_service(mode, annotations={OVERLAY_MARK: "enabled"}, version=str(self._version))
            if mode
            else a_service(version=str(self._version))
        )

    async def reconcile(self) -> None:
        """Once now, and once the API servers know what was written."""
        for _ in range(2):
            await self.reconciler.reconcile(WorkItem(CART, since=0, urgency=Urgency.NORMAL))
            await asyncio.sleep(SETTLE_TIME)

    def as_reported(self, service: Service) -> Service:
        return service

    def forget(self, _key: ObjectKey) -> None: ...

    def report(self, _service: Service, *, conditions: object, events: Iterable[ServiceEvent]) -> None:  # noqa: ARG002
        self.events += [event.reason for event in events]

    @property
    def refused(self) -> float | None:
        return self.registry.get_sample_value("zoneward_controller_overlay_refused_services")


@in_virtual_time
async def test_a_service_that_leaves_has_no_hints_also_where_the_cache_is_behind() -> None:
    overlay = Overlay()
    await overlay.reconcile()
    assert overlay.server.slice is not None
    assert [endpoint.hints for endpoint in overlay.server.slice.endpoints or ()] == [hints(zone) for zone in "aabbcc"]
    overlay.ask(None)
    await overlay.reconcile()
    assert {endpoint.hints for endpoint in overlay.server.slice.endpoints or ()} == {None}
    assert overlay.server.asked[-3:] == [("patch", {"cart.IPv4": "remove"}), ("touch", "cart-1"), ("delete", "u1")]


@pytest.mark.parametrize("data", [{"cart.IPv4": "zones Hints/Balanced"}, {}], ids=["back", "away"])
def test_a_service_leaves_though_somebody_puts_its_entries_back_or_takes_them_away(data: dict[str, str]) -> None:
    in_no_time(_leave_while_entries_become(data))


async def _leave_while_entries_become(data: dict[str, str]) -> None:
    overlay = Overlay()
    await overlay.reconcile()
    overlay.ask(None)
    await overlay.reconciler.reconcile(WorkItem(CART, since=0, urgency=Urgency.NORMAL))
    overlay.server.version += 1
    overlay.server.data = data
    overlay.see(overlay.server.data, version=overlay.server.version)
    await overlay.reconcile()
    assert overlay.server.slice is not None
    assert {endpoint.hints for endpoint in overlay.server.slice.endpoints or ()} == {None}
    assert overlay.server.data == {}


@in_virtual_time
async def test_slices_get_their_hints_though_the_api_server_refuses_another_one() -> None:
    overlay = Overlay()
    assert overlay.server.slice is not None
    first, *others = overlay.server.slice.endpoints or ()
    overlay.server.slice = a_slice("cart-1", *others, manager=BUILT_IN_MANAGER)
    for slice_ in (a_slice("cart-0", first, manager=BUILT_IN_MANAGER), overlay.server.slice):
        overlay.cache.slices.put(slice_)
    touch = overlay.server.touch

    async def touch_or_refuse(resource: object, *, namespace: str, name: str) -> EndpointSlice:
        if name == "cart-0":
            raise ApiError(422, "Invalid", "not valid in this version", method="PATCH", path="")
        return await touch(resource, namespace=namespace, name=name)

    overlay.server.touch = touch_or_refuse  # type: ignore[method-assign, assignment]
    await overlay.reconcile()
    result = await overlay.reconciler.reconcile(WorkItem(CART, since=0, urgency=Urgency.NORMAL))
    assert result.outcome is SyncOutcome.FAILED
    assert None not in {endpoint.hints for endpoint in overlay.server.slice.endpoints or ()}


@in_virtual_time
async def test_an_event_that_waits_for_hints_is_reported_also_without_the_annotation_of_the_last_report() -> None:
    overlay = Overlay()
    service = overlay.cache.services.get(*CART)
    assert service is not None
    condition = Condition(type=PROGRAMMED_CONDITION, status="False", reason="OneZone")
    metadata = replace(service.metadata, resource_version="2")
    overlay.cache.services.put(replace(service, metadata=metadata, status=ServiceStatus(conditions=(condition,))))
    await overlay.reconcile()
    assert overlay.events == ["TopologyAwareRoutingEnabled"]


@in_virtual_time
async def test_slow_writes_of_a_namespace_delay_other_namespaces_by_one_write() -> None:
    overlay = Overlay()

    async def time_out(*_args: object, **_place: str) -> ObjectMeta:
        await asyncio.sleep(5)
        raise TimedOut("no answer")

    overlay.see({f"old-{index}.IPv4": "none" for index in range(100)}, version=5)
    overlay.server.patch = overlay.server.delete = time_out  # type: ignore[method-assign, assignment]
    queue, done_at = overlay.queue, dict[ObjectKey, float]()

    async def work() -> None:
        while (item := await queue.get()) is not None:
            await queue.run(item.key, overlay.reconciler.reconcile(item))
            queue.done(item.key)
            done_at[item.key] = seconds()

    queue.add_all(overlay.changed)
    workers = [asyncio.create_task(work()) for _ in range(WORKERS)]
    await asyncio.sleep(1)
    queue.add(("other", "cart"))
    await asyncio.sleep(10)
    queue.shut_down()
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    assert done_at[("other", "cart")] == 5


@in_virtual_time
async def test_a_refused_service_that_asks_for_an_unknown_value_is_refused_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overlay = Overlay()
    monkeypatch.setattr(overlay_reconciler, "MAX_BYTES", 10)
    await overlay.reconcile()
    assert overlay.refused == 1
    overlay.ask("Banana")
    await overlay.reconcile()
    assert overlay.refused == 0


@in_virtual_time
async def test_a_service_that_the_cache_has_before_its_namespace_is_in_the_overlay() -> None:
    context = ControllerContext(
        connection=cast(ReadWriteConnection, None),
        writer=cast(Writer, Server()),
        configuration=overlay_configuration(Configuration()),
        mode=Mode.OVERLAY,
    )
    controller = EndpointSliceController(context)
    assert controller._parameters is not None
    stores = controller._parameters.stores
    stores.synced.set()
    controller.cache.services.put(a_service("Auto", version="1"))
    item = await controller.queue.get()
    assert item is not None
    controller.queue.done(item.key)
    stores.namespaces.put(a_namespace({OVERLAY_MARK: "enabled"}))
    assert controller.queue.depth().waiting == 1
