"""Ctrl-C in long work: the first one ends it where nothing is half done, the second one ends the process at once."""

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
    """While it is entered, the first SIGINT raises KeyboardInterrupt, but between `hold` and `release`: then `release`
    raises it. `check` raises it where something swallowed it, as numba's callbacks do.

    The second one calls what was given to `at_once` and exits with status 130, whatever threads still do.
    """

    def __init__(self) -> None:
        self._asked = False
        self._raised = False
        self._held = False
        self._last: list[Callable[[], None]] = []
        self._before: object = None

    def __enter__(self) -> Self:
        # Python hands signals to the main thread only, and lets nobody else ask for them.
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # On the way out after Ctrl-C another one shall end the process, not print where it was.
        if self._before is not None and not isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]

    def at_once(self, clean: Callable[[], None]) -> None:
        """``clean`` takes away what must not be left behind."""
        self._last.append(clean)

    def hold(self) -> None:
        self._held = True

    def release(self) -> None:
        self._held = False
        self.check()

    def check(self) -> None:
        if self._asked and not self._raised:
            self._raised = True
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            for clean in self._last:
                clean()
            if sys.stderr.isatty():
                os.write(sys.stderr.fileno(), _SHOW_CURSOR)
            os._exit(INTERRUPTED)
        self._asked = True
        if not self._held:
            raise KeyboardInterrupt
