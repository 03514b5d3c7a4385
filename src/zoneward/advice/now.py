"""What the slices in force do today, through the proxies that run on the nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from zoneward.advice.node_proxies import NodeProxies
from zoneward.advice.proxy_kinds import ProxyKind
from zoneward.kube.objects import EndpointSlice, ObjectKey, Service
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand
from zoneward.routing.rules import Reason
from zoneward.routing.selection.endpoint_selection import Consumer, honored_hints, is_proxied
from zoneward.routing.selection.traffic import ExpectedTraffic, predict_service_traffic
from zoneward.slices.plan import FamilyPlan


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
