"""A body that goes on, line by line."""

import asyncio
from collections.abc import AsyncGenerator

import aiohttp

from zoneward.sources.api_errors import SilentConnection, Unreachable
from zoneward.sources.failures import failures


async def lines(content: aiohttp.StreamReader, *, idle: float) -> AsyncGenerator[bytes, None]:
    """Each line without its end, of any length; empty ones are left out.

    Raises SilentConnection when nothing comes for ``idle`` seconds, Unreachable when the body breaks off: a line
    without an end is half a line.
    """
    begun: list[bytes] = []
    while True:
        try:
            async with asyncio.timeout(idle):
                with failures(limit=idle):
                    block = await content.readany()
        except TimeoutError:
            raise SilentConnection(f"nothing came for {idle:.3g} s") from None
        if not block:
            break
        first, *others = block.split(b"\n")
        begun.append(first)
        if not others:
            continue
        others.insert(0, b"".join(begun))
        begun = [others.pop()]
        for line in others:
            if line:
                yield line
    if any(begun):
        raise Unreachable("the connection broke off in the middle of a line")
