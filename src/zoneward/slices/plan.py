"""The plan of a Service: from its Pods, the zones' demand and its existing slices to a decision and the slices to
write.

Everything that decides goes through `zoneward.slices.planner`: the commands and the lab by `plan_service`, the controller
by a Service that it keeps. Start reading here, and go on in `zoneward.slices.planning`.
"""

from collections.abc import Container, Iterable

from zoneward.kube.objects import EndpointSlice, Pod, Service
from zoneward.slices.planned import ClusterState, FamilyPlan, ServicePlan
from zoneward.slices.planner import ServicePlanner

__all__ = ["ClusterState", "FamilyPlan", "ServicePlan", "plan_service"]


def plan_service(
    service: Service,
    *,
    pods: Iterable[Pod],
    slices: Iterable[EndpointSlice],
    cluster_state: ClusterState,
    trigger_time: str | None = None,
    taken: Container[str] = (),
) -> ServicePlan:
    """Plan one Service.

    ``pods`` are those its selector matches, ``slices`` all existing ones that name the Service, whoever manages them.
    ``taken`` holds names of slices elsewhere in the namespace that new ones must avoid; ``trigger_time`` (RFC 3339)
    goes into whatever is written.
    """
    kept = ServicePlanner(service, cluster_state, pods=pods, slices=slices, once=True)
    return kept.plan(trigger_time=trigger_time, taken=taken)
