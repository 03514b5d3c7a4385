"""What the demo shows: the log of what happened, and a view of it as lines or on a screen."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from zoneward.cli.live_output import Screen, Stream, is_screen
from zoneward.cli.options import Options
from zoneward.cli.output import table_width, wants_color
from zoneward.client.informer_cache import InformerCache
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.kube.objects import ObjectKey, has_ready_condition
from zoneward.report.decision_changes import counted_writes, describe_write, shares_of_demand
from zoneward.report.plan_table import total_traffic
from zoneward.report.screens import LogLine, ZoneStatus, demo_screen, log_text
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand, is_node_ready
from zoneward.slices.plan import ServicePlan

if TYPE_CHECKING:
    from rich.console import RenderableType

    from zoneward.report.terminal_text import Text

_REDRAW: Final = 0.1
"""Seconds between two checks for something new to draw."""
_PLAIN: Final = 0.05
_MARKED: Final = 0.5
"""Seconds for which a row is marked after it was written."""


class DemoStory:
    """What happened so far: the last plan of each Service and a log. Times are seconds since it was made."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._begin = clock, clock()
        self._plans: dict[ObjectKey, ServicePlan] = {}
        self._changed: dict[ObjectKey, float] = {}
        self.log: Final[list[LogLine]] = []
        self.events = 0
        """Events of Services that were written."""

    @property
    def seconds(self) -> float:
        return self._clock() - self._begin

    @property
    def plans(self) -> list[ServicePlan]:
        """The last plan of each Service, in the order of their names."""
        return [self._plans[key] for key in sorted(self._plans)]

    def marked(self, seconds: float) -> frozenset[ObjectKey]:
        """The Services that were written within the last ``seconds``."""
        now = self.seconds
        return frozenset(key for key, then in self._changed.items() if now - then < seconds)

    def record_action(self, line: str) -> None:
        """The script changed the cluster."""
        self.log.append(LogLine(self.seconds, "", line))

    def record_write(self, plan: ServicePlan) -> None:
        """Everything that a plan asks for is written."""
        key = plan.service.metadata.namespace, plan.service.metadata.name
        before, is_written = self._plans.get(key), bool(plan.events) or any(counted_writes(plan).values())
        # The traffic may change although nothing has to be written.
        if is_written or (before is not None and shares_of_demand(plan) != shares_of_demand(before)):
            self.log.append(LogLine(self.seconds, "/".join(key), describe_write(before, plan)))
        if is_written:
            self._changed[key] = self.seconds
        self.events += len(plan.events)
        self._plans[key] = plan

    def record_decision(self, plan: ServicePlan) -> None:
        """A Service was planned again. Its writes and Events are recorded when they are written, not here."""
        if not any(counted_writes(plan).values()):
            self.record_write(replace(plan, events=()))

    def forget(self, key: ObjectKey) -> None:
        """A Service was deleted."""
        self._plans.pop(key, None)
        self._changed.pop(key, None)


class StoryMetrics(ControllerMetrics):
    """The metrics of the controller, which also record each sync in the story."""

    def __init__(self, story: DemoStory) -> None:
        super().__init__()
        self._story = story

    def record_sync(self, plan: ServicePlan) -> None:
        super().record_sync(plan)
        self._story.record_write(plan)

    def forget_service(self, service: ObjectKey) -> None:
        super().forget_service(service)
        self._story.forget(service)


# --- what is shown ----------------------------------------------------------------------------------------------------


def demo_view(story: DemoStory, cache: InformerCache, *, length: float, plain: bool) -> "DemoText | DemoScreen":
    """A screen on a terminal, otherwise lines. ``length``: about how many seconds the demo will take."""
    if not plain and is_screen():
        return DemoScreen(story, cache, length=length)
    return DemoText(story, cache)


