"""``plan --watch``: follow a cluster and show every change of a decision: as JSON, as lines of text, or on a screen."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Final

import click

from zoneward.cli.cluster_input import (
    failed_calls,
    filter_services,
    find_cluster,
    know_cluster_demand,
    load_configuration,
    namespaces_without_objects,
    no_services_note,
    refuse_unknown_namespaces,
)
from zoneward.cli.known_demand import KnownDemand
from zoneward.cli.live_output import INTERRUPTED, Screen, Stream, is_screen, run_until_first_ends
from zoneward.cli.live_plans import LivePlans
from zoneward.cli.options import Options
from zoneward.cli.output import Note, print_notes, row_width, wants_color
from zoneward.cli.planned_services import proxy_notes
from zoneward.client.error_messages import redacted_server, to_input_error
from zoneward.client.informer_cache import InformerCache
from zoneward.client.informers import WatchHealth, run_informers
from zoneward.client.list_pager import ListScope
from zoneward.client.list_watch_decoder import UnreadableObject, skipped_message
from zoneward.client.optional_objects import list_proxy_objects
from zoneward.client.reflector import ReflectorSettings
from zoneward.client.transport import Transport
from zoneward.kube.gc_tuning import freeze_objects, restore_gc, without_gc
from zoneward.kube.safe_text import printable
from zoneward.report.decision_changes import DecisionChange, change_json, change_text, synced_json
from zoneward.snapshots.cluster_snapshot import Snapshot

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig
    from zoneward.client.transport_interface import ReadTransport
    from zoneward.kube.objects import ObjectKey
    from zoneward.report.table_parts import TableParts
    from zoneward.report.terminal_text import Text
    from zoneward.slices.plan import ServicePlan

_WATCHABLE: Final = ("table", "wide", "json")
_DEBOUNCE: Final = 0.1
"""Seconds from the first change to planning: related events, of a Pod and its slice, come close together."""
_REST_FACTOR: Final = 4.0
"""After planning, wait this many times as long as it took: under any churn it takes at most a fifth of a core."""
_LONGEST_REST: Final = 2.0
_LONGEST_STEP: Final = 0.05
"""Seconds of planning after which the watches are read again."""
_SLOW: Final = 5.0
"""Seconds of reading the cluster after which a note says so."""
_POLL: Final = 0.5
"""Seconds between two checks of the connection."""
_REDRAW: Final = 0.25
"""Seconds between two pictures."""
_MARKED: Final = 3.0
"""Seconds for which a row is marked after it changed."""


def _check_usage(options: Options, output: str) -> None:
    """Raises a usage error."""
    if options.files or options.sample:
        given = "-f" if options.files else "--sample"
        raise click.UsageError(f"--watch: expected neither -f nor --sample with it, got {given}: only a live cluster"
                               " can be watched")  # fmt: skip
    options.changes.refuse("expected no --watch with it: a watch shows the cluster as it is")
    if output not in _WATCHABLE:
        raise click.UsageError(f"--watch: expected one of {', '.join(_WATCHABLE)} for -o, got {output!r}")


def watch_plans(options: Options, output: str) -> int:
    """Watch until Ctrl-C, and return its exit status. Raises InputError or a usage error before anything is shown, and
    BrokenPipeError when the reader of standard output is gone.
    """
    _check_usage(options, output)
    configuration = load_configuration(options)
    access, namespaces = find_cluster(options)
    known_demand = know_cluster_demand(configuration, access)
    print_notes(options, known_demand.notes)
    try:
        with failed_calls(access):
            asyncio.run(watch_cluster(access, namespaces, known_demand, options=options, output=output))
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        restore_gc()
    raise AssertionError("a watch has no end")


async def watch_cluster(
    access: "ClientConfig",
    namespaces: tuple[str, ...] | None,
    known_demand: KnownDemand,
    *,
    options: Options,
    output: str,
) -> None:
    """Watch these namespaces, or with None all, until cancelled. Raises CallFailed, InputError or a usage error before
    anything is shown, and BrokenPipeError.
    """
    unreadable: list[UnreadableObject] = []
    cache, changed = InformerCache(on_unreadable=unreadable.append), asyncio.Event()
    plans = LivePlans(
        cache,
        options=options,
        configuration=known_demand.configuration,
        on_stale=changed.set,
        service_parts=known_demand.service_parts,
    )
    async with Transport(access) as transport:
        health = WatchHealth(transport, clock=time.monotonic)
        if options.proxy is None:
            plans.proxy_objects = await list_proxy_objects(transport)
        view = _view(output, plans, cache, options, server=redacted_server(access))
        await run_until_first_ends(
            run_informers(
                health,
                cache,
                # A cache holds one namespace or all: of several it holds all, and the plans select.
                options=ListScope(namespace=namespaces[0] if namespaces and len(namespaces) == 1 else None),
                settings=ReflectorSettings(fail_fast=True),
                on_error=health.trouble,
            ),
            _plan(plans, cache, changed, view, options, transport=health),
            _watch_connection(health, access, unreadable, view),
            view.run(),
        )


async def _plan(
    plans: LivePlans,
    cache: InformerCache,
    changed: asyncio.Event,
    view: "WatchView",
    options: Options,
    *,
    transport: "ReadTransport",
) -> None:
    with without_gc():
        try:
            async with asyncio.timeout(_SLOW):
                await cache.synced.wait()
        except TimeoutError:
            print_notes(options, [Note("still reading the cluster")])
            await cache.synced.wait()
        empty = namespaces_without_objects(options, chain(cache.services, cache.pods, cache.slices))
        await refuse_unknown_namespaces(transport, empty)
        snapshot = Snapshot(services=tuple(cache.services))
        # Raises for a name that no Service has.
        if not filter_services(snapshot, options):
            print_notes(options, [no_services_note(snapshot, options)])
        plans.begin()
        changed.clear()
        await _update(plans, view)
        print_notes(options, proxy_notes(plans.node_proxies))
        await view.show_complete()
    # Most objects of now will stay: the garbage collector need not search them.
    freeze_objects()
    rested = time.monotonic()
    while True:
        await changed.wait()
        await asyncio.sleep(max(_DEBOUNCE, rested - time.monotonic()))
        changed.clear()
        start = time.monotonic()
        await _update(plans, view)
        end = time.monotonic()
        rested = end + min(_REST_FACTOR * (end - start), _LONGEST_REST)


async def _update(plans: LivePlans, view: "WatchView") -> None:
    """Show each change as soon as it is known, and read the watches in between."""
    start, changed = time.monotonic(), list[DecisionChange]()
    for changes in plans.update():
        changed += changes
        if time.monotonic() - start > _LONGEST_STEP:
            await view.show_changes(changed)
            await asyncio.sleep(0)
            start, changed = time.monotonic(), []
    await view.show_changes(changed)


async def _watch_connection(
    health: WatchHealth, access: "ClientConfig", unreadable: list[UnreadableObject], view: "WatchView"
) -> None:
    last: str | None = None
    while True:
        while unreadable:
            view.show_unreadable(skipped_message(unreadable.pop(0)))
        error, now = health.lasting, datetime.now(UTC)
        since, text = now, None
        if error is not None:
            since -= timedelta(seconds=time.monotonic() - error[0])
            text = str(to_input_error(error[1], access, now=now))
        if text != last:
            view.show_error(text, since)
            last = text
        await asyncio.sleep(_POLL)


# --- what is shown ----------------------------------------------------------------------------------------------------


def _view(output: str, plans: LivePlans, cache: InformerCache, options: Options, *, server: str) -> "WatchView":
    """The view for ``-o``; a table is only drawn where there is a terminal."""
    if output == "json":
        return WatchJson(plans, options)
    if is_screen():
        return WatchScreen(plans, cache, options, wide=output == "wide", server=server)
    return WatchText(plans, options, wide=output == "wide")


class WatchView(ABC):
    """Shows what happens. Errors are notes on standard error, where a view has no other place for them."""

    def __init__(self, plans: LivePlans, options: Options, *, wide: bool = False) -> None:
        self._plans, self._options, self._wide = plans, options, wide

    def _table(self, shown: "Sequence[ServicePlan]") -> "TableParts":
        from zoneward.report.plan_table import plan_parts

        plans = self._plans
        return plan_parts(
            shown,
            demand=plans.cluster_state.demand,
            configuration=plans.cluster_state.configuration,
            now=plans.now,
            node_proxies=plans.node_proxies,
            wide=self._wide,
        )

    @abstractmethod
    async def show_changes(self, changes: Sequence[DecisionChange]) -> None: ...

    @abstractmethod
    async def show_complete(self) -> None:
        """Every Service has been planned once."""

    @abstractmethod
    async def run(self) -> None:
        """Do what has to be done beside the changes; never returns."""

    def show_error(self, text: str | None, since: datetime) -> None:  # noqa: ARG002 -- for a screen
        """Show that the API server does not respond, or, with None, that it responds again."""
        note = "the API server responds again" if text is None else f"{text}; retrying"
        print_notes(self._options, [Note(note)])

    def show_unreadable(self, text: str) -> None:
        """Show that an object cannot be read and is left out."""
        print_notes(self._options, [Note(text)])


class WatchJson(WatchView):
    """``-o json``: a line for each change."""

    def __init__(self, plans: LivePlans, options: Options) -> None:
        super().__init__(plans, options)
        self._stream, self._decisions = Stream(), 0

    async def show_changes(self, changes: Sequence[DecisionChange]) -> None:
        now = datetime.now(UTC)
        self._decisions += sum((change.old is None) - (change.new is None) for change in changes)
        await self._stream.write(b"".join(change_json(change, now=now) for change in changes))

    async def show_complete(self) -> None:
        line = synced_json(services=len(self._plans.order), decisions=self._decisions, now=datetime.now(UTC))
        await self._stream.write(line)

    async def run(self) -> None:
        await self._stream.wait_until_broken()


class WatchText(WatchView):
    """A table where there is no screen to draw it on: printed once in full, then a line for each change."""

    def __init__(self, plans: LivePlans, options: Options, *, wide: bool) -> None:
        super().__init__(plans, options, wide=wide)
        self._stream, self._is_complete = Stream(), False

    async def show_changes(self, changes: Sequence[DecisionChange]) -> None:
        if self._is_complete and changes:
            now = datetime.now().astimezone()
            lines = (
                printable(change_text(change, now=now, shows_slices=not self._plans.is_of_kubernetes(change.view)))
                for change in changes
            )
            await self._stream.write("".join(f"{line}\n" for line in lines).encode())

    async def show_complete(self) -> None:
        from zoneward.report.terminal_text import render_text

        plans, width = self._plans, row_width()
        parts = self._table([plans[key] for key in plans.order])
        self._is_complete = True
        text = render_text(parts.for_terminal(width), color=wants_color(self._options), width=width)
        await self._stream.write(text.encode())

    async def run(self) -> None:
        await self._stream.wait_until_broken()


class WatchScreen(WatchView):
    """A table on a terminal, drawn again when something changes."""

    def __init__(self, plans: LivePlans, cache: InformerCache, options: Options, *, wide: bool, server: str) -> None:
        super().__init__(plans, options, wide=wide)
        self._cache, self._server = cache, server
        self._changed: dict[ObjectKey, float] = {}
        """When Services changed, by the monotonic clock; the latest is the last."""
        self._last = datetime.now().astimezone()
        self._error: tuple[str, datetime] | None = None
        self._is_complete = asyncio.Event()

    async def show_changes(self, changes: Sequence[DecisionChange]) -> None:
        if not self._is_complete.is_set() or not changes:
            return
        now = time.monotonic()
        self._last = datetime.now().astimezone()
        for change in changes:
            key = (change.view.namespace, change.view.service)
            self._changed.pop(key, None)
            self._changed[key] = now

    async def show_complete(self) -> None:
        self._last = datetime.now().astimezone()
        self._is_complete.set()

    def show_error(self, text: str | None, since: datetime) -> None:
        if text is not None and not self._is_complete.is_set():
            super().show_error(text, since)
        self._error = None if text is None else (text, since.astimezone())

    def show_unreadable(self, text: str) -> None:
        # Later the table shows how many there are.
        if not self._is_complete.is_set():
            super().show_unreadable(text)

    async def run(self) -> None:
        await self._is_complete.wait()
        terminal = Screen()
        try:
            with terminal:
                await terminal.follow(
                    self._state, lambda width, height: self.picture(width, height, marked=self._marked()), every=_REDRAW
                )
        finally:
            # The last picture stays in the terminal's own history, with room for a prompt below it.
            with suppress(OSError):
                width, height = terminal.size
                click.echo("\n".join(self.picture(width, height - 1, marked=())), color=True)

    def _state(self) -> object:
        """All that a picture shows: equal states give equal pictures."""
        numbers = len(self._cache.pods), len(self._plans.order), len(self._cache.unreadable)
        return self._last, self._error, self._marked(), numbers

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
            self._table,
            latest=[*reversed(self._changed)],
            marked=marked,
            status=self._status(),
            terminal=Terminal(width, height, wants_color(self._options)),
        )

    def _status(self) -> "Text":
        from zoneward.report.terminal_text import Text

        services, pods = len(self._plans.order), len(self._cache.pods)
        counts = f"{services:,} Service{'' if services == 1 else 's'}, {pods:,} Pod{'' if pods == 1 else 's'}"
        text = Text(f"{self._last:%H:%M:%S}", "bold").append(f" last change  {counts}  ", "not bold")
        if unreadable := len(self._cache.unreadable):
            text.append(f"{unreadable:,} object{'' if unreadable == 1 else 's'} cannot be read  ", "bold red")
        if self._error is None:
            return text.append(self._server, "not bold dim")
        error, since = self._error
        return text.append(f"Not current since {since:%H:%M:%S}, trying again: {error}", "bold red")
