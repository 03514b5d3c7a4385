"""Plans kept current: after any changes they equal a fresh plan, and the reported changes lead there step by step."""

import json
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tests.builders.new_user_clusters import eks_with_an_overlay, write_list
from tests.cli.running import Commands, sample_objects

from zoneward.advice.decisions import DecisionDocument, decisions_document
from zoneward.cli import live_plans
from zoneward.cli.cluster_input import filter_services
from zoneward.cli.live_plans import LivePlans
from zoneward.cli.options import Options
from zoneward.cli.planned_services import SelectedServices, build_cluster_states, proxies_in
from zoneward.client.informer_cache import InformerCache
from zoneward.client.optional_objects import ProxyObjects
from zoneward.client.resources import NODES, PODS, SERVICES, SLICES
from zoneward.kube.objects import ConfigMap, Service
from zoneward.routing.configuration import Configuration
from zoneward.slices.plan import plan_service
from zoneward.snapshots.cluster_snapshot import Snapshot

pytestmark = pytest.mark.slow

RESOURCES: dict[str, Any] = {item.kind: item for item in (SERVICES, NODES, PODS, SLICES)}
CONFIGURATION = Configuration()
FIGURES = {("shop", "search"): {"eu-central-1a": Fraction(3, 4), "eu-central-1b": Fraction(1, 4)}}
"""Parts of zones in the traffic of a Service."""


class Scene:
    """The sample cluster in a cache; objects by kind, namespace and name as they were put there."""

    def __init__(self, options: Options | None = None) -> None:
        self.cache, self.version, self.waits = InformerCache(), 0, 0
        self.options = options or Options()
        self.objects: dict[tuple[str, str, str], Any] = {}
        self.reported: dict[tuple[str, str, str], DecisionDocument] = {}
        self.plans = LivePlans(
            self.cache,
            options=self.options,
            configuration=CONFIGURATION,
            on_stale=lambda: setattr(self, "waits", 1),
            service_parts=FIGURES,
        )
        for object_ in sample_objects():
            if object_["kind"] in RESOURCES:
                self.put(object_)
        for resource in RESOURCES.values():
            store = self.cache.store(resource)
            store.retain_only({(item.metadata.namespace, item.metadata.name) for item in store})
        self.plans.begin()
        self.update()
        self.waits = 0

    def put(self, object_: Any, **metadata: Any) -> None:
        self.version += 1
        metadata = {**object_["metadata"], **metadata, "resourceVersion": str(self.version)}
        object_ = {**object_, "metadata": metadata}
        resource = RESOURCES[object_["kind"]]
        self.objects[object_["kind"], metadata.get("namespace", ""), metadata["name"]] = object_
        self.cache.store(resource).put(msgspec.json.decode(json.dumps(object_), type=resource.struct))

    def get(self, kind: str, name: str, namespace: str = "shop") -> Any:
        return self.objects[kind, namespace, name]

    def delete(self, kind: str, name: str, namespace: str = "shop") -> None:
        del self.objects[kind, namespace, name]
        store: Any = self.cache.store(RESOURCES[kind])
        store.delete(store.get(namespace, name))

    def update(self) -> list[str]:
        """The types of the reported changes. Checks that each one follows from those before."""
        types: list[str] = []
        for changes in self.plans.update():
            for change in changes:
                view = change.view
                key = (view.namespace, view.service, view.address_type)
                assert self.reported.get(key) == change.old
                assert change.old != change.new
                if change.new is None:
                    del self.reported[key]
                else:
                    self.reported[key] = change.new
                types.append(change.type)
        assert not self.plans.is_stale
        return types

    def fresh(self) -> list[DecisionDocument]:
        """A fresh plan of the same cluster."""
        decoded = [msgspec.json.decode(json.dumps(item), type=RESOURCES[kind].struct)
                   for (kind, *_), item in sorted(self.objects.items(), key=lambda item: item[0])]  # fmt: skip
        snapshot = Snapshot.of(decoded, lists_pods=True)
        proxies = proxies_in(snapshot, self.options)
        states = build_cluster_states(
            snapshot.nodes,
            snapshot.node_zones,
            options=self.options,
            configuration=CONFIGURATION,
            pods_known=True,
            node_proxies=proxies,
            service_parts=FIGURES,
        )
        services = filter_services(snapshot, self.options)
        selected = SelectedServices(self.options, snapshot, states, proxies, tuple(services))
        decisions: list[DecisionDocument] = decisions_document(selected.plans, now=selected.now())["decisions"]
        return decisions


