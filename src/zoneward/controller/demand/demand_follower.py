"""Follows measured demand: reads figures, and adopts new demand for the Services that gain by it.

A Service keeps its demand while its decision holds for the expected demand, unless a new decision would keep much more
traffic in its zone (`zoneward.slices.demand_trial`). The worst Services change first, and the number of changes an hour
that move endpoints is limited: wrong figures cannot move a whole cluster at once. A Service whose figures are unusable
falls back to CPU-based demand, within the same limit.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import NoReturn

from zoneward.client.informer_cache import InformerCache
from zoneward.client.resources import object_key_of
from zoneward.controller.context import FiguresSource, FiguresUnavailable
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.demand.demand_in_force import ChangeLimit, DemandInForce, ExpectedDemand, parts_text
from zoneward.controller.leader.leader_elector import Leadership
from zoneward.controller.queue.work_queue import Urgency, WorkQueue
from zoneward.controller.sync.service_states import ServiceStates
from zoneward.daemon.log import Log, UnexpectedErrorLog, raised_at
from zoneward.kube.adoption_marks import with_effective_selector
from zoneward.kube.demand import DemandFigures
from zoneward.kube.objects import Condition, ObjectKey, Service
from zoneward.kube.safe_text import printable
from zoneward.routing.configuration import Configuration
from zoneward.routing.measured_demand import FigureProblem
from zoneward.slices.demand_trial import DemandTrial, Parts, TrialOutcome, depends_on_demand


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
        leading: Leadership,
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
        change = await asyncio.to_thread(self._search(service, expected))
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

    def _search(
        self, service: Service, demand: ExpectedDemand
    ) -> Callable[[], tuple[TrialOutcome, Mapping[str, Fraction]] | None]:
        """Work for a thread: the first parts with which the decision holds, or else the best ones, with their outcome;
        None if none is worth a change. Everything that it needs is already taken from the cache."""
        trial, margin = self._trial(service, demand.expected), self._settings.margin

        def work() -> tuple[TrialOutcome, Mapping[str, Fraction]] | None:
            started = trial()
            if not started.may_change(margin):
                return None
            best = None
            for parts in demand.candidates:
                outcome = started.outcome(parts)
                if outcome.is_worth(margin) and (best is None or outcome.new_excess < best[0].new_excess):
                    best = outcome, parts
                    if outcome.new_excess < 0:
                        break
            return best

        return work

    async def _moves(self, service: Service) -> bool:
        """Whether CPU-based demand would move an endpoint."""
        trial = self._trial(service, (None,))
        return await asyncio.to_thread(lambda: trial().outcome(None).moves)

    def _trial(self, service: Service, expected: Sequence[Parts]) -> Callable[[], DemandTrial]:
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
