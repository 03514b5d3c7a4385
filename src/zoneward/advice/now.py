"""What the slices in force do today, through the proxies that run on the nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zoneward.advice.node_proxies import NodeProxies
from zoneward.kube.objects import EndpointSlice, Service
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.demand import Demand
from zoneward.routing.selection.expected_traffic import ExpectedTraffic, predict_service_traffic, split_demand


@dataclass(frozen=True, slots=True)
class CurrentTraffic:
    """One address family of a Service.

    ``traffic`` is None for a Service that proxies ignore, and without demand. ``proxies`` counts the nodes from which
    traffic starts, by the title of their kind of proxy.
    """

    traffic: ExpectedTraffic | None
    proxies: Mapping[str, int]


def traffic_now(
    service: Service,
    *,
    slices: Iterable[EndpointSlice],
    demand: Demand,
    node_proxies: NodeProxies,
    gates: FeatureGates,
) -> dict[str, CurrentTraffic]:
    """By address type, for those of which there are slices. ``slices`` are all that name the Service, whoever manages
    them; the Service is as it is in the cluster, for annotations count for some proxies.
    """
    by_family: dict[str, list[EndpointSlice]] = {}
    for each in slices:
        by_family.setdefault(each.address_type, []).append(each)
    consumers = split_demand(demand, node_proxies.default.consumer, node_proxies.consumer_by_node)
    proxies: dict[str, int] = {}
    for node in demand.nodes:
        title = node_proxies.on(node.name).title
        proxies[title] = proxies.get(title, 0) + 1
    return {
        family: CurrentTraffic(predict_service_traffic(service, found, consumers=consumers, gates=gates), proxies)
        for family, found in sorted(by_family.items())
    }
