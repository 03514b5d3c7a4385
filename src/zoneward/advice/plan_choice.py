"""Which plans are shown, and in which order."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from zoneward.advice.decisions import count_slices
from zoneward.advice.json_value import round_percents
from zoneward.advice.now import ClusterTraffic, CurrentTraffic
from zoneward.routing.selection.traffic import ExpectedTraffic
from zoneward.slices.plan import ServicePlan

Sort = Literal["name", "in-zone", "overload"]


def choose_plans(
    plans: Sequence[ServicePlan],
    now: ClusterTraffic,
    *,
    sort: Sort | None,
    top: int | None,
    changed: bool,
    writes_slices: bool,
) -> tuple[ServicePlan, ...]:
    """The first ``top`` of the plans, or all with None or 0. ``now`` has what slices in force do, by Service and
    address type. ``changed``: only those that change traffic, or slices where the plan ``writes_slices``.

    ``in-zone`` puts the smallest share of now first and ``overload`` the largest one, unknown ones last.
    """
    chosen = [plan for plan in plans if not changed or _changes(plan, _now_of(plan, now), writes_slices=writes_slices)]
    if sort == "name":
        chosen.sort(key=lambda plan: (plan.service.metadata.namespace, plan.service.metadata.name))
    elif sort is not None:
        chosen.sort(key=lambda plan: _rank(plan, _now_of(plan, now), sort))
    return tuple(chosen[: top or None])


def _now_of(plan: ServicePlan, now: ClusterTraffic) -> Mapping[str, CurrentTraffic]:
    return now.get((plan.service.metadata.namespace, plan.service.metadata.name), {})


def _changes(plan: ServicePlan, now: Mapping[str, CurrentTraffic], *, writes_slices: bool) -> bool:
    for family in plan.families:
        counts = count_slices(plan, family)
        if writes_slices and (counts.create or counts.update or counts.delete):
            return True
        in_force = now.get(family.address_type)
        if in_force is not None and _figures(in_force.traffic) != _figures(family.traffic):
            return True
    return False


def _figures(traffic: ExpectedTraffic | None) -> tuple[float | None, ...]:
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
