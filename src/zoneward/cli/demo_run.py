"""The work of ``zoneward demo``: a sandbox, a controller on it, and a script that changes the cluster."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from zoneward import sample
from zoneward.advice.cluster_abilities import ClusterAbilities
from zoneward.advice.comparison import ComparisonTotals, recommend
from zoneward.advice.node_proxies import PROXY_KINDS, same_proxy_everywhere
from zoneward.advice.service_input import ServiceInput
from zoneward.cli.demo_views import DemoStory, StoryMetrics, demo_view
from zoneward.cli.live_output import INTERRUPTED, run_until_first_ends
from zoneward.cli.output import atomic_file, print_line
from zoneward.client.api_errors import CallFailed
from zoneward.client.auth.client_config import ClientConfig, ClusterInfo, UserInfo
from zoneward.client.transport import Transport
from zoneward.client.writer import Writer
from zoneward.controller.context import ControllerContext, ControllerOptions
from zoneward.controller.controller_configuration import Mode
from zoneward.controller.controller_metrics import Operation
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.queue.work_queue import Batching
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.daemon.metrics import counter_total
from zoneward.kube.gc_tuning import frozen_objects
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import node_zone
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.routing.phrases import counted
from zoneward.routing.what_if import NO_APPROACH
from zoneward.sandbox.play.driver import play as perform
from zoneward.sandbox.play.play_file import Play, play_from
from zoneward.sandbox.server.persistence import new_registry, save_objects
from zoneward.sandbox.server.resource_registry import Registry
from zoneward.sandbox.server.sandbox_server import SandboxServer
from zoneward.slices.cluster_state import ClusterState

_AFTER: Final = 3.0
"""Seconds of the play from its last step to its end."""
_PERIOD: Final = 0.5
"""Seconds for which changes of a Service are batched, so that a person can follow the log."""
_STEP: Final = 0.005
"""Seconds between two checks of the clock of the play, at least."""
_POLL: Final = 0.05
"""Seconds between two checks of the Nodes."""
_LAST: Final = 3.0
"""Seconds, at most, until everything is written at the end."""
_CHECKS: Final = 10
"""How many times in a row everything must be done: a change takes a moment to reach the controller."""
_LONGEST_WAIT: Final = 3.0
"""Seconds of waiting for one moment, at most; then the play continues in any case."""
_LONGEST_WAIT_IN_ALL: Final = 12.0
_BEFORE: Final = 0.002


def run_demo(*, speed: float, plain: bool, save: Path | None) -> int:
    """Returns the exit status. Raises InputError for a file that cannot be written, and BrokenPipeError when the reader
    of standard output is gone.
    """
    source = sample.play()
    play = play_from(source.name, source.read_bytes())
    play = replace(play, speed=play.speed * speed)
    try:
        return _show(play, plain=plain, save=save)
    except KeyboardInterrupt:
        return INTERRUPTED


def _show(play: Play, *, plain: bool, save: Path | None) -> int:
    registry, story = new_registry(), DemoStory()
    with ExitStack() as stack:
        # A file that cannot be written is reported at once, not after the demo.
        stream = None if save is None else stack.enter_context(atomic_file(save, option="--save", private=True))
        # These objects stay: the garbage collector need not search them.
        stack.enter_context(frozen_objects())
        try:
            asyncio.run(_run(play, registry, story, plain=plain))
        except CallFailed as error:
            raise InputError("the sandbox", f"expected an answer, got: {error}") from error
        if stream is not None:
            save_objects(registry, stream)
    return 0


async def _run(play: Play, registry: Registry, story: DemoStory, *, plain: bool) -> None:
    end = max((step.at for step in play.steps), default=0.0) + _AFTER
    async with AsyncExitStack() as stack:
        try:
            serving = await stack.enter_async_context(SandboxServer(registry, ends_pods=False))
        except OSError as error:
            raise InputError("127.0.0.1", f"expected a port that is free, got: {error.strerror}") from error
        access = ClientConfig(cluster=ClusterInfo(server=serving.address), user=UserInfo())
        transport = await stack.enter_async_context(Transport(access, is_terminal=False))
        writer = Writer(transport)
        status_writer = StatusWriter(writer, instance="demo")
        context = ControllerContext(
            connection=transport,
            writer=writer,
            configuration=Configuration(),
            mode=Mode.TAKE_OVER,
            status_writer=status_writer,
            metrics=StoryMetrics(story),
        )
        options = ControllerOptions(batching=Batching(period=_PERIOD / play.speed))
        controller = EndpointSliceController(context, options)
        view = demo_view(story, controller.cache, length=end / play.speed, plain=plain)

        async def play_to_end() -> None:
            await _run_play(play, registry, controller, story, until=end)
            await controller.wait_until_idle(_LAST)
            await status_writer.wait_until_written(_LAST)
            _refresh(controller, story)

        await run_until_first_ends(play_to_end(), controller.run(), _follow(controller, story), view.run())
        await view.end()
        for line in _summary(controller, story):
            print_line(line)


def _moments(play: Play) -> Iterator[float]:
    """The moments at which something begins that the viewer should see on its own."""
    for step in play.steps:
        yield step.at
        if (outage := step.outage) is not None:
            noticed = step.at + outage.noticed_after
            yield from (noticed, noticed + outage.evicted_after)
            if outage.duration is not None:
                yield step.at + outage.duration


async def _run_play(
    play: Play, registry: Registry, controller: EndpointSliceController, story: DemoStory, *, until: float
) -> None:
    seen = -1

    def is_done() -> bool:
        nonlocal seen
        before, seen = seen, registry.store.version
        return before == seen and controller.is_idle

    def record_line(line: str) -> None:
        _, is_step, what = line.partition(": ")
        if is_step:
            story.record_action(what)

    clock = PausingClock([moment / play.speed for moment in _moments(play)], is_done=is_done)
    await perform(play, registry, clock=clock.now, sleep=clock.sleep, on_line=record_line, until=until)


async def _follow(controller: EndpointSliceController, story: DemoStory) -> None:
    """Record decisions that change with the Nodes although nothing has to be written."""
    known = compute_demand(controller.cache.nodes)
    while True:
        await asyncio.sleep(_POLL)
        demand = compute_demand(controller.cache.nodes)
        if demand != known and controller.is_idle:
            known = demand
            _refresh(controller, story)


def _refresh(controller: EndpointSliceController, story: DemoStory) -> None:
    for plan in story.plans:
        fresh = controller.decision(plan.service.metadata.namespace, plan.service.metadata.name)
        if fresh is not None:
            story.record_decision(fresh)


def _summary(controller: EndpointSliceController, story: DemoStory) -> list[str]:
    """What was written, and its effect on traffic, computed as ``zoneward compare`` does."""
    writes, cache = controller.metrics.writes, controller.cache
    cluster_state = ClusterState(
        demand=compute_demand(cache.nodes),
        node_zones={node.metadata.name: node_zone(node) for node in cache.nodes},
        configuration=Configuration(),
    )
    abilities = ClusterAbilities(controller=True, slice_groups=True)
    totals = ComparisonTotals()
    for plan in story.plans:
        name = plan.service.metadata.namespace, plan.service.metadata.name
        service = ServiceInput(
            plan.service, tuple(cache.nodes), tuple(cache.pods_of(*name)), tuple(cache.slices_of(*name)), cluster_state
        )
        proxies = same_proxy_everywhere(cache.nodes, PROXY_KINDS["zoneward"])
        for compared in recommend(service, node_proxies=proxies, abilities=abilities, approaches=(NO_APPROACH,)):
            totals.add(compared.comparison)
    kinds = (Operation.CREATE, "created"), (Operation.UPDATE, "updated"), (Operation.DELETE, "deleted")
    lines = [
        f"{counted(len(story.plans), 'Service')} in {story.seconds:.0f} s: slices "
        + ", ".join(f"{counter_total(writes, operation=operation.value)} {what}" for operation, what in kinds)
        + f"; {counted(story.events, 'Event')} written."
    ]
    shares = [row.in_zone_traffic for row in totals.rows(abilities)]
    if len(shares) == 2 and None not in shares:
        lines.append(
            f"{shares[0]:.0%} of the traffic stays in its zone; {shares[1]:.0%} would if every zone used all endpoints."
        )
    lines.append("On your own cluster: zoneward advise (it only reads).")
    return lines


# --- the clock of the play --------------------------------------------------------------------------------------------


class PausingClock:
    """The time of a play. It stops before each of ``moments`` (seconds from the start) until ``is_done`` returns true:
    the effects of a step are over before the next step.
    """

    def __init__(self, moments: Iterable[float], *, is_done: Callable[[], bool]) -> None:
        self._moments, self._is_done = sorted(set(moments), reverse=True), is_done
        self._clock = asyncio.get_running_loop().time
        self._start, self._begin, self._paused = datetime.now(UTC), self._clock(), 0.0
        self._is_before = False
        """Whether the actions that are due before the next moment have been run."""

    def now(self) -> datetime:
        passed = min(self._passed, self._moments[-1] - _BEFORE) if self._moments else self._passed
        return self._start + timedelta(seconds=passed)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, _STEP) if seconds else 0)
        if seconds and self._moments and self._passed >= self._moments[-1]:
            if self._is_before:
                await self._pause()
            self._is_before = not self._is_before

    async def _pause(self) -> None:
        limit, quiet = self._clock() + min(_LONGEST_WAIT, _LONGEST_WAIT_IN_ALL - self._paused), 0
        while quiet < _CHECKS and self._clock() < limit:
            await asyncio.sleep(_STEP)
            quiet = quiet + 1 if self._is_done() else 0
        self._paused += self._passed - self._moments.pop()

    @property
    def _passed(self) -> float:
        return self._clock() - self._begin - self._paused
