"""Which Services a change of the cluster concerns: those have to be planned again, and no others.

What all Services share, demand, is not known here: `zoneward.routing.demand` tells whether a Node
changes it.
"""

from collections.abc import Callable, Collection

from msgspec.structs import replace

from zoneward.client.cache import Cache
from zoneward.client.resources import Key, Live, LiveNode, LivePod, key_of, owner_of
from zoneward.kube.objects import EndpointSlice, Service, has_address, says_ready, zone_of

Concern = Callable[[Collection[Key]], None]


def tell_concerned(cache: Cache, tell: Concern) -> Callable[[], None]:
    """From now on tell the Services that each change of the cache concerns; never none. Returns what ends that."""

    def handler(old: Live | None, new: Live | None) -> None:
        keys = concerned(cache, old, new)
        if keys:
            tell(keys)

    stores = (cache.services, cache.nodes, cache.pods, cache.slices)
    ends = [store.subscribe(handler) for store in stores]

    def end() -> None:
        for each in ends:
            each()

    return end


def concerned(cache: Cache, old: Live | None, new: Live | None) -> Collection[Key]:
    """The Services, by key, whose own objects a change touches. The cache is as it is after the change.

    A Pod concerns the Services that select it, before or after, and where nothing but its labels changed those that
    select it in one state alone; without an address before and after it concerns none. An EndpointSlice concerns the
    Service that it names or named; a Node those that have Pods on it, where it comes, goes or changes its zone. A
    change of nothing but the version concerns none. Keys of Services that do not exist may be among them.
    """
    thing = new if new is not None else old
    assert thing is not None
    if isinstance(thing, LivePod):
        return _of_pod(cache, *(each if isinstance(each, LivePod) else None for each in (old, new)))
    if old is not None and new is not None and _is_same(old, new):
        return ()
    if isinstance(thing, EndpointSlice):
        return {owner_of(each) for each in (old, new) if isinstance(each, EndpointSlice)} - {None}  # type: ignore[return-value]
    if isinstance(thing, Service):
        return (key_of(thing),)
    return _of_node(cache, old, new)


def _of_pod(cache: Cache, old: LivePod | None, new: LivePod | None) -> Collection[Key]:
    was_listed, is_listed = (each is not None and has_address(each) for each in (old, new))
    if not (was_listed or is_listed):
        return ()
    # Pods with the same labels share them.
    if old is None or new is None or old.metadata.labels == new.metadata.labels:
        if old is not None and new is not None and _what_endpoints_say(old) == _what_endpoints_say(new):
            return ()
        return _selecting(cache, new if new is not None else old)
    before, after = _selecting(cache, old), _selecting(cache, new)
    return before ^ after if _what_endpoints_say(old) == _what_endpoints_say(new) else before | after


def _selecting(cache: Cache, pod: LivePod | None) -> set[Key]:
    return set() if pod is None else set(cache.service_keys_of(pod))


def _what_endpoints_say(pod: LivePod) -> tuple[object, ...]:
    """All of a Pod that makes it an endpoint and says which ports it has, its labels apart."""
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
        says_ready(status.conditions),
        status.pod_ip,
        status.pod_ips,
    )


def _of_node(cache: Cache, old: Live | None, new: Live | None) -> Collection[Key]:
    before, after = (zone_of(each) if isinstance(each, LiveNode) else None for each in (old, new))
    if old is not None and new is not None and before == after:
        return ()
    thing = new if new is not None else old
    assert thing is not None
    pods = [pod for pod in cache.pods_on(thing.metadata.name) if has_address(pod)]
    return {key_of(service) for pod in pods for service in cache.services_of(pod)}


def _is_same(old: Live, new: Live) -> bool:
    """Whether two states of an object differ in nothing but their version."""
    version = new.metadata.resource_version
    return type(old) is type(new) and replace(old, metadata=replace(old.metadata, resource_version=version)) == new
