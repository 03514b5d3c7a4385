"""What was written for a Service, and what led to it, in the words of an operator.

Everything is told from two plans that were written one after the other: which pods came, went or changed, where traffic
starts, what the Service asks for. Nothing is known here of who did it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from zoneward.kube.objects import Endpoint, identity, is_ready, is_terminating
from zoneward.report.decisions import slice_counts
from zoneward.routing.algorithms.registry import HEURISTICS
from zoneward.routing.decision import Decision
from zoneward.routing.events import Event
from zoneward.routing.request.asked import Approach
from zoneward.routing.rules import counted
from zoneward.slices.plan import ServicePlan

_Pod = tuple[str, str]
_State = Literal["ready", "ending", "waiting"]


@dataclass(frozen=True, slots=True)
class Written:
    """A plan that was written, as far as it is told of, whatever becomes of the plan.

    ``created``, ``updated`` and ``deleted`` count slices. ``pods`` by namespace and name; an endpoint without one goes
    by its address. ``demand`` has the share of each zone in which traffic starts; it is empty where it is not known.
    ``in_zone`` and ``worst`` are None where nobody takes the traffic.
    """

    created: int
    updated: int
    deleted: int
    pods: Mapping[_Pod, _State]
    demand: Mapping[str, float]
    asked: str | None
    by_demand: bool
    """Whether it is decided from where traffic starts."""
    active: bool
    encoding: str
    """What an active decision puts into slices: hints or zone groups."""
    reason: str
    moved: int
    in_zone: float | None
    worst: float | None
    events: tuple[Event, ...]

    @property
    def writes(self) -> int:
        return self.created + self.updated + self.deleted


def written(plan: ServicePlan) -> Written:
    """To be asked for before the next plan of the same Service is made. All that a table shows of this one is made now,
    and can be shown later.
    """
    for family in plan.families:
        family.traffic  # noqa: B018 -- computed when it is first asked for, which is now
    counts = [slice_counts(plan, family) for family in plan.families]
    spoken = next((family for family in plan.families if family.address_type == plan.speaker), None)
    decision = spoken.decision if spoken else None
    traffic = spoken.traffic if spoken else None
    return Written(
        created=sum(each.create for each in counts),
        updated=sum(each.update for each in counts),
        deleted=sum(each.delete for each in counts),
        pods=dict(_pods(plan)),
        demand={zone: each.demand for zone, each in traffic.zones.items() if each.demand} if traffic else {},
        asked=decision.asked_for if decision else None,
        by_demand=_is_by_demand(decision),
        active=decision is not None and decision.active,
        encoding=_encoding(decision),
        reason=decision.message if decision else "",
        moved=sum(family.decision.moved for family in plan.families),
        in_zone=traffic.in_zone if traffic and traffic.served else None,
        worst=traffic.max_overload if traffic and traffic.served else None,
        events=plan.events,
    )


def told(before: Written | None, now: Written) -> str:
    """One line without time and name: what was written, why, and what it changes.

    ``1 slice updated: 2 pods ready, 1 pod gone; in zone 68% > 100%``. ``before`` is the plan that was told last; None:
    there was none.
    """
    counts = ((now.created, "created"), (now.updated, "updated"), (now.deleted, "deleted"))
    line = ", ".join(f"{counted(number, 'slice')} {what}" for number, what in counts if number) or "nothing to write"
    causes = list(_causes(before, now))
    line += f": {', '.join(causes)}" if causes else ""
    effects = list(_effects(before, now))
    return f"{line}; {', '.join(effects)}" if effects else line


# --- why --------------------------------------------------------------------------------------------------------------


def _causes(before: Written | None, now: Written) -> Iterator[str]:
    if before is None:
        yield "a new Service"
    elif before.asked != now.asked:
        yield f"it asks for {now.asked or 'nothing'}"
    if before is not None and (now.by_demand or not now.writes):
        yield from _zones(before.demand, now.demand)
    old = before.pods if before else {}
    came = Counter(state for pod, state in now.pods.items() if pod not in old)
    became = Counter(state for pod, state in now.pods.items() if pod in old and old[pod] != state)
    for number, what in (
        (came["ready"] + became["ready"], "ready"),
        (came["waiting"], "starting"),
        (became["waiting"], "not ready"),
        (came["ending"] + became["ending"], "ending"),
        (sum(pod not in now.pods for pod in old), "gone"),
    ):
        if number:
            yield f"{counted(number, 'pod')} {what}"


def _zones(before: Mapping[str, float], now: Mapping[str, float]) -> Iterator[str]:
    """What happened to the ready Nodes, as far as it is seen in where traffic starts."""
    if not before or not now:
        return
    yield from (f"{_zone(zone)} has no ready node" for zone in before if zone not in now)
    yield from (f"{_zone(zone)} has ready nodes" for zone in now if zone not in before)
    if before.keys() == now.keys() and dict(before) != dict(now):
        yield "zones share the CPU otherwise"


def _zone(zone: str) -> str:
    return zone or "no zone"


# --- what it changes --------------------------------------------------------------------------------------------------


def _effects(before: Written | None, now: Written) -> Iterator[str]:
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
        for each in family.changes.after:
            for endpoint in each.endpoints or ():
                addresses, namespace, name = identity(endpoint)
                yield (namespace, name) if name else ("", ",".join(addresses)), _state(endpoint)


def _state(endpoint: Endpoint) -> _State:
    if is_terminating(endpoint):
        return "ending"
    return "ready" if is_ready(endpoint) else "waiting"


def _is_by_demand(decision: Decision | None) -> bool:
    heuristic = HEURISTICS.get(decision.heuristic or "") if decision else None
    return heuristic is not None and (heuristic.balances or heuristic.subsets)


def _encoding(decision: Decision | None) -> str:
    if decision is not None and decision.approach is Approach.SUBSETTING and decision.has_slice_groups:
        return "zone groups"
    return "hints"
