"""When the controller writes, and when it does not."""

import asyncio
from typing import Any

from tests.controller.a_controller import LIMIT, PODS, a_place, addresses, at_work, fill, settle

from zoneward.client.writer import Writer
from zoneward.controller.leader.election import LeaseTiming
from zoneward.routing.configuration import Configuration

QUICK = LeaseTiming(lease_duration=1, renew_deadline=0.6, retry_period=0.15)


async def test_on_standby_nothing_is_written_until_we_lead() -> None:
    async with a_place() as place:
        fill(place)
        leading = asyncio.Event()
        async with at_work(place, leading=leading) as controller:
            await controller.cache.synced.wait()
            await asyncio.sleep(0.1)
            assert place.slices() == []
            leading.set()
            await settle(place, controller)
            assert place.listed() == addresses(*range(PODS))
            leading.clear()
            controller.stepped_down()
            place.make_ready(0, False)
            await asyncio.sleep(0.2)
            assert place.listed() == addresses(*range(PODS))
            leading.set()
            await settle(place, controller)
            assert place.listed() == addresses(*range(1, PODS))


async def test_no_write_is_sent_that_is_withheld() -> None:
    async with a_place() as place:
        fill(place)
        may = [False]
        writer = Writer(place.link, may_write=lambda _seconds: may[0])
        async with at_work(place, writer=writer) as controller:
            await controller.cache.synced.wait()
            await asyncio.sleep(0.1)
            assert place.slices() == []
            may[0] = True
            await settle(place, controller)
            assert place.listed() == addresses(*range(PODS))


async def test_drained_nothing_more_is_begun() -> None:
    async with a_place() as place:
        fill(place)
        async with at_work(place) as controller:
            await settle(place, controller)
            assert await controller.drain(5)
            place.make_ready(0, False)
            await asyncio.sleep(0.2)
            assert place.listed() == addresses(*range(PODS))


async def test_what_is_under_way_is_written_before_it_is_drained() -> None:
    async with a_place() as place:
        fill(place)
        writer = Slow(place.link)
        small = Configuration(max_endpoints_per_slice=4)
        async with at_work(place, writer=writer, configuration=small) as controller:
            async with asyncio.timeout(LIMIT):
                await writer.begun.wait()
            assert not await controller.drain(0.05), "it takes longer"
            writer.goes_on.set()
            assert await controller.drain(5)
            assert place.listed() == addresses(*range(PODS))
            assert len(place.slices()) == 3


class Slow(Writer):
    """Waits before the second slice of all."""

    def __init__(self, link: Any) -> None:
        super().__init__(link)
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()

    async def create(self, place: Any, thing: Any) -> Any:
        if place.plural == "endpointslices" and self.begun.is_set():
            await self.goes_on.wait()
        self.begun.set()
        return await super().create(place, thing)
