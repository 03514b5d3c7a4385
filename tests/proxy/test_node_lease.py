"""The Lease of a node says what is programmed, and is written as rarely as possible."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from tests.client.a_writer import a_writer
from tests.proxy.background import in_background

from zoneward.client.api_errors import CallFailed
from zoneward.client.resources import LEASES
from zoneward.client.writer import Writer
from zoneward.kube.leases import LEASE_DURATION, RENEW_INTERVAL, ProgrammedReport, parse_proxy_lease
from zoneward.kube.objects import Lease, OwnerReference
from zoneward.proxy.node_lease import WRITE_PERIOD, NodeLease
from zoneward.proxy.reporter import Reporter
from zoneward.sandbox.server.resource_registry import Registry

NAMESPACE, NAME = "kube-system", "zoneward-proxy-n1"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Scene(Reporter):
    """A node with a clock that only the test advances."""

    registry: Registry
    writer: Writer
    programmed: ProgrammedReport | None = None
    seconds: float = 1000.0
    writes: list[tuple[float, Lease]] = field(default_factory=list)
    troubles: list[CallFailed] = field(default_factory=list)
    asleep: asyncio.Event = field(default_factory=asyncio.Event)
    wakes: tuple[float, asyncio.Future[None]] | None = None

    def lease_failed(self, error: CallFailed) -> None:
        self.troubles.append(error)

    def note(self, kind: Any, change: Any) -> None:
        if kind.kind == "Lease" and change.new is not None:
            lease = LEASES.lists.decode(b'{"items":[%s]}' % change.new.data).items
            assert lease is not None
            self.writes.append((self.seconds, lease[0]))

    async def sleep(self, seconds: float) -> None:
        self.wakes = self.seconds + seconds, asyncio.get_running_loop().create_future()
        self.asleep.set()
        await self.wakes[1]

    async def past(self, seconds: float) -> None:
        """Advance the clock by this time, and finish the work that is due by then."""
        end = self.seconds + seconds
        while True:
            await self.asleep.wait()
            assert self.wakes is not None
            at, wake = self.wakes
            if at > end:
                self.seconds = end
                return
            self.seconds = at
            self.asleep.clear()
            wake.set_result(None)

    async def lease(self) -> Lease:
        return await self.writer.read(LEASES, namespace=NAMESPACE, name=NAME)


@asynccontextmanager
async def a_running_lease(*faults: str, **options: Any) -> AsyncIterator[Scene]:
    async with a_writer(*faults) as (writer, registry):
        scene = Scene(registry, writer)
        registry.store.listeners.append(scene.note)
        lease = NodeLease(
            writer,
            namespace=NAMESPACE,
            node="n1",
            programmed=lambda: scene.programmed,
            reporter=scene,
            clock=lambda: scene.seconds,
            now=lambda: NOON + timedelta(seconds=scene.seconds),
            sleep=scene.sleep,
            chance=lambda: 0.5,
            **options,
        )
        async with in_background(lease.run()):
            yield scene


async def test_the_lease_is_written_as_soon_as_there_is_something_to_report() -> None:
    async with a_running_lease(owner=lambda: OWNER) as scene:
        await scene.past(100)
        assert not scene.writes
        scene.programmed = ProgrammedReport(10, 20, (("shop", "cart"),))
        await scene.past(2 * WRITE_PERIOD)
        ((_, lease),) = scene.writes
        assert parse_proxy_lease(lease).node == "n1"
        assert parse_proxy_lease(lease).programmed == scene.programmed
        assert lease.metadata.labels == {"app.kubernetes.io/component": "zoneward-proxy"}
        assert lease.metadata.owner_references == (OWNER,)
        assert lease.spec.lease_duration_seconds == LEASE_DURATION


OWNER = OwnerReference(api_version="v1", kind="Node", name="n1", uid="u-1")


async def test_the_lease_is_renewed_once_a_minute_without_changes() -> None:
    async with a_running_lease() as scene:
        scene.programmed = ProgrammedReport(10, 20)
        await scene.past(1000)
        times = [at for at, _ in scene.writes]
        pauses = [later - earlier for earlier, later in pairwise(times)]
        assert len(pauses) > 10
        assert all(RENEW_INTERVAL - WRITE_PERIOD <= pause <= 1.1 * RENEW_INTERVAL for pause in pauses)
        assert len({lease.spec.renew_time for _, lease in scene.writes}) == len(times)


async def test_frequent_changes_are_written_once_in_ten_seconds() -> None:
    async with a_running_lease() as scene:
        scene.programmed = ProgrammedReport(0, 0)
        end = scene.seconds + 300
        while scene.seconds < end:
            scene.programmed = ProgrammedReport(scene.programmed.services + 1, 0)
            await scene.past(1)
        times = [at for at, _ in scene.writes]
        assert 25 <= len(times) <= 30
        assert min(later - earlier for earlier, later in pairwise(times)) >= WRITE_PERIOD


async def test_a_lease_that_somebody_deletes_or_writes_is_written_again() -> None:
    async with a_running_lease() as scene:
        scene.programmed = ProgrammedReport(1, 1)
        await scene.past(WRITE_PERIOD)
        scene.registry.delete(scene.registry.kinds["leases.coordination.k8s.io"], NAMESPACE, NAME)
        scene.programmed = ProgrammedReport(2, 2)
        await scene.past(3 * WRITE_PERIOD)
        scene.troubles.clear()
        lease = await scene.lease()
        assert parse_proxy_lease(lease).programmed == ProgrammedReport(2, 2)
        # As the proxy that this one replaces might do while it shuts down.
        await scene.writer.update(LEASES, lease)
        scene.programmed = ProgrammedReport(3, 3)
        await scene.past(3 * WRITE_PERIOD)
        assert parse_proxy_lease(await scene.lease()).programmed == ProgrammedReport(3, 3)
        assert not scene.troubles


async def test_a_failed_write_is_reported_and_tried_again() -> None:
    async with a_running_lease("503@0.5") as scene:
        scene.programmed = ProgrammedReport(1, 1)
        for version in range(2, 30):
            scene.programmed = ProgrammedReport(version, 1)
            await scene.past(2 * WRITE_PERIOD)
        assert scene.troubles
        assert len(scene.writes) > 10
