"""The condition says that nodes honor what a Service asks for once all of them have it, and then stays."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import pytest
from tests.builders.objects import with_field
from tests.client.recording import until
from tests.controller.a_controller import PODS, Place, a_place, at_work, fill, settle
from tests.patience import PATIENCE

from zoneward.client.api_errors import CallFailed, Forbidden
from zoneward.client.resources import LEASES
from zoneward.client.transport import Transport
from zoneward.client.writer import Writer, encode_object
from zoneward.controller import endpointslice_controller
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.status import honored_condition
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.kube import names
from zoneward.kube.leases import ProgrammedReport, build_proxy_lease
from zoneward.kube.objects import ObjectKey
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.versioned_store import StoredChange

NAMESPACE: Final = "kube-system"
KIND: Final = "leases.coordination.k8s.io"
SAME_ZONE: Final = {"distribution": "PreferSameZone"}
Said = tuple[str, str] | None
Object = dict[str, Any]
CART: Final = ("default", "cart")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(honored_condition, "UPDATE_PERIOD", 0.01)


class Scene:
    """A cluster with Zoneward's proxy on some nodes, and what was reported of the Service ``cart`` in turn."""

    def __init__(self, sandbox: Place) -> None:
        self.sandbox, self.renewals = sandbox, 0
        self.conditions: list[Said] = []
        sandbox.registry.store.listeners.append(self._note)

    @property
    def version(self) -> int:
        return self.sandbox.registry.store.version

    def renew(self, *nodes: str, at: int | None = None, but: tuple[ObjectKey, ...] = (), proxy_name: str = "") -> None:
        """Renew the Leases of proxies that have everything up to a version, by default the current one."""
        version = self.version if at is None else at
        for node in nodes:
            self.renewals += 1
            lease = build_proxy_lease(
                node,
                ProgrammedReport(version, version, but),
                namespace=NAMESPACE,
                proxy_name=proxy_name,
                renewed=f"2026-01-01T12:00:00.{self.renewals:06}Z",
                owner=None,
            )
            object_ = msgspec.json.decode(encode_object(LEASES, lease))
            name, marks = lease.metadata.name, {"annotations": object_["metadata"]["annotations"]}
            if self.sandbox.registry.find(KIND, NAMESPACE, name) is None:
                self.sandbox.store.create(self.sandbox.registry.kinds[KIND], NAMESPACE, object_)

            def renewed(old: Object, spec: Object = object_["spec"], marks: Object = marks) -> Object:
                return old | {"spec": spec, "metadata": old["metadata"] | marks}

            self.sandbox.change(KIND, NAMESPACE, name, renewed)

    @property
    def said(self) -> Said:
        condition = self.sandbox.condition(names.HONORED_CONDITION)
        return (condition["status"], condition["reason"]) if condition else None

    async def until(self, said: Said) -> None:
        await until(lambda: self.said == said)

    async def stays(self, said: Said) -> None:
        """Five looks later it is as it was."""
        await asyncio.sleep(0.05)
        assert self.said == said

    def message(self) -> str:
        condition = self.sandbox.condition(names.HONORED_CONDITION)
        assert condition is not None
        return str(condition["message"])

    def _note(self, kind: Kind, change: StoredChange) -> None:
        if kind.resource == "services" and change.key[1] == "cart" and self.said not in self.conditions[-1:]:
            self.conditions.append(self.said)


@asynccontextmanager
async def a_scene(*, labels: Mapping[str, str] | None = None, **service: Any) -> AsyncIterator[Scene]:
    async with a_place() as sandbox:
        scene = Scene(sandbox)
        fill(sandbox, **(SAME_ZONE | service))
        sandbox.change("services", *CART, lambda old: with_field(old, "metadata.labels", dict(labels or {})))
        yield scene


@asynccontextmanager
async def leading(scene: Scene, **options: Any) -> AsyncIterator[EndpointSliceController]:
    """A controller that has synced all there is."""
    status_writer = StatusWriter(Writer(scene.sandbox.link), instance="test")
    async with at_work(
        scene.sandbox, status_writer=status_writer, node_proxy_namespace=NAMESPACE, **options
    ) as controller:
        await settle(scene.sandbox, controller)
        assert await status_writer.wait_until_written(PATIENCE)
        yield controller


