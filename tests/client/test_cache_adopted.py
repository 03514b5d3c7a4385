"""A Service that was adopted selects by its mark."""

from msgspec import convert

from zoneward.client.informer_cache import InformerCache
from zoneward.client.resources import LivePod
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION
from zoneward.kube.objects import Service


def a_service(*, selector: dict[str, str] | None = None, mark: str | None = None) -> Service:
    annotations = None if mark is None else {SELECTOR_ANNOTATION: mark}
    metadata = {"name": "cart", "namespace": "shop", "annotations": annotations}
    return convert({"metadata": metadata, "spec": {"selector": selector}}, Service)


def a_pod(name: str, app: str) -> LivePod:
    return convert({"metadata": {"name": name, "namespace": "shop", "labels": {"app": app}}}, LivePod)


def selected(cache: InformerCache) -> list[str]:
    return [pod.metadata.name for pod in cache.pods_of("shop", "cart")]


def test_pods_are_found_by_the_mark_and_by_the_selector_that_comes_back() -> None:
    cache = InformerCache()
    pods = [a_pod("a", "cart"), a_pod("b", "other")]
    for pod in pods:
        cache.pods.put(pod)
    for service, names in (
        (a_service(selector={"app": "cart"}), ["a"]),
        (a_service(mark='{"app":"cart"}'), ["a"]),
        (a_service(mark='{"app":"other"}'), ["b"]),
        (a_service(mark='{"app":'), []),
        (a_service(mark='{"app":"other"}', selector={"app": "cart"}), ["a"]),
        (a_service(), []),
    ):
        cache.services.put(service, allow_older=True)
        assert selected(cache) == names
        found = [each for pod in pods for each in cache.services_of(pod)]
        assert found == [service] * len(names)
