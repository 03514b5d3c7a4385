"""The Lease of a node says what is programmed, and is written as seldom as it may."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from tests.client.calling import transport
from tests.client.serving import access_to
from tests.proxy.background import in_background

from zoneward.client.api_errors import CallFailed
from zoneward.client.resources import LEASES
from zoneward.client.writer import Writer
from zoneward.kube.objects import Lease, OwnerReference
from zoneward.kube.proxy_lease import LEASE_DURATION, RENEW_INTERVAL, ProgrammedReport, parse_proxy_lease
from zoneward.proxy.node_lease import WRITE_PERIOD, LeaseIdentity, NodeLease
from zoneward.sandbox.server.faults import FaultInjector, parse_fault
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import Deletion, Registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

NAMESPACE, NAME = "kube-system", "zoneward-proxy-n1"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Place:
    """A node whose time passes only while a test lets it."""

    registry: Registry
    writer: Writer
    programmed: ProgrammedReport | None = None
    seconds: float = 1000.0
    writes: list[tuple[float, Lease]] = field(default_factory=list)
    troubles: list[CallFailed] = field(default_factory=list)
    asleep: asyncio.Event = field(default_factory=asyncio.Event)
    wakes: tuple[float, asyncio.Future[None]] | None = None

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
        """Until so much time has gone, and all that is done meanwhile is done."""
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
async def a_running_lease(*faults: str, **options: Any) -> AsyncIterator[Place]:
    registry = new_registry()
    found = FaultInjector([parse_fault(fault) for fault in faults], seed=1) if faults else None
    async with SandboxServer(registry, faults=found) as server, transport(access_to(server.address)) as link:
        place = Place(registry, Writer(link))
        registry.store.listeners.append(place.note)
        lease = NodeLease(
            link,
            LeaseIdentity(NAMESPACE, "n1"),
            programmed=lambda: place.programmed,
            on_trouble=place.troubles.append,
            clock=lambda: place.seconds,
            now=lambda: NOON + timedelta(seconds=place.seconds),
            sleep=place.sleep,
            chance=lambda: 0.5,
            **options,
        )
        async with in_background(lease.run()):
            yield place


async def test_the_lease_is_written_as_soon_as_there_is_something_to_report() -> None:
    async with a_running_lease(owner=lambda: OWNER) as place:
        await place.past(100)
        assert not place.writes
        place.programmed = ProgrammedReport(10, 20, (("shop", "cart"),))
        await place.past(2 * WRITE_PERIOD)
        ((_, lease),) = place.writes
        assert parse_proxy_lease(lease).node == "n1"
        assert parse_proxy_lease(lease).programmed == place.programmed
        assert lease.metadata.labels == {"app.kubernetes.io/component": "zoneward-proxy"}
        assert lease.metadata.owner_references == (OWNER,)
        assert lease.spec.lease_duration_seconds == LEASE_DURATION


OWNER = OwnerReference(api_version="v1", kind="Node", name="n1", uid="u-1")


async def test_the_lease_is_renewed_once_a_minute_without_changes() -> None:
    async with a_running_lease() as place:
        place.programmed = ProgrammedReport(10, 20)
        await place.past(1000)
        times = [at for at, _ in place.writes]
        pauses = [later - earlier for earlier, later in pairwise(times)]
        assert len(pauses) > 10
        assert all(RENEW_INTERVAL - WRITE_PERIOD <= pause <= 1.1 * RENEW_INTERVAL for pause in pauses)
        assert len({lease.spec.renew_time for _, lease in place.writes}) == len(times)


async def test_frequent_changes_are_written_once_in_ten_seconds() -> None:
    async with a_running_lease() as place:
        place.programmed = ProgrammedReport(0, 0)
        end = place.seconds + 300
        while place.seconds < end:
            place.programmed = ProgrammedReport(place.programmed.services + 1, 0)
            await place.past(1)
        times = [at for at, _ in place.writes]
        assert 25 <= len(times) <= 30
        assert min(later - earlier for earlier, later in pairwise(times)) >= WRITE_PERIOD


async def test_a_lease_that_somebody_deletes_or_writes_is_written_again() -> None:
    async with a_running_lease() as place:
        place.programmed = ProgrammedReport(1, 1)
        await place.past(WRITE_PERIOD)
        place.registry.delete(place.registry.kinds["leases.coordination.k8s.io"], NAMESPACE, NAME, Deletion())
        place.programmed = ProgrammedReport(2, 2)
        await place.past(3 * WRITE_PERIOD)
        place.troubles.clear()
        there = await place.lease()
        assert parse_proxy_lease(there).programmed == ProgrammedReport(2, 2)
        # As a proxy that is replaced by this one might, at its end.
        await place.writer.update(LEASES, there)
        place.programmed = ProgrammedReport(3, 3)
        await place.past(3 * WRITE_PERIOD)
        assert parse_proxy_lease(await place.lease()).programmed == ProgrammedReport(3, 3)
        assert not place.troubles


async def test_a_failed_write_is_reported_and_tried_again() -> None:
    async with a_running_lease("503@0.5") as place:
        place.programmed = ProgrammedReport(1, 1)
        for version in range(2, 30):
            place.programmed = ProgrammedReport(version, 1)
            await place.past(2 * WRITE_PERIOD)
        assert place.troubles
        assert len(place.writes) > 10
