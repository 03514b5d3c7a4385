"""Measures time and memory of whole commands, and compares figures with limits."""

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ZONEWARD = (sys.executable, "-m", "zoneward")
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a command: wall time and CPU in seconds, peak resident memory in bytes."""

    wall: float
    cpu: float
    peak: int


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure and its limit (None: only reported)."""

    name: str
    value: float
    unit: str
    most: float | None = None

    @property
    def holds(self) -> bool:
        return self.most is None or self.value <= self.most

    def __str__(self) -> str:
        limit = (
            "" if self.most is None else f"  (at most {self.most:g} {self.unit}: {'ok' if self.holds else 'MISSED'})"
        )
        return f"{self.name:<58} {self.value:>10.3f} {self.unit}{limit}"


def run(command: Sequence[str], *, output: Path | None = None, tree: Path | None = None) -> Run:
    """Run a command to its end; its output is dropped, or written to a file. Raises if it fails.

    CPU is that of all its processes. ``tree``: another checkout, whose source it runs.
    """
    environment = None if tree is None else {**os.environ, "PYTHONPATH": str(tree / "src")}
    with open(output or os.devnull, "wb") as sink:  # noqa: PTH123 -- a device as well as a path
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=sink, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def quantile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[int(len(ordered) * share)]
