"""``plan --watch -o json`` beside the tests."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from e2e.control_plane import ADMIN, ControlPlane
from e2e.processes import Process, wait_until
from tests.contract.api import Object

_AFTERWARDS: Final = 0.5
"""Seconds in which nothing more may be printed."""


class Watching:
    """From entering the block, when everything is printed, to leaving it, where Ctrl-C ends it."""

    def __init__(self, plane: ControlPlane, folder: Path, *arguments: str, user: str = ADMIN) -> None:
        self._command = [sys.executable, "-m", "zoneward", "plan", "--watch", "-o", "json", *arguments]
        self._command += ["--kubeconfig", str(plane.kubeconfig(user))]
        self._log = folder / "lines"

    def __enter__(self) -> Self:
        self._process = Process(self._command, log=self._log)
        self.wait_for(lambda: any(line["type"] == "SYNCED" for line in self.lines))
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            if error is None:
                os.kill(self._process.pid, signal.SIGINT)
                wait_until(lambda: not self._process.runs, "its end")
                ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
                assert ended is not None
                assert ended.si_status == 130
        finally:
            self._process.kill()

    @property
    def lines(self) -> list[Object]:
        return [json.loads(line) for line in self._whole() if line.startswith("{")]

    @property
    def notes(self) -> list[str]:
        """Its other output."""
        return [line for line in self._whole() if not line.startswith("{")]

    def wait_for(self, met: Callable[[], object]) -> None:
        wait_until(met, "the expected output", self._process)

    def lines_after(self, known: int, is_last: Callable[[Object], bool]) -> list[tuple[str, Object]]:
        """Types and decisions of all lines but the ``known`` first, once one ``is_last`` and no more have come."""
        self.wait_for(lambda: any(is_last(line["decision"]) for line in self.lines[known:]))
        time.sleep(_AFTERWARDS)
        return [(line["type"], line["decision"]) for line in self.lines[known:]]

    def _whole(self) -> list[str]:
        return self._log.read_text().rpartition("\n")[0].splitlines()
