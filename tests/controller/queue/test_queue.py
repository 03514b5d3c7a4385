"""Workers in an event loop get every key, each in its time, and never the same one twice at once."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from zoneward.client.backoff import Backoff
from zoneward.controller.queue.batching import Batching, RequeueDelay
from zoneward.controller.queue.queue import Queue
from zoneward.controller.queue.schedule import Given, Urgency

Test = Callable[[], Awaitable[None]]


def run(test: Test) -> None:
    """Run to its end, or fail: a queue that forgets to call a worker would leave it waiting."""

    async def limited() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(limited())


async def soon(queue: Queue[str], *, within: float = 10.0) -> Given[str]:
    async with asyncio.timeout(within):
        given = await queue.next()
    assert given is not None
    return given


async def is_empty(queue: Queue[str], *, seconds: float = 0.02) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await queue.next()
    except TimeoutError:
        return True
    return False


def test_a_worker_that_waits_gets_a_key_as_soon_as_it_is_added() -> None:
    async def test() -> None:
        queue = Queue[str]()
        worker = asyncio.create_task(queue.next())
        await asyncio.sleep(0)
        queue.add("a", urgency=Urgency.URGENT)
        given = await worker
        assert given is not None
        assert (given.key, given.urgency) == ("a", Urgency.URGENT)

    run(test)


def test_all_workers_that_wait_are_called_for_many_keys() -> None:
    async def test() -> None:
        queue = Queue[str]()
        workers = [asyncio.create_task(queue.next()) for _ in range(3)]
        await asyncio.sleep(0)
        queue.add_all(["a", "b", "c"])
        got = await asyncio.gather(*workers)
        assert {given.key for given in got if given} == {"a", "b", "c"}

    run(test)


def test_what_is_gathered_comes_by_itself_at_its_time() -> None:
    async def test() -> None:
        queue = Queue[str](batching=Batching(period=0.1))
        clock = asyncio.get_running_loop().time
        queue.add("a")
        await soon(queue)
        queue.done("a", writes=1)
        queue.add("a")
        start = clock()
        await soon(queue)
        assert clock() - start >= 0.09

    run(test)


def test_a_timer_for_later_gives_way_to_one_that_is_sooner() -> None:
    async def test() -> None:
        queue = Queue[str](back_off=RequeueDelay(backoff=Backoff(initial=0.1, cap=9, jitter=0.5)), chance=lambda: 1.0)
        queue.add_all(["slow", "fast"])
        await soon(queue)
        await soon(queue)
        queue.failed("slow", retry_after=60)
        worker = asyncio.create_task(soon(queue, within=5))
        await asyncio.sleep(0)
        assert queue.failed("fast") == pytest.approx(0.1)
        assert (await worker).key == "fast"

    run(test)


def test_a_key_that_waits_for_the_cache_comes_when_it_is_woken_or_after_the_limit() -> None:
    async def test() -> None:
        queue = Queue[str]()
        queue.add("a")
        await soon(queue)
        queue.stale("a", limit=60)
        assert await is_empty(queue)
        worker = asyncio.create_task(soon(queue))
        await asyncio.sleep(0)
        assert queue.is_stale("a")
        assert queue.wake("a")
        assert not (await worker).in_vain
        queue.stale("a", limit=0.02)
        assert (await soon(queue)).in_vain
        assert not queue.wake("a")

    run(test)


def test_a_worker_that_is_cancelled_takes_no_key_with_it() -> None:
    async def test() -> None:
        queue = Queue[str]()
        first, second = (asyncio.create_task(queue.next()) for _ in range(2))
        await asyncio.sleep(0)
        queue.add("a")
        # It was called, and is cancelled before it came to take what it was called for.
        first.cancel()
        given = await second
        assert given is not None
        assert given.key == "a"
        assert first.cancelled()

    run(test)


def test_closed_it_gives_out_nothing_more_and_work_can_be_answered() -> None:
    async def test() -> None:
        queue = Queue[str]()
        queue.add_all(["a", "b"])
        await soon(queue)
        workers = [asyncio.create_task(queue.next()) for _ in range(2)]
        got = await workers[0]
        assert got is not None
        await asyncio.sleep(0)
        queue.failed("a", retry_after=0.01)
        third = asyncio.create_task(queue.next())
        queue.close()
        assert await workers[1] is None
        assert await third is None
        queue.done("b", writes=1)
        assert await queue.next() is None
        assert queue.depth().waiting == 1

    run(test)


def test_it_tells_how_long_a_change_waited_and_how_many_wait() -> None:
    async def test() -> None:
        now = 100.0
        queue = Queue[str](clock=lambda: now)
        queue.add("a")
        now = 103.0
        queue.add("b")
        assert queue.oldest() == 3
        await soon(queue)
        now = 104.0
        assert queue.done("a") == 4
        assert (queue.depth().waiting, queue.oldest()) == (1, 1)

    run(test)


@pytest.mark.parametrize("seed", range(3))
def test_many_workers_lose_nothing_and_never_share_a_key(seed: int) -> None:
    """Adds, failures, stale caches and cancelled workers at random; at the end every key had a look after its last
    change."""
    chance = Random(seed)

    async def test() -> None:
        queue = Queue[str](
            batching=Batching(period=0.005, writes_per_second=1000, burst=5, longest=0.01),
            back_off=RequeueDelay(backoff=Backoff(initial=0.002, cap=0.01, jitter=0.5), with_news=0.002),
            chance=chance.random,
        )
        at_work: set[str] = set()
        changes, seen = Counter[str](), Counter[str]()

        async def worker() -> None:
            while (given := await queue.next()) is not None:
                key = given.key
                assert key not in at_work
                at_work.add(key)
                looked_at = changes[key]
                try:
                    await asyncio.sleep(chance.random() * 0.002)
                except asyncio.CancelledError:
                    at_work.discard(key)
                    queue.failed(key)
                    raise
                at_work.discard(key)
                match chance.randrange(6):
                    case 0:
                        queue.failed(key, retry_after=chance.choice((None, 0.003)))
                    case 1:
                        queue.stale(key, limit=0.005)
                    case _:
                        seen[key] = looked_at
                        queue.done(key, writes=chance.randrange(4))

        workers = [asyncio.create_task(worker()) for _ in range(6)]
        for _ in range(400):
            key = str(chance.randrange(20))
            changes[key] += 1
            queue.add(key, urgency=chance.choice(list(Urgency)))
            if chance.random() < 0.3:
                queue.wake(str(chance.randrange(20)))
            if chance.random() < 0.05:
                place = chance.randrange(len(workers))
                workers[place].cancel()
                workers[place] = asyncio.create_task(worker())
            if chance.random() < 0.3:
                await asyncio.sleep(0.001)
        while queue.depth().waiting or queue.depth().working:
            await asyncio.sleep(0.005)
        assert seen == changes
        queue.close()
        await asyncio.gather(*workers)

    run(test)


def test_what_waited_while_others_led_waits_from_now_on() -> None:
    async def test() -> None:
        now = 0.0
        queue = Queue[str](clock=lambda: now)
        queue.add("a")
        now = 86_400.0
        queue.begin()
        now += 0.25
        assert queue.oldest() == 0.25
        await soon(queue)
        assert queue.done("a", writes=1) == 0.25

    run(test)
