"""Finds the Services that a change of the cluster affects: only those are planned again.

Demand, which all Services share, is not considered here: `zoneward.routing.demand.changes_demand` says whether a Node
changes it.
"""

from collections.abc import Callable, Collection

from msgspec.structs import replace

from zoneward.client.informer_cache import InformerCache
from zoneward.client.resources import CachedObject, LiveNode, LivePod, object_key_of, owning_service_key
from zoneward.kube.objects import EndpointSlice, ObjectKey, Service, has_address, has_ready_condition, node_zone

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
