"""Reads the bodies of answers: whole bodies with a size limit, and watches line by line."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import Final

import aiohttp

from zoneward.client.api_errors import AnswerTooLarge, SilentConnection, Unreachable
from zoneward.client.transport_errors import translate_errors

MAX_LINE: Final = 128 << 20
"""Bytes of a line, which has one object: etcd accepts 1.5 MB by default, and JSON escapes take up to six bytes for
one."""
_BLOCK: Final = 1 << 20
"""Bytes that are decompressed at once: gzip can expand one byte to a thousand."""
_GZIP: Final = 16 + zlib.MAX_WBITS


async def iter_blocks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The decompressed body of an answer. Raises Unreachable if it cannot be decompressed."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise Unreachable(f"expected an answer uncompressed or in gzip, got {encoding[:20]!r}")
    decompressor = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    is_begun = False
    while block := await response.content.readany():
        is_begun = True
        if decompressor is None:
            yield block
            continue
        while block and not decompressor.eof:
            try:
                decompressed = decompressor.decompress(block, _BLOCK)
            except zlib.error as error:
                raise Unreachable(f"expected an answer in gzip, got it corrupt ({error})") from None
            if decompressed:
                yield decompressed
            block = decompressor.unconsumed_tail
    if decompressor is not None and is_begun and not decompressor.eof:
        raise Unreachable("the connection broke off in the middle of an answer")


async def read_body(response: aiohttp.ClientResponse, *, limit: int) -> bytes:
    """The whole body. Raises AnswerTooLarge for more than ``limit`` bytes after decompression."""
    blocks: list[bytes] = []
    size = 0
    async for block in iter_blocks(response):
        size += len(block)
        if size > limit:
            raise AnswerTooLarge(f"expected an answer of at most {limit >> 20:,} MiB, got more")
        blocks.append(block)
    return b"".join(blocks)


async def iter_lines(content: aiohttp.StreamReader, *, idle: float) -> AsyncGenerator[bytes, None]:
    """The lines without their line breaks; empty lines are skipped.

    Raises AnswerTooLarge for a line of more than `MAX_LINE` bytes, SilentConnection when nothing arrives for
    ``idle`` seconds, Unreachable when the body breaks off: a line without a line break is incomplete.
    """
    begun: list[bytes] = []
    size = 0
    idle_timer = _IdleTimer(content, idle)
    try:
        with translate_errors(limit=idle):
            while block := await idle_timer.wait_for(content.readany()):
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
        idle_timer.cancel()
    if any(begun):
        raise Unreachable("the connection broke off in the middle of a line")


class _IdleTimer:
    """Ends a body on which nothing arrives. One timer serves all blocks: a watch has thousands a second, and almost
    none is late.
    """

    def __init__(self, content: aiohttp.StreamReader, idle: float) -> None:
        self._content, self._idle = content, idle
        self._loop = asyncio.get_running_loop()
        self._waiting_since: float | None = None
        """None while no caller waits for a block."""
        self._timer = self._loop.call_later(idle, self._check)

    async def wait_for(self, block: Awaitable[bytes]) -> bytes:
        self._waiting_since = self._loop.time()
        try:
            return await block
        finally:
            self._waiting_since = None

    def cancel(self) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        left = self._idle if self._waiting_since is None else self._waiting_since + self._idle - self._loop.time()
        if left <= 0:
            self._content.set_exception(SilentConnection(f"nothing came for {self._idle:.3g} s"))
        else:
            self._timer = self._loop.call_later(left, self._check)
