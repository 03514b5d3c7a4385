"""Follows measured demand: reads figures, and adopts new demand for the Services that gain by it.

A Service keeps its demand while its decision holds for the expected demand, unless a new decision would keep much more
traffic in its zone (`zoneward.slices.demand_trial`). The worst Services change first, and the number of changes an hour
that move endpoints is limited: wrong figures cannot move a whole cluster at once. A Service whose figures are unusable
falls back to CPU-based demand, within the same limit.

After a restart, and for a new leader, the parts in the annotation ``zoneward.dev/measured-demand`` are in force until
figures lead to others, or are too old. The annotation is written with the condition that reports them; a condition
without it, as of earlier versions, counts as none.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from fractions import Fraction
from math import inf
from typing import Final, NoReturn

from msgspec.structs import replace

from zoneward.client.informer_cache import InformerCache
from zoneward.client.resources import object_key_of
from zoneward.controller.context import FiguresSource, FiguresUnavailable
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.queue.work_queue import Urgency, WorkQueue
from zoneward.controller.status.status_writer import AnnotatedCondition, own_conditions
from zoneward.controller.sync.service_states import ServiceStates
from zoneward.daemon.log import Log, UnexpectedErrorLog, raised_at
from zoneward.kube.adoption_marks import with_effective_selector
from zoneward.kube.demand import DemandFigures, parse_demand
from zoneward.kube.names import MEASURED_CONDITION
from zoneward.kube.objects import Condition, ObjectKey, Service
from zoneward.kube.safe_text import printable
from zoneward.routing.configuration import AdoptionSettings, Configuration
from zoneward.routing.demand import Demand
from zoneward.routing.measured_demand import DemandTrend, FigureProblem, floored_parts, measured_shares
from zoneward.slices.demand_trial import DemandTrial, Parts, TrialOutcome, depends_on_demand

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
        return self._services[key].parts if key in self._services else None

    def condition(self, key: ObjectKey) -> Condition | None:
        """None while nothing is known."""
        return self._services[key].condition if key in self._services else None

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
        gone = {key: self._services.pop(key) for key in self._services.keys() - set(keys)}
        return sorted(key for key, state in gone.items() if state.parts is not None)

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


class ChangeCause(IntEnum):
    """Why the demand of a Service changes, the most urgent first."""

    OVERLOAD = 0
    FALLBACK = 1
    LOCALITY = 2


@dataclass(frozen=True, slots=True)
class _Change:
    """Other parts for a Service; None: it falls back to CPU, because of ``problem``. ``weight``: the more, the sooner.
    ``moves``: it changes slices."""

    key: ObjectKey
    cause: ChangeCause
    weight: float
    parts: Mapping[str, Fraction] | None
    problem: FigureProblem | None = None
    moves: bool = True

    @property
    def rank(self) -> tuple[ChangeCause, float, ObjectKey]:
        return self.cause, -self.weight, self.key


def _best_change(
    begin: Callable[[], DemandTrial], candidates: Iterable[Mapping[str, Fraction]], margin: Fraction
) -> tuple[TrialOutcome, Mapping[str, Fraction]] | None:
    """The first parts with which the decision holds, or else the best ones, with their outcome; None if none is worth a
    change."""
    trial = begin()
    if not trial.may_change(margin):
        return None
    best = None
    for parts in candidates:
        outcome = trial.outcome(parts)
        if outcome.is_worth(margin) and (best is None or outcome.new_excess < best[0].new_excess):
            best = outcome, parts
            if outcome.new_excess < 0:
                break
    return best


class DemandFollower:
    """`run` it beside the controller's workers. ``is_ours`` says whether this controller writes the slices of a
    Service."""

    def __init__(
        self,
        source: FiguresSource,
        *,
        configuration: Configuration,
        cache: InformerCache,
        states: ServiceStates,
        queue: WorkQueue[ObjectKey],
        leading: asyncio.Event,
        metrics: ControllerMetrics,
        log: Log,
        is_ours: Callable[[Service], bool],
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._source, self._settings = source, configuration.demand
        self._cache, self._states, self._queue = cache, states, queue
        self._leading, self._metrics, self._log, self._is_ours = leading, metrics, log, is_ours
        self._clock = clock or asyncio.get_running_loop().time
        self._demand = DemandInForce(self._settings, window=source.window)
        self._limit = ChangeLimit(self._settings.max_changes_per_hour)
        self._unexpected = UnexpectedErrorLog(log)
        self._answered_at = self._clock()
        self._is_answering = True
        self._notes: tuple[str, ...] = ()
        self._waiting = 0
        metrics.declare_demand(
            services=lambda: self._demand.counts,
            waiting=lambda: self._waiting,
            figures_age=lambda: self._clock() - self._answered_at,
        )

    # --- what the controller calls ------------------------------------------------------------------------------------

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        """A handler of the cache. Conditions of another leader hold the demand in force."""
        if new is None:
            assert old is not None
            self._forget(object_key_of(old))
            return
        key = object_key_of(new)
        is_new = old is None or old.metadata.uid != new.metadata.uid
        if is_new:
            self._forget(key)
        if is_new or not self._leading.is_set():
            self._restore(key, new)

    def stepped_down(self) -> None:
        """From now on, the conditions of another leader hold the demand in force."""
        for service in self._cache.services:
            self._restore(object_key_of(service), service)

    def condition(self, service: Service) -> Condition | None:
        """The condition of a Service about its demand; None for one that does not depend on what is measured."""
        if not self._depends(service):
            return None
        return self._demand.condition(object_key_of(service))

    def _restore(self, key: ObjectKey, service: Service) -> None:
        self._demand.restore(key, service, now=self._clock())
        self._states.set_service_parts(key, self._demand.parts(key))

    def _forget(self, key: ObjectKey) -> None:
        self._demand.forget(key)
        self._states.set_service_parts(key, None)

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def run(self) -> NoReturn:
        """Run until cancelled."""
        await self._cache.synced.wait()
        while True:
            try:
                await self.refresh()
            except Exception as error:
                self._log.error(
                    "internal error while following measured demand",
                    error=f"{type(error).__name__}: {error}",
                    at=raised_at(error),
                )
            await asyncio.sleep(self._settings.refresh)

    async def refresh(self) -> None:
        """Read the figures once, and change the demand of those Services that need it."""
        figures = await self._read_figures()
        now = self._clock()
        # Restored and changed demand is in force from here on.
        self._queue.add_all(self._states.refresh_nodes(), urgency=Urgency.BACKGROUND)
        services = {object_key_of(service): service for service in self._cache.services if self._depends(service)}
        self._demand.record(services, figures, self._states.cluster_state.demand, now=now)
        if not self._leading.is_set():
            return
        for key in self._demand.retain(services):
            # Its annotation has its demand, or it asks for an approach without demand.
            self._states.set_service_parts(key, None)
            self._queue.add(key, urgency=Urgency.BACKGROUND)
        changes = []
        for key in sorted(services):
            try:
                change = await self._review(key, now)
            except Exception as error:
                self._unexpected.error("internal error while checking the measured demand of a Service", key, error)
                continue
            if change is not None:
                changes.append(change)
        if self._leading.is_set():
            self._apply(sorted(changes, key=lambda change: change.rank), now)

    def _depends(self, service: Service) -> bool:
        return depends_on_demand(with_effective_selector(service), self._states.cluster_state)

    async def _read_figures(self) -> DemandFigures | None:
        try:
            figures = await self._source.read([node.metadata.name for node in self._cache.nodes])
        except FiguresUnavailable as error:
            self._metrics.demand_reads.labels("failure").inc()
            if self._is_answering:
                self._log.warning("failed to read measured demand", error=printable(str(error)))
            self._is_answering = False
            return None
        self._metrics.demand_reads.labels("success").inc()
        if not self._is_answering:
            self._log.info("measured demand recovered", after=round(self._clock() - self._answered_at))
        self._is_answering, self._answered_at = True, self._clock()
        if figures.notes != self._notes:
            self._notes = figures.notes
            for note in figures.notes:
                self._log.info("ignoring some demand figures", note=printable(note))
        return figures

    async def _review(self, key: ObjectKey, now: float) -> _Change | None:
        """The change that a Service needs, if any. A demand that fits is reported at once, because nothing moves."""
        service = self._cache.services.get(*key)
        # Services may be added and deleted meanwhile.
        if service is None or key not in self._demand or not self._is_ours(service):
            return None
        problem = self._demand.problem(key, now=now)
        parts = self._demand.parts(key)
        if problem is not None:
            moves = parts is not None and await self._moves(service)
            return _Change(key, ChangeCause.FALLBACK, 0.0, None, problem, moves)
        demand = self._states.cluster_state.demand
        expected = self._demand.expected(key, demand, now=now) if demand.total else None
        if expected is None:
            return None
        trial = self._trial(service, expected.expected)
        change = await asyncio.to_thread(_best_change, trial, expected.candidates, self._settings.margin)
        if key not in self._demand:
            return None
        if change is not None:
            outcome, parts = change
            if outcome.is_overload:
                return _Change(key, ChangeCause.OVERLOAD, outcome.excess, parts)
            if not self._demand.is_resting(key, now=now):
                return _Change(key, ChangeCause.LOCALITY, outcome.gain, parts)
        if self._demand.stay(key):
            self._queue.add(key, urgency=Urgency.BACKGROUND)
        return None

    async def _moves(self, service: Service) -> bool:
        """Whether CPU-based demand would move an endpoint."""
        trial = self._trial(service, (None,))
        return await asyncio.to_thread(lambda: trial().outcome(None).moves)

    def _trial(self, service: Service, expected: Sequence[Parts]) -> Callable[[], DemandTrial]:
        """Work for a thread, with everything that it needs already taken from the cache."""
        pods, slices = self._states.objects_of(object_key_of(service))
        state = self._states.cluster_state
        return lambda: DemandTrial(
            with_effective_selector(service), pods=pods, slices=slices, cluster_state=state, expected=expected
        )

    # --- changes ------------------------------------------------------------------------------------------------------

    def _apply(self, changes: Iterable[_Change], now: float) -> None:
        waiting = 0
        fallen: dict[FigureProblem, list[ObjectKey]] = {}
        for change in changes:
            key = change.key
            if key not in self._demand:
                continue
            if change.moves:
                if not self._limit.has_room(now=now):
                    waiting += 1
                    continue
                self._limit.record(now=now)
                self._metrics.demand_changes.labels(change.cause.name.lower()).inc()
            if change.parts is not None:
                self._demand.adopt(key, change.parts, now=now)
                self._log.info(
                    "adopting measured demand",
                    service="/".join(key),
                    reason=change.cause.name.lower(),
                    demand=parts_text(change.parts),
                )
            else:
                assert change.problem is not None
                if not self._demand.fall_back(key, change.problem):
                    continue
                fallen.setdefault(change.problem, []).append(key)
            self._states.set_service_parts(key, change.parts)
            self._queue.add(key, urgency=Urgency.BACKGROUND)
        for problem, keys in fallen.items():
            self._log.warning("using CPU-based demand", reason=problem, services=len(keys), first="/".join(keys[0]))
        if waiting and not self._waiting:
            most = self._settings.max_changes_per_hour
            self._log.info("changes of demand are waiting for the hourly limit", services=waiting, at_most_an_hour=most)
        self._waiting = waiting