def pods_of(scene: Scene, app: str) -> list[str]:
    return sorted(name for kind, _, name in scene.objects if kind == "Pod" and name.startswith(f"{app}-"))


def with_ready(pod: Any, ready: bool) -> Any:
    conditions = [
        {**condition, "status": str(ready)} if condition["type"] == "Ready" else condition
        for condition in pod["status"]["conditions"]
    ]
    return {**pod, "status": {**pod["status"], "conditions": conditions}}


def test_each_change_is_reported_once() -> None:
    scene = Scene()
    name = pods_of(scene, "cart")[0]
    scene.put(with_ready(scene.get("Pod", name), False))
    assert scene.waits
    assert scene.update() == ["CHANGED"]
    assert scene.update() == []
    scene.waits = 0
    scene.put(scene.get("Pod", name))
    node = next(item for kind, item in scene.objects.items() if kind[0] == "Node")
    scene.put(node, annotations={"a": "b"}, labels={**node["metadata"]["labels"], "other": "label"})
    assert (scene.waits, scene.plans.is_stale) == (0, False)


def test_only_affected_services_are_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    planned: list[str] = []

    def planning(service: Service, **rest: Any) -> Any:
        planned.append(service.metadata.name)
        return plan_service(service, **rest)

    monkeypatch.setattr(live_plans, "plan_service", planning)
    cart, search = pods_of(scene, "cart")[0], pods_of(scene, "search")[0]
    scene.put(with_ready(scene.get("Pod", cart), False))
    scene.put(with_ready(scene.get("Pod", search), False))
    scene.update()
    assert planned == ["cart", "search"]
    planned.clear()
    # One that is not ready counts for no demand, and has no Pods.
    node = scene.get("Node", "worker-a1", "")
    scene.put({**node, "metadata": {**node["metadata"], "name": "new"}, "status": {}})
    scene.update()
    assert planned == []
    scene.put({**node, "metadata": {**node["metadata"], "name": "new"}})
    scene.update()
    assert len(planned) == sum(kind[0] == "Service" for kind in scene.objects), "demand concerns all"


def with_kubelet(node: Any, version: str) -> Any:
    return {**node, "status": {**node["status"], "nodeInfo": {"kubeletVersion": version}}}


def test_other_kubelet_means_another_proxy() -> None:
    scene = Scene()
    node = scene.get("Node", "worker-a1", "")
    for version in ("v1.22.0", "v1.20.0", "v1.33.0", "v1.34.0"):
        scene.put(with_kubelet(node, version))
        assert scene.waits
        assert "CHANGED" in scene.update()
        assert sorted(scene.reported.values(), key=_by_name) == sorted(scene.fresh(), key=_by_name)
        scene.waits = 0


def _by_name(view: DecisionDocument) -> tuple[str, str, str]:
    return view.namespace, view.service, view.address_type


def test_services_may_be_added_changed_and_removed() -> None:
    scene = Scene()
    cart = scene.get("Service", "cart")
    scene.delete("Service", "cart")
    assert scene.update() == ["REMOVED"]
    assert ("shop", "cart") not in scene.plans.order
    scene.put(cart)
    assert scene.update() == ["ADDED"]
    scene.put({**cart, "spec": {"type": "ExternalName", "externalName": "there.example"}})
    assert scene.update() == ["REMOVED"]
    assert scene.plans["shop", "cart"].families == ()
    scene.delete("Service", "cart")
    assert scene.update() == []


def test_deselected_service_is_removed() -> None:
    scene = Scene(Options(selector="watched=yes"))
    cart = scene.get("Service", "cart")
    assert (scene.reported, scene.plans.order) == ({}, ())
    scene.put(cart, labels={"watched": "yes"})
    assert scene.update() == ["ADDED"]
    scene.put(cart, labels={})
    assert scene.update() == ["REMOVED"]


