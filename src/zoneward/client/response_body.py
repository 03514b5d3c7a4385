"""A body that goes on, line by line."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
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


# --- Bodies of answers, unpacked block by block, so that none fills the memory before it is known to be too large. ---

_BLOCK: Final = 1 << 20
"""Bytes that are unpacked at once: gzip makes a thousand of one."""
_GZIP: Final = 16 + zlib.MAX_WBITS


async def iter_blocks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The body of an answer, unpacked. Raises Unreachable for what can't be unpacked."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise Unreachable(f"expected an answer as it is or in gzip, got {encoding[:20]!r}")
    unpacking = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    is_begun = False
    while block := await response.content.readany():
        is_begun = True
        if unpacking is None:
            yield block
            continue
        while block and not unpacking.eof:
            try:
                unpacked = unpacking.decompress(block, _BLOCK)
            except zlib.error as error:
                raise Unreachable(f"expected an answer in gzip, got it corrupt ({error})") from None
            if unpacked:
                yield unpacked
            block = unpacking.unconsumed_tail
    if unpacking is not None and is_begun and not unpacking.eof:
        raise Unreachable("the connection broke off in the middle of an answer")


async def read_body(response: aiohttp.ClientResponse, *, most: int) -> bytes:
    """All of it. Raises AnswerTooLarge for more than so many bytes, unpacked."""
    found: list[bytes] = []
    size = 0
    async for block in iter_blocks(response):
        size += len(block)
        if size > most:
            raise AnswerTooLarge(f"expected an answer of at most {most >> 20:,} MiB, got more")
        found.append(block)
    return b"".join(found)
