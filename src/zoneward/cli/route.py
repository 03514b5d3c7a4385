"""``zoneward route``: what the proxy on one node would select."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from zoneward.cli.completion import complete_node
from zoneward.cli.options import GroupedCommand, Options, output_option, planning_options
from zoneward.cli.output import print_json, print_notes, print_text, table_width

if TYPE_CHECKING:
    from zoneward.cli.planned_services import SelectedServices
    from zoneward.kube.objects import Endpoint, EndpointSlice
    from zoneward.report.route_report import NodeRoutes
    from zoneward.slices.plan import FamilyPlan, ServicePlan


@click.command("route", cls=GroupedCommand)
@planning_options()
@click.option(
    "--node", required=True, metavar="NAME", help="The node whose proxy selects.", shell_complete=complete_node
)
@click.option("--as-is", is_flag=True, help="Use the slices as they are in the snapshot, not as planned.")
@output_option("table|json")
def command(*, options: Options, node: str, as_is: bool, output: str) -> None:
    """Show what the proxy on a node would select for every Service port, and by which rule.

    \b
    zoneward route --sample --node worker-a2
    zoneward route -f cluster.json --node n1 --what-if PreferSameNode --proxy kube-proxy-1.33
    """
    if as_is:
        why = "expected no --as-is with it: the slices in the snapshot know nothing of the change"
        options.changes.refuse(why)
        if options.what_if:
            raise click.UsageError(f"--what-if: {why}")
    from zoneward.cli.planned_services import select_services
    from zoneward.report.route_report import route_table

    selected = select_services(options)
    route = node_routes(selected, node=node, as_is=as_is)
    print_notes(options, selected.notes)
    if output == "json":
        print_json("Route", route)
    else:
        print_text(options, route_table(route, width=table_width()))


def node_routes(selected: "SelectedServices", *, node: str, as_is: bool) -> "NodeRoutes":
    """What the proxy on ``node`` selects for every port of the selected Services. Raises InputError for a node unknown.

    With ``as_is`` it reads the slices of the snapshot, else those that the plan leaves.
    """
    import msgspec

    from zoneward.advice.json_value import round_share
    from zoneward.advice.now import load_change, plans_before
    from zoneward.cli.cluster_input import find_node
    from zoneward.kube.objects import node_zone
    from zoneward.report.route_report import NodeRoutes, PortRoute
    from zoneward.routing.selection.endpoint_selection import (
        endpoints_of_port,
        honored_hints,
        is_proxied,
        policies_of,
        select_endpoints,
        slice_groups,
        usable_zone_weights,
    )

    zone = node_zone(find_node(selected.snapshot, node))
    gates = selected.configuration.gates
    before = None if selected.plans_before is None else plans_before(selected.plans_before)
    ports: list[PortRoute] = []
    for plan in selected.plans:
        if not is_proxied(plan.service):
            continue
        policies, consumer = policies_of(plan.service, gates), selected.cluster_state.consumer_on(node, plan.service)
        honored = honored_hints(plan.service, consumer, gates)
        for family, slices in _slices(selected, plan, as_is=as_is):
            change: float | msgspec.UnsetType | None = msgspec.UNSET
            if before is not None:
                loads = load_change(family, before)
                change = None if loads is None else round_share(loads.change)
            groups, weights = slice_groups(slices, consumer, gates), usable_zone_weights(slices, honored)
            for port in plan.service.spec.ports or ():
                endpoints = endpoints_of_port(slices, port.name, protocol=port.protocol, node=node)
                addresses = {id(endpoint): address for address, endpoint in endpoints.items()}
                selection = select_endpoints(
                    tuple(endpoints.values()),
                    policies=policies,
                    honored=honored,
                    node=node,
                    zone=zone,
                    groups=groups,
                    zone_weights=weights,
                )
                ports.append(
                    PortRoute(
                        namespace=plan.service.metadata.namespace,
                        service=plan.service.metadata.name,
                        address_type=family.address_type,
                        port=port.name,
                        port_number=port.port,
                        protocol=port.protocol,
                        cluster=_named(selection.cluster, addresses),
                        local=_named(selection.local, addresses),
                        all_reachable=_named(selection.all_reachable, addresses) or (),
                        rule=selection.rule,
                        healthy_local=selection.healthy_local,
                        has_endpoints=selection.has_any,
                        known=len(endpoints),
                        weights=selection.weights,
                        load_change=change,
                    )
                )
    return NodeRoutes(node=node, zone=zone, proxy=selected.node_proxies.on(node).title, ports=tuple(ports))


def _slices(
    selected: "SelectedServices", plan: "ServicePlan", *, as_is: bool
) -> "Iterable[tuple[FamilyPlan, tuple[EndpointSlice, ...]]]":
    if not as_is:
        return [(family, family.slices) for family in plan.families]
    slices = selected.snapshot.slices_of(plan.service)
    return [
        (family, tuple(slice_ for slice_ in slices if slice_.address_type == family.address_type))
        for family in plan.families
    ]


def _named(endpoints: "Iterable[Endpoint] | None", addresses: dict[int, str]) -> tuple[str, ...] | None:
    return None if endpoints is None else tuple(addresses[id(endpoint)] for endpoint in endpoints)
