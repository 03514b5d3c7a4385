"""Which Services a change of the cluster concerns: those have to be planned again, and no others.

What all Services share, demand, is not known here: `zoneward.routing.demand_changes` tells whether a Node changes it.
"""

from collections.abc import Callable, Collection

from msgspec.structs import replace

from zoneward.kube.names import SERVICE_NAME_LABEL
from zoneward.kube.objects import EndpointSlice, Service, zone_of
from zoneward.sources.cache import Cache
from zoneward.sources.resources import Key, Live, LiveNode, LivePod, key_of

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

    A Pod concerns the Services that select it, before or after; an EndpointSlice the one that it names or named; a
    Node those that have Pods on it, where it comes, goes or changes its zone. A change of nothing but the version
    concerns none. Keys of Services that do not exist may be among them.
    """
    if old is not None and new is not None and _is_same(old, new):
        return ()
    thing = new if new is not None else old
    assert thing is not None
    if isinstance(thing, LivePod):
        return _of_pod(cache, old, new)
    if isinstance(thing, EndpointSlice):
        return {_owner(each) for each in (old, new) if isinstance(each, EndpointSlice)} - {None}  # type: ignore[return-value]
    if isinstance(thing, Service):
        return (key_of(thing),)
    return _of_node(cache, old, new)


def _of_pod(cache: Cache, old: Live | None, new: Live | None) -> Collection[Key]:
    states = [each for each in (old, new) if isinstance(each, LivePod)]
    # Pods with the same labels share them.
    if len(states) == 2 and states[0].metadata.labels == states[1].metadata.labels:
        del states[0]
    return {key_of(service) for pod in states for service in cache.services_of(pod)}


def _of_node(cache: Cache, old: Live | None, new: Live | None) -> Collection[Key]:
    before, after = (zone_of(each) if isinstance(each, LiveNode) else None for each in (old, new))
    if old is not None and new is not None and before == after:
        return ()
    thing = new if new is not None else old
    assert thing is not None
    pods = cache.pods_on(thing.metadata.name)
    return {key_of(service) for pod in pods for service in cache.services_of(pod)}


def _owner(each: EndpointSlice) -> Key | None:
    name = (each.metadata.labels or {}).get(SERVICE_NAME_LABEL)
    return (each.metadata.namespace, name) if name else None


def _is_same(old: Live, new: Live) -> bool:
    """Whether two states of an object differ in nothing but their version."""
    version = new.metadata.resource_version
    return type(old) is type(new) and replace(old, metadata=replace(old.metadata, resource_version=version)) == new
