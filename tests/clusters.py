"""Small clusters for tests: builders with a default for all that a test does not care about, and what a plan makes of
them. Random ones are in `tests.properties.random_clusters`."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final
from unittest.mock import patch

import msgspec
from hypothesis.vendor.pretty import RepresentationPrinter
from msgspec.structs import replace

from zoneward.controller.status.status_writer import with_own_conditions, with_requested
from zoneward.kube import names
from zoneward.kube.adoption_marks import manager_of
from zoneward.kube.objects import (
    Condition,
    Endpoint,
    EndpointIdentity,
    EndpointSlice,
    Hints,
    Node,
    Pod,
    Service,
    node_zone,
)
from zoneward.kube.zone_weights import ZoneWeights
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand, demands_of
from zoneward.routing.endpoint_index import EndpointIndex
from zoneward.routing.selection.endpoint_selection import HonoredHints, Policies
from zoneward.routing.selection.traffic import ExpectedTraffic, ExpectedZoneTraffic
from zoneward.routing.zone_groups import ZoneGroup
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.decide import decide
from zoneward.slices.desired import hints_of
from zoneward.slices.plan import FamilyPlan, ServicePlan, plan_service

CLUSTER: Final = Policies(uses_cluster=True, uses_local=False)
"""Both traffic policies at their default."""
ALL_HINTS: Final = HonoredHints(zones=True, nodes=True)


def demand_in(**weights: int) -> Demand:
    """Demand of this number of nodes in each zone, without the Nodes behind it."""
    zones = tuple(sorted(weights))
    return Demand(zones=zones, weights=tuple(weights[zone] for zone in zones), unit="nodes")


def cluster_state(
    nodes: Iterable[Node], configuration: Configuration | None = None, *, pods_known: bool = True
) -> ClusterState:
    configuration = configuration if configuration is not None else Configuration()
    nodes = tuple(nodes)
    demand, cpu_demand = demands_of(nodes, configuration)
    return ClusterState(
        demand=demand,
        cpu_demand=cpu_demand,
        node_zones={node.metadata.name: node_zone(node) for node in nodes},
        configuration=configuration,
        pods_known=pods_known,
    )


Weigh = Callable[[Mapping[str, int]], ZoneWeights | None]
"""Weights of zones for the numbers of ready endpoints by zone."""


@contextmanager
def decided_weights(weigh: Weigh) -> Iterator[None]:
    """Decisions have these weights of zones; everything else in them stays."""

    def with_weights(service: Service, index: EndpointIndex, **more: Any) -> Decision:
        counts = Counter[str]()
        for bucket in index.ready_buckets():
            counts[bucket.zone] += len(bucket)
        return dataclasses.replace(decide(service, index, **more), weights=weigh(counts))

    with patch("zoneward.slices.plan.decide", with_weights):
        yield


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cluster:
    """One Service and everything that its plan depends on."""

    service: Service
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()
    configuration: Configuration = Configuration()  # noqa: RUF009 -- frozen all the way down
    pods_known: bool = True

    def __repr__(self) -> str:
        """The shortest description of a cluster: fields at their default are left out."""
        objects = (self.service, *self.nodes, *self.pods, *self.slices)
        lines = (f"{type(object_).__name__} {msgspec.json.encode(object_).decode()}" for object_ in objects)
        return "\n".join(("Cluster:", *lines, repr(self.configuration), f"pods_known={self.pods_known}"))

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:  # noqa: ARG002
        """Hypothesis prints it as `repr` does."""
        printer.text(repr(self))

    @property
    def cluster_state(self) -> ClusterState:
        return cluster_state(self.nodes, self.configuration, pods_known=self.pods_known)

    def plan(self, *, trigger_time: str | None = None) -> ServicePlan:
        return plan_service(
            self.service,
            pods=self.pods,
            slices=self.slices,
            cluster_state=self.cluster_state,
            trigger_time=trigger_time,
        )

    def with_(self, **changes: object) -> "Cluster":
        """The same cluster with other fields."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def after(self, plan: ServicePlan) -> "Cluster":
        """The cluster in which a plan was carried out to the letter: what it does not speak of stays as it is."""
        changes = [family.changes for family in plan.families]
        replaced = [slice_ for family in plan.families for slice_ in family.replaced]
        gone = [*plan.surplus, *replaced, *(slice_ for change in changes for slice_ in change.delete)]
        new = [slice_ for change in changes for slice_ in (*change.create, *change.update)]
        spoken_of = {slice_.metadata.name for slice_ in (*gone, *new)}
        left = [slice_ for slice_ in self.slices if slice_.metadata.name not in spoken_of]
        return self.with_(service=with_reported(self.service, plan), slices=(*left, *new))

    def settled(self) -> "Cluster":
        """The cluster after its own plan."""
        return self.after(self.plan())


