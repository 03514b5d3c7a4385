"""Commands that keep running: a stream of lines, a screen that is redrawn, the tasks beside them, and Ctrl-C."""

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final, Self

INTERRUPTED: Final = 130
"""The exit status after Ctrl-C."""
_PAUSE: Final = 0.02
"""Seconds until the next attempt to write to a slow reader."""
_CHECK_READER: Final = 0.5
"""Seconds between two checks whether the reader is gone while there is nothing to write."""
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_SHOW_CURSOR: Final = b"\x1b[?25h"
_HOME: Final = "\x1b[H"
_CLEAR_LINE: Final = "\x1b[2K"
_CLEAR_BELOW: Final = "\x1b[J"


async def run_until_first_ends(*works: Awaitable[None]) -> None:
    """Run all until one ends or fails, then cancel the others. Raises what it raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        # A task that draws on a screen leaves it before anything else is printed.
        await asyncio.gather(*tasks, return_exceptions=True)


class Stream:
    """Standard output, written without blocking: watches and Ctrl-C are served while the reader is slow.

    Raises BrokenPipeError.
    """

    def __init__(self) -> None:
        sys.stdout.flush()
        self._file = sys.stdout.fileno()

    async def write(self, data: bytes) -> None:
        """Write all of ``data``, however long that takes. Only one call at a time."""
        view = memoryview(data)
        while view:
            if not select.select((), (self._file,), (), 0)[1]:
                await asyncio.sleep(_PAUSE)
                continue
            # A pipe that is ready takes PIPE_BUF bytes at once.
            view = view[os.write(self._file, view[: select.PIPE_BUF]) :]

    async def wait_until_broken(self) -> None:
        """Never returns; raises BrokenPipeError when the reader is gone."""
        poll = select.poll()
        poll.register(self._file, 0)
        while True:
            for _, event in poll.poll(0):
                if event & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                    raise BrokenPipeError
            await asyncio.sleep(_CHECK_READER)


def is_screen() -> bool:
    """Whether standard output is a terminal that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Screen:
    """The alternate screen of a terminal. What was there before comes back on exit, and before a signal ends or stops
    the process.
    """

    def __init__(self) -> None:
        self._step_text: tuple[str, ...] | None = None
        self._old_handlers: dict[int, Any] = {}
        self._is_on = False

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        size = os.get_terminal_size(sys.stdout.fileno())
        return size.columns or 80, size.lines or 24

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for signal_number in (signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
                self._old_handlers[signal_number] = signal.signal(signal_number, self._on_signal)
        self._is_on = True
        _write(_ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        for signal_number, handler in self._old_handlers.items():
            signal.signal(signal_number, handler)

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines; there must be no more than fit."""
        if tuple(lines) != self._step_text:
            self._step_text = tuple(lines)
            _write(_HOME + "\r\n".join(_CLEAR_LINE + line for line in lines) + _CLEAR_BELOW)

    async def follow(
        self, state: Callable[[], object], picture: Callable[[int, int], list[str]], *, every: float
    ) -> None:
        """Draw ``picture``, which gets columns and lines, whenever ``state`` or the size has changed; never returns."""
        drawn: object = None
        while True:
            size, current = self.size, state()
            if (size, current) != drawn:
                drawn = size, current
                self.draw(picture(*size))
            await asyncio.sleep(every)

    def _leave(self) -> None:
        if self._is_on:
            self._is_on = False
            _write(_LEAVE)

    def _on_signal(self, signal_number: int, _frame: FrameType | None) -> None:
        """Leave the screen and let the signal have its default effect; after Ctrl-Z and ``fg`` draw again."""
        with suppress(OSError):
            # After SIGHUP there may be no terminal any more.
            self._leave()
        signal.signal(signal_number, signal.SIG_DFL)
        os.kill(os.getpid(), signal_number)
        signal.signal(signal_number, self._on_signal)
        self._is_on = True
        _write(_ENTER)
        shown, self._step_text = self._step_text or (), None
        self.draw(shown)


def _write(text: str) -> None:
    data = text.encode(sys.stdout.encoding or "utf-8", "replace")
    while data:
        data = data[os.write(sys.stdout.fileno(), data) :]


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


class Interrupts:
    """Ctrl-C in long work. Inside ``with``, the first SIGINT raises KeyboardInterrupt; between `hold` and `release`,
    `release` raises it. `check` raises it where a callback swallowed it, as those of numba do.

    The second SIGINT calls the functions given to `add_cleanup` and exits with status 130, even if threads still run.
    """

    def __init__(self) -> None:
        self._interrupted = False
        self._raised = False
        self._hold_interrupts = False
        self._cleanups: list[Callable[[], None]] = []
        self._old_handler: object = None

    def __enter__(self) -> Self:
        # Only the main thread of Python can handle signals.
        if threading.current_thread() is threading.main_thread():
            self._old_handler = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After Ctrl-C, a second one on the way out must end the process without a traceback.
        if self._old_handler is not None and not isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, self._old_handler)  # type: ignore[arg-type]

    def add_cleanup(self, clean: Callable[[], None]) -> None:
        """Add a function that removes what must not be left behind."""
        self._cleanups.append(clean)

    def hold(self) -> None:
        self._hold_interrupts = True

    def release(self) -> None:
        self._hold_interrupts = False
        self.check()

    def check(self) -> None:
        if self._interrupted and not self._raised:
            self._raised = True
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._interrupted:
            for clean in self._cleanups:
                clean()
            if sys.stderr.isatty():
                os.write(sys.stderr.fileno(), _SHOW_CURSOR)
            os._exit(INTERRUPTED)
        self._interrupted = True
        if not self._hold_interrupts:
            raise KeyboardInterrupt
