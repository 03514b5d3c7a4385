"""The cluster of a scenario: what its steps do to it, as a user, a kubelet, or another version would have done it."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from msgspec import UNSET
from tests.builders.objects import MANAGED_BY, SERVICE_NAME, ZONE, a_namespace, a_node, a_pod, a_service, a_slice
from tests.contract.api import MERGE_PATCH, Api, Object, in_threads
from tests.scenarios.history import APP, SLICES, History, addresses_of, path_in, service_of
from tests.scenarios.scenario import Counts, NodeChange, Rewriting, Roll, ServiceChange, annotations_of

from zoneward.kube.names import APPROACH_ANNOTATION, ZONES_ANNOTATION

PER_SLICE: Final = 100
OTHER: Final = "somebody.example"
"""Manager of slices that are neither Zoneward's nor the built-in controller's."""


@dataclass
class Cluster:
    """``zones`` by name of the node, and the Pods of each workload in the order of their creation."""

    api: Api
    namespace: str
    history: History
    ipv6: bool = False
    zones: dict[str, str | None] = field(default_factory=dict)
    pods: dict[str, list[Object]] = field(default_factory=lambda: defaultdict(list))
    services: set[str] = field(default_factory=set)
    _silent: set[str] = field(default_factory=set)
    _numbers: Any = field(default_factory=lambda: count(1))

    def change_nodes(self, changes: Mapping[str, NodeChange | None]) -> None:
        for name, change in changes.items():
            if change is None:
                del self.zones[name]
                # Pods on a deleted node are leaving, even if their status says ready.
                alone = [
                    pod
                    for workload_pods in self.pods.values()
                    for pod in workload_pods
                    if pod["spec"]["nodeName"] == name
                ]
                self.history.excuse(address for pod in alone for address in addresses_of(pod))
                self.api.delete(_node(name))
                continue
            if name not in self.zones:
                self.api.create(a_node(name, zone=None))
                self.zones[name] = None
            self._change_node(name, change)

    def _change_node(self, name: str, change: NodeChange) -> None:
        labels: dict[str, str | None] = dict(change.labels)
        if change.zone is not UNSET:
            self.zones[name] = labels[ZONE] = change.zone
        if labels:
            self._patch(_node(name), {"metadata": {"labels": labels}})
        status: Object = {}
        if change.cpu is not UNSET:
            cpu = {"cpu": None if change.cpu is None else str(change.cpu)}
            status = {"allocatable": cpu, "capacity": cpu}
        if change.ready is not UNSET:
            status["conditions"] = [_ready(change.ready)]
        if status:
            self._patch_status([_node(name)], status)

    def make_zone_ready(self, zone: str, *, ready: bool) -> None:
        """Of one that is not, nothing is heard; its Pods stay."""
        nodes = {name for name, zone_of_node in self.zones.items() if zone_of_node == zone}
        self._silent = self._silent - nodes if ready else self._silent | nodes
        pods = [
            pod for workload_pods in self.pods.values() for pod in workload_pods if pod["spec"]["nodeName"] in nodes
        ]
        self._patch_status([*map(_node, sorted(nodes)), *pods], {"conditions": [_ready(ready)]})

    def _patch(self, document: Object, change: Object) -> None:
        self.api.patch(document, change, content_type=MERGE_PATCH)

    def _patch_status(self, things: list[Object], status: Object) -> None:
        in_threads(lambda document: self.api.patch(document, {"status": status}, subresource="status"), things)

    def change_services(self, changes: Mapping[str, ServiceChange | None]) -> None:
        for name, change in changes.items():
            service = a_service(name, namespace=self.namespace, selector={APP: name})
            if change is None:
                self.services.discard(name)
                self.history.deleted.add(name)
                self.api.delete(service)
            elif name in self.services:
                self._patch(service, {"metadata": {"annotations": annotations_of(change)}, "spec": change.spec})
            else:
                self.services.add(name)
                service["metadata"]["annotations"] = annotations_of(change)
                service["spec"] |= change.spec
                self.api.create(service)

    def scale(self, workload: str, counts: Counts) -> None:
        """Scale to these numbers of Pods by zone or node; the newest are deleted first."""
        new, gone = list[Object](), list[Object]()
        for location, wanted in counts.items():
            pods = self._there(workload, location)
            gone += pods[wanted:]
            new += [self._pod(workload, location, index) for index in range(len(pods), wanted)]
        self._replace(workload, gone, new)
        self.api.create_all(new)
        in_threads(self.api.delete, gone)

    def make_ready(self, workload: str, unready: Counts) -> None:
        """Make this number of Pods of a zone or node not ready, the oldest first, and all others of it ready."""
        for location, unready_count in unready.items():
            current = self._there(workload, location)
            for pods, ready in ((current[:unready_count], False), (current[unready_count:], True)):
                self._patch_status(pods, {"conditions": [_ready(ready)]})

    def roll(self, workload: str, how: Roll) -> None:
        old = list(self.pods[workload])
        to = how.to or Counter(self.zones[pod["spec"]["nodeName"]] or pod["spec"]["nodeName"] for pod in old)
        new = [self._pod(workload, location, index) for location, wanted in to.items() for index in range(wanted)]
        if how.deletes_first and how.at_once < len(old):
            # In turn from all zones, as a Deployment's are.
            old.sort(key=lambda pod: pod["metadata"]["name"][::-1])
        self._replace(workload, old, new)
        for begin in range(0, max(len(old), len(new)), how.at_once):
            end = begin + how.at_once
            if how.deletes_first:
                in_threads(self.api.delete, old[begin:end])
            self.api.create_all(new[begin:end])
            if not how.deletes_first:
                in_threads(self.api.delete, old[begin:end])

    def _there(self, workload: str, location: str) -> list[Object]:
        """Its Pods of a zone or node."""
        nodes = {location, *(name for name, zone in self.zones.items() if zone == location)}
        return [pod for pod in self.pods[workload] if pod["spec"]["nodeName"] in nodes]

    def _pod(self, workload: str, location: str, index: int) -> Object:
        nodes = [name for name, zone in self.zones.items() if zone == location and name not in self._silent] or [
            location
        ]
        unique = next(self._numbers)
        address = f"10.{unique // 62500 + 1}.{unique // 250 % 250}.{unique % 250 + 1}"
        name, node = f"{workload}-{location}-{unique}", nodes[index % len(nodes)]
        pod = a_pod(name, node=node, ips=[address], namespace=self.namespace, labels={APP: workload})
        if self.ipv6:
            pod["status"]["podIPs"].append({"ip": f"fd00:1::{unique:x}"})
        return pod

    def _replace(self, workload: str, gone: list[Object], new: list[Object]) -> None:
        names = {pod["metadata"]["name"] for pod in gone}
        self.pods[workload] = [pod for pod in self.pods[workload] if pod["metadata"]["name"] not in names] + new

    def rewrite(self, service: str, how: Rewriting) -> None:
        items = self.api.get(path_in(self.namespace, SLICES))["items"]
        slices = [_whole(item) for item in items if service_of(item) == service]
        if how.beside is not None:
            addresses = [f"10.200.0.{index}" for index in range(1, how.beside + 1)]
            name = f"{service}-other"
            other = a_slice(name, service=service, addresses=addresses, namespace=self.namespace, manager=OTHER)
            self.api.create(other)
            self.history.writes[service] -= 1
        elif how.by is not None:
            self._replaced_by(how.by, service, slices, how)
        elif how.drop is not None:
            in_threads(
                self.api.delete, [slice_ for slice_ in slices if slice_["metadata"]["labels"].get(ZONE) == how.drop]
            )
        else:
            for slice_ in slices[: how.only]:
                changed = self.api.replace(_rewritten(slice_, how))
                self.history.own_versions.add(changed["metadata"]["resourceVersion"])

    def _replaced_by(self, manager: str, service: str, slices: list[Object], how: Rewriting) -> None:
        endpoints = [endpoint for slice_ in slices for endpoint in slice_.get("endpoints") or ()]
        metadata = {name: slices[0]["metadata"][name] for name in ("namespace", "ownerReferences")}
        metadata["labels"] = {SERVICE_NAME: service, MANAGED_BY: manager}
        parts = range(0, max(len(endpoints), 1), PER_SLICE)
        new = [
            slices[0]
            | {"metadata": metadata | {"name": f"{service}-{letter}7k2p"}, "endpoints": endpoints[at : at + PER_SLICE]}
            for letter, at in zip("xyz", parts, strict=False)
        ]
        self.api.create_all(_rewritten(slice_, how) for slice_ in new)
        in_threads(self.api.delete, slices)

    def end(self) -> None:
        """All that others would notice."""
        services = [a_service(name, namespace=self.namespace) for name in self.services]
        pods = [pod for workload_pods in self.pods.values() for pod in workload_pods]
        in_threads(self.api.delete, [*services, *pods])
        slices = self.api.get(path_in(self.namespace, SLICES))["items"]
        in_threads(self.api.delete, [*map(_whole, slices), *map(_node, self.zones), a_namespace(self.namespace)])


def _node(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def _ready(ready: bool) -> Object:
    return {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}


def _whole(item: Object) -> Object:
    """A list has kind and version but once."""
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice"} | item


def _rewritten(slice_: Object, how: Rewriting) -> Object:
    metadata = slice_["metadata"]
    labels, annotations = dict(metadata.get("labels") or {}), dict(metadata.get("annotations") or {})
    if how.groups == "none":
        labels.pop(ZONE, None)
        annotations.pop(ZONES_ANNOTATION, None)
    if how.approach == "none":
        annotations.pop(APPROACH_ANNOTATION, None)
    changed = slice_ | {"metadata": metadata | {"labels": labels, "annotations": annotations}}
    if how.hints != "keep":
        changed["endpoints"] = [_hinted(endpoint, how.hints) for endpoint in slice_.get("endpoints") or ()]
    return changed


def _hinted(endpoint: Object, hints: str) -> Object:
    own = {"hints": {"forZones": [{"name": endpoint["zone"]}]}} if hints == "own-zone" and "zone" in endpoint else {}
    return {name: value for name, value in endpoint.items() if name != "hints"} | own
