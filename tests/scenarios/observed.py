"""What is there when all is quiet: the objects as the server has them, what they come to, and what proxies use."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec
from tests.contract.api import Object

from zoneward.cli.planned_services import PlannedServices
from zoneward.cli.route import node_routes
from zoneward.controller.status.status_writer import CONTROLLER
from zoneward.kube import names
from zoneward.kube.objects import Condition, Endpoint, EndpointSlice, Node, Pod, Service, is_ready, node_zone
from zoneward.report.route_report import PortRoute
from zoneward.routing.configuration import Configuration, FeatureGates
from zoneward.routing.demand import compute_demand
from zoneward.routing.selection.endpoint_selection import CONSUMERS
from zoneward.routing.selection.group_labels import group_of_slice
from zoneward.routing.service_conditions import find_condition
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan, plan_service
from zoneward.snapshots.cluster_snapshot import Snapshot


@dataclass(frozen=True)
class Lists:
    """As the server gave them, by plural."""

    nodes: list[Object]
    services: list[Object]
    pods: list[Object]
    endpointslices: list[Object]
    events: list[Object]


@dataclass(frozen=True)
class Observed:
    """``services`` alone are looked at; the lists may have others."""

    lists: Lists
    configuration: Configuration
    services: frozenset[str]

    @cached_property
    def snapshot(self) -> Snapshot:
        return Snapshot(
            services=tuple(
                each
                for each in msgspec.convert(self.lists.services, list[Service])
                if each.metadata.name in self.services
            ),
            nodes=tuple(msgspec.convert(self.lists.nodes, list[Node])),
            pods=tuple(msgspec.convert(self.lists.pods, list[Pod])),
            slices=tuple(msgspec.convert(self.lists.endpointslices, list[EndpointSlice])),
            lists_pods=True,
        )

    @cached_property
    def cluster_state(self) -> ClusterState:
        return ClusterState(
            demand=compute_demand(self.snapshot.nodes, missing_cpu=self.configuration.hints.missing_cpu),
            node_zones=self.snapshot.node_zones,
            configuration=self.configuration,
        )

    @cached_property
    def plans(self) -> Mapping[str, ServicePlan]:
        """What every Service would come to now, planned anew from what the server has."""
        return {
            service.metadata.name: plan_service(
                service,
                pods=self.snapshot.pods_of(service),
                slices=self.snapshot.slices_of(service),
                cluster_state=self.cluster_state,
            )
            for service in self.snapshot.services
        }

    def service(self, name: str) -> Service:
        return next(each for each in self.snapshot.services if each.metadata.name == name)

    def slices(self, name: str) -> tuple[EndpointSlice, ...]:
        return self.snapshot.slices_of(self.service(name))

    def condition(self, name: str, type_: str) -> Condition | None:
        status = self.service(name).status
        return find_condition((status.conditions or ()) if status is not None else (), type_)

    # --- slices in figures --------------------------------------------------------------------------------------------

    def ready(self, name: str) -> list[tuple[EndpointSlice, Endpoint]]:
        return [(each, one) for each in self.slices(name) for one in each.endpoints or () if is_ready(one)]

    def hints(self, name: str, *, nodes: bool = False) -> dict[str, int]:
        """Ready endpoints by the zone, or the node, that they have a hint for."""
        found: Counter[str] = Counter()
        for _, one in self.ready(name):
            if one.hints is not None:
                found.update(each.name for each in (one.hints.for_nodes if nodes else one.hints.for_zones) or ())
        return dict(found)

    def groups(self, name: str) -> dict[str, int]:
        """Ready endpoints by the zones of their group, ``a+b`` for one of two."""
        found: Counter[str] = Counter()
        for slice_, _ in self.ready(name):
            group = group_of_slice(slice_)
            if group is not None:
                found["+".join(group.zones)] += 1
        return dict(found)

    def own_zone(self, name: str) -> int:
        """Ready endpoints that serve the zone in which they are, by hints or by groups."""
        number = 0
        for slice_, one in self.ready(name):
            group = group_of_slice(slice_)
            zones = {each.name for each in (one.hints.for_zones if one.hints is not None else None) or ()}
            number += one.zone in (zones or (group.zones if group is not None else ()))
        return number

    def serves(self, name: str) -> dict[str, tuple[str, ...]]:
        """By address, the zones that use an endpoint; none where that is not said."""
        found = {}
        for slice_, one in self.ready(name):
            group = group_of_slice(slice_)
            hinted = tuple(each.name for each in (one.hints.for_zones if one.hints is not None else None) or ())
            found[(one.addresses or ("",))[0]] = hinted or (group.zones if group is not None else ())
        return found

    # --- proxies ------------------------------------------------------------------------------------------------------

    def node_of(self, place: str) -> str:
        """A node by its name, or the first of a zone."""
        nodes = sorted(self.snapshot.nodes, key=lambda node: node.metadata.name)
        return next(node.metadata.name for node in nodes if place in (node.metadata.name, node_zone(node)))

    def route(self, name: str, consumer: str, place: str, gates: FeatureGates) -> PortRoute:
        """What `zoneward route --as-is` says of the only port of a Service."""
        plan = self.plans[name]
        cluster_state = ClusterState(
            demand=self.cluster_state.demand,
            node_zones=self.cluster_state.node_zones,
            configuration=replace(self.configuration, gates=gates),
            consumer=CONSUMERS[consumer],
        )
        planned = PlannedServices(self.snapshot, cluster_state, (self.service(name),), {}, (), (plan,))
        # Of several families the first: IPv4.
        return node_routes(planned, node=self.node_of(place), as_is=True).ports[0]

    def places(self) -> list[str]:
        """Nodes of which one stands for each zone, and every node without a zone."""
        by_zone = {node_zone(node) or node.metadata.name: node.metadata.name for node in self.snapshot.nodes}
        return sorted(by_zone.values())


def told(events: Iterable[Object]) -> Counter[tuple[str, str]]:
    """How often we told each thing, by Service and ``<type> <reason>: <note>``."""
    found: Counter[tuple[str, str]] = Counter()
    for each in events:
        if each.get("reportingController") != CONTROLLER:
            continue
        what = f"{each['type']} {each['reason']}: {each.get('note', '')}"
        found[each["regarding"]["name"], what] += (each.get("series") or {}).get("count", 1)
    return found


def accepted(condition: Condition | None) -> bool | str:
    return "absent" if condition is None else condition.status == "True"


def programmed(condition: Condition | None) -> bool | str:
    """True, or the reason why not."""
    if condition is None:
        return "absent"
    return True if condition.status == "True" else condition.reason or ""


def own_condition(observed: Observed, name: str) -> tuple[bool | str, bool | str]:
    return (
        accepted(observed.condition(name, names.ACCEPTED_CONDITION)),
        programmed(observed.condition(name, names.PROGRAMMED_CONDITION)),
    )