def slices_after(plan: ServicePlan) -> tuple[EndpointSlice, ...]:
    """The slices that proxies see when a plan is carried out: those of the built-in controller are gone by then."""
    return tuple(slice_ for family in plan.families for slice_ in family.slices)


def with_reported(service: Service, plan: ServicePlan) -> Service:
    """The Service with what the controller reports of a plan, in place of what it reported of an earlier one."""
    return with_conditions(service, plan.conditions, requested=plan.requested)


def with_conditions(service: Service, conditions: Iterable[Condition], *, requested: str | None) -> Service:
    """The Service with these conditions of Zoneward's, and the annotation that is written with them."""
    return with_own_conditions(service, with_requested(conditions, requested))


def endpoint_answers(decision: Decision) -> dict[EndpointIdentity, tuple[Hints | None, ZoneGroup | None]]:
    """What a decision says about each endpoint: its hints and its slice group."""
    targets = decision.targets
    if targets is None:
        return {}
    index = targets.index
    buckets = (*index.ready_buckets(), *index.unready_buckets())
    members = [*(member for bucket in buckets for member in bucket.members), *index.shared_address]
    return {
        member.identity: (
            hints_of(targets.of(member)) if targets.encoding == "hints" else None,
            targets.of(member).group,
        )
        for member in members
    }


def decided_hints(decision: Decision) -> list[Hints | None]:
    """The hints of each endpoint, in any order."""
    return [hints for hints, _ in endpoint_answers(decision).values()]


def only_family(plan: ServicePlan) -> FamilyPlan:
    """The plan of the one address family of a Service that has one."""
    (family,) = plan.families
    return family


def written(plan: ServicePlan) -> tuple[EndpointSlice, ...]:
    """Every slice that a plan creates, updates or deletes."""
    return (
        *(
            slice_
            for family in plan.families
            for slice_ in (*family.changes.create, *family.changes.update, *family.changes.delete)
        ),
        *plan.surplus,
    )


def rounded(traffic: ExpectedTraffic) -> ExpectedTraffic:
    """Without what depends on the order of endpoints: sums of doubles differ by it in the last digits."""

    def nearly(figures: ExpectedTraffic | ExpectedZoneTraffic) -> dict[str, Any]:
        values = msgspec.structs.asdict(figures)
        result: dict[str, Any] = {name: round(value, 9) for name, value in values.items() if isinstance(value, float)}
        if isinstance(figures, ExpectedZoneTraffic):
            result["to"] = {zone: round(share, 9) for zone, share in figures.to.items()}
        return result

    zones = {name: replace(zone, **nearly(zone)) for name, zone in traffic.zones.items()}
    load = tuple(sorted(round(share, 9) for share in traffic.load))
    return replace(traffic, zones=zones, load=load, **nearly(traffic))


def endpoints_in(slices: Iterable[EndpointSlice]) -> list[Endpoint]:
    """Every endpoint of some slices, as often as it is there."""
    return [endpoint for slice_ in slices for endpoint in slice_.endpoints or ()]


def hinted_zones(slices: Iterable[EndpointSlice]) -> dict[str, str]:
    """Pod (or address) to the one zone that its endpoint is hinted to; endpoints without such a hint are left out."""
    result = {}
    for endpoint in endpoints_in(slices):
        if endpoint.hints is not None and endpoint.hints.for_zones:
            (zone,) = endpoint.hints.for_zones
            result[endpoint.target_ref.name if endpoint.target_ref else (endpoint.addresses or ("",))[0]] = zone.name
    return result


def overload_threshold(cluster: Cluster, family: FamilyPlan) -> Fraction:
    """KEP-2433 § Overload: the higher threshold where every slice says that the same is in force already."""
    said = {
        (slice_.metadata.annotations or {}).get(names.APPROACH_ANNOTATION)
        for slice_ in cluster.slices
        if slice_.address_type == family.address_type and manager_of(slice_) == names.MANAGER and slice_.endpoints
    }
    is_in_force = said == {f"{family.decision.approach}/{family.decision.heuristic}"}
    return cluster.configuration.hints.keep_threshold if is_in_force else cluster.configuration.hints.start_threshold
