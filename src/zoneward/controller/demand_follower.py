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
from zoneward.routing.configuration import Configuration
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
    was first seen; ``changed``: when its demand changed last. ``parts`` are in force; None: the cluster's demand.
    ``condition`` None: nothing is known yet."""

    since: float
    parts: Mapping[str, Fraction] | None = None
    trend: DemandTrend | None = None
    problem: FigureProblem | None = None
    condition: Condition | None = None
    changed: float = -inf

    def restore(self, condition: AnnotatedCondition) -> None:
        """Restore the demand in force from the condition of the Service, and the annotation beside it."""
        is_measured = condition.status == "True" and condition.reason == MeasuredReason.MEASURED
        self.parts = parse_demand(condition.annotation or "") if is_measured else None
        is_known = self.parts is not None or not is_measured
        self.condition = replace(condition, last_transition_time=None) if is_known else None

    def record(self, shares: Mapping[str, float] | FigureProblem, *, now: float) -> None:
        """The figures of a source that responded."""
        if isinstance(shares, FigureProblem):
            self.problem = shares
            return
        self.problem, self.since = None, now
        self.trend = DemandTrend.begin(shares, now=now) if self.trend is None else self.trend.updated(shares, now=now)

    def lasting_problem(self, *, max_age: float, now: float) -> FigureProblem | None:
        """Why the figures are unusable; None while they are usable, or may be again soon."""
        is_kept = self.trend is not None or self.parts is not None or self.problem is None
        if is_kept and now - self.since <= max_age:
            return None
        return self.problem or FigureProblem.OLD

    def report(self, state: MeasuredReason | FigureProblem) -> bool:
        """Set the condition. Returns whether it is another one."""
        condition = measured_condition(state, self.parts)
        is_news, self.condition = self.condition != condition, condition
        return is_news


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
        self._services: dict[ObjectKey, _ServiceDemand] = {}
        self._window, self._lead = source.window, source.window / 2 + _EXTRA_LEAD
        self._limit = ChangeLimit(self._settings.max_changes_per_hour)
        self._unexpected = UnexpectedErrorLog(log)
        self._answered_at = self._clock()
        self._is_answering = True
        self._notes: tuple[str, ...] = ()
        self._waiting = 0
        metrics.declare_demand(
            services=self._count_by_reason,
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
        state = self._services.get(object_key_of(service))
        return state.condition if state is not None and self._depends(service) else None

    def _count_by_reason(self) -> Counter[str]:
        return Counter(state.condition.reason for state in self._services.values() if state.condition is not None)

    def _restore(self, key: ObjectKey, service: Service) -> None:
        annotated = (condition for condition in own_conditions(service) if isinstance(condition, AnnotatedCondition))
        condition = next((condition for condition in annotated if condition.type == MEASURED_CONDITION), None)
        state = self._services.get(key)
        if condition is not None:
            state = self._services.setdefault(key, _ServiceDemand(self._clock()))
            state.restore(condition)
        elif state is not None:
            state.parts = state.condition = None
        self._states.set_service_parts(key, None if state is None else state.parts)

    def _forget(self, key: ObjectKey) -> None:
        self._services.pop(key, None)
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
        for key in services:
            state = self._services.setdefault(key, _ServiceDemand(now))
            if figures is not None:
                demand = self._states.cluster_state.demand
                state.record(measured_shares(figures.amounts.get(key), demand, self._settings), now=now)
        if not self._leading.is_set():
            return
        for key in sorted(self._services.keys() - services.keys()):
            # Its annotation has its demand, or it asks for an approach without demand.
            had_parts = self._services[key].parts is not None
            self._forget(key)
            if had_parts:
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
        state = self._services.get(key)
        # Services may be added and deleted meanwhile.
        if service is None or state is None or not self._is_ours(service):
            return None
        problem = state.lasting_problem(max_age=self._settings.max_age, now=now)
        if problem is not None:
            moves = state.parts is not None and await self._moves(service)
            return _Change(key, ChangeCause.FALLBACK, 0.0, None, problem, moves)
        demand = self._states.cluster_state.demand
        if state.trend is None or not demand.total:
            return None
        age = now - state.trend.at
        soon = age + self._lead
        at_present, before_long, peaks = (
            floored_parts(shares, demand, self._settings)
            for shares in (
                state.trend.shares_in(age),
                state.trend.shares_in(soon),
                state.trend.peaks(soon, soon + HORIZON),
            )
        )
        # After a recent change, figures, their slope and callers still describe the time before.
        is_resting = now - state.changed < self._window + self._lead
        candidates = (before_long,) if is_resting else (peaks, before_long)
        trial = self._trial(service, (at_present, before_long))
        change = await asyncio.to_thread(_best_change, trial, candidates, self._settings.margin)
        state = self._services.get(key)
        if state is None:
            return None
        if change is not None:
            outcome, parts = change
            if outcome.is_overload:
                return _Change(key, ChangeCause.OVERLOAD, outcome.excess, parts)
            if not is_resting:
                return _Change(key, ChangeCause.LOCALITY, outcome.gain, parts)
        if state.report(MeasuredReason.CPU_FITS if state.parts is None else MeasuredReason.MEASURED):
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
            state = self._services.get(key)
            if state is None:
                continue
            if change.moves:
                if not self._limit.has_room(now=now):
                    waiting += 1
                    continue
                self._limit.record(now=now)
                self._metrics.demand_changes.labels(change.cause.name.lower()).inc()
            if change.parts is not None:
                state.changed, state.parts = now, change.parts
                state.report(MeasuredReason.MEASURED)
                self._log.info(
                    "adopting measured demand",
                    service="/".join(key),
                    reason=change.cause.name.lower(),
                    demand=parts_text(change.parts),
                )
            else:
                assert change.problem is not None
                had_parts, state.parts, state.trend = state.parts is not None, None, None
                if not (state.report(change.problem) or had_parts):
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
