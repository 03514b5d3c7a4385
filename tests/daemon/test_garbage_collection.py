"""A daemon's garbage collector rests until it has started, and then runs at times that it is given."""

import asyncio
import gc
from contextlib import suppress

from zoneward.daemon.garbage_collection import collect_seldom


async def test_collections_begin_once_it_has_started_and_never_walk_over_what_it_has_then() -> None:
    started, slept, frozen = asyncio.Event(), list[float](), list[int]()
    generations = list[int]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        # Counting walks over every object of the test run.
        if len(slept) % 100 == 1:
            frozen.append(gc.get_freeze_count())
        if len(slept) == 721:
            await asyncio.Event().wait()

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            generations.append(info["generation"])

    collecting = asyncio.create_task(collect_seldom(_is_set(started), sleep=sleep))
    await asyncio.sleep(0)
    assert (gc.isenabled(), gc.get_freeze_count()) == (False, 0)
    gc.callbacks.append(note)
    try:
        started.set()
        async with asyncio.timeout(30):
            while len(slept) < 721:
                await asyncio.sleep(0)
    finally:
        gc.callbacks.remove(note)
        collecting.cancel()
        with suppress(asyncio.CancelledError):
            await collecting
    assert set(slept) == {10.0}
    assert min(frozen) > 1000
    # One over everything at the start, and one an hour; all others over what is new.
    assert [index for index, generation in enumerate(generations) if generation == 2] == [0, 360, 720]
    assert set(generations) == {1, 2}
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, 0)


async def _is_set(event: asyncio.Event) -> None:
    await event.wait()
