import pytest
from msgspec.structs import replace
from tests.builders.structs import a_pod

from zoneward.advice.service_input import WorkloadObjects, workload_of
from zoneward.kube.objects import OwnerReference, Pod

HASH = {"pod-template-hash": "77f"}
ROLLOUT_HASH = {"rollouts-pod-template-hash": "7f"}


def a_pod_of(name: str, *owners: tuple[str, str, str], labels: dict[str, str] | None = None) -> Pod:
    pod = a_pod(name, labels=labels or {})
    references = tuple(
        OwnerReference(api_version=version, kind=kind, name=owner, uid="1", controller=True)
        for version, kind, owner in owners
    )
    return replace(pod, metadata=replace(pod.metadata, owner_references=references or None))


@pytest.mark.parametrize(
    ("pod", "resource"),
    [
        (a_pod_of("cart-77f-x", ("apps/v1", "ReplicaSet", "cart-77f"), labels=HASH), "deployment/cart"),
        (a_pod_of("cart-x", ("apps/v1", "ReplicaSet", "cart")), "replicaset/cart"),
        (a_pod_of("cart-0", ("apps/v1", "StatefulSet", "cart")), "statefulset/cart"),
        (a_pod_of("cart-0", ("apps.kruise.io/v1beta1", "StatefulSet", "cart")), "statefulset.apps.kruise.io/cart"),
        (a_pod_of("cart-x", ("argoproj.io/v1alpha1", "Rollout", "cart")), "rollout.argoproj.io/cart"),
        (a_pod_of("cart-7f-x", ("apps/v1", "ReplicaSet", "cart-7f"), labels=ROLLOUT_HASH), "rollout.argoproj.io/cart"),
        (a_pod_of("cart-7f-x", labels=ROLLOUT_HASH), "rollout.argoproj.io/cart"),
        (a_pod_of("cart-77f-x", labels=HASH), "deployment/cart"),
        (a_pod_of("cart-0", labels={"statefulset.kubernetes.io/pod-name": "cart-0"}), "statefulset/cart"),
        (a_pod_of("cart-x"), None),
    ],
)
def test_workload_comes_from_owner_or_labels(pod: Pod, resource: str | None) -> None:
    workload = workload_of([pod], WorkloadObjects())
    assert (workload.resource if workload else None) == resource


@pytest.mark.parametrize(
    "owner",
    [
        ("apps/v1", "--filename=http://evil.example", "cart"),
        ("apps/v1", "Deployment", "--all"),
        ("apps/v1", "Deployment", "cart --all"),
        ("apps/v1", "Deployment,Secret", "cart"),
        ("--all/v1", "Rollout", "cart"),
        ("argoproj.io --all/v1", "Rollout", "cart"),
        ("v1/v1/v1", "Rollout", "cart"),
    ],
)
def test_impossible_owner_is_ignored(owner: tuple[str, str, str]) -> None:
    assert workload_of([a_pod_of("cart-x", owner)], WorkloadObjects()) is None


def test_workload_is_that_of_most_pods() -> None:
    pods = [a_pod_of(f"new-{index}", ("apps/v1", "StatefulSet", "new")) for index in range(2)]
    workload = workload_of([*pods, a_pod_of("old-0", ("apps/v1", "StatefulSet", "old"))], WorkloadObjects())
    assert workload is not None
    assert (workload.name, workload.pods) == ("new", 2)
