"""One Service taken over, or given back, on a running cluster: look, do the next step, look again.

Everything is read anew each time, past any cache. A running controller may do the same at the same time: names of new
slices are fixed, and whatever is changed or deleted is what was looked at, or nothing.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final, Protocol

from zoneward.client.api_errors import CallFailed, NotFound
from zoneward.client.backoff import Backoff
from zoneward.client.connection import Connection
from zoneward.client.listing import list_all, one_list
from zoneward.client.resources import ENDPOINTS, NODES, PODS, SERVICES, SLICES, Key, LiveNode, LivePod, Resource, T
from zoneward.client.writer import Outcome, Sender, Writer, outcome_of
from zoneward.controller.handover.adoption import (
    Await,
    ChangeService,
    DeleteEndpoints,
    DeleteSlices,
    Done,
    Following,
    LabelEndpoints,
    Legacy,
    Step,
    There,
    WriteSlices,
    next_adoption,
    next_release,
    refusal,
)
from zoneward.controller.sync.permissions import Right, check_rights
from zoneward.kube.adoption import SKIP_MIRROR_LABEL, selector_of, with_selector
from zoneward.kube.input_error import InputError
from zoneward.kube.names import SERVICE_NAME_LABEL
from zoneward.kube.objects import EndpointSlice, Service, zone_of
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan, plan_service

LIMIT: Final = 60.0
"""Seconds for all of it. It takes a few, most of them waiting for controllers."""
LABEL_LIMIT: Final = 10.0
"""Seconds for the Endpoints controller to copy a label; seen: two."""
SETTLING: Final = 2.0
"""Seconds for which a Service that was taken over is still looked at: the built-in controller may have begun a sync
before it let go, and write slices again that were deleted."""
STILL: Final = 1.0
"""Seconds for which a slice of the built-in controller has not changed before it is deleted. It may still wait for the
answer to its last write: were the slice gone before, it would wait for it for ever, and be stalled for this Service."""
_READ_LIMIT: Final = 30.0
_BACKOFF: Final = Backoff(initial=0.1, cap=1.0)
_RIGHTS: Final[tuple[Right, ...]] = (("PATCH", SERVICES), ("POST", SLICES), ("PUT", SLICES), ("DELETE", SLICES))


class Link(Connection, Sender, Protocol):
    """What this needs of a connection; `zoneward.client.transport` has it."""


class NothingToDo(InputError):  # noqa: N818 -- it may be as it should be
    """There is no such Service, or nothing says what it selects."""


class Adopting:
    """Steps of one Service, by its key. ``tell`` gets a line for each step once it is done.

    Both ways raise InputError for a Service that is not there or is refused, and where somebody does not do what is
    awaited within ``limit`` seconds; and CallFailed. Whatever happened, the same can be asked for again and goes on.
    """

    def __init__(
        self,
        connection: Link,
        key: Key,
        *,
        configuration: Configuration,
        tell: Callable[[str], None],
        writer: Writer | None = None,
        limit: float = LIMIT,
        label_limit: float = LABEL_LIMIT,
        settling: float = SETTLING,
        still: float = STILL,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connection, self._configuration, self._tell = connection, configuration, tell
        self._namespace, self._name = key
        self._writer = writer or Writer(connection)
        self._limit, self._label_limit, self._settling, self._still = limit, label_limit, settling, still
        self._clock, self._sleep = clock, sleep
        self._nodes: tuple[LiveNode, ...] = ()
        self._pods: tuple[LivePod, ...] = ()
        self._taken: set[str] = set()
        self._unchanged: dict[str, tuple[str | None, float]] = {}
        """By name of a slice of the built-in controller: its version, and when it was first read."""
        self.is_begun = False
        """Whether anything was written."""

    async def adopt(self, *, legacy: Legacy) -> str:
        """Until the Service is ours, and the built-in controller leaves it alone. Returns a line that says so."""
        more: tuple[Right, ...] = (("DELETE", ENDPOINTS),) if legacy == "delete" else ()
        await check_rights(self._connection, _RIGHTS + more, namespace=self._namespace)
        return await self._follow(
            lambda there: next_adoption(there, plan=self.plan, legacy=legacy),
            plans=lambda service: not service.spec.selector,
            settling=self._settling,
        )

    async def release(self, *, only_selected: bool = False) -> str:
        """Until the Service is as it was before it was adopted, or came back by itself. ``only_selected``: put no
        selector back, and end where it has none."""
        rights: tuple[Right, ...] = (("PATCH", SERVICES), ("DELETE", SLICES))
        await check_rights(self._connection, rights, namespace=self._namespace)

        def following(there: There) -> Step:
            if only_selected and not there.service.spec.selector:
                return Done("it is Zoneward's")
            return next_release(there, plan=self.plan)

        return await self._follow(
            following,
            plans=lambda service: bool(service.spec.selector),
            settling=0,
        )

    # --- reading ------------------------------------------------------------------------------------------------------

    async def look(self, *, plans: Callable[[Service], bool] = lambda _service: True) -> There:
        """What is there now. ``plans``: whether such a Service will be planned, for which its Pods are read too.

        Raises InputError where there is no such Service, or it is refused.
        """
        # The Service last: slices of ours that are older than a Service with a selector are none that are being made.
        slices = await self._selected(SLICES, f"{SERVICE_NAME_LABEL}={self._name}")
        endpoints = None
        with suppress(NotFound):
            endpoints = await self._writer.read(ENDPOINTS, namespace=self._namespace, name=self._name)
        try:
            service = await self._writer.read(SERVICES, namespace=self._namespace, name=self._name)
        except NotFound as error:
            raise NothingToDo(self._where, f"expected a Service, found none: {error}") from None
        if (reason := refusal(service)) is not None:
            raise (InputError if selector_of(service) else NothingToDo)(self._where, reason)
        if plans(service):
            await self._look_at_pods(service)
        manager = self._configuration.manager
        return There(service=service, manager=manager, slices=slices, endpoints=endpoints)

    def plan(self, there: There) -> ServicePlan:
        """With the Pods of the last look."""
        configuration = self._configuration
        cluster_state = ClusterState(
            demand=compute_demand(self._nodes, missing_cpu=configuration.hints.missing_cpu),
            node_zones={node.metadata.name: zone_of(node) for node in self._nodes},
            configuration=configuration,
        )
        service = with_selector(there.service)
        return plan_service(
            service, pods=self._pods, slices=there.slices, cluster_state=cluster_state, taken=self._taken
        )

    async def _look_at_pods(self, service: Service) -> None:
        selector = selector_of(service) or {}
        self._pods = await self._selected(PODS, ",".join(f"{name}={value}" for name, value in selector.items()))
        known = {node.metadata.name for node in self._nodes}
        # Without its Node a Pod would be left out.
        if not known or any(pod.spec.node_name not in known for pod in self._pods if pod.spec.node_name):
            self._nodes = await list_all(self._connection, NODES)

    async def _selected(self, resource: Resource[T], labels: str) -> tuple[T, ...]:
        path = resource.path(namespace=self._namespace)
        body = await self._connection.get(path, {"labelSelector": labels}, timeout=_READ_LIMIT)
        return one_list(body, resource)

    # --- doing --------------------------------------------------------------------------------------------------------

    async def _follow(self, following: Following, *, plans: Callable[[Service], bool], settling: float) -> str:
        start = self._clock()
        failed: CallFailed | None = None
        waits = 0
        quiet_since: float | None = None
        waiting_since: float | None = None
        while True:
            asked = self._clock()
            there = await self.look(plans=plans)
            step = following(there)
            now = self._clock()
            self._note(there.built_in, now)
            if isinstance(step, Done):
                quiet_since = now if quiet_since is None else quiet_since
                if now - quiet_since >= settling:
                    return step.about
                waits += 1
                await self._sleep(min(_BACKOFF.delay(waits), settling))
                continue
            quiet_since = None
            if now - start > self._limit:
                raise failed or self._late(step)
            if isinstance(step, Await):
                waiting_since = now if waiting_since is None else waiting_since
                if step.otherwise is None or now - waiting_since < self._label_limit:
                    waits += 1
                    await self._sleep(_BACKOFF.delay(waits))
                    continue
                step = step.otherwise
            waiting_since = None
            if isinstance(step, DeleteSlices) and (left := self._until_still(step.slices, asked)) > 0:
                await self._sleep(left)
                continue
            try:
                await self._do(there, step)
            except CallFailed as error:
                if outcome_of(error) in (Outcome.REFUSED, Outcome.TERMINATING):
                    raise
                failed = error
                waits += 1
                await self._sleep(_BACKOFF.delay(waits))
            else:
                waits, failed = 0, None
                self._tell(step.about)

    def _note(self, built_in: Iterable[EndpointSlice], now: float) -> None:
        """Slices of the built-in controller, as they were read before now."""
        before = self._unchanged
        self._unchanged = {}
        for each in built_in:
            name, version = each.metadata.name, each.metadata.resource_version
            known = before.get(name)
            self._unchanged[name] = known if known is not None and known[0] == version else (version, now)

    def _until_still(self, slices: Iterable[EndpointSlice], asked: float) -> float:
        """Seconds until none of them has changed for long enough, with a look that began when it was asked for. Ours
        may go at any time."""
        since = (self._unchanged[each.metadata.name][1] for each in slices if each.metadata.name in self._unchanged)
        return max((start + self._still - asked for start in since), default=0)

    async def _do(self, there: There, step: Step) -> None:
        self.is_begun = True
        writer, namespace, name = self._writer, self._namespace, self._name
        match step:
            case ChangeService(change=change):
                version = there.service.metadata.resource_version
                await writer.patch(SERVICES, change, namespace=namespace, name=name, version=version)
            case LabelEndpoints(endpoints=endpoints):
                label = {"metadata": {"labels": {SKIP_MIRROR_LABEL: "true"}}}
                version = endpoints.metadata.resource_version
                await writer.patch(ENDPOINTS, label, namespace=namespace, name=name, version=version)
            case DeleteEndpoints(endpoints=endpoints):
                await writer.delete(ENDPOINTS, endpoints)
            case WriteSlices():
                await self._write(step)
            case DeleteSlices(slices=slices):
                for each in slices:
                    await writer.delete(SLICES, each)
            case _:
                raise AssertionError(step)

    async def _write(self, step: WriteSlices) -> None:
        for each in step.create:
            try:
                await self._writer.create(SLICES, each)
            except CallFailed as error:
                if outcome_of(error) is Outcome.EXISTS:
                    # Made meanwhile, and found by the next look; or another Service's, and the next name is taken.
                    self._taken.add(each.metadata.name)
                raise
        for each in step.update:
            await self._writer.update(SLICES, each)
        for each in step.delete:
            await self._writer.delete(SLICES, each)

    # --- what is said when it fails -----------------------------------------------------------------------------------

    def _late(self, step: Step) -> InputError:
        if isinstance(step, DeleteSlices):
            names = ", ".join(each.metadata.name for each in step.slices[:3])
            what = f"the built-in controller still writes {names}"
        else:
            what = step.about if not isinstance(step, Await) else f"waited for {step.about}"
        return self._error(
            f"not within {self._limit:.3g} s: {what}. No endpoint is missing; the same command again goes on"
        )

    def _error(self, what: str) -> InputError:
        return InputError(self._where, what)

    @property
    def _where(self) -> str:
        return f"Service {self._namespace}/{self._name}"
