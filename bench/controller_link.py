"""A connection of a controller whose other end is in this process and answers at once, as an API server does.

What the controller does is measured up to the bytes of its request; nothing of this here counts.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from zoneward.client.resources import SLICES

_END: Final = (
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d",'
    b'"annotations":{"k8s.io/initial-events-end":"true"}}}}'
)
_DECODE: Final = msgspec.json.Decoder().decode
_ENCODE: Final = msgspec.json.Encoder().encode


class AnsweringLink:
    """``begin`` has the lines of all objects by the plural of their kind, of a ``version`` below all that follow.

    ``sent_at`` is the CPU time of this process (ns) when the last request came, less what its answers took here;
    ``echoes`` are the watch's lines of what was written, until somebody takes them.
    """

    def __init__(self, begin: Mapping[str, Sequence[bytes]], *, version: int) -> None:
        self._begin, self.version = begin, version
        self._lines: dict[str, asyncio.Queue[bytes]] = {}
        self.sent_at = self.own = 0
        self.bodies: list[int] = []
        self.echoes: list[bytes] = []

    def tell(self, plural: str, line: bytes) -> None:
        """A line of the watch of this kind."""
        self._lines[plural].put_nowait(line)

    def next_version(self) -> int:
        self.version += 1
        return self.version

    # --- what a controller needs of a connection ----------------------------------------------------------------------

    async def get(self, path: str, *_query: Mapping[str, str], **_options: Any) -> bytes:
        raise AssertionError(f"{path} is not asked for here")

    @asynccontextmanager
    async def stream(
        self, path: str, *_query: Mapping[str, str], **_options: Any
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        plural = path.rpartition("/")[2]
        queue = self._lines[plural] = asyncio.Queue()
        yield self._streamed(plural, queue)

    async def _streamed(self, plural: str, queue: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
        for line in self._begin.get(plural, ()):
            yield line
        yield _END % self.version
        while True:
            yield await queue.get()

    async def send(self, method: str, path: str, body: bytes, *, metadata_only: bool = False, **_options: Any) -> bytes:
        start = time.process_time_ns()
        self.sent_at = start - self.own
        self.bodies.append(len(body))
        assert path.rpartition("/")[2] == SLICES.plural or f"/{SLICES.plural}/" in path, path
        slice_ = _DECODE(body)
        metadata = slice_["metadata"]
        metadata["resourceVersion"] = str(self.next_version())
        metadata["generation"] = metadata.get("generation", 0) + 1
        if method == "POST":
            metadata["uid"] = f"uid-{self.version}"
        written = _ENCODE(slice_)
        kind = b"ADDED" if method == "POST" else b"MODIFIED"
        assert method in ("POST", "PUT"), method
        self.echoes.append(b'{"type":"%b","object":%b}' % (kind, written))
        self.own += time.process_time_ns() - start
        return _ENCODE({"metadata": metadata}) if metadata_only else written
