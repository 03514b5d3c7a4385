"""The controller: from what changes in a cluster to the slices of the Services that it concerns.

A cache follows the cluster; each change says which Services it concerns, and these wait in a queue. A worker takes one,
plans it from what is kept of it, and writes what differs. Nothing is decided from a cache that has not seen our own
writes, and two workers are never at one Service.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from zoneward.client.affected_services import concerned
from zoneward.client.api_errors import ApiError
from zoneward.client.cache import Cache
from zoneward.client.following import Trouble, follow
from zoneward.client.reflector import Timing
from zoneward.client.resources import LEASES, SLICES, AnyResource, Key, LiveNode, LivePod, T, key_of, service_of
from zoneward.client.store import Handler
from zoneward.client.unreadable import Unreadable
from zoneward.client.writer import Writer
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.handover.adopting import Link
from zoneward.controller.handover.keeping_endpoints import EndpointsKeeper
from zoneward.controller.handover.releases import Releases
from zoneward.controller.handover.rivals import Rivals, is_built_in, is_sign_of_life
from zoneward.controller.leader.leading import Leading, always
from zoneward.controller.mode import Mode
from zoneward.controller.queue.batching import Batching, RequeueDelay
from zoneward.controller.queue.queue import Queue
from zoneward.controller.queue.resync import PERIOD, Resync
from zoneward.controller.queue.schedule import Given, Urgency, urgency_of
from zoneward.controller.status.honoring import Honoring
from zoneward.controller.status.telling import Teller
from zoneward.controller.sync.reconciling import Ending, Reconciled, Reconciler
from zoneward.controller.sync.state import SliceNames, State
from zoneward.controller.sync.syncing import Syncer
from zoneward.controller.sync.tracker import Tracker
from zoneward.controller.sync_counts import SyncResult
from zoneward.daemon.log import Log, SilentLog, UnexpectedErrorLog
from zoneward.daemon.unreadable_objects import log_unreadable_object
from zoneward.kube.adoption import Course, with_selector
from zoneward.kube.objects import EndpointSlice, Service, has_address, says_ready
from zoneward.routing.configuration import Configuration
from zoneward.routing.selection.endpoint_selection import ZONEWARD, Consumer
from zoneward.slices.plan import ServicePlan, plan_service

WORKERS: Final = 4
_TICK: Final = 0.5
"""Seconds between two looks at what has to be looked at again."""
_LOOK: Final = 0.01
"""Seconds between two looks at whether all is done."""


class Controller:
    """`run` it. ``writer`` must refuse writes once we no longer lead; ``leading`` None: there are no others.

    While somebody else leads the cache is kept current, changes wait, and nothing is written. Whoever learns that we
    no longer lead calls `stepped_down`. ``teller`` None: nothing is told about Services but their slices; its workers
    are run here. ``proxies``: the namespace in which the Leases of nodes' proxies lie; None: it is not asked what they
    have programmed. ``resync``: seconds in which every Service is planned again though nothing happened to it.
    """

    def __init__(
        self,
        connection: Link,
        *,
        configuration: Configuration,
        mode: Mode,
        writer: Writer,
        leading: Leading | None = None,
        teller: Teller | None = None,
        metrics: ControllerMetrics | None = None,
        log: Log | None = None,
        workers: int = WORKERS,
        batching: Batching | None = None,
        back_off: RequeueDelay | None = None,
        consumer: Consumer = ZONEWARD,
        timing: Timing | None = None,
        chance: Random | None = None,
        resync: float = PERIOD,
        rivals: Rivals | None = None,
        proxies: str | None = None,
        on_trouble: Trouble = lambda _resource, _trouble: None,
    ) -> None:
        self._connection, self._configuration = connection, configuration
        self._teller, self._workers = teller, workers
        self._timing, self._on_trouble = timing, on_trouble
        self._chance = Random() if chance is None else chance
        self._leading: Leading = always() if leading is None else leading
        self._log: Log = SilentLog() if log is None else log
        self.metrics: Final = ControllerMetrics() if metrics is None else metrics
        self.cache: Final = Cache(on_unreadable=self._set_aside)
        self._untold: dict[tuple[str, Key], Unreadable] = {}
        """Objects that cannot be read, of which no Event tells yet."""
        self.queue: Final = Queue[Key](batching=batching, back_off=back_off, chance=self._chance.random)
        self._tracker = Tracker()
        self._state = State(self.cache, configuration=configuration, consumer=consumer)
        self._rivals = Rivals(together=mode is Mode.TAKE_OVER) if rivals is None else rivals
        self.contested: Final = self._rivals.contested
        """Services that the built-in controller writes too, which are therefore left to it. Always this very set."""
        self._resync = Resync(period=resync)
        self._releases = Releases(
            connection,
            configuration=configuration,
            writer=writer,
            log=self._log,
            over=lambda key: self.queue.add(key, urgency=Urgency.BACKGROUND),
        )
        self._endpoints = EndpointsKeeper(
            self.cache, writer, leading=self._leading, metrics=self.metrics, log=self._log, back_off=back_off
        )
        self._honoring: Honoring | None = None
        if proxies is not None and teller is not None:
            self._honoring = Honoring(
                connection,
                namespace=proxies,
                cache=self.cache,
                tracker=self._tracker,
                teller=teller,
                leading=self._leading,
                log=self._log,
                timing=timing,
                on_trouble=lambda error: on_trouble(LEASES, error),
                on_unreadable=self._set_aside,
            )
        self._syncer = Syncer(
            connection,
            cache=self.cache,
            queue=self.queue,
            state=self._state,
            tracker=self._tracker,
            reconciler=Reconciler(writer, tracker=self._tracker, metrics=self.metrics, on_news=self.queue.add_all),
            rivals=self._rivals,
            endpoints=self._endpoints,
            releases=self._releases,
            configuration=configuration,
            mode=mode,
            leading=self._leading,
            metrics=self.metrics,
            log=self._log,
            teller=teller,
            honoring=self._honoring,
        )
        self._unexpected = UnexpectedErrorLog(self._log)
        self._at_work: set[asyncio.Task[None]] = set()
        self._refreshes = False
        self.cache.services.subscribe(self._guarded(self._service_changed))
        self.cache.pods.subscribe(self._guarded(self._pod_changed))
        self.cache.nodes.subscribe(self._guarded(self._node_changed))
        self.cache.slices.subscribe(self._guarded(self._slice_changed))

    # --- from outside -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled. Raises CallFailed where the cluster cannot be followed, however often it is tried."""
        try:
            async with asyncio.TaskGroup() as group:
                following = follow(
                    self._connection,
                    self.cache,
                    timing=self._timing,
                    on_trouble=self._on_trouble,
                    on_current=self._current,
                    random=self._chance,
                    clock=asyncio.get_running_loop().time,
                )
                group.create_task(following, name="following the cluster")
                for number in range(self._workers):
                    worker = group.create_task(self._work(), name=f"worker {number}")
                    self._at_work.add(worker)
                    worker.add_done_callback(self._at_work.discard)
                keeper = group.create_task(self._endpoints.run(), name="keeping Endpoints")
                self._at_work.add(keeper)
                keeper.add_done_callback(self._at_work.discard)
                group.create_task(self._look_again(), name="looking again")
                if self._teller is not None:
                    group.create_task(self._teller.run(), name="telling")
                if self._honoring is not None:
                    group.create_task(self._honoring.run(), name="gathering what nodes have programmed")
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            # Whoever lets the Lease go after this must know that nothing of ours is written any more.
            await self._releases.end()

    async def drain(self, limit: float) -> bool:
        """Begin nothing more, and wait so many seconds until what was begun is written; whether it is."""
        self.queue.close()
        self._endpoints.close()
        if not self._leading.is_set():
            return True
        _, late = await asyncio.wait(self._at_work, timeout=limit) if self._at_work else (None, ())
        return not late

    def stepped_down(self) -> None:
        """Somebody else leads, or nobody: what we know of our own writes is no longer the last word."""
        self._releases.cancel()
        self._state.clear()
        self._syncer.clear()
        self._rivals.clear()
        self._endpoints.clear()
        self.metrics.forget_all_services()
        if self._teller is not None:
            self._teller.clear()
        if self._honoring is not None:
            self._honoring.clear()
        # What was written meanwhile is looked at when we lead again.
        self.queue.add_all([key_of(each) for each in self.cache.services], urgency=Urgency.BACKGROUND)

    def decision(self, namespace: str, name: str) -> ServicePlan | None:
        """What a Service would come to now, planned anew; None for one that is not there, or is none of ours."""
        work = self.deciding(namespace, name)
        return None if work is None else work()

    def deciding(self, namespace: str, name: str) -> Callable[[], ServicePlan] | None:
        """The same as work for a thread, with all it needs taken from the cache at once."""
        service = self.cache.services.get(namespace, name)
        if service is None or self._syncer.course(service, self.cache.slices_of(namespace, name)) is not Course.SERVE:
            return None
        self._refresh()
        pods = sorted(self.cache.pods_of(namespace, name), key=lambda pod: pod.metadata.name)
        slices = sorted(self.cache.slices_of(namespace, name), key=lambda each: each.metadata.name)
        cluster_state, trigger_time = self._state.cluster_state, self._state.times.time((namespace, name))
        return lambda: plan_service(
            with_selector(service),
            pods=pods,
            slices=slices,
            cluster_state=cluster_state,
            trigger_time=trigger_time,
            taken=SliceNames(self.cache, namespace),
        )

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """The objects that are set aside, Leases of node proxies among them."""
        leases = () if self._honoring is None else self._honoring.proxies.leases.unreadable.values()
        return (*self.cache.unreadable, *leases)

    @property
    def is_settled(self) -> bool:
        """Whether all that the cache knows of is written, and the cache has seen it."""
        if not self.cache.synced.is_set() or self._refreshes or self._releases:
            return False
        depth = self.queue.depth()
        if depth.waiting or depth.working or not self._endpoints.is_settled:
            return False
        keys = {key_of(each) for each in self.cache.services} | {service_of(each) for each in self.cache.slices}
        return not any(self._tracker.is_stale(key, self.cache.slices_of(*key)) for key in keys)

    async def settled(self, limit: float) -> bool:
        """Wait until there is nothing to do, or for so many seconds; whether there is nothing."""
        end = asyncio.get_running_loop().time() + limit
        while not self.is_settled and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(_LOOK)
        return self.is_settled

    # --- what changes -------------------------------------------------------------------------------------------------
    # Keys are sorted, so that the same changes lead to the same writes in the same order.

    def _guarded(self, handler: Handler[T]) -> Handler[T]:
        """No object ends the process: what a mistake leaves undone the slow resync does, from the start."""

        def guarded(old: T | None, new: T | None) -> None:
            try:
                handler(old, new)
            except Exception as error:
                thing = new if new is not None else old
                assert thing is not None
                self._unexpected.error("a mistake in the program kept a change from being seen", key_of(thing), error)

        return guarded

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        self._state.service(old, new)
        self.queue.add_all(sorted(concerned(self.cache, old, new)))

    def _pod_changed(self, old: LivePod | None, new: LivePod | None) -> None:
        self._state.pod(old, new)
        keys = concerned(self.cache, old, new)
        if not keys:
            return
        is_known, takes_away = self.cache.synced.is_set(), _serves(old) and not _serves(new)
        for key in sorted(keys):
            urgency = urgency_of(takes_away=takes_away, ready=self._state.ready(key)) if is_known else Urgency.NORMAL
            self.queue.add(key, urgency=urgency)

    def _node_changed(self, old: LiveNode | None, new: LiveNode | None) -> None:
        if self._state.node(old, new) and not self._refreshes:
            self._refreshes = True
            # Nodes change together, and Services are looked through once for all of them.
            asyncio.get_running_loop().call_soon(self._refresh)
        self.queue.add_all(sorted(concerned(self.cache, old, new)))

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        self._state.slice(old, new)
        self._listen(old, new)
        seen = self._tracker.observe(old, new)
        if seen.is_news:
            self.queue.add_all(sorted(seen.services))
        for key in sorted(seen.services):
            if self.queue.is_stale(key) and not self._tracker.is_stale(key, self.cache.slices_of(*key)):
                self.queue.wake(key)

    def _listen(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        if (
            new is not None
            and self.cache.synced.is_set()
            and is_built_in(new, self._configuration)
            and is_sign_of_life(old, new)
        ):
            self._rivals.alive(service_of(new), now=asyncio.get_running_loop().time())

    def _set_aside(self, found: Unreadable) -> None:
        log_unreadable_object(self._log, found)
        if found.name:
            self._untold[found.resource.kind, found.key] = found

    def _refresh(self) -> None:
        self._refreshes = False
        self.queue.add_all(self._state.refresh(), urgency=Urgency.BACKGROUND)

    def _current(self, resource: AnyResource, version: int) -> None:
        if self._honoring is not None and resource.kind == SLICES.kind:
            self._honoring.slices_version = version

    # --- workers ------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        await self.cache.synced.wait()
        while True:
            await self._leading.wait()
            given = await self.queue.next()
            if given is None:
                return
            if not self._leading.is_set():
                self.queue.done(given.key)
                self.queue.add(given.key, urgency=given.urgency)
                continue
            try:
                self._refresh()
                result = await self._syncer.sync(given)
            except Exception as error:
                self._broke(given, error)
            else:
                self._ended(given, result)

    async def _look_again(self) -> None:
        """At what no event tells of: the slow full resync, and whether the built-in controller is still at work."""
        while True:
            await asyncio.sleep(_TICK)
            await self._leading.wait()
            now = asyncio.get_running_loop().time()
            while self._untold:
                _, found = self._untold.popitem()
                if self._teller is not None:
                    self._teller.tell_unreadable(found)
            keys = self._rivals.due(now=now)
            for key in self._resync.due(lambda: map(key_of, self.cache.services), now=now):
                self._state.renew(key)
                self._endpoints.reread(key)
                keys.append(key)
            self.queue.add_all(keys, urgency=Urgency.BACKGROUND)

    # --- how it ended -------------------------------------------------------------------------------------------------

    def _ended(self, given: Given[Key], result: Reconciled) -> None:
        key = given.key
        match result.ending:
            case Ending.WRITTEN:
                waited = self.queue.done(key, writes=result.writes)
                if result.writes:
                    self.metrics.record_latency(waited)
            case Ending.OUTDATED:
                self.metrics.record_failed_sync(SyncResult.STALE)
                self.queue.stale(key)
                if not self._tracker.is_stale(key, self.cache.slices_of(*key)):
                    self.queue.wake(key)
            case Ending.NO_PLACE:
                self.metrics.record_failed_sync()
                self.queue.done(key, writes=result.writes)
            case _:
                self._failed(given, result.writes, result.error)

    def _broke(self, given: Given[Key], error: Exception) -> None:
        """A mistake in the program, which is told with its place the first time. What is kept may be spoilt by it."""
        self._unexpected.error("a mistake in the program kept a Service from its sync", given.key, error)
        self._state.renew(given.key)
        self._failed(given, 0, error)

    def _failed(self, given: Given[Key], writes: int, error: Exception | None) -> None:
        self.metrics.record_failed_sync()
        self.metrics.record_retry()
        asked = error.retry_after if isinstance(error, ApiError) else None
        pause = self.queue.failed(given.key, writes=writes, retry_after=asked)
        self._log.warning(
            "a Service could not be synced",
            service="/".join(given.key),
            reason=type(error).__name__,
            error=str(error),
            tries=given.failures + 1,
            again_in=round(pause, 3),
        )


def _serves(pod: LivePod | None) -> bool:
    """Whether a Pod makes a ready endpoint."""
    return (
        pod is not None
        and has_address(pod)
        and pod.metadata.deletion_timestamp is None
        and says_ready(pod.status.conditions)
    )
