"""Work that goes on at the same time, until some of it ends."""

import asyncio
from collections.abc import Awaitable


async def first_to_end(*works: Awaitable[None]) -> None:
    """Run all until one ends or fails, and end the others; raises what it raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        # One that draws on a screen leaves it before anything else is said.
        await asyncio.gather(*tasks, return_exceptions=True)
