"""A program that runs beside the tests and never outlives them."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_LAST: Final = 15
"""Lines of the log that an error shows."""


class ProcessError(Exception):
    """A program ended, or did not begin, when it should have run: with the end of its log."""


class Process:
    """A program with a process group of its own and its output in a file.

    The kernel kills it when the thread that started it ends, however that happens: start it from one that lives as long
    as it is needed.
    """

    def __init__(self, command: Sequence[str | Path], *, log: Path) -> None:
        self.name = Path(command[0]).name
        self.log = log
        # setpriv rather than a function between fork and exec: that one could hang where other threads hold locks.
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def runs(self) -> bool:
        # Left unreaped until stop(): only so does its id, and that of its group, stay its own.
        return self._popen.returncode is None and not os.waitid(
            os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        )

    def check(self) -> None:
        """Raises ProcessError once it has ended."""
        if not self.runs:
            raise ProcessError(f"{self.name} ended by itself; its log ends:\n{self.last_lines()}")

    def last_lines(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LAST:])

    def stop(self, *, patience: float = 5.0) -> None:
        """Asks it to end, and after ``patience`` seconds kills it; what it started goes with it. Again does nothing."""
        if self.runs:
            self._popen.terminate()
        limit = time.monotonic() + patience
        while self.runs and time.monotonic() < limit:
            time.sleep(0.01)
        self.kill()

    def kill(self) -> None:
        """At once, as if the machine had gone."""
        if self._popen.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._popen.wait()
