"""The same over real connections, to servers that are well, slow, bad or silent."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import NoReturn

import pytest
from msgspec.structs import replace
from tests.client.serving import speaking
from tests.controller.leader.an_election import KEY

from zoneward.client.access import Access, Cluster, User
from zoneward.client.resources import SLICES
from zoneward.client.transport import Transport
from zoneward.client.writer import Withheld, Writer
from zoneward.controller.leader.candidate import Candidate
from zoneward.controller.leader.election import Timing
from zoneward.kube.objects import EndpointSlice, ObjectMeta
from zoneward.sandbox.server.faults import FaultInjector, parse_fault
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

QUICK = Timing(lease_duration=1, renew_deadline=0.6, retry_period=0.15)
SERVED = {
    "well": (),
    "slow": ("latency=20ms-150ms",),
    "bad": ("latency=5ms-50ms@0.5", "conflict@0.1", "lost-answer@0.2", "500@0.1", "503@0.1"),
}


@asynccontextmanager
async def a_candidate(address: str, name: str) -> AsyncIterator[tuple[Candidate, "asyncio.Task[NoReturn]"]]:
    async with Transport(Access(cluster=Cluster(server=address), user=User()), is_terminal=False) as transport:
        candidate = Candidate(transport, key=KEY, identity=name, timing=QUICK)
        running = asyncio.create_task(candidate.run())
        try:
            yield candidate, running
        finally:
            running.cancel()
            await asyncio.wait([running])


async def succession(*faults: str) -> float:
    """Seconds from the death of a leader until another may write; never two may."""
    found = FaultInjector([parse_fault(each) for each in faults], seed=1) if faults else None
    async with (
        SandboxServer(new_registry(), faults=found) as server,
        a_candidate(server.address, "first") as (first, running),
        a_candidate(server.address, "second") as (second, other_running),
    ):
        while not (first.leads or second.leads):
            await asyncio.sleep(0.005)
        leader, heir = (first, second) if first.leads else (second, first)
        start = time.monotonic()
        while time.monotonic() < start + 1.5 or not leader.leads:
            assert not (first.leads and second.leads)
            if heir.leads:
                leader, heir = heir, leader
            await asyncio.sleep(0.005)
        (running if leader is first else other_running).cancel()
        died = time.monotonic()
        while not heir.leads:
            await asyncio.sleep(0.005)
        return time.monotonic() - died


def test_on_a_real_server_well_slow_or_bad_another_follows_in_time() -> None:
    async def run() -> None:
        took = await asyncio.gather(*(succession(*faults) for faults in SERVED.values()))
        # The heir last looked at most 0.1125 s after the last renewal, which was at most 0.15 s before the death.
        assert all(0.8 <= each <= QUICK.lease_duration + 2 for each in took), took

    asyncio.run(run())


def test_a_writer_that_asks_a_candidate_writes_only_while_it_leads() -> None:
    async def run() -> None:
        async with (
            SandboxServer(new_registry()) as server,
            Transport(Access(cluster=Cluster(server=server.address), user=User()), is_terminal=False) as transport,
            a_candidate(server.address, "first") as (candidate, running),
        ):
            writer = Writer(transport, limit=QUICK.write, may_write=candidate.may_write)
            slice_ = EndpointSlice(metadata=ObjectMeta(name="a", namespace="default"), address_type="IPv4")
            with pytest.raises(Withheld):
                await writer.create(SLICES, slice_)
            await asyncio.wait_for(candidate.leading.wait(), 5)
            written = replace(slice_, metadata=await writer.create(SLICES, slice_))
            running.cancel()
            await asyncio.wait([running])
            with pytest.raises(Withheld):
                await writer.delete(SLICES, written)
            assert await writer.read(SLICES, namespace="default", name="a")

    asyncio.run(run())


def test_a_server_that_falls_silent_ends_leadership_at_the_deadline() -> None:
    async def run() -> None:
        async with SandboxServer(new_registry()) as server:
            is_silent = asyncio.Event()

            async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                far_reader, far_writer = await asyncio.open_connection(*server.authority.split(":"))
                with closing(far_writer):
                    back = asyncio.create_task(copy(far_reader, writer))
                    await copy(reader, far_writer)
                    back.cancel()

            async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
                while block := await source.read(1 << 16):
                    if not is_silent.is_set():
                        target.write(block)

            async with speaking(talk) as port:
                address = server.address.replace(server.authority, f"127.0.0.1:{port}")
                async with a_candidate(address, "first") as (candidate, _):
                    await asyncio.wait_for(candidate.leading.wait(), 5)
                    is_silent.set()
                    start = time.monotonic()
                    async with asyncio.timeout(5):
                        while candidate.leading.is_set():
                            await asyncio.sleep(0.002)
                    assert time.monotonic() - start >= 0.4
                    is_silent.clear()
                    await asyncio.wait_for(candidate.leading.wait(), 5)

    asyncio.run(run())
