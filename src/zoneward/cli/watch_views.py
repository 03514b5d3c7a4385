"""What a watch tells, and how: as JSON lines, as lines of a log, or as a table on a terminal."""

import asyncio
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

import click

from zoneward.cli.current_plans import CurrentPlans
from zoneward.cli.options import Note, Options, table_width, tell, wants_color
from zoneward.cli.streaming import Stream
from zoneward.cli.terminal import Screen, is_screen
from zoneward.client.informer_cache import InformerCache
from zoneward.kube.safe_text import printable
from zoneward.report.decision_changes import DecisionChange, change_json, change_text, synced_json

if TYPE_CHECKING:
    from zoneward.kube.objects import ObjectKey
    from zoneward.report.terminal_text import Text

_REDRAW: Final = 0.25
"""Seconds between two pictures."""
_MARKED: Final = 3.0
"""Seconds for which a row stands out after it changed."""


class View(Protocol):
    """Tells what happens, each in its own form."""

    async def told(self, changes: Sequence[DecisionChange]) -> None: ...

    async def complete(self) -> None:
        """Every Service has been planned once."""
        ...

    async def run(self) -> None:
        """What goes on beside the changes; never returns."""
        ...

    def trouble(self, text: str | None, since: datetime) -> None:
        """The cluster is not heard any more, or, with None, is again."""
        ...

    def unreadable(self, text: str) -> None:
        """An object cannot be read and is set aside."""
        ...


def view_for(output: str, plans: CurrentPlans, cache: InformerCache, options: Options, *, server: str) -> View:
    """The form that ``-o`` asks for; a table is only drawn where there is a terminal."""
    if output == "json":
        return Lines(plans, cache, options)
    is_wide = output == "wide"
    if is_screen():
        return Drawn(plans, cache, options, wide=is_wide, server=server)
    return LogView(plans, cache, options, wide=is_wide)


class _Printed:
    """What both forms without a screen share: troubles are notes on standard error."""

    def __init__(self, plans: CurrentPlans, cache: InformerCache, options: Options) -> None:
        self._plans, self._cache, self._options = plans, cache, options
        self._stream = Stream()

    async def run(self) -> None:
        await self._stream.gone()

    def trouble(self, text: str | None, since: datetime) -> None:  # noqa: ARG002 -- the others' signature
        if text is not None:
            tell(self._options, [Note(f"{text}; trying again")])
        else:
            tell(self._options, [Note("the cluster answers again")])

    def unreadable(self, text: str) -> None:
        tell(self._options, [Note(text)])


class Lines(_Printed):
    """``-o json``: a line for each change."""

    def __init__(self, plans: CurrentPlans, cache: InformerCache, options: Options) -> None:
        super().__init__(plans, cache, options)
        self._decisions = 0

    async def told(self, changes: Sequence[DecisionChange]) -> None:
        now = datetime.now(UTC)
        self._decisions += sum((change.old is None) - (change.new is None) for change in changes)
        await self._stream.write(b"".join(change_json(change, now=now) for change in changes))

    async def complete(self) -> None:
        line = synced_json(services=len(self._plans.order), decisions=self._decisions, now=datetime.now(UTC))
        await self._stream.write(line)


class LogView(_Printed):
    """A table where there is no screen to draw it on: once in full, then a line for each change."""

    def __init__(self, plans: CurrentPlans, cache: InformerCache, options: Options, *, wide: bool) -> None:
        super().__init__(plans, cache, options)
        self._wide, self._is_complete = wide, False

    async def told(self, changes: Sequence[DecisionChange]) -> None:
        if self._is_complete and changes:
            now = datetime.now().astimezone()
            await self._print("".join(f"{printable(change_text(change, now=now))}\n" for change in changes))

    async def complete(self) -> None:
        from zoneward.report.plan_table import plan_table
        from zoneward.report.terminal_text import render_text

        plans, width = self._plans, table_width(wide=self._wide)
        table = plan_table(
            [plans[key] for key in plans.order],
            demand=plans.cluster_state.demand,
            configuration=plans.cluster_state.configuration,
            width=width,
            wide=self._wide,
        )
        self._is_complete = True
        await self._print(render_text(table, color=wants_color(self._options), width=width))

    async def _print(self, text: str) -> None:
        await self._stream.write(text.encode())


