"""The cache answers like a scan of all objects, after any changes, and keeps no more than it needs."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert
from tests.builders import objects, structs
from tests.builders.structs import an_endpoint, hints
from tests.properties.random_clusters import examples

from zoneward.client.informer_cache import InformerCache, Interner
from zoneward.client.resources import (
    CACHED_RESOURCES,
    NODES,
    PODS,
    SERVICES,
    SLICES,
    CachedObject,
    LiveNode,
    LivePod,
    object_key_of,
)
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION
from zoneward.kube.names import SERVICE_NAME_LABEL, ZONE_LABEL
from zoneward.kube.objects import EndpointPort, EndpointSlice, ObjectMeta, Service, ServiceSpec

Labels = Mapping[str, str] | None


def a_pod(name: str, labels: Labels = None, *, namespace: str = "n1", node: str = "", version: int = 1) -> LivePod:
    ips = ["10.0.0.1", "fd00::1"]
    pod = objects.a_pod(name, node=node, ips=ips, namespace=namespace, labels=labels, version=version)
    pod["spec"] |= {"initContainers": pod["spec"]["containers"], "hostname": name}
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return convert(pod, LivePod)


def a_service(name: str, selector: Labels, *, namespace: str = "n1", version: int = 1) -> Service:
    metadata = ObjectMeta(name=name, namespace=namespace, resource_version=str(version))
    return Service(metadata=metadata, spec=ServiceSpec(selector=cast(dict[str, str] | None, selector)))


def a_slice(name: str, service: str | None, *, namespace: str = "n1", version: int = 1) -> EndpointSlice:
    endpoint = an_endpoint(node="node", hinted=hints("a"), pod="p")
    return structs.a_slice(name, endpoint, service=service, namespace=namespace, version=str(version))


def a_node(name: str, zone: str | None, *, version: int = 1) -> LiveNode:
    return convert(objects.a_node(name, zone, version=version), LiveNode)


NAMESPACES = st.sampled_from(["n1", "n2"])
LABELS = st.none() | st.fixed_dictionaries({}, optional=dict.fromkeys("abcd", st.sampled_from("xxy")))
NAMES = st.sampled_from("12345")
CHANGES = st.one_of(
    st.builds(lambda n, labels, ns, node: a_pod(n, labels, namespace=ns, node=node), NAMES, LABELS, NAMESPACES, NAMES),
    st.builds(lambda n, labels, ns: a_service(n, labels, namespace=ns), NAMES, LABELS, NAMESPACES),
    st.builds(lambda n, service, ns: a_slice(n, service, namespace=ns), NAMES, st.none() | NAMES, NAMESPACES),
    st.builds(a_node, NAMES, st.sampled_from([None, "", "za", "zb"])),
)
RESOURCE_OF: dict[type[CachedObject], Any] = {LivePod: PODS, Service: SERVICES, EndpointSlice: SLICES, LiveNode: NODES}


def apply(cache: InformerCache, changes: Sequence[tuple[CachedObject, bool]]) -> None:
    """Apply the changes, each with a newer version; True: the object is deleted."""
    for version, (obj, is_gone) in enumerate(changes, start=2):
        metadata: Any = msgspec.structs.replace(obj.metadata, resource_version=str(version))
        newer = msgspec.structs.replace(obj, metadata=metadata)
        store = cache.store(RESOURCE_OF[type(obj)])
        store.delete(newer) if is_gone else store.put(newer)


def selects(service: Service, namespace: str, labels: Labels) -> bool:
    selector = service.spec.selector or {}
    return bool(selector) and service.metadata.namespace == namespace and selector.items() <= (labels or {}).items()


def keys(cached: Sequence[CachedObject]) -> list[tuple[str, str]]:
    """The sorted keys of the objects, which must be unique."""
    unsorted = [object_key_of(obj) for obj in cached]
    assert len(unsorted) == len(set(unsorted))
    return sorted(unsorted)


@examples(60)
@given(st.lists(st.tuples(CHANGES, st.booleans()), max_size=40), NAMESPACES, LABELS)
def test_every_question_is_answered_as_by_a_look_at_all_objects(
    changes: list[tuple[CachedObject, bool]], namespace: str, labels: Labels
) -> None:
    cache = InformerCache()
    apply(cache, changes)
    for pod in [*cache.pods, a_pod("unseen", labels, namespace=namespace)]:
        expected = [
            service for service in cache.services if selects(service, pod.metadata.namespace, pod.metadata.labels)
        ]
        services = cache.services_of(pod)
        assert keys(services) == keys(expected)
        assert [object_key_of(service) for service in services] == keys(services)
    for space in ("n1", "n2"):
        for name in "123456":
            service = cache.services.get(space, name)
            expected_pods = [
                pod for pod in cache.pods if service and selects(service, pod.metadata.namespace, pod.metadata.labels)
            ]
            assert keys(cache.pods_of(space, name)) == keys(expected_pods)
            expected_slices = [
                slice_
                for slice_ in cache.slices
                if slice_.metadata.namespace == space and (slice_.metadata.labels or {}).get(SERVICE_NAME_LABEL) == name
            ]
            assert keys(cache.slices_of(space, name)) == keys(expected_slices)
    for name in "123456":
        assert keys(cache.pods_on(name)) == keys([pod for pod in cache.pods if pod.spec.node_name == name])
    zones = {node.metadata.name: (node.metadata.labels or {}).get(ZONE_LABEL) or None for node in cache.nodes}
    for zone in (None, "za", "zb", "zc"):
        assert keys(cache.nodes_in(zone)) == [("", name) for name in sorted(zones) if zones[name] == zone]
    assert cache.zones() == sorted({zone for zone in zones.values() if zone})


@given(st.lists(CHANGES, max_size=30))
def test_nothing_remains_of_deleted_objects(cached: list[CachedObject]) -> None:
    cache = InformerCache()
    apply(cache, [(obj, False) for obj in cached])
    for resource in CACHED_RESOURCES:
        cache.store(resource).retain_only(set())
    parts = [vars(cache._selectors), vars(cache._slices_of), vars(cache._pods_on), vars(cache._nodes_in)]
    assert [held for part in parts for held in part.values() if isinstance(held, dict) and held] == []
    assert [len(store) for store in (cache.pods, cache.services, cache.nodes, cache.slices)] == [0, 0, 0, 0]


def test_all_labels_of_a_selector_count() -> None:
    """For any count of labels, and whichever of them differs."""
    for count in range(1, 6):
        selector = {f"key{index}": "yes" for index in range(count)}
        cache = InformerCache()
        cache.services.put(a_service("s", selector))
        cache.pods.put(a_pod("all", selector | {"more": "yes"}))
        for index, key in enumerate(selector):
            cache.pods.put(a_pod(f"not-{index}", selector | {key: "no"}))
            cache.pods.put(a_pod(f"without-{index}", {other: "yes" for other in selector if other != key}))
        assert keys(cache.pods_of("n1", "s")) == [("n1", "all")]
        assert [pod.metadata.name for pod in cache.pods if cache.services_of(pod)] == ["all"]


def test_handlers_get_old_and_new_after_the_cache_and_its_indexes_are_updated() -> None:
    cache, changes = InformerCache(), list[tuple[LivePod | None, LivePod | None, int]]()
    cache.services.put(a_service("s", {"app": "a"}))

    def handler(old: LivePod | None, new: LivePod | None) -> None:
        assert cache.pods.get("n1", "p") is new
        changes.append((old, new, len(cache.pods_of("n1", "s"))))

    stop = cache.pods.subscribe(handler)
    first, second = a_pod("p", {"app": "a"}, version=2), a_pod("p", {"app": "b"}, version=3)
    cache.pods.put(first)
    cache.pods.put(second)
    cache.pods.delete(a_pod("p", version=4))
    stop()
    cache.pods.put(first)
    assert changes == [(None, first, 1), (first, second, 0), (second, None, 0)]


def test_what_is_not_newer_changes_nothing() -> None:
    cache = InformerCache()
    held = a_pod("p", {"app": "a"}, version=10)
    cache.pods.put(held)
    changes: list[object] = []
    cache.pods.subscribe(lambda *change: changes.append(change))
    cache.pods.put(a_pod("p", {"app": "b"}, version=10))
    cache.pods.put(a_pod("p", {"app": "b"}, version=9))  # older, though "9" > "10"
    cache.pods.delete(a_pod("p", version=9))
    cache.pods.delete(a_pod("q", version=11))
    cache.pods.put(a_pod("p", {"app": "b"}, version=10), allow_older=True)
    assert changes == []
    assert cache.pods.get("n1", "p") is held
    cache.pods.put(a_pod("p", {"app": "b"}, version=9), allow_older=True)
    assert len(changes) == 1
    cache.pods.delete(a_pod("p", version=9))
    assert len(changes) == 2


def test_pods_of_a_workload_share_what_they_have_in_common() -> None:
    cache = InformerCache()
    for index in range(3):
        cache.pods.put(a_pod(f"p{index}", {"app": "a"}, node="node"))
    cache.pods.put(a_pod("p0", {"app": "a"}, node="node", version=2))
    pods = list(cache.pods)
    shared = [
        (pod.metadata.labels, pod.metadata.namespace, pod.spec.node_name, pod.spec.containers, pod.status.conditions)
        for pod in pods
    ]
    assert [len({id(value) for value in values}) for values in zip(*shared, strict=True)] == [1, 1, 1, 1, 1]


@given(CHANGES.filter(lambda obj: isinstance(obj, LivePod | EndpointSlice)))
def test_packing_changes_no_value(obj: LivePod | EndpointSlice) -> None:
    before = msgspec.json.encode(obj)
    packing = Interner()
    packing.intern_pod(obj) if isinstance(obj, LivePod) else packing.intern_slice(obj)
    assert msgspec.json.encode(obj) == before
    assert obj == msgspec.json.decode(before, type=type(obj))


def test_pods_share_conditions_while_each_knows_since_when_it_is_ready_or_not() -> None:
    cache, times = InformerCache(), ["2026-11-21T08:00:00Z", "2026-11-21T08:00:01Z"]
    for index, at in enumerate(times):
        initialized = {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-11-21T07:00:00Z"}
        conditions = [initialized, {"type": "Ready", "status": "False", "lastTransitionTime": at}]
        metadata = {"name": f"p{index}", "namespace": "n1", "resourceVersion": "1"}
        cache.pods.put(convert({"metadata": metadata, "status": {"conditions": conditions}}, LivePod))
    first, second = cache.pods
    assert [first.status.ready_since, second.status.ready_since] == times
    assert first.status.conditions is second.status.conditions
    assert [condition.type for condition in first.status.conditions or ()] == ["Initialized", "Ready"]
    cache.pods.put(a_pod("p0", version=2))
    assert [pod.status.ready_since for pod in cache.pods] == [None, times[1]], "no time, if the server sends none"


def test_what_packing_remembers_is_bounded() -> None:
    packing = Interner(limit=10)
    for port in range(100):
        packing.intern_slice(structs.a_slice("s", ports=(EndpointPort(port=port),)))
    assert 0 < len(packing._seen) <= 10


@pytest.mark.parametrize(
    ("selector", "mark", "names"),
    [
        ({"app": "cart"}, None, ["a"]),
        (None, '{"app":"cart"}', ["a"]),
        (None, '{"app":"other"}', ["b"]),
        (None, '{"app":', []),
        ({"app": "cart"}, '{"app":"other"}', ["a"]),
        (None, None, []),
    ],
)
def test_pods_are_found_by_the_mark_and_by_the_selector_that_comes_back(
    selector: Labels, mark: str | None, names: list[str]
) -> None:
    cache, pods = InformerCache(), [a_pod("a", {"app": "cart"}), a_pod("b", {"app": "other"})]
    for pod in pods:
        cache.pods.put(pod)
    cache.services.put(a_service("cart", {"app": "other"}))
    plain = a_service("cart", selector, version=2)
    metadata = msgspec.structs.replace(plain.metadata, annotations={SELECTOR_ANNOTATION: mark} if mark else None)
    service = msgspec.structs.replace(plain, metadata=metadata)
    cache.services.put(service)
    assert [pod.metadata.name for pod in cache.pods_of("n1", "cart")] == names
    assert [service for pod in pods for service in cache.services_of(pod)] == [service] * len(names)
