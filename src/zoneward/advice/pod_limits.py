"""What limits the number and the places of a Service's Pods, as far as the input says it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from zoneward.advice.changed_cluster import NO_ZONE
from zoneward.advice.service_input import ServiceInput
from zoneward.advice.workloads import UNKNOWN_WORKLOAD, Workload, makes
from zoneward.kube.adoption_marks import effective_selector
from zoneward.kube.objects import Pod
from zoneward.slices.endpoints import FINISHED_PHASES


@dataclass(frozen=True, slots=True)
class Unchecked:
    """Something that fixes depend on and that the input does not say, with the reason in a phrase."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class PodLimits:
    """Which changes of Pods are possible. ``scales``: whether their number may change, or their zones. ``movable``
    counts the Pods in each zone that may leave it. ``reasons`` are sentences about what is not possible.
    """

    scales: bool
    can_shrink: bool
    movable: Mapping[str, int]
    reasons: tuple[str, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()


def pod_limits(given: ServiceInput, address_type: str) -> PodLimits:
    """The limits for one address family of a Service."""
    workload = given.workload
    refusals = tuple(_refusals(given, workload)) if workload is not None else ()
    scaled_by = workload.autoscaler if workload is not None else None
    reasons = list(refusals)
    if scaled_by is not None and workload is not None:
        name = scaled_by.metadata.name
        reasons.append(f"horizontalpodautoscaler/{name} sets the replicas of {workload.resource}: no fix removes Pods")
    return PodLimits(
        scales=not refusals,
        can_shrink=scaled_by is None and (workload is None or workload.kind != "StatefulSet"),
        movable=_movable(given, address_type),
        reasons=tuple(reasons),
        unchecked=tuple(_unchecked(given, workload)),
    )


def _refusals(given: ServiceInput, workload: Workload) -> Iterator[str]:
    """Why no other number of Pods and no other zones for them are a fix."""
    if not workload.scales:
        yield f"{workload.resource} has no replicas to set"
    elif workload.object is not None and not makes(workload.object, effective_selector(given.service) or {}):
        yield (
            f"the Pod template of {workload.resource} does not have the labels that the Service selects: "
            f"new Pods would not serve it"
        )


def _movable(given: ServiceInput, address_type: str) -> Mapping[str, int]:
    """Pods of other workloads stay where they are."""
    if not given.cluster_state.pods_known:
        return given.replicas(address_type).by_zone
    zones = given.cluster_state.node_zones
    return Counter(
        zones.get(pod.spec.node_name) or NO_ZONE for pod in given.pods if runs(pod) and given.is_of_workload(pod)
    )


def runs(pod: Pod) -> bool:
    """Whether a ReplicaSet counts the Pod: it has neither finished nor is it terminating."""
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in FINISHED_PHASES


def unselected_pods(given: ServiceInput) -> int:
    """How many Pods of the workload the Service does not select."""
    if given.workload is None:
        return 0
    selected = {(pod.metadata.namespace, pod.metadata.name) for pod in given.pods}
    return sum(
        (pod.metadata.namespace, pod.metadata.name) not in selected and runs(pod) and given.is_of_workload(pod)
        for pod in given.namespace_pods
    )


def _unchecked(given: ServiceInput, workload: Workload | None) -> Iterator[Unchecked]:
    lacking = given.objects.lacking
    resource = (workload or UNKNOWN_WORKLOAD).resource
    if workload is None or workload.object is None:
        reason = "the input does not say what owns the Pods" if workload is None else f"the input has no {resource}"
        yield Unchecked("the replicas and the Pod template of the workload", lacking.get("workloads", reason))
    if (workload is None or workload.autoscaler is None) and "autoscalers" in lacking:
        yield Unchecked("autoscalers", lacking["autoscalers"])