async def test_subsetting_beside_hints_starts_with_the_first_proxy_that_reads_slice_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without any, the hints stay: kube-proxy honors them, and reads no slice groups."""
    monkeypatch.setattr(endpointslice_controller, "_RECHECK_PERIOD", 0.01)

    def in_force(scene: Scene) -> set[str | None]:
        slices = scene.sandbox.objects("endpointslices.discovery.k8s.io")
        return {(slice_["metadata"].get("annotations") or {}).get(names.APPROACH_ANNOTATION) for slice_ in slices}

    async with a_scene(pods=18, annotations={names.SUBSETTING_ANNOTATION: "Auto"}) as scene, leading(scene):
        assert in_force(scene) == {"TrafficDistribution/PreferSameZone"}
        scene.renew("node-a", proxy_name="other")
        await scene.stays(None)
        assert in_force(scene) == {"TrafficDistribution/PreferSameZone"}
        scene.renew("node-a")
        await until(lambda: in_force(scene) == {"Subsetting/local"})


PROGRAMMED: Final = ("True", "Programmed")
PROGRAMMING: Final = ("Unknown", "Programming")


@pytest.mark.parametrize("name", ["", "edge"])
async def test_a_revision_is_honored_once_all_proxies_of_the_services_name_have_it_and_stays_honored(name: str) -> None:
    labels = {names.PROXY_NAME_LABEL: name} if name else {}
    async with a_scene(labels=labels) as scene, leading(scene) as controller:
        for other in {"", "edge", "other"} - {name}:
            scene.renew("node-c", proxy_name=other)
        await scene.stays(None)
        scene.renew("node-a", "node-b", at=1, proxy_name=name)
        await scene.until(PROGRAMMING)
        scene.renew("node-a", proxy_name=name)
        await scene.stays(PROGRAMMING)
        # One that could not program it.
        scene.renew("node-b", but=(CART,), proxy_name=name)
        await scene.stays(PROGRAMMING)
        scene.renew("node-b", but=(("default", "other"),), proxy_name=name)
        await scene.until(PROGRAMMED)
        assert scene.message().endswith("is programmed on 2 nodes")
        scene.sandbox.make_ready(0, False)
        scene.renew("node-c", at=1, proxy_name=name)
        await settle(scene.sandbox, controller)
        await scene.stays(PROGRAMMED)
        assert scene.conditions == [None, PROGRAMMING, PROGRAMMED]


async def test_the_next_leader_keeps_an_honored_revision_and_checks_a_changed_one() -> None:
    async with a_scene() as scene:
        async with leading(scene):
            scene.renew("node-a")
            await scene.until(PROGRAMMED)
        version, seen = scene.version, scene.version - 1
        async with leading(scene):
            # One that knows less than the Service's own version now: that is of our own writing.
            scene.renew("node-a", at=seen)
            await scene.stays(PROGRAMMED)
        assert scene.version == version + 1, "nothing but the Lease is written"
        asked = {"trafficDistribution": "PreferSameNode"}
        scene.sandbox.change("services", "default", "cart", lambda old: old | {"spec": old["spec"] | asked})
        async with leading(scene):
            await scene.until(PROGRAMMING)
            scene.renew("node-a")
            await scene.until(PROGRAMMED)


async def test_nodes_that_are_behind_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(honored_condition, "BEHIND_AFTER", 0.05)
    monkeypatch.setattr(honored_condition, "BEHIND_PERIOD", 0.05)
    async with a_scene() as scene, leading(scene):
        scene.renew("node-a", "node-b", at=1)
        scene.renew("node-c")
        await scene.until(("False", "NodesBehind"))
        await until(lambda: scene.message().endswith("programmed on 1 of 3 nodes; waiting for node-a, node-b"))
        scene.renew("node-a", "node-b")
        await scene.until(PROGRAMMED)


async def test_deletions_of_slices_are_waited_for() -> None:
    """After groups of slices for each zone are deleted, a node that has not seen the deletions still uses them."""
    groups = {names.SUBSETTING_ANNOTATION: "Auto"}
    async with a_scene(distribution=None, annotations=groups) as scene:
        for index in range(PODS, 15):
            scene.sandbox.pod(index, node=f"node-{'abc'[index % 3]}")
        async with leading(scene):
            scene.renew("node-a")
            await scene.until(PROGRAMMED)
            deleted: list[int] = []

            def note(kind: Kind, change: StoredChange) -> None:
                if kind.resource == "endpointslices.discovery.k8s.io" and change.new is None:
                    deleted.append(change.version)

            scene.sandbox.registry.store.listeners.append(note)
            scene.sandbox.annotate("cart", {names.TOPOLOGY_MODE_ANNOTATION: "Auto"})
            await until(lambda: bool(deleted))
            await scene.until(PROGRAMMING)
            await asyncio.sleep(0.05)
            scene.renew("node-a", at=max(deleted) - 1)
            await scene.stays(PROGRAMMING)
            scene.renew("node-a", at=max(deleted) + 10)
            await scene.until(PROGRAMMED)


async def test_without_permission_to_read_leases_everything_else_works(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("get", "stream"):
        allowed = getattr(Transport, name)

        def refusing(self: Transport, path: str, *given: Any, allowed: Any = allowed, **options: Any) -> Any:
            if path.endswith("/leases"):
                raise Forbidden(403, "Forbidden", "leases is forbidden", method="GET", path=path)
            return allowed(self, path, *given, **options)

        monkeypatch.setattr(Transport, name, refusing)
    troubles: list[CallFailed] = []
    on_watch_error = lambda _resource, error: troubles.append(error)  # noqa: E731
    async with a_scene() as scene, leading(scene, on_watch_error=on_watch_error):
        scene.renew("node-a")
        await scene.stays(None)
        assert len(troubles) == 1
        assert len(scene.sandbox.listed()) == PODS
