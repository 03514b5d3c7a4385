"""``plan --watch``: follow a cluster and show every change of a decision: as JSON, as lines of text, or on a screen."""

import asyncio
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

import click

from zoneward.cli.cluster_input import access_for, configuration_for, no_services, services_in
from zoneward.cli.interrupts import INTERRUPTED
from zoneward.cli.live_output import Screen, Stream, first_to_end, is_screen
from zoneward.cli.live_plans import CurrentPlans
from zoneward.cli.options import Options
from zoneward.cli.output import Note, table_width, tell, wants_color
from zoneward.client.api_errors import CallFailed
from zoneward.client.cache import Cache
from zoneward.client.error_messages import complaint, shown_server
from zoneward.client.following import follow
from zoneward.client.transport import Transport
from zoneward.client.unreadable import Unreadable, left_out
from zoneward.client.watch_health import Standing
from zoneward.kube.gc_tuning import freeze_objects, restore_gc, without_gc
from zoneward.kube.visible import visible
from zoneward.report.decision_changes import DecisionChange, change_json, change_text, synced_json
from zoneward.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from zoneward.client.access import Access
    from zoneward.client.resources import Key
    from zoneward.report.terminal_text import Text

WATCHABLE: Final = ("table", "wide", "json")
_SETTLING: Final = 0.1
"""Seconds from the first change to the plans: what belongs together, a Pod and its slice, comes close together."""
_REST: Final = 4.0
"""Times as long as planning took there is none: under any churn it takes no more than a fifth of a core."""
_LONGEST_REST: Final = 2.0
_LONGEST_STEP: Final = 0.05
"""Seconds of planning after which the cluster is listened to again."""
_SLOW: Final = 5.0
"""Seconds of reading the cluster after which a user wonders."""
_LOOK: Final = 0.5
"""Seconds between two looks at whether the connection stands."""
_REDRAW: Final = 0.25
"""Seconds between two pictures."""
_MARKED: Final = 3.0
"""Seconds for which a row stands out after it changed."""


def check_usage(options: Options, output: str) -> None:
    """Raises a usage error."""
    if options.files or options.sample:
        given = "-f" if options.files else "--sample"
        raise click.UsageError(f"--watch: expected neither -f nor --sample with it, got {given}: only a live cluster"
                               " can be watched")  # fmt: skip
    if output not in WATCHABLE:
        raise click.UsageError(f"--watch: expected one of {', '.join(WATCHABLE)} for -o, got {output!r}")


def watch_for(options: Options, output: str) -> int:
    """Watch until Ctrl-C, and return its exit status. Raises InputError or a usage error before anything is told, and
    BrokenPipeError when nobody reads any more.
    """
    check_usage(options, output)
    configuration = configuration_for(options)
    access, namespace = access_for(options)
    unreadable: list[Unreadable] = []
    cache, changed = Cache(on_unreadable=unreadable.append), asyncio.Event()
    plans = CurrentPlans(cache, options=options, configuration=configuration, waiting=changed.set)
    try:
        asyncio.run(_watch(access, namespace, plans, cache, changed, unreadable, options=options, output=output))
    except KeyboardInterrupt:
        return INTERRUPTED
    except CallFailed as error:
        raise complaint(error, access, now=datetime.now(UTC)) from error
    finally:
        restore_gc()
    raise AssertionError("a watch has no end")


async def _watch(
    access: "Access",
    namespace: str | None,
    plans: CurrentPlans,
    cache: Cache,
    changed: asyncio.Event,
    unreadable: list[Unreadable],
    *,
    options: Options,
    output: str,
) -> None:
    async with Transport(access) as transport:
        standing = Standing(transport, clock=time.monotonic)
        view = view_for(output, plans, cache, options, server=shown_server(access))
        await first_to_end(
            follow(standing, cache, namespace=namespace, patient=False, on_trouble=standing.trouble),
            _plan(plans, cache, changed, view, options),
            _look(standing, access, unreadable, view),
            view.run(),
        )


