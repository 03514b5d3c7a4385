"""The namespaces that the cluster runs in, and the programs in them.

The box is a network, a mount, a host name and a process namespace. Within it each node has separate ones of the first
three. Mounts, networks and processes of the cluster exist only there and end with its first process; `end_all` removes
the control groups.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from cluster.cgroups import end_program, enter_group, processes
from cluster.machine import search_path
from e2e.processes import Process, wait_until

BOX: Final = "box"
WAIT: Final = "--timeout=300s"
"""Of kubectl and Helm, for what takes some seconds on an idle machine."""
_HOLDER: Final = "pause"
_ASK: Final = (
    "import sys, urllib.request as asked;"
    " print(asked.build_opener(asked.ProxyHandler({})).open(sys.argv[1], timeout=5).read().decode())"
)
_ENTERED: Final = ("--mount", "--net", "--uts", "--pid")


class BoxError(Exception):
    """A command in the box failed: the command and its error."""


class Box:
    """``folder`` has the files of its programs. Another process may have created the box: its groups identify it."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self.environment: Final = {**os.environ, "PATH": search_path(os.environ)}
        self.containers_go_last = False
        """Whether what starts containers gets CPU after everything else on the machine, also after other programs."""
        self._holders: dict[str, int] = {}
        self._started: list[Process] = []

    @property
    def bin(self) -> Path:
        """Programs for the nodes, whose folders differ from the machine's."""
        return self.folder / "bin"

    def make(self, programs: Mapping[str, Path]) -> None:
        """Start its first process, which reaps the others."""
        self.bin.mkdir()
        (self.folder / "logs").mkdir()
        for name in (_HOLDER, "kubelet"):
            shutil.copy2(programs[name], self.bin)
        script = f"mount -t proc proc /proc && ip link set lo up && exec {self.bin / _HOLDER}"
        own = ("--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--propagation", "private")
        self._hold(BOX, ["unshare", *own, "sh", "-c", script])

    def make_node(self, name: str, script: str) -> None:
        """Namespaces of a node, in which ``script`` (of sh) has run."""
        own = ("--mount", "--net", "--uts", "--propagation", "private")
        command = ["unshare", *own, "sh", "-e", "-c", f"{script}\nexec {self.bin / _HOLDER}"]
        self._hold(name, [*self.enter(BOX), *command])

    def start(self, name: str, command: list[str | Path], *, inside: str = BOX, goes_first: bool = False) -> Process:
        """Start a program, which outlives this process. Its log is ``logs/NAME.log``.

        ``goes_first``: it gets CPU before what starts containers, as on a separate machine, unless the kernel gives
        each session as much.
        """
        adjustment = -10 if goes_first else 10 if self.containers_go_last else 0
        return self._start(name, ["nice", f"--adjustment={adjustment}", *self.enter(inside), *map(str, command)])

    def end(self, name: str) -> None:
        """End a program, also one that another process started. Does nothing where it does not run."""
        end_program(name)

    def reap(self) -> None:
        """Wait for the processes that were started here, after all have ended."""
        for process in self._started:
            process.kill()

    def runs(self, name: str) -> bool:
        return bool(processes(name))

    def ask(self, url: str, *, inside: str) -> str:
        """The body of the response; empty if the status is not 200."""
        with suppress(BoxError):
            return self.run_here(sys.executable, "-c", _ASK, url, network=inside)
        return ""

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def enter(self, inside: str) -> list[str]:
        """The beginning of a command line that runs in the box, or in a node."""
        return ["nsenter", "--target", str(self.holder(inside)), *_ENTERED, "--"]

    def network(self, inside: str) -> Path:
        """The file of its network namespace."""
        return Path("/proc", str(self.holder(inside)), "ns", "net")

    def run(self, *command: str | Path, inside: str = BOX, text: str | None = None) -> str:
        """The output of a command; ``text`` is its input. Raises BoxError with its error."""
        return self._run(self.enter(inside), command, text, 360.0)

    def run_here(self, *command: str | Path, network: str, text: str | None = None) -> str:
        """As `run`, but only in that network: the command sees the machine's processes and files."""
        return self._run(["nsenter", f"--net={self.network(network)}", "--"], command, text, 60.0)

    def load(self, file: Path, *command: str, inside: str) -> None:
        """Run a command with a file of the machine as its input. Raises BoxError with its error."""
        with file.open("rb") as content:
            done = subprocess.run(
                [*enter_group("commands"), *self.enter(inside), *command],
                stdin=content, capture_output=True, text=True, check=False, timeout=600.0, env=self.environment,
            )  # fmt: skip
        if done.returncode:
            raise BoxError(f"{' '.join(command)} < {file} ended with {done.returncode}: {done.stderr.strip()}")

    def _run(self, enter: Sequence[str], command: Sequence[str | Path], text: str | None, patience: float) -> str:
        words = list(map(str, command))
        done = subprocess.run(
            [*enter_group("commands"), *enter, *words],
            input=text, capture_output=True, text=True, check=False, timeout=patience, env=self.environment,
        )  # fmt: skip
        if done.returncode:
            raise BoxError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def holder(self, inside: str) -> int:
        """The process that holds the namespaces. Raises ProcessLookupError where there is none."""
        if inside not in self._holders:
            for pid in processes(inside):
                with suppress(OSError):
                    if Path("/proc", str(pid), "exe").readlink() == self.bin / _HOLDER:
                        self._holders[inside] = pid
                        return pid
            raise ProcessLookupError(f"{inside} does not run")
        return self._holders[inside]

    def _hold(self, name: str, command: list[str]) -> None:
        process = self._start(name, command)
        wait_until(lambda: self._is_held(name), f"the namespaces of {name}", process)

    def _is_held(self, name: str) -> bool:
        with suppress(ProcessLookupError):
            return bool(self.holder(name))
        return False

    def _start(self, name: str, command: list[str]) -> Process:
        whole = [*enter_group(name), *command]
        process = Process(whole, log=self.log(name), lasts=True, environment=self.environment)
        # Keep a reference: Python reports a process object that is dropped while the process runs.
        self._started.append(process)
        return process
