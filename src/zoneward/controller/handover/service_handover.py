"""Adopts one Service from the built-in controller of a running cluster, or releases it: read, do the next step, repeat.

Each round reads everything from the API server, not from a cache. A running controller may do the same work at the same
time: names of new slices are fixed, and every change or deletion is for the version that was read.

The steps are in `handover_steps`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

from zoneward.client.api_errors import CallFailed, NotFound
from zoneward.client.backoff import Backoff
from zoneward.client.list_pager import decode_list, list_all
from zoneward.client.resources import (
    ENDPOINTS,
    NODES,
    PODS,
    SERVICES,
    SLICES,
    LiveNode,
    LivePod,
    WatchedResource,
    WatchedT,
)
from zoneward.client.transport_interface import ReadTransport, WriteTransport
from zoneward.client.writer import WriteOutcome, Writer, write_outcome
from zoneward.controller.handover.handover_steps import (
    ChangeService,
    DeleteEndpoints,
    DeleteSlices,
    EndpointsPolicy,
    HandoverDone,
    HandoverState,
    HandoverStep,
    LabelEndpoints,
    NextStep,
    WaitForOthers,
    WriteSlices,
    next_adoption_step,
    next_release_step,
    reason_to_refuse,
)
from zoneward.controller.sync.requirements import Permission, check_permissions
from zoneward.daemon.log import Log, UnexpectedErrorLog
from zoneward.kube.adoption_marks import SKIP_MIRROR_LABEL, effective_selector, with_effective_selector
from zoneward.kube.input_error import InputError
from zoneward.kube.names import SERVICE_NAME_LABEL
from zoneward.kube.objects import EndpointSlice, ObjectKey, Service, node_zone
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import demand_of
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan, plan_service


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverTimeouts:
    """Seconds. ``total``: for the whole handover, which takes a few seconds, most of them waiting for controllers.
    ``label``: for the Endpoints controller to copy a label, which took up to two.

    ``settling``: for which an adopted Service is still read: the built-in controller may have begun a sync before it
    stopped managing the Service, and recreate deleted slices. Changes of Pods do not prolong it. ``still``: for which a
    slice of the built-in controller must not have changed before it is deleted: the controller may still wait for the
    answer to its last write, and if the slice were deleted before, it would wait forever and not sync this Service.
    ``rest``: for which the mirroring controller may see a change of the Endpoints object later than one of the Service,
    or the other way round.
    """

    total: float = 60.0
    label: float = 10.0
    settling: float = 2.0
    still: float = 1.0
    rest: float = 2.0


_READ_TIMEOUT: Final = 30.0
_POLL_BACKOFF: Final = Backoff(initial=0.1, cap=1.0)
_PERMISSIONS: Final[tuple[Permission, ...]] = (
    ("PATCH", SERVICES),
    ("POST", SLICES),
    ("PUT", SLICES),
    ("DELETE", SLICES),
)


class ReadWriteConnection(ReadTransport, WriteTransport, Protocol):
    """A connection that reads and writes, as `zoneward.client.transport` has it."""


class NothingToDo(InputError):  # noqa: N818 -- it need not be an error
    """The Service does not exist, or has no selector, now or before."""


class ServiceHandover:
    """Adopts or releases one Service. ``report`` gets a line for each step that is done, and ``on_begin`` the Service
    as it is before the first one. ``service_parts`` are those of a `ClusterState`.

    Both raise InputError for a Service that does not exist or is refused, and if another controller does not act in
    time; and CallFailed. Repeat the call to continue.
    """

    def __init__(
        self,
        connection: ReadWriteConnection,
        key: ObjectKey,
        *,
        configuration: Configuration,
        report: Callable[[str], None],
        on_begin: Callable[[Service], None] = lambda _service: None,
        writer: Writer | None = None,
        timeouts: HandoverTimeouts | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        service_parts: Mapping[ObjectKey, Mapping[str, Fraction]] = MappingProxyType({}),
    ) -> None:
        self._connection, self._configuration, self._report = connection, configuration, report
        self._service_parts = service_parts
        self._on_begin = on_begin
        self._namespace, self._name = key
        self._writer = writer or Writer(connection)
        self._timeouts, self._clock, self._sleep = timeouts or HandoverTimeouts(), clock, sleep
        self._nodes: tuple[LiveNode, ...] = ()
        self._pods: tuple[LivePod, ...] = ()
        self._taken: set[str] = set()
        self._unchanged: dict[str, tuple[str | None, float]] = {}
        """By the name of a slice of the built-in controller: its version, and when we first read that version."""
        self._is_announced = False
        self.is_begun = False
        """Whether anything was written, or may have been: the outcome of an interrupted write is unknown."""

    async def adopt(self, *, endpoints_policy: EndpointsPolicy) -> str:
        """Adopt the Service, until the built-in controller stops writing it. Returns a line about the result."""
        more: tuple[Permission, ...] = (("DELETE", ENDPOINTS),) if endpoints_policy == "delete" else ()
        await check_permissions(self._connection, _PERMISSIONS + more, namespace=self._namespace)
        return await self._run(
            lambda state: next_adoption_step(state, plan=self.plan, endpoints_policy=endpoints_policy),
            needs_plan=lambda service: not service.spec.selector,
            settling=self._timeouts.settling,
        )

    async def release(self, *, only_selected: bool = False) -> str:
        """Release the Service to its state before it was adopted. ``only_selected``: do nothing if it has no selector,
        instead of restoring the selector."""
        permissions: tuple[Permission, ...] = (("PATCH", SERVICES), ("DELETE", SLICES))
        await check_permissions(self._connection, permissions, namespace=self._namespace)

        def next_step(state: HandoverState) -> HandoverStep:
            if only_selected and not state.service.spec.selector:
                return HandoverDone("it is Zoneward's")
            return next_release_step(state, plan=self.plan)

        return await self._run(
            next_step,
            needs_plan=lambda service: bool(service.spec.selector),
            settling=0,
        )

    # --- reading ------------------------------------------------------------------------------------------------------

    async def read_state(self, *, needs_plan: Callable[[Service], bool] = lambda _service: True) -> HandoverState:
        """Read the state of the Service. ``needs_plan``: whether the Service will be planned, so that its Pods are read
        too.

        Raises InputError if the Service does not exist or is refused.
        """
        # Read the Service last: then Zoneward's slices are not older than its selector.
        slices = await self._list_selected(SLICES, f"{SERVICE_NAME_LABEL}={self._name}")
        endpoints = None
        with suppress(NotFound):
            endpoints = await self._writer.read(ENDPOINTS, namespace=self._namespace, name=self._name)
        try:
            service = await self._writer.read(SERVICES, namespace=self._namespace, name=self._name)
        except NotFound as error:
            raise NothingToDo(self._where, f"expected a Service, found none: {error}") from None
        if (reason := reason_to_refuse(service)) is not None:
            raise (InputError if effective_selector(service) else NothingToDo)(self._where, reason)
        if needs_plan(service):
            await self._read_pods(service)
        manager = self._configuration.manager
        return HandoverState(service=service, manager=manager, slices=slices, endpoints=endpoints)

    def plan(self, state: HandoverState) -> ServicePlan:
        """Plan the Service with the Pods that were read last."""
        configuration = self._configuration
        cluster_state = ClusterState(
            demand=demand_of(self._nodes, configuration),
            node_zones={node.metadata.name: node_zone(node) for node in self._nodes},
            configuration=configuration,
            service_parts=self._service_parts,
            # The controller knows it soon after; until then hints in force stay.
            slice_groups_seen=None,
        )
        service = with_effective_selector(state.service)
        return plan_service(
            service, pods=self._pods, slices=state.slices, cluster_state=cluster_state, taken=self._taken
        )

    async def _read_pods(self, service: Service) -> None:
        selector = effective_selector(service) or {}
        self._pods = await self._list_selected(PODS, ",".join(f"{name}={value}" for name, value in selector.items()))
        known = {node.metadata.name for node in self._nodes}
        # Without its Node, a Pod would be ignored.
        if not known or any(pod.spec.node_name not in known for pod in self._pods if pod.spec.node_name):
            self._nodes = await list_all(self._connection, NODES)

    async def _list_selected(self, resource: WatchedResource[WatchedT], labels: str) -> tuple[WatchedT, ...]:
        path = resource.path(namespace=self._namespace)
        body = await self._connection.get(path, {"labelSelector": labels}, timeout=_READ_TIMEOUT)
        return decode_list(body, resource)

    # --- doing --------------------------------------------------------------------------------------------------------

    async def _run(self, next_step: NextStep, *, needs_plan: Callable[[Service], bool], settling: float) -> str:
        start = self._clock()
        failed: CallFailed | None = None
        waits = 0
        quiet_since: float | None = None
        waiting_since: float | None = None
        resting_since: float | None = None
        while True:
            read_at = self._clock()
            state = await self.read_state(needs_plan=needs_plan)
            step = next_step(state)
            now = self._clock()
            self._record_versions(state.built_in, now)
            if not (isinstance(step, ChangeService) and step.after_rest):
                resting_since = None
            elif resting_since is None:
                resting_since = now
            if isinstance(step, HandoverDone):
                quiet_since = now if quiet_since is None else quiet_since
                if now - quiet_since >= settling:
                    return step.about
                waits += 1
                await self._sleep(min(_POLL_BACKOFF.delay(waits), settling))
                continue
            if state.built_in or not isinstance(step, WriteSlices):
                # A Pod that flips causes repeated writes of Zoneward's slices while the built-in controller is idle.
                quiet_since = None
            if now - start > self._timeouts.total:
                raise failed or self._timed_out(step)
            if isinstance(step, WaitForOthers):
                waiting_since = now if waiting_since is None else waiting_since
                if step.otherwise is None or now - waiting_since < self._timeouts.label:
                    waits += 1
                    await self._sleep(_POLL_BACKOFF.delay(waits))
                    continue
                step = step.otherwise
            waiting_since = None
            left = 0.0
            if isinstance(step, DeleteSlices):
                left = self._seconds_until_still(step.slices, read_at)
            elif resting_since is not None:
                left = resting_since + self._timeouts.rest - read_at
            if left > 0:
                await self._sleep(left)
                continue
            try:
                await self._do(state, step)
            except CallFailed as error:
                if write_outcome(error) in (WriteOutcome.REFUSED, WriteOutcome.TERMINATING):
                    raise
                failed = error
                waits += 1
                await self._sleep(_POLL_BACKOFF.delay(waits))
            else:
                waits, failed = 0, None
                self._report(step.about)

    def _record_versions(self, built_in: Iterable[EndpointSlice], now: float) -> None:
        """Record when the slices of the built-in controller last changed."""
        previous = self._unchanged
        self._unchanged = {}
        for slice_ in built_in:
            name, version = slice_.metadata.name, slice_.metadata.resource_version
            known = previous.get(name)
            self._unchanged[name] = known if known is not None and known[0] == version else (version, now)

    def _seconds_until_still(self, slices: Iterable[EndpointSlice], read_at: float) -> float:
        """Seconds until none of these slices has changed for long enough before ``read_at``. Zoneward's slices may be
        deleted at any time."""
        since = (
            self._unchanged[slice_.metadata.name][1] for slice_ in slices if slice_.metadata.name in self._unchanged
        )
        return max((start + self._timeouts.still - read_at for start in since), default=0)

    async def _do(self, state: HandoverState, step: HandoverStep) -> None:
        if not self._is_announced:
            self._on_begin(state.service)
        self._is_announced = True
        writer, namespace, name = self._writer, self._namespace, self._name
        match step:
            case ChangeService(change=change):
                version = state.service.metadata.resource_version
                await self._sent(writer.patch(SERVICES, change, namespace=namespace, name=name, version=version))
            case LabelEndpoints(endpoints=endpoints):
                label = {"metadata": {"labels": {SKIP_MIRROR_LABEL: "true"}}}
                version = endpoints.metadata.resource_version
                await self._sent(writer.patch(ENDPOINTS, label, namespace=namespace, name=name, version=version))
            case DeleteEndpoints(endpoints=endpoints):
                await self._sent(writer.delete(ENDPOINTS, endpoints))
            case WriteSlices():
                await self._write(step)
            case DeleteSlices(slices=slices):
                for slice_ in slices:
                    await self._sent(writer.delete(SLICES, slice_))
            case _:
                raise AssertionError(step)

    async def _write(self, step: WriteSlices) -> None:
        for slice_ in step.create:
            try:
                await self._sent(self._writer.create(SLICES, slice_))
            except CallFailed as error:
                if write_outcome(error) is WriteOutcome.EXISTS:
                    # Created meanwhile, and read in the next round; or of another Service: then the next name is used.
                    self._taken.add(slice_.metadata.name)
                raise
        for slice_ in step.update:
            await self._sent(self._writer.update(SLICES, slice_))
        for slice_ in step.delete:
            await self._sent(self._writer.delete(SLICES, slice_))

    async def _sent(self, write: Awaitable[object]) -> None:
        was_begun, self.is_begun = self.is_begun, True
        try:
            await write
        except CallFailed as error:
            self.is_begun = was_begun or write_outcome(error) is WriteOutcome.UNKNOWN
            raise

    # --- errors -------------------------------------------------------------------------------------------------------

    def _timed_out(self, step: HandoverStep) -> InputError:
        if isinstance(step, DeleteSlices):
            names = ", ".join(slice_.metadata.name for slice_ in step.slices[:3])
            what = f"the built-in controller still writes {names}"
        else:
            what = step.about if not isinstance(step, WaitForOthers) else f"waited for {step.about}"
        timed_out = f"timed out after {self._timeouts.total:.3g} s: {what}"
        return InputError(self._where, f"{timed_out}. No endpoint is missing; repeat the command to continue")

    @property
    def _where(self) -> str:
        return f"Service {self._namespace}/{self._name}"


CONCURRENT_RELEASES: Final = 4
"""Each may wait for the built-in controller for a long time."""
RELEASE_BACKOFF: Final = Backoff(initial=5.0, cap=60.0)
"""After a release that failed."""


class ReleaseTasks:
    """The releases of Services, each in a separate task, a few at a time.

    ``on_end`` gets the Service whose task has ended: done, no longer needed, or cancelled. A failed release is
    retried after a pause.
    """

    def __init__(
        self,
        connection: ReadWriteConnection,
        *,
        configuration: Configuration,
        writer: Writer,
        log: Log,
        on_end: Callable[[ObjectKey], None],
        timeouts: HandoverTimeouts | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connection, self._configuration, self._writer = connection, configuration, writer
        self._log, self._on_end = log, on_end
        self._timeouts, self._sleep = timeouts, sleep
        self._slots = asyncio.Semaphore(CONCURRENT_RELEASES)
        self._tasks: dict[ObjectKey, asyncio.Task[None]] = {}
        self._unexpected = UnexpectedErrorLog(log)

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, key: ObjectKey) -> None:
        """Release a Service, unless its release is in progress."""
        if key in self._tasks:
            return
        task = self._tasks[key] = asyncio.create_task(self._release(key), name=f"releasing {'/'.join(key)}")
        # Not in the task itself: a task that is cancelled before its first step never runs.
        task.add_done_callback(partial(self._ended, key))

    def cancel(self) -> None:
        """Start no further step. The next leader continues."""
        for task in self._tasks.values():
            task.cancel()

    async def end(self) -> None:
        """Cancel all releases, and wait until nothing is written any more."""
        tasks = [*self._tasks.values()]
        self.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: ObjectKey, _task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        # The cache may be stale: then the Service is already released, or its release continues.
        self._on_end(key)

    async def _release(self, key: ObjectKey) -> None:
        log = self._log.bind(service="/".join(key))
        failures = 0
        while not await self._is_released(key, log):
            failures += 1
            await self._sleep(RELEASE_BACKOFF.delay(failures))

    async def _is_released(self, key: ObjectKey, log: Log) -> bool:
        """Try it once. Returns False if it has to be retried."""
        async with self._slots:
            handover = ServiceHandover(
                self._connection,
                key,
                configuration=self._configuration,
                report=lambda line: log.info("releasing a Service", step=line),
                writer=self._writer,
                timeouts=self._timeouts,
            )
            try:
                # Without a selector, the Service was adopted again.
                await handover.release(only_selected=True)
            except NothingToDo:
                return True
            except (CallFailed, InputError) as error:
                log.warning("failed to release a Service", error=str(error))
                return False
            except Exception as error:
                self._unexpected.error("internal error while releasing a Service", key, error)
                return False
        return True
