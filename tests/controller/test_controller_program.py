"""One replica in this process: what it reports, and in which order it ends, in any state."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from tests.builders.objects import a_service
from tests.client.recording import until
from tests.client.serving import access_to
from tests.controller.a_controller import KEPT, LIMIT, Place, a_place, addresses, fill
from tests.controller.lines import Lines

from zoneward.client.api_errors import Forbidden, ServerFault, Unreachable
from zoneward.client.informers import WatchHealth
from zoneward.client.resources import SLICES
from zoneward.client.transport import Transport
from zoneward.client.writer import WriteOutcome, Writer
from zoneward.controller import controller_program as running
from zoneward.controller.context import ControllerContext, FiguresUnavailable
from zoneward.controller.controller_configuration import ControllerConfiguration, Mode
from zoneward.controller.controller_program import (
    LONGEST_WITHOUT_GC,
    ControllerProgram,
    ReplicaObserver,
    _ask_prometheus,
)
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.daemon.metrics import counter_total
from zoneward.daemon.status_server import failed_checks
from zoneward.kube import names
from zoneward.kube.objects import ObjectKey, ServiceEvent
from zoneward.kube.prometheus_settings import PrometheusSettings
from zoneward.routing.configuration import Configuration, DemandSettings

LEASES = "leases.coordination.k8s.io"


@dataclass
class Run:
    replica: ControllerProgram
    task: "asyncio.Task[None]"
    stop: asyncio.Event
    log: Lines

    async def until(self, event: str) -> None:
        await until(lambda: event in self.log.events or self.task.done())
        assert event in self.log.events, self.task.exception()


@asynccontextmanager
async def a_run(
    url: str, *, mode: Mode = Mode.TAKE_OVER, lease: ObjectKey = ("kube-system", "zoneward-controller")
) -> AsyncIterator[Run]:
    log, stop = Lines(), asyncio.Event()
    replica = ControllerProgram(
        access_to(url),
        configuration=Configuration(),
        settings=ControllerConfiguration(mode=mode, listen="127.0.0.1:0"),
        lease=lease,
        instance="replica-0",
        log=log,
        to_json=lambda plan: plan.service.metadata.name.encode(),
    )
    task = asyncio.create_task(replica.run(stop))
    try:
        yield Run(replica, task, stop, log)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def url_of(sandbox: Place) -> str:
    assert isinstance(sandbox.link, Transport)
    return sandbox.link.access.cluster.server


def lease_of(sandbox: Place) -> Any:
    return next((object_["spec"] for object_ in sandbox.objects(LEASES)), {})


@asynccontextmanager
async def a_leader() -> AsyncIterator[tuple[Place, Run]]:
    """That has written the slices of nine Pods."""
    async with a_place() as sandbox, a_run(url_of(sandbox)) as run:
        fill(sandbox)
        await until(lambda: sandbox.listed() == addresses(*range(9)))
        yield sandbox, run


async def over(run: Run) -> None:
    run.stop.set()
    await asyncio.wait_for(run.task, LIMIT)


@contextmanager
def held_writes() -> Iterator[tuple[asyncio.Event, asyncio.Event]]:
    """Whether a write of a slice has begun, and whether it may continue."""
    started, goes_on, send = asyncio.Event(), asyncio.Event(), Transport.send

    async def held(self: Transport, method: str, path: str, body: bytes, **options: Any) -> bytes:
        if "endpointslices" in path:
            started.set()
            await goes_on.wait()
        return await send(self, method, path, body, **options)

    with patch.object(Transport, "send", held):
        yield started, goes_on


async def test_in_flight_writes_finish_before_the_lease_is_released() -> None:
    written: list[str] = []
    async with a_leader() as (sandbox, run):
        with held_writes() as (started, goes_on):
            sandbox.make_ready(0, False)
            sandbox.registry.store.listeners.append(lambda kind, _change: written.append(kind.resource))
            await started.wait()
            run.stop.set()
            await run.until("shutting down: waiting for in-flight writes")
            goes_on.set()
            await asyncio.wait_for(run.task, LIMIT)
        assert KEPT in written
        assert written[-1] == LEASES
        assert not lease_of(sandbox).get("holderIdentity")
        assert run.log.events[-3:] == [
            "shutting down: waiting for in-flight writes",
            "stopped leading",
            "released the Lease",
        ]


@pytest.mark.parametrize("mode", [Mode.TAKE_OVER, Mode.ONLY_MARKED])
async def test_the_lease_says_in_which_mode_its_holder_runs(mode: Mode) -> None:
    async with a_place() as sandbox, a_run(url_of(sandbox), mode=mode) as run:
        await run.until("became leader")
        (lease,) = sandbox.objects(LEASES)
        assert lease["metadata"]["annotations"] == {names.MODE_ANNOTATION: mode}


async def test_the_lease_is_not_released_after_an_unanswered_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "DRAIN", 0.2)
    async with a_leader() as (sandbox, run):
        with held_writes() as (started, _):
            sandbox.make_ready(0, False)
            await started.wait()
            await over(run)
        assert lease_of(sandbox)["holderIdentity"]
        assert run.log.events[-1].startswith("not releasing the Lease")


async def test_a_failing_part_ends_the_program_and_releases_the_lease() -> None:
    async with a_leader() as (sandbox, run):

        def fail(_old: object, _new: object) -> None:
            raise RuntimeError("a bug")

        assert await run.replica.controller.wait_until_idle(LIMIT)
        assert await run.replica._status_writer.wait_until_written(LIMIT)
        run.replica.controller.cache.services.subscribe(fail)
        # A Service that Zoneward does not manage, so that no write is in flight.
        sandbox.service("other", selector={})
        with pytest.raises(RuntimeError, match="a bug"):
            await asyncio.wait_for(run.task, LIMIT)
        assert not lease_of(sandbox).get("holderIdentity")


async def test_a_replica_that_can_never_lead_is_not_ready() -> None:
    async with a_place() as sandbox, a_run(url_of(sandbox), lease=("nowhere", "zoneward")) as run:
        await run.until("cache synced")
        await run.until("failed to read or write the Lease")
        checks = run.replica._program.ready
        wrong = failed_checks(checks)
        assert list(wrong) == ["leader election"]
        assert 'namespaces "nowhere" not found' in wrong["leader election"]
        sandbox.store.create(sandbox.registry.kinds["namespaces"], "", {"metadata": {"name": "nowhere"}})
        await run.until("became leader")
        assert failed_checks(checks) == {}


async def test_a_failed_and_a_recovered_watch_are_logged_once_each() -> None:
    now, log = 100.0, Lines()
    async with a_place() as sandbox:
        context = ControllerContext(
            connection=sandbox.link, configuration=Configuration(), mode=Mode.TAKE_OVER, writer=Writer(sandbox.link)
        )
        health = WatchHealth(sandbox.link, clock=lambda: now)
        observer = ReplicaObserver(
            EndpointSliceController(context),
            watch_health=health,
            elector=None,
            log=log,
            error_text=str,
            clock=lambda: now,
        )
        health.trouble(SLICES, Unreachable("no connection"))
        gc.disable()
        try:
            for seconds, is_enabled in ((0, False), (1, False), (LONGEST_WITHOUT_GC - 1.1, False), (0.1, True)):
                now += seconds
                observer._observe()
                assert gc.isenabled() == is_enabled
        finally:
            gc.enable()
        async with health.stream(SLICES.path(), {"watch": "true"}, idle=LIMIT):
            observer._observe()
            observer._observe()
    assert log.lines == [
        ("watch failed", {"error": "no connection"}),
        ("watch recovered", {"seconds": LONGEST_WITHOUT_GC}),
    ]


async def test_the_garbage_collector_pauses_until_the_cache_is_synced() -> None:
    # Slow enough to be seen while the cluster is not listed yet.
    async with a_place("latency=100ms") as sandbox, a_run(url_of(sandbox)) as run:
        await run.until("status server listens")
        assert not gc.isenabled()
        await until(gc.isenabled)
        assert gc.get_freeze_count()
        await over(run)
    assert gc.isenabled()
    assert not gc.get_freeze_count()


async def test_an_event_in_a_terminating_namespace_is_not_a_missing_permission() -> None:
    """And does not hide one that is."""
    events = "/apis/events.k8s.io/v1/namespaces/{}/events"
    async with a_place() as sandbox, a_run(url_of(sandbox)) as run:
        registry = sandbox.registry
        fill(sandbox)
        sandbox.store.create(registry.kinds["namespaces"], "", {"metadata": {"name": "doomed"}})
        held = a_service("held", namespace="doomed")
        held["metadata"]["finalizers"] = ["example.com/held"]
        sandbox.store.create(registry.kinds["services"], "doomed", held)
        sandbox.store.delete(registry.kinds["namespaces"], "", "doomed")
        await run.until("cache synced")
        service = run.replica.controller.cache.services.get("doomed", "held")
        assert service is not None
        event = ServiceEvent("Warning", "EndpointSlicesContested", "twice")
        run.replica._status_writer.report(service, conditions=(), events=[event])
        await run.until("the API server refuses Events or conditions")
        path = events.format("shop")
        run.replica._on_status_error(("shop", "s0"), Forbidden(403, "Forbidden", "", method="POST", path=path))
        ended, missing = (
            fields for name, fields in run.log.lines if name == "the API server refuses Events or conditions"
        )
        assert (ended["service"], ended["reason"]) == ("doomed/held", "terminating namespace events")
        words = "unable to create new content in namespace doomed because it is being terminated"
        assert "in namespace doomed, which is being deleted (403): " in str(ended["error"])
        assert str(ended["error"]).endswith(words)
        assert "grants it" not in str(ended["error"])
        assert "grants it" in str(missing["error"])
        errors = run.replica.controller.metrics.api_errors
        for outcome in (WriteOutcome.TERMINATING, WriteOutcome.REFUSED):
            assert counter_total(errors, resource="events", kind=outcome.value) == 1
        # A refusal that applies to every Service is logged in one line, other failures in one line each.
        run.log.lines.clear()
        for index in range(20):
            path = f"/api/v1/namespaces/shop/services/s{index}/status"
            run.replica._on_status_error(("shop", f"s{index}"), Forbidden(403, "", "", method="PATCH", path=path))
        for _ in range(2):
            run.replica._on_status_error(("shop", "s0"), ServerFault(500, "", "", method="POST", path=path))
        refusals = [
            (event, fields["service"], fields["reason"]) for event, fields in run.log.lines if "service" in fields
        ]
        failed = ("failed to write an Event or condition", "shop/s0", "ServerFault")
        assert refusals == [
            ("the API server refuses Events or conditions", "shop/s0", "Forbidden services"),
            failed,
            failed,
        ]


async def test_figures_come_from_prometheus_and_a_failure_is_logged() -> None:
    prometheus = PrometheusSettings(url="http://127.0.0.1:1", window=7200)
    demand = DemandSettings(source="prometheus", prometheus=prometheus)
    source = _ask_prometheus(Configuration(demand=demand))
    assert source is not None
    assert source.window == 7200
    with pytest.raises(FiguresUnavailable, match=r"^http://127\.0\.0\.1:1: no connection"):
        await source.read(["n1"])
    assert _ask_prometheus(Configuration(demand=msgspec.structs.replace(demand, source="cpu"))) is None
