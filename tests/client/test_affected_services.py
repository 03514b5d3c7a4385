"""A change affects all Services that it can touch, and no others."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from msgspec import convert

from zoneward.client.informer_cache import InformerCache, subscribe_affected_services
from zoneward.client.resources import NODES, PODS, SERVICES, SLICES
from zoneward.kube.names import SERVICE_NAME_LABEL, ZONE_LABEL
from zoneward.kube.objects import ObjectKey, node_zone

KEYS = [("n1", "s1"), ("n1", "s2"), ("n2", "s1"), ("n2", "s2")]


class Scene:
    """A cache, and the Services that it reported since the last call of `affected`."""

    def __init__(self) -> None:
        self.cache, self.version, self._affected = InformerCache(), 0, set[ObjectKey]()
        self.end = subscribe_affected_services(self.cache, self._affected.update)
        for namespace, name in KEYS:
            self.service(namespace, name, app=name)
        for index, zone in enumerate("ab"):
            self.node(f"node-{index}", zone)
        self.affected()

    def affected(self) -> set[ObjectKey]:
        affected = set(self._affected)
        self._affected.clear()
        return affected

    def _put(self, resource: Any, namespace: str, name: str, labels: Mapping[str, str] | None, **fields: Any) -> None:
        self.version += 1
        metadata = {"name": name, "namespace": namespace, "resourceVersion": str(self.version), "labels": labels}
        self.cache.store(resource).put(convert({"metadata": metadata} | fields, resource.struct))

    def delete(self, resource: Any, namespace: str, name: str) -> None:
        store = self.cache.store(resource)
        store.delete(store.get(namespace, name))

    def service(self, namespace: str, name: str, **selector: str) -> None:
        self._put(SERVICES, namespace, name, None, spec={"selector": selector})

    def pod(
        self, namespace: str, name: str, node: str = "node-0", *, ready: bool = True, ip: str = "fd::1", **labels: str
    ) -> None:
        # A different time for each call, as for a Pod that becomes ready again.
        at = f"2026-11-21T08:00:{self.version % 60:02}Z"
        conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": at}]
        status = {"conditions": conditions, "podIP": ip}
        self._put(PODS, namespace, name, labels, spec={"nodeName": node}, status=status)

    def slice(self, namespace: str, name: str, *, service: str | None) -> None:
        self._put(SLICES, namespace, name, None if service is None else {SERVICE_NAME_LABEL: service})

    def node(self, name: str, zone: str | None, *, ready: bool = True) -> None:
        labels = {} if zone is None else {ZONE_LABEL: zone}
        self._put(NODES, "", name, labels | {"heartbeat": str(ready)})

    def inputs(self) -> dict[ObjectKey, object]:
        """The inputs of the plan of a Service, except those that the whole cluster shares."""
        cache = self.cache
        return {
            key: (
                service.spec if (service := cache.services.get(*key)) else None,
                sorted(
                    (pod.metadata.name, pod.spec.node_name, str(pod.status.conditions), self.zone(pod.spec.node_name))
                    for pod in cache.pods_of(*key)
                    if pod.status.pod_ip
                ),
                sorted(slice_.metadata.name for slice_ in cache.slices_of(*key)),
            )
            for key in KEYS
        }

    def zone(self, node: str) -> str:
        known = self.cache.nodes.get("", node)
        return "gone" if known is None else node_zone(known) or "none"


def test_labels_alone_concern_the_services_that_select_a_pod_in_one_state_and_not_in_the_other() -> None:
    scene = Scene()
    scene.service("n1", "both", app="s1")
    scene.service("n1", "all", tier="web")
    scene.pod("n1", "p", app="s1", tier="web")
    scene.affected()
    scene.pod("n1", "p", app="s1", tier="web", hash="2")
    assert scene.affected() == set()
    scene.pod("n1", "p", app="s2", tier="web")
    assert scene.affected() == {("n1", "s1"), ("n1", "both"), ("n1", "s2")}
    scene.pod("n1", "p", app="s1", tier="web", ready=False)
    assert scene.affected() == {("n1", "s1"), ("n1", "both"), ("n1", "s2"), ("n1", "all")}


def test_a_pod_without_an_address_concerns_none_until_it_has_one_and_again_when_it_loses_it() -> None:
    scene = Scene()
    scene.pod("n1", "p", app="s1", ip="", ready=False)
    scene.pod("n1", "p", app="s1", ip="", node="node-1")
    scene.pod("n1", "p", app="s2", ip="", node="node-1")
    scene.node("node-1", "c")
    assert scene.affected() == set()
    scene.pod("n1", "p", app="s2", node="node-1")
    assert scene.affected() == {("n1", "s2")}
    scene.pod("n1", "p", app="s1", ip="", node="node-1")
    assert scene.affected() == {("n1", "s1"), ("n1", "s2")}
    scene.delete(PODS, "n1", "p")
    assert scene.affected() == set()


def test_a_slice_concerns_the_services_that_it_names_and_named() -> None:
    scene = Scene()
    for service in ("s1", "s2"):
        scene.slice("n1", "e", service=service)
    scene.slice("n1", "f", service=None)
    assert scene.affected() == {("n1", "s1"), ("n1", "s2")}


def test_a_node_concerns_services_with_pods_on_it_where_its_zone_changes() -> None:
    scene = Scene()
    scene.pod("n1", "p", app="s1", node="node-1")
    scene.pod("n2", "p", app="s2", node="node-0")
    scene.pod("n2", "q", app="s1", node="node-9")
    scene.affected()
    scene.node("node-1", "b", ready=False)
    assert scene.affected() == set(), "that it is ready or not is demand"
    scene.node("node-1", "c")
    assert scene.affected() == {("n1", "s1")}
    scene.delete(NODES, "", "node-1")
    assert scene.affected() == {("n1", "s1")}
    scene.node("node-9", None)
    assert scene.affected() == {("n2", "s1")}, "Pods count on a Node that exists, whether it has a zone or not"


def test_a_change_of_the_version_alone_concerns_none_nor_does_any_after_the_end() -> None:
    scene = Scene()
    for _ in range(2):
        scene.affected()
        scene.service("n1", "s1", app="s1")
        scene.pod("n1", "p", app="s1")
        scene.slice("n1", "e", service="s1")
        scene.node("node-0", "a")
    scene.end()
    scene.service("n1", "s1", app="other")
    assert scene.affected() == set()


@pytest.mark.parametrize("seed", range(3))
def test_every_change_of_the_inputs_of_a_plan_is_reported(seed: int) -> None:
    scene, chance = Scene(), Random(seed)
    before = scene.inputs()
    for _ in range(300):
        namespace, name = chance.choice(KEYS)
        object_name = str(chance.randrange(4))
        what = chance.choice(["pod", "pod", "slice", "node", "service", "gone"])
        match what:
            case "pod":
                node = f"node-{chance.randrange(3)}"
                app, ready, ip = chance.choice(["s1", "s2"]), chance.random() < 0.5, chance.choice(["", "10.0.0.1"])
                scene.pod(namespace, object_name, app=app, node=node, ready=ready, ip=ip)
            case "slice":
                scene.slice(namespace, object_name, service=chance.choice(["s1", "s2", None]))
            case "node":
                scene.node(f"node-{chance.randrange(3)}", chance.choice(["a", "b", None]))
            case "service":
                scene.service(namespace, name, app=chance.choice(["s1", "s2"]))
            case _:
                stores: list[Any] = [scene.cache.pods, scene.cache.slices, scene.cache.nodes, scene.cache.services]
                store = chance.choice(stores)
                objects = list(store)
                if objects:
                    store.delete(chance.choice(objects))
        after = scene.inputs()
        assert {key for key in KEYS if before[key] != after[key]} <= scene.affected(), what
        before = after
