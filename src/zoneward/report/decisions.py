"""The decisions of a plan as the JSON that scripts rely on (``plan -o json``)."""

from collections.abc import Iterable
from typing import Any

import msgspec

from zoneward.kube.objects import Condition
from zoneward.routing.decision import Decision
from zoneward.routing.events import Event
from zoneward.routing.rules import Rule
from zoneward.routing.traffic import Traffic
from zoneward.slices.plan import FamilyPlan, ServicePlan


class _View(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A part of the document; names are camel case there."""


class ZoneView(_View, frozen=True, gc=False):
    """Endpoints and demand of one zone; the zone ``""`` stands for nodes and endpoints without one."""

    demand: float
    located: int
    consumed: int
    expected: float
    overload: float | None


class GroupView(_View, frozen=True, gc=False):
    """One slice group: the zones that consume it, their weights, and its endpoints, by the zone they are located in."""

    zones: tuple[str, ...]
    weights: tuple[float, ...]
    endpoints: int
    located: dict[str, int]


class SlicesView(_View, frozen=True, gc=False):
    """How many slices would be written. ``delete`` counts those of the built-in controller that would have to go."""

    create: int
    update: int
    delete: int
    unchanged: int


class DecisionView(_View, frozen=True, gc=False):
    """One Service in one address family.

    ``groups`` is null where no slice groups are made, the shares and overloads where nothing can be predicted.
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
    zones: dict[str, ZoneView]
    allocation: dict[str, dict[str, int]] | None
    groups: tuple[GroupView, ...] | None
    in_zone_traffic: float | None
    dropped_traffic: float | None
    max_overload: float | None
    mean_overload: float | None
    moved: int
    slices: SlicesView
    replaced_slices: tuple[str, ...]
    other_slices: tuple[str, ...]
    rules: tuple[Rule, ...]
    events: tuple[Event, ...]
    conditions: tuple[Condition, ...]


class SkippedView(_View, frozen=True, gc=False):
    """A Service that has no EndpointSlices at all, and why."""

    namespace: str
    service: str
    reason: str


def decisions_document(plans: Iterable[ServicePlan]) -> dict[str, Any]:
    """``{"decisions": [...], "skipped": [...]}``: an item per Service and address family, in the order of the plans."""
    decisions: list[DecisionView] = []
    skipped: list[SkippedView] = []
    for plan in plans:
        meta = plan.service.metadata
        if not plan.families:
            skipped.append(SkippedView(meta.namespace, meta.name, f"{plan.service.spec.type}: it has no endpoints"))
        decisions.extend(_decision(plan, family) for family in plan.families)
    return {"decisions": decisions, "skipped": skipped}


def as_json(document: Any) -> bytes:
    """JSON with two spaces of indentation and a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def slice_counts(plan: ServicePlan, family: FamilyPlan) -> SlicesView:
    """What one family writes; slices of families that the Service no longer has count with its first."""
    surplus = len(plan.surplus) if family is plan.families[0] else 0
    changes = family.changes
    return SlicesView(
        create=len(changes.create),
        update=len(changes.update),
        delete=len(changes.delete) + len(family.replaced) + surplus,
        unchanged=len(changes.unchanged),
    )


def _decision(plan: ServicePlan, family: FamilyPlan) -> DecisionView:
    decision, traffic = family.decision, family.traffic
    meta = plan.service.metadata
    return DecisionView(
        namespace=meta.namespace,
        service=meta.name,
        address_type=family.address_type,
        approach=decision.approach,
        heuristic=decision.heuristic,
        active=decision.active,
        reason=decision.message,
        reason_code=decision.reason,
        endpoints=decision.endpoints,
        zones=_zones(traffic),
        allocation=decision.allocation.as_map() if decision.allocation else None,
        groups=_groups(decision),
        in_zone_traffic=_rounded(traffic.in_zone) if traffic else None,
        dropped_traffic=_rounded(traffic.dropped) if traffic else None,
        max_overload=_rounded(traffic.max_overload) if traffic else None,
        mean_overload=_rounded(traffic.mean_overload) if traffic else None,
        moved=decision.moved,
        slices=slice_counts(plan, family),
        replaced_slices=tuple(each.metadata.name for each in family.replaced),
        other_slices=tuple(each.metadata.name for each in family.others),
        rules=decision.rules,
        events=plan.events if family.address_type == plan.speaker else (),
        conditions=plan.conditions,
    )


def _groups(decision: Decision) -> tuple[GroupView, ...] | None:
    """The slice groups that have endpoints; None where the decision makes none."""
    allocation = decision.allocation
    if allocation is None or decision.groups is None:
        return None
    size = len(allocation.zones)
    views = []
    for number, group in enumerate(allocation.groups):
        row = allocation.counts[number * size : (number + 1) * size]
        located = {zone: count for zone, count in zip(allocation.zones, row, strict=True) if count}
        if located:
            views.append(GroupView(group.zones, group.weights, sum(row), located))
    return tuple(views)


def _zones(traffic: Traffic | None) -> dict[str, ZoneView]:
    if traffic is None:
        return {}
    return {
        zone: ZoneView(
            demand=_rounded(each.demand),
            located=each.located,
            consumed=each.consumed,
            expected=_rounded(each.expected),
            overload=None if each.overload is None else _rounded(each.overload),
        )
        for zone, each in traffic.zones.items()
    }


def _rounded(share: float) -> float:
    """Six digits are more than a prediction is worth, and hide the noise of doubles. ``+ 0.0`` turns -0.0 into 0.0."""
    return round(share, 6) + 0.0
