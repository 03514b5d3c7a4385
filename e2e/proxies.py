"""``zoneward proxy`` as a process in a node's namespace, and clients that count failures. Needs root."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.nodes import Namespace, Node
from e2e.processes import Daemon, Process, fetch

READY: Final = "all Services are programmed"
FLAGS: Final = ("--cluster-cidr", "10.0.0.0/8,fd00::/16", "--log-format", "json")
_STATUS: Final = "http://127.0.0.1:10272"


class ZonewardProxy(Daemon):
    """The proxy of a node: `start` it and `kill` it as often as needed; leaving the block ends all of it.

    ``flags`` are added to `FLAGS`. Its log is kept over all starts.
    """

    def __init__(self, node: Node, kubeconfig: Path, folder: Path, *flags: str) -> None:
        super().__init__()
        self.node, self.kubeconfig = node, kubeconfig
        self.flags: tuple[str, ...] = flags
        self.wrapper: tuple[str, ...] = ()
        """A command line before the command."""
        self.log = folder / f"proxy-{node.name}.log"
        self._nft: int | None = None

    def start(self, *, wait: bool = True) -> None:
        """``wait``: until all Services are programmed."""
        if self._process is not None:
            # Reap a process that ended by itself.
            self._process.kill()
        starts = len(self.logged(READY))
        self._process = Process([*self.node.enter, *self.wrapper, *self._command()], log=self.log)
        if wait:
            self.wait_until(lambda: len(self.logged(READY)) > starts, what=READY)

    def kill(self) -> None:
        """Kill both processes, as when a container ends."""
        nft = self.nft
        super().kill()
        self._end(nft)

    def kill_main(self) -> None:
        """Kill only the main process; its child has to notice it."""
        self._nft = self.nft
        super().kill()

    def kill_nft(self) -> None:
        self._end(self.nft)

    def stop_nft(self) -> None:
        if (nft := self.nft) is not None:
            with suppress(ProcessLookupError):
                os.kill(nft, signal.SIGSTOP)

    def end_rest(self) -> None:
        """Kill the child of an earlier main process, as a restarted container does."""
        self._end(self._nft)
        self._nft = None

    @property
    def nft(self) -> int | None:
        """The id of the child process that programs the kernel."""
        if not self.runs:
            return self._nft
        with suppress(OSError):
            pid = self.process.pid
            for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                if _is_nft(int(word)):
                    return int(word)
        return None

    def _end(self, pid: int | None) -> None:
        if pid is not None and _is_nft(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def get(self, path: str) -> tuple[int, str]:
        return self.node.call(fetch, f"{_STATUS}{path}")

    def print_rules(self) -> str:
        """All rules as the command prints them now, for what the cluster has now."""
        return self.node.run(*self._command(), "--print")

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "zoneward", "proxy", "--node", self.node.name]
        return [*command, "--kubeconfig", str(self.kubeconfig), *FLAGS, *self.flags]


@dataclass(frozen=True, slots=True)
class Opened:
    """One connection: its start (`time.monotonic`), its target, and the address that answered, or the failure."""

    begun: float
    target: tuple[str, int]
    answered: str | None
    failed: str | None


class Opening:
    """Connections that a client has opened. Complete once the block of `opening` is left."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def all(self) -> list[Opened]:
        connections = []
        for line in self._file.read_text().splitlines():
            at, target, outcome = line.split()
            address, port = target.split("|")
            ends = (None, outcome[1:]) if outcome.startswith("!") else (outcome, None)
            connections.append(Opened(float(at), (address, int(port)), *ends))
        return connections

    def failures(self) -> list[Opened]:
        return [opened for opened in self.all() if opened.failed is not None]


@contextmanager
def opening(client: Namespace, targets: Sequence[tuple[str, int]], *, rate: float, folder: Path) -> Iterator[Opening]:
    """Connections to each target in turn, ``rate`` a second in all, from a Pod, from entering to leaving the block."""
    file = folder / f"opened-{time.monotonic_ns()}"
    words = [str(word) for target in targets for word in target]
    command = [*client.enter, sys.executable, "-m", "e2e.opening", str(rate), *words]
    root = Path(__file__).resolve().parent.parent
    with (
        file.open("wb") as output,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, cwd=root) as process,
    ):
        assert process.stdin is not None
        try:
            yield Opening(file)
        finally:
            process.stdin.close()
            process.wait(60.0)


def _is_nft(pid: int) -> bool:
    with suppress(OSError):
        return b"zoneward.proxy.kernel.nft_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
