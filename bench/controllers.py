"""The controllers that are compared, each as its own process: Zoneward's, and the built-in one of Kubernetes."""

import itertools
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

from e2e.control_plane import ControlPlane
from e2e.processes import Process

from zoneward.kube.names import BUILT_IN_MANAGER
from zoneward.routing.configuration import Configuration

_ROOT: Final = Path(__file__).resolve().parent.parent
_NUMBERS: Final = itertools.count(1)
_BUILT_IN: Final = "endpointslice-controller"
_QUIET: Final = 0.005
"""Seconds of CPU that an idle process takes in a second."""


class Contender(Protocol):
    """``manager`` is the value of its label ``managed-by``."""

    name: str
    manager: str

    def start(self) -> None: ...
    def stop(self) -> None: ...

    @property
    def pid(self) -> int: ...


class Ours:
    """Adds ``flags`` to those of the command."""

    name = "zoneward"
    manager = Configuration().manager

    def __init__(self, kubeconfig: Path, folder: Path, *flags: str) -> None:
        options = ("--take-over", "--no-leader-elect", "--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0")
        command = (sys.executable, "-m", "zoneward", "controller", *options, *flags)
        # A program of tests has the folder of its log as its own, where this tree is not found.
        paths = os.pathsep.join((str(_ROOT / "src"), str(_ROOT)))
        self._command = ("env", f"PYTHONPATH={paths}", *command)
        self._folder = folder

    def start(self) -> None:
        self._process = Process(self._command, log=self._folder / f"zoneward-{next(_NUMBERS)}.log")

    def stop(self) -> None:
        self._process.stop()

    def check(self) -> None:
        self._process.check()

    @property
    def pid(self) -> int:
        return self._process.pid


class BuiltIn:
    """With its default limits on requests, as clusters run it."""

    name = "built in"
    manager = BUILT_IN_MANAGER

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def start(self) -> None:
        before = {process.pid for process in self._plane.processes}
        self._plane.start_controllers(_BUILT_IN)
        (self._pid,) = {process.pid for process in self._plane.processes} - before

    def stop(self) -> None:
        self._plane.stop_controllers()

    @property
    def pid(self) -> int:
        return self._pid


def cpu_of(pid: int) -> float:
    """Seconds that a process took of any core, all its threads together; to the nanosecond, unlike /proc."""
    # The clock of another process, as in clock_getcpuclockid(3).
    return time.clock_gettime(~pid << 3 | 2)


def peak_of(pid: int) -> float:
    """The peak resident memory of a process in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return float(status.partition("VmHWM:")[2].split()[0]) * 1024


async def at_rest(pid: int, *, sleep: Callable[[float], Awaitable[None]], seconds: float = 1.0) -> float:
    """Wait until a process was idle for this number of seconds; return its CPU time at the beginning of them."""
    while True:
        before = cpu_of(pid)
        await sleep(seconds)
        if cpu_of(pid) - before < _QUIET * seconds:
            return before


def kubeconfig_of(address: str, folder: Path) -> Path:
    """A kubeconfig for a server without authentication."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "sandbox",
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
        "clusters": [{"name": "sandbox", "cluster": {"server": address}}],
        "users": [{"name": "sandbox", "user": {}}],
    }
    file = folder / "kubeconfig.json"
    file.write_text(json.dumps(content))
    return file
