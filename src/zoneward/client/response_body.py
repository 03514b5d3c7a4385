"""A body that goes on, line by line."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from typing import Final

import aiohttp

from zoneward.client.api_errors import AnswerTooLarge, SilentConnection, Unreachable
from zoneward.client.transport_errors import translate_errors

MAX_LINE: Final = 128 << 20
"""Bytes of a line, which is one object: etcd takes 1.5 MB of it by default, and JSON makes six of one where it has to
escape."""


async def iter_lines(content: aiohttp.StreamReader, *, idle: float) -> AsyncGenerator[bytes, None]:
    """Each line without its end; empty ones are left out.

    Raises AnswerTooLarge for a line of more than `MAX_LINE` bytes, SilentConnection when nothing comes for ``idle``
    seconds, Unreachable when the body breaks off: a line without an end is half a line.
    """
    begun: list[bytes] = []
    size = 0
    silence = _Silence(content, idle)
    try:
        with translate_errors(limit=idle):
            while block := await silence.broken_by(content.readany()):
                first, *others = block.split(b"\n")
                begun.append(first)
                size += len(first)
                if size > MAX_LINE:
                    raise AnswerTooLarge(f"expected lines of at most {MAX_LINE >> 20} MiB, got a longer one")
                if not others:
                    continue
                others.insert(0, b"".join(begun))
                begun = [others.pop()]
                size = len(begun[0])
                for line in others:
                    if line:
                        yield line
    finally:
        silence.end()
    if any(begun):
        raise Unreachable("the connection broke off in the middle of a line")


class _Silence:
    """Ends a body of which nothing is heard. One timer for all of it: a watch brings thousands of blocks a second, and
    almost none is late.
    """

    def __init__(self, content: aiohttp.StreamReader, idle: float) -> None:
        self._content, self._idle = content, idle
        self._loop = asyncio.get_running_loop()
        self._since: float | None = None
        """Since when somebody waits for a block."""
        self._timer = self._loop.call_later(idle, self._look)

    async def broken_by(self, block: Awaitable[bytes]) -> bytes:
        self._since = self._loop.time()
        try:
            return await block
        finally:
            self._since = None

    def end(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        left = self._idle if self._since is None else self._since + self._idle - self._loop.time()
        if left <= 0:
            self._content.set_exception(SilentConnection(f"nothing came for {self._idle:.3g} s"))
        else:
            self._timer = self._loop.call_later(left, self._look)
