"""The cluster as the API server last reported it: a store for each kind, the indexes that planning uses, and the
Services that a change affects, which are the only ones to plan again.

Reflectors fill it (`zoneward.client.informers`). It is used by one thread: between two ``await`` nothing changes.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from sys import intern
from typing import Any, Final, TypeVar

from msgspec.structs import force_setattr, replace

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
    CachedObject,
    LiveNode,
    LivePod,
    object_key_of,
    owning_service_key,
    service_key_of,
)
from zoneward.kube.adoption_marks import effective_selector
from zoneward.kube.objects import (
    EndpointSlice,
    ObjectKey,
    Pod,
    Service,
    has_address,
    has_ready_condition,
    node_zone,
)


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
_Selectors = dict[ObjectKey, Mapping[str, str]]
_NONE: Final[Mapping[str, str]] = {}
_NO_SELECTORS: Final[_Selectors] = {}


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
    group once, when either appears. A selector is registered under its label with the fewest selectors, so that a
    lookup by labels checks few Services that do not match.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[str, frozenset[tuple[str, str]]], _Group] = {}
        self._by_labels: dict[int, _Group] = {}
        """By the identity of the dictionary that `add_pod` returned, which lives as long as the group."""
        self._groups_with: dict[_Label, dict[_Group, None]] = {}
        self._registered: dict[ObjectKey, _Label] = {}
        self._by_label: dict[_Label, _Selectors] = {}
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
        rarest = min(pairs, key=lambda pair: len(self._by_label.get(pair, ())))
        self._by_label.setdefault(rarest, {})[service] = selector
        self._registered[service] = rarest
        selected = self._selected[service] = {}
        wanted = selector.items()
        fewest: Collection[_Group] = min((self._groups_with.get(pair, {}) for pair in pairs), key=len)
        for group in fewest:
            if wanted <= group.labels.items():
                selected[group] = None
                group.services.add(service)

    def remove_service(self, service: ObjectKey) -> None:
        pair = self._registered.pop(service, None)
        if pair is None:
            return
        del self._by_label[pair][service]
        _delete_empty(self._by_label, pair)
        for group in self._selected.pop(service):
            group.services.remove(service)

    def _matching(self, namespace: str, labels: Mapping[str, str]) -> Iterator[ObjectKey]:
        items = labels.items()
        for key, value in items:
            for service, selector in self._by_label.get((namespace, key, value), _NO_SELECTORS).items():
                if len(selector) == 1 or selector.items() <= items:
                    yield service


def _delete_empty(index: dict[_Label, dict[Any, Any]], key: _Label) -> None:
    if not index[key]:
        del index[key]


# --- the Services that a change affects -------------------------------------------------------------------------------


AffectedHandler = Callable[[Collection[ObjectKey]], None]


def subscribe_affected_services(cache: InformerCache, handle: AffectedHandler) -> Callable[[], None]:
    """Call ``handle`` with the Services that each change of the cache affects. Returns a function that unsubscribes."""

    def handler(old: CachedObject | None, new: CachedObject | None) -> None:
        keys = affected_services(cache, old, new)
        if keys:
            handle(keys)

    stores = (cache.services, cache.nodes, cache.pods, cache.slices)
    unsubscribers = [store.subscribe(handler) for store in stores]

    def end() -> None:
        for unsubscribe in unsubscribers:
            unsubscribe()

    return end


def affected_services(
    cache: InformerCache, old: CachedObject | None, new: CachedObject | None
) -> Collection[ObjectKey]:
    """Keys of the Services whose own objects a change touches. The cache already has the change.

    A Pod affects the Services that select it before or after the change. If only its labels changed, it affects the
    Services that select it in exactly one of the two states; a Pod without an address in both states affects none. An
    EndpointSlice affects the Services that it names before or after. A Node affects the Services with Pods on it, when
    it is added, is deleted or changes its zone. A change of only the version affects none. Some keys may be of Services
    that do not exist.
    """
    obj = new if new is not None else old
    assert obj is not None
    if isinstance(obj, LivePod):
        return _affected_by_pod(cache, *(pod if isinstance(pod, LivePod) else None for pod in (old, new)))
    if old is not None and new is not None and _differs_in_version_only(old, new):
        return ()
    if isinstance(obj, EndpointSlice):
        return {owning_service_key(slice_) for slice_ in (old, new) if isinstance(slice_, EndpointSlice)} - {None}  # type: ignore[return-value]
    if isinstance(obj, Service):
        return (object_key_of(obj),)
    return _affected_by_node(cache, old, new)


def _affected_by_pod(cache: InformerCache, old: LivePod | None, new: LivePod | None) -> Collection[ObjectKey]:
    was_listed, is_listed = (pod is not None and has_address(pod) for pod in (old, new))
    if not (was_listed or is_listed):
        return ()
    # Pods with the same labels share them.
    if old is None or new is None or old.metadata.labels == new.metadata.labels:
        if old is not None and new is not None and _endpoint_fields(old) == _endpoint_fields(new):
            return ()
        return _services_selecting(cache, new if new is not None else old)
    before, after = _services_selecting(cache, old), _services_selecting(cache, new)
    return before ^ after if _endpoint_fields(old) == _endpoint_fields(new) else before | after


def _services_selecting(cache: InformerCache, pod: LivePod | None) -> set[ObjectKey]:
    return set() if pod is None else set(cache.service_keys_of(pod))


def _endpoint_fields(pod: LivePod) -> tuple[object, ...]:
    """The fields of a Pod, except its labels, that decide whether it is an endpoint and which ports it has."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    return (
        metadata.uid,
        metadata.deletion_timestamp is None,
        spec.node_name,
        spec.hostname,
        spec.subdomain,
        spec.containers,
        spec.init_containers,
        status.phase,
        has_ready_condition(status.conditions),
        status.pod_ip,
        status.pod_ips,
    )


def _affected_by_node(
    cache: InformerCache, old: CachedObject | None, new: CachedObject | None
) -> Collection[ObjectKey]:
    before, after = (node_zone(node) if isinstance(node, LiveNode) else None for node in (old, new))
    if old is not None and new is not None and before == after:
        return ()
    obj = new if new is not None else old
    assert obj is not None
    pods = [pod for pod in cache.pods_on(obj.metadata.name) if has_address(pod)]
    return {object_key_of(service) for pod in pods for service in cache.services_of(pod)}


def _differs_in_version_only(old: CachedObject, new: CachedObject) -> bool:
    """Whether two states of an object differ only in their version."""
    version = new.metadata.resource_version
    return type(old) is type(new) and replace(old, metadata=replace(old.metadata, resource_version=version)) == new
