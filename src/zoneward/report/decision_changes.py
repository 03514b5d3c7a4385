"""Changes of decisions, as JSON lines for scripts and as lines of a log; and what was written for a Service and why.

The latter compares two plans that were written one after the other: pods, demand, and what the Service asks for.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from zoneward.advice.decisions import DecisionDocument, count_slices
from zoneward.kube.objects import Endpoint, identity, is_ready, is_terminating
from zoneward.kube.safe_text import escape_json
from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.decision import Decision
from zoneward.routing.phrases import counted
from zoneward.routing.request import Approach
from zoneward.routing.selection.traffic import ExpectedTraffic
from zoneward.slices.plan import ServicePlan

_WORDS: Final = {"ADDED": "new", "CHANGED": "changed", "REMOVED": "gone"}


@dataclass(frozen=True, slots=True)
class DecisionChange:
    """The change of one decision. ``old`` is None where it is new, ``new`` where it is gone."""

    old: DecisionDocument | None
    new: DecisionDocument | None

    @property
    def type(self) -> Literal["ADDED", "CHANGED", "REMOVED"]:
        if self.old is None:
            return "ADDED"
        return "CHANGED" if self.new is not None else "REMOVED"

    @property
    def view(self) -> DecisionDocument:
        """The decision as it is now; one that is gone, as it was last."""
        view = self.new or self.old
        assert view is not None
        return view


def change_json(change: DecisionChange, *, now: datetime) -> bytes:
    """``{"type": ..., "time": ..., "decision": {...}}`` on one line."""
    return _line({"type": change.type, "time": _time(now), "decision": change.view})


def synced_json(*, services: int, decisions: int, now: datetime) -> bytes:
    """The line after the decisions of all Services that were there at the beginning."""
    return _line({"type": "SYNCED", "time": _time(now), "services": services, "decisions": decisions})


def change_text(change: DecisionChange, *, now: datetime, shows_slices: bool = True) -> str:
    """One line for a log: the time, the Service, and what is different.

    ``12:00:00 changed shop/cart: endpoints 6 > 7, in zone 97% > 86%, slices ~1 =2``. Times as ``now`` has them.
    """
    view = change.view
    family = "" if view.address_type == "IPv4" else f" {view.address_type}"
    head = f"{now:%Y-%m-%d %H:%M:%S} {_WORDS[change.type]} {view.namespace}/{view.service}{family}"
    if change.type == "REMOVED":
        return head
    differences = _describe_differences(change.old, view, shows_slices=shows_slices)
    return f"{head}: {', '.join(differences)}" if differences else head


def _describe_differences(old: DecisionDocument | None, new: DecisionDocument, *, shows_slices: bool) -> list[str]:
    parts = [
        _step("endpoints", str(old.endpoints) if old else None, str(new.endpoints)),
        _step("in zone", _percent(old.in_zone_traffic) if old else None, _percent(new.in_zone_traffic)),
        _step("now", _now(old) if old else None, _now(new)) if new.now or (old and old.now) else "",
        _step("dropped", _percent(old.dropped_traffic) if old else "0%", _percent(new.dropped_traffic or 0.0)),
        _step("worst", _percent(old.max_overload, "+") if old else None, _percent(new.max_overload, "+")),
        _step("slices", _slices(old) if old else None, _slices(new)) if shows_slices else "",
    ]
    if old is not None and old.endpoints == new.endpoints and _located(old) != _located(new):
        parts.append("endpoints in other zones")
    if old is None or _reason(old) != _reason(new):
        parts.append(f"{'active' if new.active else 'not active'}: {new.reason}")
    differences = [part for part in parts if part]
    if old is not None and not differences:
        names = (name for name in DecisionDocument.__struct_fields__ if getattr(old, name) != getattr(new, name))
        differences = [f"other {name.replace('_', ' ')}" for name in names]
    return differences


def _step(name: str, old: str | None, new: str) -> str:
    if old == new:
        return ""
    return f"{name} {new}" if old is None else f"{name} {old} > {new}"


def _reason(view: DecisionDocument) -> tuple[object, ...]:
    return view.approach, view.heuristic, view.active, view.reason


def _located(view: DecisionDocument) -> dict[str, int]:
    return {zone: figures.located for zone, figures in view.zones.items()}


def _percent(share: float | None, sign: str = "") -> str:
    return "-" if share is None else f"{sign}{share:.0%}"


def _now(view: DecisionDocument) -> str:
    if view.now is None:
        return "-"
    return f"{_percent(view.now.in_zone_traffic)} {_percent(view.now.max_overload, '+')}"


def _slices(view: DecisionDocument) -> str:
    counts = view.slices
    signs = (("+", counts.create), ("~", counts.update), ("-", counts.delete), ("=", counts.unchanged))
    return " ".join(f"{sign}{count}" for sign, count in signs if count) or "none"


def _time(now: datetime) -> str:
    return now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _line(document: dict[str, Any]) -> bytes:
    return escape_json(msgspec.json.encode(document)) + b"\n"


# --- what was written and why -----------------------------------------------------------------------------------------


_State = Literal["ready", "ending", "waiting"]


def counted_writes(plan: ServicePlan) -> dict[str, int]:
    """The slices that a plan has created, updated and deleted, by these words."""
    counts = [count_slices(plan, family) for family in plan.families]
    return {
        "created": sum(count.create for count in counts),
        "updated": sum(count.update for count in counts),
        "deleted": sum(count.delete for count in counts),
    }


def shares_of_demand(plan: ServicePlan) -> dict[str, float]:
    """The share of each zone in which traffic starts; empty if unknown."""
    traffic = _reported_traffic(plan)
    return {zone: figures.demand for zone, figures in traffic.zones.items() if figures.demand} if traffic else {}


def describe_write(before: ServicePlan | None, now: ServicePlan) -> str:
    """One line without time and name: what was written, why, and what it changes.

    ``1 slice updated: 2 pods ready, 1 pod gone; in zone 68% > 100%``.
    ``before`` is the plan described last, None for the first.
    """
    writes = counted_writes(now)
    line = ", ".join(f"{counted(count, 'slice')} {what}" for what, count in writes.items() if count)
    causes = list(_causes(before, now, has_writes=bool(line)))
    line = line or "nothing to write"
    line += f": {', '.join(causes)}" if causes else ""
    effects = list(_effects(before, now))
    return f"{line}; {', '.join(effects)}" if effects else line


def _causes(before: ServicePlan | None, now: ServicePlan, *, has_writes: bool) -> Iterator[str]:
    decision = _reported_decision(now)
    if before is None:
        yield "a new Service"
    elif before.requested != now.requested:
        yield f"it asks for {now.requested or 'nothing'}"
    if before is not None and (not has_writes or _depends_on_demand(decision)):
        yield from _demand_causes(shares_of_demand(before), shares_of_demand(now))
    old, pods = dict(_pods(before)) if before else {}, dict(_pods(now))
    came = Counter(state for pod, state in pods.items() if pod not in old)
    became = Counter(state for pod, state in pods.items() if pod in old and old[pod] != state)
    for count, what in (
        (came["ready"] + became["ready"], "ready"),
        (came["waiting"], "starting"),
        (became["waiting"], "not ready"),
        (came["ending"] + became["ending"], "ending"),
        (sum(pod not in pods for pod in old), "gone"),
    ):
        if count:
            yield f"{counted(count, 'pod')} {what}"


def _demand_causes(before: Mapping[str, float], now: Mapping[str, float]) -> Iterator[str]:
    """What happened to the ready Nodes, as far as demand shows it."""
    if not before or not now:
        return
    yield from (f"{zone or 'no zone'} has no ready node" for zone in before if zone not in now)
    yield from (f"{zone or 'no zone'} has ready nodes" for zone in now if zone not in before)
    if before.keys() == now.keys() and before != now:
        yield "zones have other shares of the CPU"


def _effects(before: ServicePlan | None, now: ServicePlan) -> Iterator[str]:
    old, new = _reported_decision(before) if before else None, _reported_decision(now)
    was_active, is_active = old is not None and old.active, new is not None and new.active
    reason = new.message if new else ""
    names = f" ({', '.join(event.reason for event in now.events)})" if now.events else ""
    if is_active and (names or not was_active):
        yield f"{_encoding(new)} on{names}"
    elif not is_active and was_active:
        yield f"{_encoding(old)} off{names}: {reason}"
    elif names:
        yield f"no {_encoding(new)}{names}: {reason}"
    moved = sum(family.decision.moved for family in now.families)
    if moved:
        yield f"{counted(moved, 'endpoint')} {'serves' if moved == 1 else 'serve'} other zones"
    then, traffic = _reported_traffic(before) if before else None, _reported_traffic(now)
    if then is not None and then.served and traffic is not None and traffic.served:
        yield from _share_step("in zone", then.in_zone, traffic.in_zone)
        yield from _share_step("worst", then.max_overload, traffic.max_overload, "+")


def _share_step(name: str, old: float | None, new: float | None, sign: str = "") -> Iterator[str]:
    if old is not None and new is not None and (step := _step(name, _percent(old, sign), _percent(new, sign))):
        yield step


def _reported_decision(plan: ServicePlan) -> Decision | None:
    return plan.decisions.get(plan.worst_family or "")


def _reported_traffic(plan: ServicePlan) -> ExpectedTraffic | None:
    reported = next((family for family in plan.families if family.address_type == plan.worst_family), None)
    return reported.traffic if reported else None


def _pods(plan: ServicePlan) -> Iterator[tuple[tuple[str, str], _State]]:
    """Pods by namespace and name; an endpoint without one has its addresses instead. Pods in more than one family are
    the same pod.
    """
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
    """What an active decision puts into slices."""
    if decision is not None and decision.approach is Approach.SUBSETTING and decision.has_slice_groups:
        return "zone groups"
    return "hints"
