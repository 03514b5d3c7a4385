"""The cluster as the API server last reported it: a store for each kind, and the indexes that planning uses.

Reflectors fill it (`zoneward.client.informers`). It is used by one thread: between two ``await`` nothing changes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from sys import intern
from typing import Final, TypeVar, cast

from msgspec.structs import force_setattr

from zoneward.client.informers import WatchedStores
from zoneward.client.list_watch_decoder import UnreadableHandler
from zoneward.client.object_store import KeyIndex
from zoneward.client.resources import (
    CACHED_RESOURCES,
    NODES,
    PODS,
    SERVICES,
    SLICES,
    AnyWatchedResource,
    LiveNode,
    LivePod,
    service_key_of,
)
from zoneward.kube.adoption_marks import effective_selector
from zoneward.kube.objects import EndpointSlice, ObjectKey, Pod, Service, node_zone


class InformerCache(WatchedStores):
    """Four stores and their indexes. `synced` waits for the kinds in ``resources``."""

    def __init__(
        self,
        resources: Iterable[AnyWatchedResource] = CACHED_RESOURCES,
        *,
        on_unreadable: UnreadableHandler = lambda _unreadable: None,
    ) -> None:
        super().__init__(resources, on_unreadable=on_unreadable)
        self._interner, self._selectors = Interner(), SelectorIndex()
        self._slices_of = KeyIndex[EndpointSlice, ObjectKey](service_key_of)
        self._pods_on = KeyIndex[LivePod, str](lambda pod: pod.spec.node_name)
        self._nodes_in = KeyIndex[LiveNode, str | None](node_zone)
        self.services: Final = self.add_store(SERVICES, self._index_service)
        self.nodes: Final = self.add_store(NODES, self._nodes_in.update)
        self.pods: Final = self.add_store(PODS, self._index_pod)
        self.slices: Final = self.add_store(SLICES, self._index_slice)

    def services_of(self, pod: Pod) -> tuple[Service, ...]:
        """The Services that select a Pod in this state, sorted by name; the Pod need not be in the cache."""
        return self.services.each(self.service_keys_of(pod))

    def service_keys_of(self, pod: Pod) -> list[ObjectKey]:
        """The keys of the Services that `services_of` returns."""
        return self._selectors.services_of(pod.metadata.namespace, pod.metadata.labels)

    def pods_of(self, namespace: str, service: str) -> tuple[LivePod, ...]:
        """The Pods that a Service selects; none if it has no selector or does not exist."""
        return self.pods.each(self._selectors.pods_of((namespace, service)))

    def slices_of(self, namespace: str, service: str) -> tuple[EndpointSlice, ...]:
        """The EndpointSlices that name a Service, with any manager; the Service need not exist."""
        return self.slices.each(self._slices_of.keys((namespace, service)))

    def pods_on(self, node: str) -> tuple[LivePod, ...]:
        """The Pods on the Node with this name; the Node need not be in the cache."""
        return self.pods.each(self._pods_on.keys(node))

    def nodes_in(self, zone: str | None) -> tuple[LiveNode, ...]:
        """The Nodes in a zone; with None, those without a zone."""
        return self.nodes.each(self._nodes_in.keys(zone))

    def zones(self) -> list[str]:
        """The zones that have a Node, sorted."""
        return sorted(zone for zone in self._nodes_in if zone is not None)

    # --- indexes ------------------------------------------------------------------------------------------------------

    def _index_service(self, key: ObjectKey, old: Service | None, new: Service | None) -> None:
        # The selector of an adopted Service is in an annotation.
        old_selector, new_selector = (
            None if service is None else effective_selector(service) for service in (old, new)
        )
        if old is not None and new is not None and old_selector == new_selector:
            return
        if old is not None:
            self._selectors.remove_service(key)
        if new is not None:
            self._selectors.add_service(key, new_selector)

    def _index_pod(self, key: ObjectKey, old: LivePod | None, new: LivePod | None) -> None:
        if new is not None:
            self._interner.intern_pod(new)
            labels = new.metadata.labels
            if old is not None and old.metadata.labels == labels:
                labels = old.metadata.labels
            else:
                if old is not None:
                    self._selectors.remove_pod(key, old.metadata.labels)
                labels = self._selectors.add_pod(key, labels)
            # Pods of a ReplicaSet have the same labels: they share one dictionary.
            force_setattr(new.metadata, "labels", labels)
        elif old is not None:
            self._selectors.remove_pod(key, old.metadata.labels)
        self._pods_on.update(key, old, new)

    def _index_slice(self, key: ObjectKey, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        if new is not None:
            self._interner.intern_slice(new)
        self._slices_of.update(key, old, new)


# --- equal values are stored once -------------------------------------------------------------------------------------


MAX_SHARED: Final = 20_000
"""Number of different values that are remembered. Beyond it the interner forgets all, which costs a few copies, and
frees the values of deleted objects."""

_Value = TypeVar("_Value")


class Interner:
    """Makes objects smaller before a cache keeps them: remembers values, so that equal ones become the same object.

    Only structs that were just decoded are changed: no other code has a reference to them yet.
    """

    def __init__(self, *, limit: int = MAX_SHARED) -> None:
        self._seen: dict[object, object] = {}
        self._limit = limit

    def intern_pod(self, pod: LivePod) -> None:
        """Share all values except the labels, which `SelectorIndex` shares: it groups Pods by them."""
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        force_setattr(metadata, "namespace", intern(metadata.namespace))
        force_setattr(spec, "node_name", intern(spec.node_name))
        if spec.containers is not None:
            force_setattr(spec, "containers", self._shared(spec.containers))
        if spec.init_containers is not None:
            force_setattr(spec, "init_containers", self._shared(spec.init_containers))
        if spec.subdomain:
            force_setattr(spec, "subdomain", intern(spec.subdomain))
        if spec.hostname == metadata.name:
            force_setattr(spec, "hostname", metadata.name)
        force_setattr(status, "phase", intern(status.phase))
        if status.conditions is not None:
            for condition in status.conditions:
                if condition.last_transition_time is not None:
                    if condition.type == "Ready":
                        force_setattr(status, "ready_since", condition.last_transition_time)
                    force_setattr(condition, "last_transition_time", None)
            force_setattr(status, "conditions", self._shared(status.conditions))
        if status.pod_ips and status.pod_ips[0].ip == status.pod_ip:
            force_setattr(status, "pod_ip", status.pod_ips[0].ip)

    def intern_slice(self, slice_: EndpointSlice) -> None:
        """Share zones, Nodes, conditions and hints of endpoints, which have few values; not addresses and names."""
        force_setattr(slice_.metadata, "namespace", intern(slice_.metadata.namespace))
        if slice_.ports is not None:
            force_setattr(slice_, "ports", self._shared(slice_.ports))
        for endpoint in slice_.endpoints or ():
            for field in ("conditions", "hints"):
                value = getattr(endpoint, field)
                if value is not None:
                    force_setattr(endpoint, field, self._shared(value))
            for field in ("node_name", "zone"):
                text = getattr(endpoint, field)
                if text is not None:
                    force_setattr(endpoint, field, intern(text))
            if endpoint.target_ref is not None:
                force_setattr(endpoint.target_ref, "kind", intern(endpoint.target_ref.kind))
                force_setattr(endpoint.target_ref, "namespace", intern(endpoint.target_ref.namespace))

    def _shared(self, value: _Value) -> _Value:
        if len(self._seen) >= self._limit:
            self._seen.clear()
        return self._seen.setdefault(value, value)  # type: ignore[return-value]


# --- which Service selects which Pod ----------------------------------------------------------------------------------


_Label = tuple[str, str, str]
"""Namespace, label and value."""
_Second = tuple[str | None, str | None]
"""Another label of a selector and its value; both are None for a selector with one label."""
_Selectors = dict[ObjectKey, Mapping[str, str]]
_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_NONE: Final[Mapping[str, str]] = {}


class _Group:
    """Pods of a namespace with the same labels, in the order of their addition, and the Services that select them."""

    __slots__ = ("labels", "namespace", "pods", "services")

    def __init__(self, namespace: str, labels: dict[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels
        self.pods: dict[ObjectKey, None] = {}
        self.services: set[ObjectKey] = set()


class SelectorIndex:
    """Maps keys of Pods to keys of Services and back, by labels and selectors, while both change.

    Pods with the same labels in one namespace, such as those of a ReplicaSet, form a group. A Service is matched with a
    group once, when either appears. A selector is registered under its label with the fewest selectors, and below that
    under a second label, so that a lookup by labels checks few Services that do not match.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[str, frozenset[tuple[str, str]]], _Group] = {}
        self._by_labels: dict[int, _Group] = {}
        """By the identity of the dictionary that `add_pod` returned, which lives as long as the group."""
        self._groups_with: dict[_Label, dict[_Group, None]] = {}
        self._registered: dict[ObjectKey, tuple[_Label, _Second]] = {}
        self._by_label: dict[_Label, dict[str | None, dict[str | None, _Selectors]]] = {}
        self._counts: dict[_Label, int] = {}
        self._selected: dict[ObjectKey, dict[_Group, None]] = {}

    def services_of(self, namespace: str, labels: Mapping[str, str] | None) -> list[ObjectKey]:
        """The Services that select a Pod with these labels, sorted; no such Pod need exist."""
        group = self._by_labels.get(id(labels))
        if group is not None and group.labels is labels and group.namespace == namespace:
            services = list(group.services)
        else:
            services = list(self._matching(namespace, labels or _NONE))
        return services if len(services) < 2 else sorted(services)

    def pods_of(self, service: ObjectKey) -> list[ObjectKey]:
        """The Pods that a Service selects; none if it has no selector."""
        groups = self._selected.get(service, ())
        return [pod for group in groups for pod in group.pods]

    def add_pod(self, pod: ObjectKey, labels: dict[str, str] | None) -> dict[str, str]:
        """Add a Pod. Returns the equal labels of the first Pod that has them, so that all can share one copy."""
        namespace, labels = pod[0], {} if labels is None else labels
        identity = (namespace, frozenset(labels.items()))
        group = self._groups.get(identity)
        if group is None:
            group = self._groups[identity] = _Group(namespace, labels)
            self._by_labels.setdefault(id(labels), group)
            for key, value in labels.items():
                self._groups_with.setdefault((namespace, key, value), {})[group] = None
            group.services.update(self._matching(namespace, labels))
            for service in group.services:
                self._selected[service][group] = None
        group.pods[pod] = None
        return group.labels

    def remove_pod(self, pod: ObjectKey, labels: Mapping[str, str] | None) -> None:
        """Remove a Pod. ``labels`` are those with which it was added."""
        namespace, labels = pod[0], labels or _NONE
        identity = (namespace, frozenset(labels.items()))
        group = self._groups[identity]
        del group.pods[pod]
        if group.pods:
            return
        del self._groups[identity]
        if self._by_labels.get(id(group.labels)) is group:
            del self._by_labels[id(group.labels)]
        for service in group.services:
            del self._selected[service][group]
        for key, value in labels.items():
            pair = (namespace, key, value)
            del self._groups_with[pair][group]
            _delete_empty(self._groups_with, pair)

    def add_service(self, service: ObjectKey, selector: Mapping[str, str] | None) -> None:
        """Add a Service that is not in the index. An empty selector selects nothing: others write the endpoints."""
        if not selector:
            return
        namespace = service[0]
        pairs = [(namespace, key, value) for key, value in selector.items()]
        by_count = sorted(pairs, key=lambda pair: self._counts.get(pair, 0))
        pair, second = by_count[0], by_count[1][1:] if len(by_count) > 1 else (None, None)
        self._by_label.setdefault(pair, {}).setdefault(second[0], {}).setdefault(second[1], {})[service] = selector
        self._counts[pair] = self._counts.get(pair, 0) + 1
        self._registered[service] = (pair, second)
        selected = self._selected[service] = {}
        wanted = selector.items()
        fewest: Collection[_Group] = min((self._groups_with.get(pair, {}) for pair in pairs), key=len)
        for group in fewest:
            if wanted <= group.labels.items():
                selected[group] = None
                group.services.add(service)

    def remove_service(self, service: ObjectKey) -> None:
        if service not in self._registered:
            return
        pair, (key, value) = self._registered.pop(service)
        by_key = self._by_label[pair]
        del by_key[key][value][service]
        _delete_empty(by_key[key], value)
        _delete_empty(by_key, key)
        _delete_empty(self._by_label, pair)
        self._counts[pair] -= 1
        if not self._counts[pair]:
            del self._counts[pair]
        for group in self._selected.pop(service):
            group.services.remove(service)

    def _matching(self, namespace: str, labels: Mapping[str, str]) -> Iterator[ObjectKey]:
        items = labels.items()
        # A selector with one label is registered under None. No Pod has the label None, so its value is None too.
        others: Mapping[str | None, str] = cast(Mapping[str | None, str], labels)
        for key, value in items:
            for second, by_value in self._by_label.get((namespace, key, value), _NO_SECOND_LABELS).items():
                for service, selector in by_value.get(others.get(second), _NO_SELECTORS).items():
                    if len(selector) <= 2 or selector.items() <= items:
                        yield service


_NO_SECOND_LABELS: Final[Mapping[str | None, Mapping[str | None, _Selectors]]] = {}
_NO_SELECTORS: Final[_Selectors] = {}


def _delete_empty(index: dict[_A, dict[_B, _C]], key: _A) -> None:
    if not index[key]:
        del index[key]
