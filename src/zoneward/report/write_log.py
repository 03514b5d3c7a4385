"""Describes what was written for a Service and why.

It compares two plans that were written one after the other: pods, demand, and what the Service asks for.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from zoneward.advice.decisions import count_slices
from zoneward.kube.objects import Endpoint, ServiceEvent, identity, is_ready, is_terminating
from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.decision import Decision
from zoneward.routing.phrases import counted
from zoneward.routing.request import Approach
from zoneward.slices.plan import ServicePlan

_Pod = tuple[str, str]
_State = Literal["ready", "ending", "waiting"]


@dataclass(frozen=True, slots=True)
class WrittenPlan:
    """A copy of what the log needs from a plan that was written.

    ``created``, ``updated`` and ``deleted`` count slices. ``pods`` by namespace and name; an endpoint without one has
    its address instead. ``demand`` has the share of each zone in which traffic starts, empty if unknown.
    ``in_zone`` and ``worst`` are None where no traffic is served.
    """

    created: int
    updated: int
    deleted: int
    pods: Mapping[_Pod, _State]
    demand: Mapping[str, float]
    asked: str | None
    by_demand: bool
    """Whether the decision depends on where traffic starts."""
    active: bool
    encoding: str
    """What an active decision puts into slices: hints or zone groups."""
    reason: str
    moved: int
    in_zone: float | None
    worst: float | None
    events: tuple[ServiceEvent, ...]

    @property
    def writes(self) -> int:
        return self.created + self.updated + self.deleted


def record_plan(plan: ServicePlan) -> WrittenPlan:
    """Call it before the Service is planned again: it computes everything that a table shows of this plan."""
    for family in plan.families:
        family.traffic  # noqa: B018 -- computed on first use, which is now
    counts = [count_slices(plan, family) for family in plan.families]
    reported = next((family for family in plan.families if family.address_type == plan.worst_family), None)
    decision = reported.decision if reported else None
    traffic = reported.traffic if reported else None
    return WrittenPlan(
        created=sum(count.create for count in counts),
        updated=sum(count.update for count in counts),
        deleted=sum(count.delete for count in counts),
        pods=dict(_pods(plan)),
        demand={zone: figures.demand for zone, figures in traffic.zones.items() if figures.demand} if traffic else {},
        asked=decision.asked_for if decision else None,
        by_demand=_depends_on_demand(decision),
        active=decision is not None and decision.active,
        encoding=_encoding(decision),
        reason=decision.message if decision else "",
        moved=sum(family.decision.moved for family in plan.families),
        in_zone=traffic.in_zone if traffic and traffic.served else None,
        worst=traffic.max_overload if traffic and traffic.served else None,
        events=plan.events,
    )


def describe_write(before: WrittenPlan | None, now: WrittenPlan) -> str:
    """One line without time and name: what was written, why, and what it changes.

    ``1 slice updated: 2 pods ready, 1 pod gone; in zone 68% > 100%``.
    ``before`` is the plan described last, None for the first.
    """
    counts = ((now.created, "created"), (now.updated, "updated"), (now.deleted, "deleted"))
    line = ", ".join(f"{counted(count, 'slice')} {what}" for count, what in counts if count) or "nothing to write"
    causes = list(_causes(before, now))
    line += f": {', '.join(causes)}" if causes else ""
    effects = list(_effects(before, now))
    return f"{line}; {', '.join(effects)}" if effects else line


# --- causes -----------------------------------------------------------------------------------------------------------


def _causes(before: WrittenPlan | None, now: WrittenPlan) -> Iterator[str]:
    if before is None:
        yield "a new Service"
    elif before.asked != now.asked:
        yield f"it asks for {now.asked or 'nothing'}"
    if before is not None and (now.by_demand or not now.writes):
        yield from _demand_causes(before.demand, now.demand)
    old = before.pods if before else {}
    came = Counter(state for pod, state in now.pods.items() if pod not in old)
    became = Counter(state for pod, state in now.pods.items() if pod in old and old[pod] != state)
    for count, what in (
        (came["ready"] + became["ready"], "ready"),
        (came["waiting"], "starting"),
        (became["waiting"], "not ready"),
        (came["ending"] + became["ending"], "ending"),
        (sum(pod not in now.pods for pod in old), "gone"),
    ):
        if count:
            yield f"{counted(count, 'pod')} {what}"


def _demand_causes(before: Mapping[str, float], now: Mapping[str, float]) -> Iterator[str]:
    """What happened to the ready Nodes, as far as demand shows it."""
    if not before or not now:
        return
    yield from (f"{_zone_name(zone)} has no ready node" for zone in before if zone not in now)
    yield from (f"{_zone_name(zone)} has ready nodes" for zone in now if zone not in before)
    if before.keys() == now.keys() and dict(before) != dict(now):
        yield "zones have other shares of the CPU"


def _zone_name(zone: str) -> str:
    return zone or "no zone"


# --- effects ----------------------------------------------------------------------------------------------------------


def _effects(before: WrittenPlan | None, now: WrittenPlan) -> Iterator[str]:
    was_active = before is not None and before.active
    names = f" ({', '.join(event.reason for event in now.events)})" if now.events else ""
    encoding = before.encoding if before is not None and was_active else now.encoding
    if now.active and (names or not was_active):
        yield f"{now.encoding} on{names}"
    elif not now.active and was_active:
        yield f"{encoding} off{names}: {now.reason}"
    elif names:
        yield f"no {encoding}{names}: {now.reason}"
    if now.moved:
        yield f"{counted(now.moved, 'endpoint')} {'serves' if now.moved == 1 else 'serve'} other zones"
    if before is not None:
        yield from _step("in zone", before.in_zone, now.in_zone)
        yield from _step("worst", before.worst, now.worst, "+")


def _step(name: str, old: float | None, new: float | None, sign: str = "") -> Iterator[str]:
    if old is None or new is None:
        return
    before, now = f"{sign}{old:.0%}", f"{sign}{new:.0%}"
    if before != now:
        yield f"{name} {before} > {now}"


# --- from a plan ------------------------------------------------------------------------------------------------------


def _pods(plan: ServicePlan) -> Iterator[tuple[_Pod, _State]]:
    """Pods in more than one family are the same pod."""
    for family in plan.families:
        for slice_ in family.changes.after:
            for endpoint in slice_.endpoints or ():
                addresses, namespace, name = identity(endpoint)
                yield (namespace, name) if name else ("", ",".join(addresses)), _state(endpoint)


def _state(endpoint: Endpoint) -> _State:
    if is_terminating(endpoint):
        return "ending"
    return "ready" if is_ready(endpoint) else "waiting"


def _depends_on_demand(decision: Decision | None) -> bool:
    heuristic = HEURISTICS.get(decision.heuristic or "") if decision else None
    return heuristic is not None and (heuristic.balances or heuristic.subsets)


def _encoding(decision: Decision | None) -> str:
    if decision is not None and decision.approach is Approach.SUBSETTING and decision.has_slice_groups:
        return "zone groups"
    return "hints"
