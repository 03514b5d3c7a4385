"""Bodies of answers, unpacked block by block, so that none fills the memory before it is known to be too large."""

import zlib
from collections.abc import AsyncIterator
from typing import Final

import aiohttp

from zoneward.client.api_errors import AnswerTooLarge, Unreachable

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