def a_change(scene: Scene, chance: Random) -> None:
    wanted = chance.choice(["Pod", "Pod", "Pod", "Node", "Service"])
    kind, namespace, name = chance.choice(sorted(key for key in scene.objects if key[0] == wanted))
    object_ = scene.get(kind, name, namespace)
    if chance.random() < 0.15:
        scene.delete(kind, name, namespace)
    elif kind == "Node":
        zone = chance.choice(["eu-central-1a", "eu-central-1b", "eu-central-1c"])
        labels = {**object_["metadata"]["labels"], "topology.kubernetes.io/zone": zone}
        scene.put(object_ if chance.random() < 0.5 else with_ready(object_, chance.random() < 0.7), labels=labels)
    elif kind == "Service":
        scene.put(
            object_, annotations={"service.kubernetes.io/topology-mode": chance.choice(["Auto", "PreferZone", ""])}
        )
    elif chance.random() < 0.2:
        scene.put(object_, labels={"app.kubernetes.io/name": "nobody"})
    else:
        scene.put(with_ready(object_, chance.random() < 0.5))
    if chance.random() < 0.1:
        labels = {"kubernetes.io/service-name": "cart", "endpointslice.kubernetes.io/managed-by": chance.choice("xy")}
        metadata = {"name": f"other-{chance.randrange(3)}", "namespace": "shop", "labels": labels}
        scene.put({"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": metadata,
                   "addressType": "IPv4", "endpoints": [{"addresses": ["10.9.9.9"]}], "ports": None})  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(what_if="local"),
        Options(namespaces=("shop", "kube-system"), what_if="Auto"),
        Options(services=("api", "cart")),
    ],
    ids=["all", "what if", "a namespace", "by name"],
)
@pytest.mark.parametrize("seed", range(2))
def test_live_plans_equal_a_fresh_plan(seed: int, options: Options) -> None:
    scene, chance = Scene(options), Random(seed)
    for _ in range(12):
        for _ in range(chance.randrange(1, 12)):
            a_change(scene, chance)
        if chance.random() < 0.3:
            # Half of an update, and changes before the rest of it.
            for index, changes in enumerate(scene.plans.update()):
                for change in changes:
                    key = (change.view.namespace, change.view.service, change.view.address_type)
                    scene.reported.pop(key, None)
                    if change.new:
                        scene.reported[key] = change.new
                if index == 3:
                    break
            a_change(scene, chance)
        scene.update()
        ordered = sorted(scene.reported.values(), key=lambda view: (view.namespace, view.service, view.address_type))
        if options.services and len(scene.plans.order) < len(options.services):
            # A named Service is gone: a plan would refuse the name.
            return
        assert ordered == sorted(scene.fresh(), key=lambda view: (view.namespace, view.service, view.address_type))


def test_where_kubernetes_writes_slices_decisions_are_those_of_plan(zoneward: Commands, tmp_path: Path) -> None:
    objects = eks_with_an_overlay({"few-1.IPv4": "zones Hints/ProportionalZoneCPU"})
    cache = InformerCache()
    for index, object_ in enumerate(object_ for object_ in objects if object_["kind"] in RESOURCES):
        resource = RESOURCES[object_["kind"]]
        object_["metadata"]["resourceVersion"] = str(index + 1)
        cache.store(resource).put(msgspec.json.decode(json.dumps(object_), type=resource.struct))
    options = Options(proxy="kube-proxy-1.33")
    plans = LivePlans(cache, options=options, configuration=CONFIGURATION, on_stale=lambda: None)
    plans.proxy_objects = ProxyObjects(config_maps=(msgspec.convert(objects[-1], ConfigMap),))
    plans.begin()
    views = [change.view for changes in plans.update() for change in changes]
    assert {view.service for view in views if not plans.is_of_kubernetes(view)} == {"few-1", "few-2"}
    file = write_list(objects, tmp_path / "eks.json")
    printed = zoneward.json("plan", "-q", "-f", file, "--proxy", "kube-proxy-1.33")
    by_name = {(item["namespace"], item["service"]): item for item in printed["decisions"]}
    assert {(view.namespace, view.service) for view in views} == by_name.keys()
    for view in views:
        item = by_name[view.namespace, view.service]
        assert (view.reason, view.in_zone_traffic) == (item["reason"], item["inZoneTraffic"])
