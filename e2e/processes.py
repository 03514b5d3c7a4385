"""Programs that run beside the tests and never outlive them."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, Self
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from prometheus_client.parser import text_string_to_metric_families
from tests.patience import PATIENCE

from zoneward.kube.demand import MeasuredTraffic
from zoneward.snapshots.measured_traffic_files import read_measured_traffic

_LAST: Final = 15
"""Lines of the log that an error shows."""
_OPENER: Final = build_opener(ProxyHandler({}))
"""Ignores the machine's HTTP proxy."""


class ProcessError(Exception):
    """A program ended, or did not start. The message has the end of its log."""


class Process:
    """A program with a separate process group, and its output in a file.

    The kernel kills it when the thread that started it ends, however that happens: start it from one that lives as long
    as it is needed. With ``lasts`` it stays until somebody ends it. ``environment`` is the caller's by default.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        lasts: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = Path(command[0]).name
        self.log = log
        # setpriv rather than a function between fork and exec: that one could hang where other threads hold locks.
        with log.open("ab") as output:
            self._begins = output.tell()
            self._popen = subprocess.Popen(
                [*(() if lasts else ("setpriv", "--pdeathsig", "KILL", "--")), *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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

    def output(self) -> str:
        """Its output, without that of earlier processes in the same file."""
        return self.log.read_bytes()[self._begins :].decode(errors="replace")

    def last_lines(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LAST:])

    def stop(self, *, patience: float = 5.0) -> None:
        """Send SIGTERM, and after ``patience`` seconds SIGKILL to its process group. A second call does nothing."""
        if self.runs:
            self._popen.terminate()
        limit = time.monotonic() + patience
        while self.runs and time.monotonic() < limit:
            time.sleep(0.01)
        self.kill()

    def kill(self) -> None:
        """Send SIGKILL to its process group."""
        if self._popen.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._popen.wait()


def wait_until(met: Callable[[], object], what: str, *processes: Process | None, patience: float = PATIENCE) -> None:
    """Poll until ``met``. Raises ProcessError on a timeout, or when one of the processes has ended."""
    limit = time.monotonic() + patience
    while not met():
        for process in processes:
            if process is not None:
                process.check()
        if time.monotonic() > limit:
            logs = "\n".join(
                f"{process.log} ends:\n{process.last_lines()}" for process in processes if process is not None
            )
            raise ProcessError(f"{what}: not within {patience:.0f} s; {logs}")
        time.sleep(0.02)


class Daemon:
    """``zoneward controller`` or ``zoneward proxy``: it logs a line of JSON for each event, and serves its status.

    Leaving the block kills it.
    """

    log: Path

    def __init__(self) -> None:
        self._process: Process | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None and self._process is not None:
            error.add_note(f"{self.log.name} ends:\n{self._process.last_lines()}")
        self.kill()

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.runs

    def kill(self) -> None:
        """Send SIGKILL to its process group."""
        if self._process is not None:
            self._process.kill()

    def signal(self, signal_number: signal.Signals) -> None:
        if self.runs:
            os.kill(self.process.pid, signal_number)

    def terminate(self) -> int:
        """SIGTERM, and its exit status once it has ended."""
        self.signal(signal.SIGTERM)
        wait_until(lambda: not self.runs, f"the end of {self.log.name}")
        ended = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        self.process.kill()
        return ended.si_status

    # --- its output ---------------------------------------------------------------------------------------------------

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Of its log; one that was cut off by its end is left out."""
        records = []
        for line in self.log.read_text(errors="replace").splitlines() if self.log.exists() else ():
            with suppress(ValueError):
                records.append(json.loads(line))
        return [record for record in records if isinstance(record, dict) and "event" in record]

    def logged(self, event: str) -> list[dict[str, Any]]:
        """The log lines of an event."""
        return [line for line in self.lines if line["event"] == event]

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a path that it serves; 0 and nothing until it listens."""
        raise NotImplementedError

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name that have these labels; 0 where there are none."""
        _, text = self.get("/metrics")
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def measured(self) -> MeasuredTraffic:
        """The traffic that a meter or a proxy has counted; it may be some seconds old."""
        status, text = self.get("/measured")
        assert status == 200, text
        (traffic,) = read_measured_traffic("/measured", text.encode())
        return traffic

    def wait_until(self, met: Callable[[], object], *, what: str, patience: float = PATIENCE) -> None:
        """As `wait_until`, while it runs."""
        wait_until(met, what, self._process, patience=patience)


def cpu_seconds(pid: int | None) -> float:
    """Of a process that runs: with those in the kernel."""
    assert pid is not None
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def fetch(url: str) -> tuple[int, str]:
    """Status and body; 0 and nothing where nobody answers."""
    try:
        with _OPENER.open(url, timeout=30.0) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (OSError, HTTPException):
        return 0, ""
