"""The decisions of a plan as the JSON that scripts rely on (``plan -o json``), and which plans are shown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from zoneward.advice.json_value import JsonValue, round_if_any, round_percents, round_share
from zoneward.advice.now import (
    NOTHING_KNOWN,
    ClusterTraffic,
    CurrentTraffic,
    PlansBefore,
    family_before,
    load_change,
)
from zoneward.kube.demand import Time
from zoneward.kube.objects import Condition, ServiceEvent
from zoneward.routing.algorithms.heuristics import BALANCED
from zoneward.routing.decision import Decision
from zoneward.routing.rules import Rule
from zoneward.routing.selection.traffic import ExpectedTraffic, TrafficMeasurements, predicted_in_zone_share
from zoneward.slices.plan import FamilyPlan, ServicePlan


class DecidedZone(JsonValue, frozen=True, gc=False):
    """Endpoints and demand of one zone; the zone ``""`` is that of nodes and endpoints without one."""

    demand: float
    located: int
    consumed: int
    expected: float
    overload: float | None


class DecidedGroup(JsonValue, frozen=True, gc=False):
    """One slice group: the zones that consume it, their weights, and its endpoints, by the zone they are located in."""

    zones: tuple[str, ...]
    weights: tuple[float, ...]
    endpoints: int
    located: dict[str, int]


class SliceCounts(JsonValue, frozen=True, gc=False):
    """How many slices would be written. ``delete`` includes replaced slices of the built-in controller."""

    create: int
    update: int
    delete: int
    unchanged: int


class MeasuredZone(JsonValue, frozen=True, gc=False):
    """Connections that started in one zone, by where they went, and the share that stayed, measured and predicted."""

    connections: int
    to: dict[str, int]
    in_zone: float | None
    predicted_in_zone: float | None


class MeasuredShares(JsonValue, frozen=True, gc=False):
    """Measured connections. ``predicted_in_zone`` is for traffic that starts where the measured connections started.

    ``external``: connections by other addresses than the Service's own, which are in no other number.
    """

    connections: int
    in_zone: float | None
    predicted_in_zone: float | None
    zones: dict[str, MeasuredZone]
    external: int


class MeasuredNodes(JsonValue, frozen=True, gc=False):
    """Which nodes reported what they counted, by zone, and from which zones of the cluster none did."""

    since: Time
    until: Time
    nodes: dict[str, tuple[str, ...]]
    missing_zones: tuple[str, ...]
    incomplete_nodes: tuple[str, ...]


class DecisionBefore(JsonValue, frozen=True, gc=False):
    """The same Service and family in the cluster as it was read, where options change the input."""

    active: bool
    reason: str
    endpoints: int
    zones: dict[str, DecidedZone]
    in_zone_traffic: float | None
    dropped_traffic: float | None
    max_overload: float | None
    mean_overload: float | None


class LoadComparison(JsonValue, frozen=True, gc=False):
    """The share of all traffic of the busiest endpoint, before and after options changed the input.

    ``change`` is after / before - 1, ``highest_rise`` the same for the one endpoint with the largest: null where none
    has traffic both before and after.
    """

    before: float
    after: float
    change: float
    highest_rise: float | None


class ZoneNow(JsonValue, frozen=True, gc=False):
    """One zone today: the endpoints that its proxies use, and the load of those located there over a fair one."""

    consumed: int
    load: float | None


class DecisionNow(JsonValue, frozen=True, gc=False):
    """What the slices in the cluster do today. ``proxies`` counts the nodes from which traffic starts by the kind of
    their proxy. The other figures are null and empty for a Service that proxies ignore.
    """

    in_zone_traffic: float | None
    max_overload: float | None
    dropped_traffic: float | None
    zones: dict[str, ZoneNow]
    proxies: dict[str, int]


class DecisionDocument(JsonValue, frozen=True, gc=False):
    """One Service in one address family.

    ``groups`` is null where no slice groups are made, ``weights`` (the shares of each zone's traffic for the endpoints
    of each zone) where there are none, the shares and overloads where nothing can be predicted. ``now`` is null where
    the input has no slices of it. ``measured`` is absent without measurements, and null where they hold no connection.
    ``before`` and ``load`` are absent where no option changes the input; ``load`` is null where no endpoint has traffic
    before or after.
    """

    namespace: str
    service: str
    address_type: str
    approach: str
    heuristic: str | None
    active: bool
    reason: str
    reason_code: str
    endpoints: int
    zones: dict[str, DecidedZone]
    allocation: dict[str, dict[str, int]] | None
    groups: tuple[DecidedGroup, ...] | None
    weights: dict[str, dict[str, float]] | None
    in_zone_traffic: float | None
    dropped_traffic: float | None
    max_overload: float | None
    mean_overload: float | None
    moved: int
    now: DecisionNow | None
    slices: SliceCounts
    replaced_slices: tuple[str, ...]
    other_slices: tuple[str, ...]
    rules: tuple[Rule, ...]
    events: tuple[ServiceEvent, ...]
    conditions: tuple[Condition, ...]
    measured: MeasuredShares | msgspec.UnsetType | None = msgspec.UNSET
    before: DecisionBefore | msgspec.UnsetType | None = msgspec.UNSET
    load: LoadComparison | msgspec.UnsetType | None = msgspec.UNSET


class SkippedService(JsonValue, frozen=True, gc=False):
    """A Service that has no EndpointSlices at all, and why."""

    namespace: str
    service: str
    reason: str


def decisions_document(
    plans: Iterable[ServicePlan],
    *,
    now: ClusterTraffic = NOTHING_KNOWN,
    measured: TrafficMeasurements | None = None,
    zones: Iterable[str] = (),
    before: PlansBefore | None = None,
) -> dict[str, Any]:
    """``{"decisions": [...], "skipped": [...]}``: an item per Service and address family, in the order of the plans.

    ``now`` has what slices in force do, by namespace and name of the Service and by address type. With ``measured``
    also ``"measured"``, which names its sources; ``zones`` are those of the cluster. ``before`` are the plans of the
    unchanged cluster, where options change the input. What Kubernetes decides has no conditions and Events of Zoneward.
    """
    decisions: list[DecisionDocument] = []
    skipped: list[SkippedService] = []
    for plan in plans:
        meta = plan.service.metadata
        if not plan.families:
            skipped.append(SkippedService(meta.namespace, meta.name, f"{plan.service.spec.type}: it has no endpoints"))
        current = now.get((meta.namespace, meta.name), {})
        decisions.extend(
            _decision(plan, family, current.get(family.address_type), measured, before) for family in plan.families
        )
    document: dict[str, Any] = {"decisions": decisions, "skipped": skipped}
    return document if measured is None else {"measured": _measuring(measured, zones), **document}


def count_slices(plan: ServicePlan, family: FamilyPlan) -> SliceCounts:
    """What one family writes; slices of families that the Service no longer has count with its first."""
    surplus = len(plan.surplus) if family is plan.families[0] else 0
    changes = family.changes
    return SliceCounts(
        create=len(changes.create),
        update=len(changes.update),
        delete=len(changes.delete) + len(family.replaced) + surplus,
        unchanged=len(changes.unchanged),
    )


def _allocation(decision: Decision) -> dict[str, dict[str, int]] | None:
    """By zone and by the zones that use the endpoints. Those of `Balanced` count for each zone that uses them."""
    allocation = decision.allocation
    if allocation is None:
        return None
    return allocation.by_zone() if decision.heuristic == BALANCED.name else allocation.as_map()


def _decision(
    plan: ServicePlan,
    family: FamilyPlan,
    now: CurrentTraffic | None,
    measured: TrafficMeasurements | None,
    before: PlansBefore | None,
) -> DecisionDocument:
    decision, traffic = family.decision, family.traffic
    meta = plan.service.metadata
    return DecisionDocument(
        namespace=meta.namespace,
        service=meta.name,
        address_type=family.address_type,
        approach=decision.approach,
        heuristic=decision.heuristic,
        active=decision.active,
        reason=decision.message,
        reason_code=decision.reason,
        endpoints=decision.endpoints,
        allocation=_allocation(decision),
        groups=_groups(decision),
        weights=_weights(decision),
        **_figures(traffic),
        moved=decision.moved,
        now=_now(now) if now is not None else None,
        slices=count_slices(plan, family),
        replaced_slices=tuple(slice_.metadata.name for slice_ in family.replaced),
        other_slices=tuple(other.metadata.name for other in family.others),
        rules=decision.rules,
        events=plan.events if family.address_type == plan.worst_family and not plan.is_of_kubernetes else (),
        conditions=() if plan.is_of_kubernetes else plan.conditions,
        measured=msgspec.UNSET if measured is None else _measured(plan, family, measured),
        before=msgspec.UNSET if before is None else _before(family, before),
        load=compared_load(family, before),
    )


def _before(family: FamilyPlan, before: PlansBefore) -> DecisionBefore | None:
    earlier = family_before(family, before)
    if earlier is None:
        return None
    return DecisionBefore(
        active=earlier.decision.active,
        reason=earlier.decision.message,
        endpoints=earlier.decision.endpoints,
        **_figures(earlier.traffic),
    )


def _figures(traffic: ExpectedTraffic | None) -> dict[str, Any]:
    if traffic is None:
        unknown = dict.fromkeys(("in_zone_traffic", "dropped_traffic", "max_overload", "mean_overload"))
        return {"zones": {}, **unknown}
    zones = {
        zone: DecidedZone(
            demand=round_share(figures.demand),
            located=figures.located,
            consumed=figures.consumed,
            expected=round_share(figures.expected),
            overload=round_if_any(figures.overload),
        )
        for zone, figures in traffic.zones.items()
    }
    return {
        "zones": zones,
        "in_zone_traffic": round_if_any(traffic.in_zone),
        "dropped_traffic": round_share(traffic.dropped),
        "max_overload": round_share(traffic.max_overload),
        "mean_overload": round_share(traffic.mean_overload),
    }


def compared_load(family: FamilyPlan, before: PlansBefore | None) -> LoadComparison | msgspec.UnsetType | None:
    """The load before and after a change of the cluster; None where nothing is to be compared. Unset without a
    change."""
    change = None if before is None else load_change(family, before)
    if change is None:
        return msgspec.UNSET if before is None else None
    return LoadComparison(
        before=round_share(change.before),
        after=round_share(change.after),
        change=round_share(change.change),
        highest_rise=round_if_any(change.highest_rise),
    )


def _now(now: CurrentTraffic) -> DecisionNow:
    traffic, proxies = now.traffic, dict(now.proxies)
    if traffic is None:
        return DecisionNow(None, None, None, {}, proxies)
    zones = {zone: ZoneNow(figures.consumed, round_if_any(figures.load)) for zone, figures in traffic.zones.items()}
    in_zone = round_if_any(traffic.in_zone)
    return DecisionNow(in_zone, round_share(traffic.max_overload), round_share(traffic.dropped), zones, proxies)


def _measured(plan: ServicePlan, family: FamilyPlan, measured: TrafficMeasurements) -> MeasuredShares | None:
    meta, traffic = plan.service.metadata, family.traffic
    measurement = measured.of(meta.namespace, meta.name, family.address_type)
    if measurement is None:
        return None
    predicted = {zone: figures.in_zone for zone, figures in traffic.zones.items()} if traffic else {}
    return MeasuredShares(
        connections=measurement.connections,
        in_zone=round_if_any(measurement.share),
        predicted_in_zone=round_if_any(predicted_in_zone_share(measurement, traffic) if traffic else None),
        zones={
            zone: MeasuredZone(
                connections=figures.connections,
                to=dict(figures.to),
                in_zone=round_if_any(figures.share),
                predicted_in_zone=round_if_any(predicted.get(zone)),
            )
            for zone, figures in measurement.zones.items()
        },
        external=measurement.external,
    )


def _measuring(measured: TrafficMeasurements, zones: Iterable[str]) -> MeasuredNodes:
    return MeasuredNodes(
        since=measured.since,
        until=measured.until,
        nodes={zone: tuple(sorted(nodes)) for zone, nodes in measured.nodes.items()},
        missing_zones=measured.missing(zones),
        incomplete_nodes=tuple(sorted(measured.incomplete)),
    )


def _groups(decision: Decision) -> tuple[DecidedGroup, ...] | None:
    allocation = decision.allocation
    if allocation is None or not decision.has_slice_groups:
        return None
    return tuple(
        DecidedGroup(consumers, allocation.group(consumers).weights, sum(located.values()), located)
        for consumers, located in allocation.by_consumers().items()
    )


def _weights(decision: Decision) -> dict[str, dict[str, float]] | None:
    if decision.weights is None:
        return None
    return {
        start: {end: round_share(share) for end, share in sorted(row.items())}
        for start, row in sorted(decision.weights.shares.items())
    }


# --- which plans are shown --------------------------------------------------------------------------------------------


Sort = Literal["name", "in-zone", "overload"]


def choose_plans(
    plans: Sequence[ServicePlan],
    now: ClusterTraffic,
    *,
    sort: Sort | None,
    top: int | None,
    changed: bool,
) -> tuple[ServicePlan, ...]:
    """The first ``top`` of the plans, or all with None or 0. ``now`` has what slices in force do, by Service and
    address type. ``changed``: only those that change traffic, or slices that somebody has to write.

    ``in-zone`` puts the smallest share of now first and ``overload`` the largest one, unknown ones last.
    """
    chosen = [plan for plan in plans if not changed or _changes(plan, _now_of(plan, now))]
    if sort == "name":
        chosen.sort(key=lambda plan: (plan.service.metadata.namespace, plan.service.metadata.name))
    elif sort is not None:
        chosen.sort(key=lambda plan: _rank(plan, _now_of(plan, now), sort))
    return tuple(chosen[: top or None])


def _now_of(plan: ServicePlan, now: ClusterTraffic) -> Mapping[str, CurrentTraffic]:
    return now.get((plan.service.metadata.namespace, plan.service.metadata.name), {})


def _changes(plan: ServicePlan, now: Mapping[str, CurrentTraffic]) -> bool:
    for family in plan.families:
        counts = count_slices(plan, family)
        if not plan.is_of_kubernetes and (counts.create or counts.update or counts.delete):
            return True
        in_force = now.get(family.address_type)
        if in_force is not None and _shown_figures(in_force.traffic) != _shown_figures(family.traffic):
            return True
    return False


def _shown_figures(traffic: ExpectedTraffic | None) -> tuple[float | None, ...]:
    return () if traffic is None else round_percents(traffic.in_zone, traffic.max_overload, traffic.dropped)


def _rank(plan: ServicePlan, now: Mapping[str, CurrentTraffic], sort: Sort) -> tuple[bool, float]:
    traffics = list(_start(plan, now))
    if sort == "in-zone":
        shares = [traffic.in_zone for traffic in traffics if traffic.in_zone is not None]
        return (False, min(shares)) if shares else (True, 0.0)
    return (False, -max(traffic.max_overload for traffic in traffics)) if traffics else (True, 0.0)


def _start(plan: ServicePlan, now: Mapping[str, CurrentTraffic]) -> Iterator[ExpectedTraffic]:
    """The traffic of now, or as planned where no slices are known."""
    for family in plan.families:
        in_force = now.get(family.address_type)
        traffic = family.traffic if in_force is None else in_force.traffic
        if traffic is not None:
            yield traffic
