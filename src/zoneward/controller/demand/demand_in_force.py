"""The measured demand in force for each Service, the trend of its figures, and the condition that reports both.

Times are seconds of any clock, and passed in. After a restart, and for a new leader, the parts in the annotation
``zoneward.dev/measured-demand`` are in force until figures lead to others, or are too old. The annotation is written
with the condition; a condition without it, as of earlier versions, counts as none.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from math import inf
from typing import Final

from msgspec.structs import replace

from zoneward.controller.status.status_writer import AnnotatedCondition, own_conditions
from zoneward.kube.demand import DemandFigures, parse_demand
from zoneward.kube.names import MEASURED_CONDITION
from zoneward.kube.objects import Condition, ObjectKey, Service
from zoneward.routing.configuration import AdoptionSettings
from zoneward.routing.demand import Demand
from zoneward.routing.measured_demand import DemandTrend, FigureProblem, floored_parts, measured_shares

HORIZON: Final = 10_800.0
"""Seconds for which a new decision should hold if demand continues to change at the same rate."""
_EXTRA_LEAD: Final = 900.0
"""Seconds by which decisions look ahead, so that a change is in time."""
_HOUR: Final = 3600.0


class MeasuredReason(StrEnum):
    """Reasons of the condition with the status True; those of `FigureProblem` are for False."""

    MEASURED = "Measured"
    """Decisions use the parts in its message."""
    CPU_FITS = "CPUFits"
    """The figures lead to the same decision as CPU."""


_PROBLEM_MESSAGES: Final[Mapping[FigureProblem, str]] = {
    FigureProblem.MISSING: "using CPU-based demand: the metrics source has no figures for this Service",
    FigureProblem.TOO_LITTLE: "using CPU-based demand: too little traffic to see where it starts",
    FigureProblem.ABSURD: "using CPU-based demand: the figures are invalid, or most traffic starts in unknown zones",
    FigureProblem.OLD: "using CPU-based demand: the metrics source has not responded",
}


def measured_condition(
    state: MeasuredReason | FigureProblem, parts: Mapping[str, Fraction] | None
) -> AnnotatedCondition:
    """The condition of a Service. It does not change while the demand in force stays."""
    if isinstance(state, FigureProblem):
        return AnnotatedCondition(
            type=MEASURED_CONDITION, status="False", reason=state, message=_PROBLEM_MESSAGES[state]
        )
    demand = None if parts is None else parts_text(parts)
    message = demand or "measured demand leads to the same decision as CPU-based demand"
    return AnnotatedCondition(type=MEASURED_CONDITION, status="True", reason=state, message=message, annotation=demand)


def parts_text(parts: Mapping[str, Fraction]) -> str:
    """Parts as in the annotation ``zoneward.dev/demand``."""
    return ",".join(f"{zone}={float(part):g}" for zone, part in sorted(parts.items()))


@dataclass(slots=True)
class _ServiceDemand:
    """``since``: the seconds from which the age of the figures counts, when usable ones came last, or when the Service
    was first seen; ``changed``: when its demand changed last."""

    since: float
    parts: Mapping[str, Fraction] | None = None
    trend: DemandTrend | None = None
    problem: FigureProblem | None = None
    condition: Condition | None = None
    changed: float = -inf


@dataclass(frozen=True, slots=True)
class ExpectedDemand:
    """Parts for one Service: those that decisions are measured by, and those to try, the best ones first."""

    expected: tuple[Mapping[str, Fraction], ...]
    candidates: tuple[Mapping[str, Fraction], ...]


@dataclass(slots=True)
class ChangeLimit:
    """At most ``most`` changes in an hour."""

    most: int
    _times: deque[float] = field(default_factory=deque)

    def has_room(self, *, now: float) -> bool:
        while self._times and self._times[0] <= now - _HOUR:
            self._times.popleft()
        return len(self._times) < self.most

    def record(self, *, now: float) -> None:
        self._times.append(now)


class DemandInForce:
    """``window``: the seconds over which figures are measured."""

    def __init__(self, settings: AdoptionSettings, *, window: float) -> None:
        self._settings = settings
        self._window, self._lead = window, window / 2 + _EXTRA_LEAD
        self._services: dict[ObjectKey, _ServiceDemand] = {}

    def __contains__(self, key: object) -> bool:
        """Whether a Service is known; most methods require it."""
        return key in self._services

    def parts(self, key: ObjectKey) -> Mapping[str, Fraction] | None:
        """The parts in force; None: the cluster's demand."""
        state = self._services.get(key)
        return None if state is None else state.parts

    def condition(self, key: ObjectKey) -> Condition | None:
        """None while nothing is known."""
        state = self._services.get(key)
        return None if state is None else state.condition

    def restore(self, key: ObjectKey, service: Service, *, now: float) -> None:
        """Restore the demand in force from the condition of a Service, and the annotation beside it."""
        annotated = (condition for condition in own_conditions(service) if isinstance(condition, AnnotatedCondition))
        condition = next((condition for condition in annotated if condition.type == MEASURED_CONDITION), None)
        state = self._services.get(key)
        if condition is None:
            if state is not None:
                state.parts = state.condition = None
            return
        if state is None:
            state = self._services[key] = _ServiceDemand(now)
        is_measured = condition.status == "True" and condition.reason == MeasuredReason.MEASURED
        parts = parse_demand(condition.annotation or "") if is_measured else None
        state.parts = parts
        known = parts is not None or not is_measured
        state.condition = replace(condition, last_transition_time=None) if known else None

    def forget(self, key: ObjectKey) -> None:
        """A Service is gone, or does not depend on measured demand."""
        self._services.pop(key, None)

    def retain(self, keys: Iterable[ObjectKey]) -> list[ObjectKey]:
        """Forget all other Services. Returns those that had parts in force."""
        gone = self._services.keys() - set(keys)
        had_parts = sorted(key for key in gone if self._services[key].parts is not None)
        for key in gone:
            self.forget(key)
        return had_parts

    def record(self, keys: Iterable[ObjectKey], figures: DemandFigures | None, demand: Demand, *, now: float) -> None:
        """The figures of a source for these Services; None: it did not respond. ``demand`` is the cluster's."""
        for key in keys:
            state = self._services.get(key)
            if state is None:
                state = self._services[key] = _ServiceDemand(now)
            if figures is None:
                continue
            shares = measured_shares(figures.amounts.get(key), demand, self._settings)
            if isinstance(shares, FigureProblem):
                state.problem = shares
                continue
            state.problem, state.since = None, now
            begun = state.trend
            state.trend = DemandTrend.begin(shares, now=now) if begun is None else begun.updated(shares, now=now)

    def problem(self, key: ObjectKey, *, now: float) -> FigureProblem | None:
        """Why the figures of a Service are unusable; None while they are usable, or may be again soon."""
        state = self._services[key]
        is_kept = state.trend is not None or state.parts is not None or state.problem is None
        if is_kept and now - state.since <= self._settings.max_age:
            return None
        return state.problem or FigureProblem.OLD

    def expected(self, key: ObjectKey, demand: Demand, *, now: float) -> ExpectedDemand | None:
        """The expected demand of a Service by its figures; None without figures."""
        trend = self._services[key].trend
        if trend is None:
            return None
        age = now - trend.at
        soon = age + self._lead
        at_present, before_long, peaks = (
            floored_parts(shares, demand, self._settings)
            for shares in (trend.shares_in(age), trend.shares_in(soon), trend.peaks(soon, soon + HORIZON))
        )
        return ExpectedDemand(
            (at_present, before_long), (before_long,) if self.is_resting(key, now=now) else (peaks, before_long)
        )

    def is_resting(self, key: ObjectKey, *, now: float) -> bool:
        """Whether the demand of a Service changed so recently that figures and their slope still describe the time
        before. Callers may depend on it too."""
        return now - self._services[key].changed < self._window + self._lead

    def adopt(self, key: ObjectKey, parts: Mapping[str, Fraction], *, now: float) -> None:
        """These parts are in force from now on."""
        state = self._services[key]
        state.changed = now
        state.parts, state.condition = parts, measured_condition(MeasuredReason.MEASURED, parts)

    def stay(self, key: ObjectKey) -> bool:
        """The demand in force fits the figures. Returns whether this is a change."""
        state = self._services[key]
        reason = MeasuredReason.CPU_FITS if state.parts is None else MeasuredReason.MEASURED
        return self._set_condition(state, measured_condition(reason, state.parts))

    def fall_back(self, key: ObjectKey, problem: FigureProblem) -> bool:
        """CPU-based demand is in force from now on. Returns whether this is a change."""
        state = self._services[key]
        had_parts, state.parts, state.trend = state.parts is not None, None, None
        return self._set_condition(state, measured_condition(problem, None)) or had_parts

    @property
    def counts(self) -> Counter[str]:
        """The number of Services by the reason of their condition."""
        return Counter(service.condition.reason for service in self._services.values() if service.condition is not None)

    @staticmethod
    def _set_condition(state: _ServiceDemand, condition: Condition) -> bool:
        is_news, state.condition = state.condition != condition, condition
        return is_news
