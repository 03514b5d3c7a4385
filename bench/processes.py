"""CPU and memory of other processes, and Zoneward's daemons as processes."""

import itertools
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from e2e.processes import Process

_ROOT: Final = Path(__file__).resolve().parent.parent
_NUMBERS: Final = itertools.count(1)


def zoneward(*arguments: str, folder: Path, inside: Sequence[str] = ()) -> Process:
    """A command, with its log in a folder. ``inside`` begins a command in another network namespace."""
    # A program of tests has the folder of its log as its own, where this tree is not found.
    paths = os.pathsep.join((str(_ROOT / "src"), str(_ROOT)))
    command = (*inside, "env", f"PYTHONPATH={paths}", sys.executable, "-m", "zoneward", *arguments)
    return Process(command, log=folder / f"zoneward-{next(_NUMBERS)}.log")


def tree(pid: int) -> Iterable[int]:
    """A process, and those that it started."""
    yield pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield from tree(int(child))


def cpu_of(pid: int) -> float:
    """Seconds that a process took of any core, all its threads together; to the nanosecond, unlike /proc."""
    # The clock of another process, as in clock_getcpuclockid(3).
    return time.clock_gettime(~pid << 3 | 2)


def cpu_with_children(pid: int) -> float:
    """Seconds, with those of children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def resident_of(pid: int) -> float:
    """Bytes."""
    return _bytes(f"/proc/{pid}/status", "VmRSS:")


def peak_of(*pids: int) -> float:
    """The sum of the peak resident memory of each process, in bytes."""
    return sum(_bytes(f"/proc/{pid}/status", "VmHWM:") for pid in pids)


def share_of(*pids: int) -> float:
    """Resident memory now, in bytes; shared memory counts in proportion."""
    return sum(_bytes(f"/proc/{pid}/smaps_rollup", "\nPss:") for pid in pids)


def _bytes(file: str, name: str) -> float:
    return int(Path(file).read_text().partition(name)[2].split()[0]) * 1024
