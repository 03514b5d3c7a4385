"""When the garbage collector of a daemon runs: rarely, and never over what the daemon holds from its start."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final, NoReturn

from zoneward.kube.gc_tuning import disable_gc, freeze_objects, restore_gc

_EVERY: Final = 10.0
"""Seconds between two collections of what is new."""
_FULL: Final = 360
"""One in this number is a full one. Objects that live for long and then end in a cycle, such as a connection that
broke off, are found by a full collection alone."""


async def collect_seldom(
    started: Awaitable[object], *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> NoReturn:
    """Wait without collections until the program has started, freeze what it has then, and collect every 10 s.

    Until cancelled; then the collector is as it is when Python starts.
    """
    disable_gc()
    try:
        await started
        gc.collect()
        freeze_objects()
        for collection in count(1):
            await sleep(_EVERY)
            gc.collect(1 if collection % _FULL else 2)
        raise AssertionError("there is always one more")
    finally:
        restore_gc()