class Drawn:
    """A table on a terminal, drawn anew when something changes."""

    def __init__(self, plans: CurrentPlans, cache: InformerCache, options: Options, *, wide: bool, server: str) -> None:
        self._plans, self._cache, self._options = plans, cache, options
        self._wide, self._server = wide, server
        self._changed: dict[ObjectKey, float] = {}
        """When Services changed, by the monotonic clock; the latest is the last."""
        self._last = datetime.now().astimezone()
        self._trouble: tuple[str, datetime] | None = None
        self._is_complete = asyncio.Event()

    async def told(self, changes: Sequence[DecisionChange]) -> None:
        if not self._is_complete.is_set() or not changes:
            return
        now = time.monotonic()
        self._last = datetime.now().astimezone()
        for change in changes:
            key = (change.view.namespace, change.view.service)
            self._changed.pop(key, None)
            self._changed[key] = now

    async def complete(self) -> None:
        self._last = datetime.now().astimezone()
        self._is_complete.set()

    def trouble(self, text: str | None, since: datetime) -> None:
        if text is not None and not self._is_complete.is_set():
            tell(self._options, [Note(f"{text}; trying again")])
        self._trouble = None if text is None else (text, since.astimezone())

    def unreadable(self, text: str) -> None:
        # Once the table stands, it says how many there are.
        if not self._is_complete.is_set():
            tell(self._options, [Note(text)])

    async def run(self) -> None:
        await self._is_complete.wait()
        drawn: object = None
        terminal = Screen()
        try:
            with terminal:
                while True:
                    size, state = terminal.size, self._state()
                    if (size, state) != drawn:
                        drawn = size, state
                        terminal.draw(self.picture(*size, marked=self._marked()))
                    await asyncio.sleep(_REDRAW)
        finally:
            # The last picture stays in the terminal's own history, with room for a prompt below it.
            with suppress(OSError):
                width, height = terminal.size
                click.echo("\n".join(self.picture(width, height - 1, marked=())), color=True)

    def _state(self) -> object:
        """All that a picture shows; equal where it would be the same."""
        numbers = len(self._cache.pods), len(self._plans.order), len(self._cache.unreadable)
        return self._last, self._trouble, self._marked(), numbers

    def _marked(self) -> frozenset["ObjectKey"]:
        now = time.monotonic()
        return frozenset(key for key, then in self._changed.items() if now - then < _MARKED)

    def picture(self, width: int, height: int, *, marked: Collection["ObjectKey"]) -> list[str]:
        from zoneward.report.screens import watch_screen
        from zoneward.report.terminal_text import Terminal

        plans = self._plans
        known = set(plans.order)
        self._changed = {key: then for key, then in self._changed.items() if key in known}
        return watch_screen(
            [plans[key] for key in plans.order],
            latest=[*reversed(self._changed)],
            marked=marked,
            status=self._status(),
            demand=plans.cluster_state.demand,
            configuration=plans.cluster_state.configuration,
            terminal=Terminal(width, height, wants_color(self._options)),
            wide=self._wide,
        )

    def _status(self) -> "Text":
        from zoneward.report.terminal_text import Text

        services, pods = len(self._plans.order), len(self._cache.pods)
        counts = f"{services:,} Service{'' if services == 1 else 's'}, {pods:,} Pod{'' if pods == 1 else 's'}"
        text = Text(f"{self._last:%H:%M:%S}", "bold").append(f" last change  {counts}  ", "not bold")
        if unreadable := len(self._cache.unreadable):
            text.append(f"{unreadable:,} object{'' if unreadable == 1 else 's'} cannot be read  ", "bold red")
        if self._trouble is None:
            return text.append(self._server, "not bold dim")
        trouble, since = self._trouble
        return text.append(f"Not current since {since:%H:%M:%S}, trying again: {trouble}", "bold red")
