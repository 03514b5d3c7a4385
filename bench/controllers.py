"""The controllers that are compared, each as its own process: Zoneward's, and the built-in one of Kubernetes."""

import asyncio
from pathlib import Path
from typing import Final

from e2e.control_plane import ControlPlane

from bench.processes import cpu_of, zoneward
from zoneward.kube.names import BUILT_IN_MANAGER
from zoneward.routing.configuration import Configuration

_BUILT_IN: Final = "endpointslice-controller"
_QUIET: Final = 0.005
"""Seconds of CPU that an idle process takes in a second."""


class Zoneward:
    """Zoneward's controller. ``manager`` is the value of its label ``managed-by``."""

    name = "zoneward"
    manager = Configuration().manager

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._options = ("--take-over", "--no-leader-elect", "--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0")
        self._folder = folder

    def start(self) -> None:
        self._process = zoneward("controller", *self._options, folder=self._folder)

    def stop(self) -> None:
        self._process.stop()

    def check(self) -> None:
        self._process.check()

    @property
    def pid(self) -> int:
        return self._process.pid


class BuiltIn:
    """The built-in controller, with its default limits on requests."""

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


Contender = Zoneward | BuiltIn


async def at_rest(pid: int, *, seconds: float = 1.0) -> float:
    """Wait until a process was idle for this number of seconds; return its CPU time at the beginning of them."""
    while True:
        before = cpu_of(pid)
        await asyncio.sleep(seconds)
        if cpu_of(pid) - before < _QUIET * seconds:
            return before