async def _plan(plans: CurrentPlans, cache: Cache, changed: asyncio.Event, view: "View", options: Options) -> None:
    with without_gc():
        try:
            async with asyncio.timeout(_SLOW):
                await cache.synced.wait()
        except TimeoutError:
            tell(options, [Note("still reading the cluster")])
            await cache.synced.wait()
        there = Snapshot(services=tuple(cache.services))
        # Raises for a name that no Service has.
        if not services_in(there, options):
            tell(options, [no_services(there)])
        plans.begin()
        changed.clear()
        await _update(plans, view)
        await view.complete()
    # What is there now will mostly stay: no need to look through it for garbage.
    freeze_objects()
    rested = time.monotonic()
    while True:
        await changed.wait()
        await asyncio.sleep(max(_SETTLING, rested - time.monotonic()))
        changed.clear()
        start = time.monotonic()
        await _update(plans, view)
        end = time.monotonic()
        rested = end + min(_REST * (end - start), _LONGEST_REST)


async def _update(plans: CurrentPlans, view: "View") -> None:
    """Tell what changed as soon as it is known, and listen in between."""
    start, told = time.monotonic(), list[DecisionChange]()
    for changes in plans.update():
        told += changes
        if time.monotonic() - start > _LONGEST_STEP:
            await view.told(told)
            await asyncio.sleep(0)
            start, told = time.monotonic(), []
    await view.told(told)


async def _look(standing: Standing, access: "Access", unreadable: list[Unreadable], view: "View") -> None:
    """Tell the view when the connection is lost, when its trouble becomes another, and when it is back; and of objects
    that cannot be read."""
    last: str | None = None
    while True:
        while unreadable:
            view.unreadable(left_out(unreadable.pop(0)))
        trouble, now = standing.lasting, datetime.now(UTC)
        since, text = now, None
        if trouble is not None:
            since -= timedelta(seconds=time.monotonic() - trouble[0])
            text = str(complaint(trouble[1], access, now=now))
        if text != last:
            view.trouble(text, since)
            last = text
        await asyncio.sleep(_LOOK)


# --- what is shown ----------------------------------------------------------------------------------------------------


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


def view_for(output: str, plans: CurrentPlans, cache: Cache, options: Options, *, server: str) -> View:
    """The form that ``-o`` asks for; a table is only drawn where there is a terminal."""
    if output == "json":
        return Lines(plans, cache, options)
    is_wide = output == "wide"
    if is_screen():
        return Drawn(plans, cache, options, wide=is_wide, server=server)
    return LogView(plans, cache, options, wide=is_wide)


class _Printed:
    """What both forms without a screen share: troubles are notes on standard error."""

    def __init__(self, plans: CurrentPlans, cache: Cache, options: Options) -> None:
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

    def __init__(self, plans: CurrentPlans, cache: Cache, options: Options) -> None:
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

    def __init__(self, plans: CurrentPlans, cache: Cache, options: Options, *, wide: bool) -> None:
        super().__init__(plans, cache, options)
        self._wide, self._is_complete = wide, False

    async def told(self, changes: Sequence[DecisionChange]) -> None:
        if self._is_complete and changes:
            now = datetime.now().astimezone()
            await self._print("".join(f"{visible(change_text(change, now=now))}\n" for change in changes))

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

    def __init__(self, plans: CurrentPlans, cache: Cache, options: Options, *, wide: bool, server: str) -> None:
        self._plans, self._cache, self._options = plans, cache, options
        self._wide, self._server = wide, server
        self._changed: dict[Key, float] = {}
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

    def _marked(self) -> frozenset["Key"]:
        now = time.monotonic()
        return frozenset(key for key, then in self._changed.items() if now - then < _MARKED)

    def picture(self, width: int, height: int, *, marked: Collection["Key"]) -> list[str]:
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