class DemoText:
    """Each line of the log as it comes, and at the end a table. `run` never returns; `end` shows the rest."""

    def __init__(self, story: DemoStory, cache: InformerCache) -> None:
        self._story, self._cache = story, cache
        self._stream, self._printed, self._names = Stream(), 0, 0

    async def run(self) -> None:
        while True:
            await self._print_log()
            await asyncio.sleep(_PLAIN)

    async def end(self) -> None:
        from rich.console import Group

        from zoneward.report.terminal_text import render_text

        await self._print_log()
        width = table_width()
        table = Group(*_table(self._story, self._cache, width))
        await self._stream.write(f"\n{render_text(table, color=wants_color(Options()), width=width)}\n".encode())

    async def _print_log(self) -> None:
        while self._printed < len(self._story.log):
            line = self._story.log[self._printed]
            self._printed += 1
            self._names = max(self._names, len(line.name))
            await self._stream.write(f"{log_text(line, names=self._names).plain}\n".encode())


class DemoScreen:
    """Tables and log on a terminal, drawn again when something changes. `run` never returns."""

    def __init__(self, story: DemoStory, cache: InformerCache, *, length: float) -> None:
        self._story, self._cache, self._length = story, cache, length

    async def run(self) -> None:
        with Screen() as terminal:
            await terminal.follow(self._state, self.picture, every=_REDRAW)

    async def end(self) -> None:
        """Leave the last picture in the history of the terminal, with room below it for the summary."""
        from zoneward.report.terminal_text import render_text

        with suppress(OSError):
            width, height = Screen().size
            click.echo("\n".join(self.picture(width, height - 7, is_last=True)), color=True)
            legend = _table(self._story, self._cache, width)[-1]
            click.echo(render_text(legend, color=wants_color(Options()), width=width), color=True)

    def picture(self, width: int, height: int, *, is_last: bool = False) -> list[str]:
        from zoneward.report.terminal_text import Terminal

        story = self._story
        return demo_screen(
            story.plans,
            marked=() if is_last else story.marked(_MARKED),
            zones=zones_now(self._cache),
            status=self._status(is_last=is_last),
            log=story.log,
            demand=compute_demand(self._cache.nodes),
            configuration=Configuration(),
            terminal=Terminal(width, height, wants_color(Options())),
        )

    def _state(self) -> object:
        """All that a picture shows: equal states give equal pictures."""
        story = self._story
        return int(story.seconds), len(story.log), story.marked(_MARKED), zones_now(self._cache)

    def _status(self, *, is_last: bool) -> "Text":
        from zoneward.report.terminal_text import Text

        total = total_traffic(self._story.plans)
        text = Text().append("zoneward demo", "bold")
        seconds = f"{self._story.seconds:.0f}" + ("" if is_last else f" of {self._length:.0f}")
        text.append(f"  {seconds} s", "dim")
        if total is not None:
            in_zone, _, worst = total
            text.append("  in its zone ").append(f"{in_zone:.0%}", "bold green")
            text.append(" of all traffic, worst overload ").append(f"+{worst.max_overload:.0%}", "bold")
        return text


def _table(story: DemoStory, cache: InformerCache, width: int) -> Sequence["RenderableType"]:
    """The table as other commands print it, in parts, without the last line, which is about their options."""
    from zoneward.report.plan_table import plan_parts
    from zoneward.report.terminal_text import StyledText, join_wrapped

    parts = plan_parts(story.plans, demand=compute_demand(cache.nodes), configuration=Configuration())
    *above, legend = parts.for_terminal(width).renderables
    assert isinstance(legend, StyledText)
    return *above, join_wrapped(legend.split("\n")[:-1])


def zones_now(cache: InformerCache) -> Sequence[ZoneStatus]:
    """Every zone that has a Node, with what is ready there."""
    demand = compute_demand(cache.nodes)
    return tuple(_zone_now(cache, zone, demand.share(zone)) for zone in cache.zones())


def _zone_now(cache: InformerCache, zone: str, share: float) -> ZoneStatus:
    nodes = cache.nodes_in(zone)
    pods = [pod for node in nodes for pod in cache.pods_on(node.metadata.name)]
    return ZoneStatus(
        zone=zone,
        share=share,
        nodes=len(nodes),
        ready_nodes=sum(map(is_node_ready, nodes)),
        pods=len(pods),
        ready_pods=sum(
            pod.metadata.deletion_timestamp is None and has_ready_condition(pod.status.conditions) for pod in pods
        ),
    )
