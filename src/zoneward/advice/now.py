"""What the slices in force do today, and how the load of endpoints changes with the cluster.

Traffic does not go away with Pods and Nodes: what started in a zone that failed starts in the others, and all of it is
shared by the endpoints that are left. So the load of an endpoint is its share of all traffic of the Service, and shares
before and after the change can be compared. ``max_overload`` cannot: it is relative to a fair share, which grows where
endpoints go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from zoneward.advice.node_proxies import NodeProxies, ProxyKind
from zoneward.kube.objects import EndpointIdentity, EndpointSlice, ObjectKey, Service, identity
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand
from zoneward.routing.rules import Reason
from zoneward.routing.selection.endpoint_selection import Consumer, endpoints_of_all_ports, honored_hints, is_proxied
from zoneward.routing.selection.traffic import ExpectedTraffic, predict_service_traffic
from zoneward.slices.plan import FamilyPlan, ServicePlan


@dataclass(frozen=True, slots=True)
class CurrentTraffic:
    """One address family of a Service.

    ``traffic`` is None for a Service that proxies ignore, and without demand. ``proxies`` counts the nodes from which
    traffic starts, by the title of their kind of proxy.
    """

    traffic: ExpectedTraffic | None
    proxies: Mapping[str, int]


ClusterTraffic = Mapping[ObjectKey, Mapping[str, CurrentTraffic]]
"""By namespace and name of the Service and by address type."""
NOTHING_KNOWN: Final[ClusterTraffic] = MappingProxyType({})


def traffic_now(
    service: Service,
    *,
    slices: Iterable[EndpointSlice],
    demand: Demand,
    node_proxies: NodeProxies,
    gates: FeatureGates,
) -> dict[str, CurrentTraffic]:
    """By address type, for those of which there are slices. ``slices`` are all that name the Service, with any
    manager. The Service is as it is in the cluster, because some proxies read its annotations.
    """
    by_family: dict[str, list[EndpointSlice]] = {}
    for slice_ in slices:
        by_family.setdefault(slice_.address_type, []).append(slice_)
    split = node_proxies.split(demand, service)
    return {
        family: CurrentTraffic(
            predict_service_traffic(service, own, consumers=split.consumers, gates=gates), split.nodes
        )
        for family, own in sorted(by_family.items())
    }


def ignoring_proxies(family: FamilyPlan, node_proxies: NodeProxies) -> tuple[tuple[ProxyKind, int], ...]:
    """The kinds of proxies that ignore what a decision writes, with the nodes from which traffic starts."""
    decision, state = family.decision, family.cluster_state
    if not decision.active or not is_proxied(family.service):
        return ()
    kinds = node_proxies.split(state.demand, family.service).kinds
    gates = state.configuration.gates
    return tuple(
        (kind, nodes) for kind, nodes in kinds.items() if not _reads(decision, family.service, kind.consumer, gates)
    )


def _reads(decision: Decision, service: Service, consumer: Consumer, gates: FeatureGates) -> bool:
    """Whether a proxy reads zones' groups, or hints that are not void."""
    if decision.has_slice_groups:
        return consumer.zone_slices != "ignored" and gates.topology_aware_subsetting
    honored = honored_hints(service, consumer, gates)
    return honored.nodes or (honored.zones and decision.reason is not Reason.ENDPOINT_WITHOUT_ZONE)


# --- after a change of the cluster ------------------------------------------------------------------------------------


PlansBefore = Mapping[tuple[str, str, str], FamilyPlan]
"""The plans of the unchanged cluster, by namespace, name and address type."""


@dataclass(frozen=True, slots=True)
class LoadChange:
    """Loads are shares of all traffic of the Service, 0 to 1.

    ``before`` and ``after`` are those of the busiest endpoint, which need not be the same one. ``highest_rise`` is the
    most that the load of one endpoint rises, of those that have traffic before and after: 0.5 is half as much again,
    below 0 all of them have less. None where there is no such endpoint.
    """

    before: float
    after: float
    highest_rise: float | None

    @property
    def change(self) -> float:
        """By how much the busiest endpoint has more load than the busiest one had: 0.5 is half as much again."""
        return self.after / self.before - 1


def plans_before(plans: Iterable[ServicePlan]) -> PlansBefore:
    """Plans of the unchanged cluster, as `load_change` looks them up."""
    return {_key(family): family for plan in plans for family in plan.families}


def load_change(after: FamilyPlan, before: PlansBefore) -> LoadChange | None:
    """Compare one address family of a Service. None where no endpoint is known to have traffic before, or after."""
    earlier = family_before(after, before)
    if earlier is None:
        return None
    was, now = earlier.traffic, after.traffic
    if was is None or now is None or not was.busiest_load or not now.busiest_load:
        return None
    loads = _loads(earlier)
    rises = [load / loads[key] - 1 for key, load in _loads(after).items() if key in loads]
    return LoadChange(was.busiest_load, now.busiest_load, max(rises, default=None))


def family_before(after: FamilyPlan, before: PlansBefore) -> FamilyPlan | None:
    """The same address family of the same Service, before the change."""
    return before.get(_key(after))


def _key(family: FamilyPlan) -> tuple[str, str, str]:
    meta = family.service.metadata
    return meta.namespace, meta.name, family.address_type


def _loads(family: FamilyPlan) -> dict[EndpointIdentity, float]:
    """The load of every endpoint that has some."""
    assert family.traffic is not None
    endpoints = endpoints_of_all_ports(family.slices)
    return {identity(endpoint): load for endpoint, load in zip(endpoints, family.traffic.load, strict=True) if load}
