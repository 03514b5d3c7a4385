"""When the controller writes, and when it does not."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from tests.controller.a_controller import LIMIT, PODS, Place, a_place, addresses, at_work, fill, settle

from zoneward.client.writer import Writer
from zoneward.controller.leader.candidate import Candidate
from zoneward.controller.leader.election import Timing
from zoneward.controller.loop import Controller
from zoneward.routing.configuration import Configuration

QUICK = Timing(lease_duration=1, renew_deadline=0.6, retry_period=0.15)


def test_on_standby_nothing_is_written_until_we_lead() -> None:
    async def scene() -> None:
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

    asyncio.run(scene())


def test_no_write_is_sent_that_is_withheld() -> None:
    async def scene() -> None:
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

    asyncio.run(scene())


def test_drained_nothing_more_is_begun() -> None:
    async def scene() -> None:
        async with a_place() as place:
            fill(place)
            async with at_work(place) as controller:
                await settle(place, controller)
                assert await controller.drain(5)
                place.make_ready(0, False)
                await asyncio.sleep(0.2)
                assert place.listed() == addresses(*range(PODS))

    asyncio.run(scene())


def test_what_is_under_way_is_written_before_it_is_drained() -> None:
    async def scene() -> None:
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

    asyncio.run(scene())


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


Sent = list[tuple[str, list[str]]]
"""Who sent each write, and who led at that moment."""


class Candidacy:
    """One of several controllers that stand for one Lease."""

    def __init__(self, place: Place, name: str, sent: Sent, pair: "list[Candidacy]") -> None:
        self.name = name
        self.controller: Controller | None = None
        key = "kube-system", "zoneward-controller"
        self.candidate = Candidate(place.link, key=key, identity=name, timing=QUICK, on_change=self._changed)
        self.writer = Noting(
            place.link,
            lambda: sent.append((name, [each.name for each in pair if each.candidate.leads])),
            limit=QUICK.write,
            may_write=self.candidate.may_write,
        )

    def _changed(self, leads: bool) -> None:
        if not leads and self.controller is not None:
            self.controller.stepped_down()


class Noting(Writer):
    """Calls ``note`` at the moment at which a write is sent."""

    def __init__(self, link: Any, note: Callable[[], None], **options: Any) -> None:
        super().__init__(link, **options)
        self._note = note

    async def _with_limit(self, call: Any) -> Any:
        # After it was asked whether it may be sent.
        self._note()
        return await super()._with_limit(call)


def test_of_two_with_a_lease_only_the_one_that_leads_writes() -> None:
    async def scene() -> None:
        sent: Sent = []
        async with a_place() as place, AsyncExitStack() as stack:
            fill(place)
            pair: list[Candidacy] = []
            pair += [Candidacy(place, name, sent, pair) for name in ("first", "second")]
            running = {}
            for each in pair:
                controller = at_work(place, leading=each.candidate.leading, writer=each.writer)
                each.controller = await stack.enter_async_context(controller)
            for each in pair:
                running[each.name] = asyncio.create_task(each.candidate.run())
                stack.callback(running[each.name].cancel)
                if each.name == "first":
                    async with asyncio.timeout(LIMIT):
                        await each.candidate.leading.wait()
            first, second = pair
            assert first.controller is not None
            assert second.controller is not None
            await settle(place, first.controller)
            # It can no longer renew its Lease, and goes on until its deadline, which on a busy machine may be at once.
            running["first"].cancel()
            number = 0
            async with asyncio.timeout(LIMIT):
                while not second.candidate.leads:
                    assert not second.candidate.leading.is_set()
                    place.make_ready(number % PODS, number % 2 == 1)
                    number += 1
                    await asyncio.sleep(0.05)
            for number in range(PODS):
                place.make_ready(number, number > 3)
            await settle(place, second.controller)
            assert {name for name, _ in sent} == {"first", "second"}
            assert all(leaders == [name] for name, leaders in sent)
            assert place.listed() == addresses(*range(4, PODS))

    asyncio.run(scene())
