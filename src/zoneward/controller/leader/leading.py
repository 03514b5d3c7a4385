"""What says whether we lead."""

import asyncio
from typing import Protocol


class Leadership(Protocol):
    """An `asyncio.Event`, or something like one: set while we lead."""

    def is_set(self) -> bool: ...

    async def wait(self) -> object: ...


def always_leading() -> Leadership:
    """There are no others."""
    event = asyncio.Event()
    event.set()
    return event
