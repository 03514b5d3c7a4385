"""Lines to standard output as they come, whoever reads them: one who is slow, or who goes away."""

import asyncio
import os
import select
import sys
from typing import Final

_PAUSE: Final = 0.02
"""Seconds before a reader that is slow is asked again."""
_GONE: Final = 0.5
"""Seconds in which a reader that went away is missed, though there is nothing to tell it."""


class Stream:
    """Standard output, written without ever waiting in the kernel: meanwhile the cluster is followed and Ctrl-C heard.

    Raises BrokenPipeError.
    """

    def __init__(self) -> None:
        sys.stdout.flush()
        self._file = sys.stdout.fileno()

    async def write(self, data: bytes) -> None:
        """All of it, in the order of the calls, however long that takes. One at a time may be under way."""
        view = memoryview(data)
        while view:
            if not select.select((), (self._file,), (), 0)[1]:
                await asyncio.sleep(_PAUSE)
                continue
            # A pipe that is ready takes that much at once.
            view = view[os.write(self._file, view[: select.PIPE_BUF]) :]

    async def gone(self) -> None:
        """Returns never; raises BrokenPipeError when nobody reads any more."""
        poll = select.poll()
        poll.register(self._file, 0)
        while True:
            for _, event in poll.poll(0):
                if event & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                    raise BrokenPipeError
            await asyncio.sleep(_GONE)
