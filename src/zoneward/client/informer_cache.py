"""The cluster as the API server last reported it: a store for each kind, and the indexes that planning uses.

Reflectors fill it (`zoneward.client.informers`). It is used by one thread: between two ``await`` nothing changes.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import force_setattr

from zoneward.client.informers import WatchedStores
from zoneward.client.interner import Interner
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
from zoneward.client.selector_index import SelectorIndex
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
