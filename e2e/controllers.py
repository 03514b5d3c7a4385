"""``zoneward controller`` as a process beside the tests, as an operator runs it."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

from e2e.control_plane import ADMIN, ControlPlane, User
from e2e.processes import Process, ProcessError
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

TAKE_OVER: Final = "take-over"
ONLY_MARKED: Final = "only-marked"
ALONE: Final = "--no-leader-elect"
LISTENS: Final = "status server listens"
COMMAND: Final = (sys.executable, "-m", "zoneward", "controller")
_PATIENCE: Final = 30.0
_OPENER: Final = build_opener(ProxyHandler({}))
"""Asks no proxy: one that the machine has must not see what stays on it."""
_NUMBERS: Final = itertools.count(1)


class ZonewardController:
    """Runs from entering the block to leaving it; entered, its cache is filled and ``/readyz`` says ok.

    ``flags`` are added to the command's; it elects a leader only if ``elects``. Its log is a file of its own in the
    plane's folder, ``log``.
    """

    def __init__(
        self,
        plane: ControlPlane,
        *flags: str,
        mode: str = TAKE_OVER,
        user: User | str = ADMIN,
        elects: bool = False,
        patience: float = _PATIENCE,
    ) -> None:
        self._plane, self._patience = plane, patience
        self._command: tuple[str | Path, ...] = (
            *(*COMMAND, f"--{mode}"),
            *("--kubeconfig", plane.kubeconfig(user), "--listen", "127.0.0.1:0", "--log-format", "json"),
            *(() if elects else (ALONE,)),
            *flags,
        )
        self._process: Process | None = None

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_until(lambda: self.is_ready, what="/readyz")
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"{self.log.name} ends:\n{self.process.last_lines()}")
        self.kill()

    def start(self) -> None:
        """With a new log, without waiting for anything. Start it from a thread that lives as long."""
        self.log = self._plane.folder / f"zoneward-controller-{next(_NUMBERS)}.log"
        self._process = Process(self._command, log=self.log)
        self._port: int | None = None

    # --- how it ends --------------------------------------------------------------------------------------------------

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    def kill(self) -> None:
        """At once, as if the machine had gone."""
        self.process.kill()

    def terminate(self, *, patience: float = 15.0) -> int:
        """SIGTERM, and its exit status once it has ended. Raises ProcessError where it does not end."""
        self.signal(signal.SIGTERM)
        limit = time.monotonic() + patience
        while self.process.runs:
            if time.monotonic() > limit:
                raise ProcessError(
                    f"not ended {patience:.0f} s after SIGTERM; its log ends:\n{self.process.last_lines()}"
                )
            time.sleep(0.01)
        ended = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        self.process.kill()
        return ended.si_status

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    # --- what it tells ------------------------------------------------------------------------------------------------

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Of its log, whole ones only. Raises ProcessError for one that is no JSON, as of a traceback."""
        whole, _, _ = self.log.read_text().rpartition("\n")
        try:
            return [json.loads(line) for line in whole.splitlines()]
        except ValueError as error:
            raise ProcessError(f"a line is no JSON; the controller's log ends:\n{self.process.last_lines()}") from error

    def told(self, event: str) -> list[dict[str, Any]]:
        """Its log's lines of that event."""
        return [line for line in self.lines if line["event"] == event]

    @property
    def is_ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of what it serves; 0 and nothing as long as it serves nothing."""
        port = self._listening()
        if port is None:
            return 0, ""
        try:
            with _OPENER.open(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (URLError, HTTPException, OSError):
            return 0, ""

    def metrics(self) -> list[Sample]:
        """Every sample of ``/metrics``."""
        status, text = self.get("/metrics")
        assert status == 200, (status, text)
        return [each for family in text_string_to_metric_families(text) for each in family.samples]

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name that have these labels; 0 where there are none."""
        fitting = (each for each in self.metrics() if each.name == name and labels.items() <= each.labels.items())
        return sum(each.value for each in fitting)

    def wait_until(self, met: Callable[[], bool], *, what: str, patience: float | None = None) -> None:
        """Asks again and again. Raises ProcessError when it takes too long, or the controller has ended meanwhile."""
        limit = time.monotonic() + (self._patience if patience is None else patience)
        while not met():
            self.process.check()
            if time.monotonic() > limit:
                raise ProcessError(f"{what}: not in time; the controller's log ends:\n{self.process.last_lines()}")
            time.sleep(0.02)

    def _listening(self) -> int | None:
        if self._port is None:
            self._port = next((int(line["port"]) for line in self.told(LISTENS)), None)
        return self._port


def decisions(plane: ControlPlane, *arguments: str) -> list[dict[str, Any]]:
    """What `zoneward plan` says of the cluster as it is."""
    command = [sys.executable, "-m", "zoneward", "plan", "-o", "json", "--kubeconfig", str(plane.kubeconfig())]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["decisions"]
    return found


def to_write(plane: ControlPlane, *arguments: str) -> dict[str, Any]:
    """What it would still write, by Service, all of them unless told otherwise; empty once all is as planned."""
    left = {}
    for each in decisions(plane, *(arguments or ("-A",))):
        writes = {name: count for name, count in each["slices"].items() if name != "unchanged" and count}
        if writes or each["replacedSlices"]:
            left[f"{each['namespace']}/{each['service']}"] = writes | {"replaced": each["replacedSlices"]}
    return left
