"""Ctrl-C in long work: the first one ends it where nothing is half done; the second one ends the process at once."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final, Self

INTERRUPTED: Final = 130
_SHOW_CURSOR: Final = b"\x1b[?25h"


class Interrupts:
    """Inside ``with``, the first SIGINT raises KeyboardInterrupt; between `hold` and `release`, `release` raises it.
    `check` raises it where a callback swallowed it, as those of numba do.

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
