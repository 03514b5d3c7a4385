"""When Python looks for cycles of objects that nobody has any more.

What is kept has none, and a walk over all of it takes as long as hundreds of changes: so Python does not walk by
itself.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final, NoReturn

_EVERY: Final = 10.0
"""Seconds between two walks over what is new since the last one."""
_ALL: Final = 360
"""Of these, how many until one goes over all that came since the beginning. What lives for long and has cycles, as a
connection that broke off, is found by them alone."""


async def collected_seldom(
    beginning: Awaitable[None], *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> NoReturn:
    """Wait for a beginning, and set aside what is there by then. Until cancelled; then all is as before."""
    gc.disable()
    try:
        await beginning
        gc.collect()
        gc.freeze()
        for number in count(1):
            await sleep(_EVERY)
            gc.collect(1 if number % _ALL else 2)
        raise AssertionError("there is always one more")
    finally:
        gc.unfreeze()
        gc.enable()
