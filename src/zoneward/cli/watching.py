"""``plan --watch``: a cluster followed, and every change of a decision told as it happens."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from zoneward.cli.clusters import access_for
from zoneward.cli.configuring import configuration_for
from zoneward.cli.current_plans import CurrentPlans
from zoneward.cli.interrupting import INTERRUPTED
from zoneward.cli.options import Note, Options, tell
from zoneward.cli.running_together import first_to_end
from zoneward.cli.snapshots import no_services, services_in
from zoneward.cli.watch_views import View, view_for
from zoneward.client.api_errors import CallFailed
from zoneward.client.error_messages import redacted_server, to_input_error
from zoneward.client.informer_cache import InformerCache
from zoneward.client.informers import run_informers
from zoneward.client.list_pager import ListScope
from zoneward.client.list_watch_decoder import UnreadableObject, skipped_message
from zoneward.client.reflector import ReflectorSettings
from zoneward.client.transport import Transport
from zoneward.client.watch_health import WatchHealth
from zoneward.kube.gc_tuning import freeze_objects, restore_gc, without_gc
from zoneward.report.decision_changes import DecisionChange
from zoneward.snapshots.cluster_snapshot import Snapshot

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig

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
    unreadable: list[UnreadableObject] = []
    cache, changed = InformerCache(on_unreadable=unreadable.append), asyncio.Event()
    plans = CurrentPlans(cache, options=options, configuration=configuration, waiting=changed.set)
    try:
        asyncio.run(_watch(access, namespace, plans, cache, changed, unreadable, options=options, output=output))
    except KeyboardInterrupt:
        return INTERRUPTED
    except CallFailed as error:
        raise to_input_error(error, access, now=datetime.now(UTC)) from error
    finally:
        restore_gc()
    raise AssertionError("a watch has no end")


async def _watch(
    access: "ClientConfig",
    namespace: str | None,
    plans: CurrentPlans,
    cache: InformerCache,
    changed: asyncio.Event,
    unreadable: list[UnreadableObject],
    *,
    options: Options,
    output: str,
) -> None:
    async with Transport(access) as transport:
        standing = WatchHealth(transport, clock=time.monotonic)
        view = view_for(output, plans, cache, options, server=redacted_server(access))
        await first_to_end(
            run_informers(
                standing,
                cache,
                options=ListScope(namespace=namespace),
                settings=ReflectorSettings(fail_fast=True),
                on_error=standing.trouble,
            ),
            _plan(plans, cache, changed, view, options),
            _look(standing, access, unreadable, view),
            view.run(),
        )


async def _plan(
    plans: CurrentPlans, cache: InformerCache, changed: asyncio.Event, view: View, options: Options
) -> None:
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


async def _update(plans: CurrentPlans, view: View) -> None:
    """Tell what changed as soon as it is known, and listen in between."""
    start, told = time.monotonic(), list[DecisionChange]()
    for changes in plans.update():
        told += changes
        if time.monotonic() - start > _LONGEST_STEP:
            await view.told(told)
            await asyncio.sleep(0)
            start, told = time.monotonic(), []
    await view.told(told)


async def _look(standing: WatchHealth, access: "ClientConfig", unreadable: list[UnreadableObject], view: View) -> None:
    """Tell the view when the connection is lost, when its trouble becomes another, and when it is back; and of objects
    that cannot be read."""
    last: str | None = None
    while True:
        while unreadable:
            view.unreadable(skipped_message(unreadable.pop(0)))
        trouble, now = standing.lasting, datetime.now(UTC)
        since, text = now, None
        if trouble is not None:
            since -= timedelta(seconds=time.monotonic() - trouble[0])
            text = str(to_input_error(trouble[1], access, now=now))
        if text != last:
            view.trouble(text, since)
            last = text
        await asyncio.sleep(_LOOK)
