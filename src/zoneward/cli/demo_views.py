"""What a demonstration shows: lines as they come, or a screen."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

import click

from zoneward.cli.demo_story import Story
from zoneward.cli.options import Options, table_width, wants_color
from zoneward.cli.streaming import Stream
from zoneward.cli.terminal import Screen, is_screen
from zoneward.client.informer_cache import InformerCache
from zoneward.kube.objects import has_ready_condition
from zoneward.report.screens import ZoneStatus, demo_screen, log_text, total_traffic
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand, is_node_ready

if TYPE_CHECKING:
    from rich.console import RenderableType

    from zoneward.report.terminal_text import Text

_REDRAW: Final = 0.1
"""Seconds between two looks at whether there is something new to draw."""
_PLAIN: Final = 0.05
_MARKED: Final = 0.5
"""Seconds for which a row stands out after it was written."""


class View(Protocol):
    async def run(self) -> None:
        """Show what happens; never returns."""
        ...

    async def end(self) -> None:
        """Show what has not been shown, when `run` is over."""
        ...


def view_for(story: Story, cache: InformerCache, *, length: float, plain: bool) -> View:
    """``length``: about how many seconds it will take."""
    if not plain and is_screen():
        return Drawn(story, cache, length=length)
    return Lines(story, cache)


class Lines:
    """Each line of the log as it comes, and at the end a table."""

    def __init__(self, story: Story, cache: InformerCache) -> None:
        self._story, self._cache = story, cache
        self._stream, self._told, self._names = Stream(), 0, 0

    async def run(self) -> None:
        while True:
            await self._tell()
            await asyncio.sleep(_PLAIN)

    async def end(self) -> None:
        from rich.console import Group

        from zoneward.report.terminal_text import render_text

        await self._tell()
        width = table_width()
        table = Group(*_table(self._story, self._cache, width))
        await self._stream.write(f"\n{render_text(table, color=wants_color(Options()), width=width)}\n".encode())

    async def _tell(self) -> None:
        while self._told < len(self._story.log):
            line = self._story.log[self._told]
            self._told += 1
            self._names = max(self._names, len(line.name))
            await self._stream.write(f"{log_text(line, names=self._names).plain}\n".encode())


class Drawn:
    """All of it on a terminal, drawn anew when something changes."""

    def __init__(self, story: Story, cache: InformerCache, *, length: float) -> None:
        self._story, self._cache, self._length = story, cache, length

    async def run(self) -> None:
        drawn: object = None
        with Screen() as terminal:
            while True:
                size, state = terminal.size, self._state()
                if (size, state) != drawn:
                    drawn = size, state
                    terminal.draw(self.picture(*size))
                await asyncio.sleep(_REDRAW)

    async def end(self) -> None:
        """The last picture stays in the terminal's own history, with room below it for what is said at the end."""
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
        """All that a picture shows; equal where it would be the same."""
        story = self._story
        return int(story.seconds), len(story.log), story.marked(_MARKED), zones_now(self._cache)

    def _status(self, *, is_last: bool) -> "Text":
        from zoneward.report.terminal_text import Text

        everything = total_traffic(self._story.plans)
        text = Text().append("zoneward demo", "bold")
        seconds = f"{self._story.seconds:.0f}" + ("" if is_last else f" of {self._length:.0f}")
        text.append(f"  {seconds} s", "dim")
        if everything.in_zone is not None:
            text.append("  in its zone ").append(f"{everything.in_zone:.0%}", "bold green")
            text.append(" of all traffic, worst overload ").append(f"+{everything.worst:.0%}", "bold")
        return text


def _table(story: Story, cache: InformerCache, width: int) -> Sequence["RenderableType"]:
    """The table as other commands print it, in parts; without the last line, which speaks of their options."""
    from rich.console import Group

    from zoneward.report.plan_table import plan_table
    from zoneward.report.terminal_text import StyledText, join_lines

    table = plan_table(story.plans, demand=compute_demand(cache.nodes), configuration=Configuration(), width=width)
    assert isinstance(table, Group)
    *above, legend = table.renderables
    assert isinstance(legend, StyledText)
    return *above, join_lines(legend.split("\n")[:-1])


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
