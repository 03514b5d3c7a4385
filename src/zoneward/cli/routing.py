"""From plans to what one node's proxy selects."""

from collections.abc import Iterable

from zoneward.cli.planning import Planned
from zoneward.cli.snapshots import node_in
from zoneward.kube.objects import Endpoint, EndpointSlice, node_zone
from zoneward.report.route_report import NodeRoutes, PortRoute
from zoneward.routing.selection.endpoint_selection import (
    endpoints_of_port,
    honored_hints,
    is_proxied,
    policies_of,
    select_endpoints,
    slice_groups,
)
from zoneward.slices.plan import ServicePlan


def route_of(planned: Planned, *, node: str, as_is: bool) -> NodeRoutes:
    """What the proxy on ``node`` selects for every port of every planned Service. Raises InputError for a node unknown.

    With ``as_is`` it reads the slices of the snapshot, else those that the plan leaves.
    """
    zone = node_zone(node_in(planned.snapshot, node))
    consumer, gates = planned.cluster_state.consumer, planned.configuration.gates
    ports: list[PortRoute] = []
    for plan in planned.plans:
        if not is_proxied(plan.service):
            continue
        policies = policies_of(plan.service, gates)
        honored = honored_hints(plan.service, consumer, gates)
        for address_type, slices in _slices(planned, plan, as_is=as_is):
            groups = slice_groups(slices, consumer, gates)
            for port in plan.service.spec.ports or ():
                found = endpoints_of_port(slices, port.name, protocol=port.protocol, node=node)
                addresses = {id(endpoint): address for address, endpoint in found.items()}
                selection = select_endpoints(
                    tuple(found.values()),
                    policies=policies,
                    honored=honored,
                    node=node,
                    zone=zone,
                    groups=groups,
                )
                ports.append(
                    PortRoute(
                        namespace=plan.service.metadata.namespace,
                        service=plan.service.metadata.name,
                        address_type=address_type,
                        port=port.name,
                        port_number=port.port,
                        protocol=port.protocol,
                        cluster=_named(selection.cluster, addresses),
                        local=_named(selection.local, addresses),
                        all_reachable=_named(selection.all_reachable, addresses) or (),
                        rule=selection.rule,
                        healthy_local=selection.healthy_local,
                        has_endpoints=selection.has_any,
                        known=len(found),
                        weights=selection.weights,
                    )
                )
    return NodeRoutes(node=node, zone=zone, ports=tuple(ports))


def _slices(planned: Planned, plan: ServicePlan, *, as_is: bool) -> Iterable[tuple[str, tuple[EndpointSlice, ...]]]:
    if not as_is:
        return [(family.address_type, family.slices) for family in plan.families]
    slices = planned.snapshot.slices_of(plan.service)
    return [
        (family.address_type, tuple(each for each in slices if each.address_type == family.address_type))
        for family in plan.families
    ]


def _named(endpoints: Iterable[Endpoint] | None, addresses: dict[int, str]) -> tuple[str, ...] | None:
    return None if endpoints is None else tuple(addresses[id(endpoint)] for endpoint in endpoints)
