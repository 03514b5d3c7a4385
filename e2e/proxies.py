"""``zoneward proxy`` as a process on a node's namespace, with clients that count what fails. Needs root."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

from e2e.nodes import Namespace, Node
from e2e.processes import Process, ProcessError
from prometheus_client.parser import text_string_to_metric_families

READY: Final = "all is in the kernel"
FLAGS: Final = ("--cluster-cidr", "10.0.0.0/8,fd00::/16", "--log-format", "json")
_STATUS: Final = "http://127.0.0.1:10272"
_PATIENCE: Final = 30.0
_OPENER: Final = build_opener(ProxyHandler({}))


class ZonewardProxy:
    """The proxy of a node: `start` it and `kill` it as often as needed; leaving the block ends all of it.

    ``name`` is the Node's in the cluster, ``flags`` are added to `FLAGS`. Its log is kept over all starts.
    """

    def __init__(self, node: Node, kubeconfig: Path, folder: Path, *flags: str, name: str | None = None) -> None:
        self.node, self.kubeconfig, self.name = node, kubeconfig, name or node.name
        self.flags: tuple[str, ...] = flags
        self.log = folder / f"proxy-{self.name}.log"
        self._process: Process | None = None
        self._nft: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._process is not None:
            error.add_note(f"{self.log.name} ends:\n{self._process.last_lines()}")
        self.kill()

    # --- its life -----------------------------------------------------------------------------------------------------

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.runs

    def start(self, *, wait: bool = True) -> None:
        """``wait``: until all is in the kernel."""
        if self._process is not None:
            # One that ended by itself has not been waited for.
            self._process.kill()
        begun = len(self.told(READY))
        command = [*self.node.enter, sys.executable, "-m", "zoneward", "proxy", "--node", self.name]
        self._process = Process([*command, "--kubeconfig", self.kubeconfig, *FLAGS, *self.flags], log=self.log)
        if wait:
            self.wait_until(lambda: len(self.told(READY)) > begun, what=READY)

    def terminate(self) -> int:
        """As an upgrade does: SIGTERM, and its exit status."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGTERM)
        self.wait_until(lambda: not self.runs, what="its end", ends=True)
        status = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self._process.kill()
        assert status is not None
        return status.si_status

    def kill(self) -> None:
        """Both processes, as a container ends."""
        nft = self.nft
        if self._process is not None:
            self._process.kill()
        self._end(nft)

    def kill_main(self) -> None:
        """The main process alone; the other one is left to find that out."""
        assert self._process is not None
        self._nft = self.nft
        self._process.kill()

    def kill_nft(self) -> None:
        self._end(self.nft)

    def signal_main(self, number: signal.Signals) -> None:
        """To the main process."""
        if self._process is not None and self._process.runs:
            os.kill(self._process.pid, number)

    def signal_nft(self, number: signal.Signals) -> None:
        if (nft := self.nft) is not None:
            with suppress(ProcessLookupError):
                os.kill(nft, number)

    def end_rest(self) -> None:
        """What the main process left behind: a container that is started again has none of it."""
        self._end(self._nft)
        self._nft = None

    @property
    def nft(self) -> int | None:
        """The id of the process that programs the kernel, as the main process has it now."""
        if not self.runs:
            return self._nft
        assert self._process is not None
        with suppress(OSError):
            pid = self._process.pid
            for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                if _is_nft(int(each)):
                    return int(each)
        return None

    def _end(self, pid: int | None) -> None:
        if pid is not None and _is_nft(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # --- what it tells ------------------------------------------------------------------------------------------------

    def told(self, event: str | None = None) -> list[dict[str, Any]]:
        """Lines of its log, over all starts."""
        if not self.log.exists():
            return []
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            with suppress(ValueError):
                value = json.loads(line)
                if isinstance(value, dict) and event in (None, value.get("event")):
                    found.append(value)
        return found

    def get(self, path: str) -> tuple[int, str]:
        """What its status server says; 0 where there is none."""

        def asked() -> tuple[int, str]:
            with _OPENER.open(f"{_STATUS}{path}", timeout=5.0) as answer:
                return answer.status, answer.read().decode()

        try:
            return self.node.call(asked)
        except HTTPError as error:
            return error.code, error.read().decode()
        except (URLError, OSError, HTTPException):
            return 0, ""

    def metric(self, name: str, **labels: str) -> float:
        """The sum of all samples that have these labels."""
        _, text = self.get("/metrics")
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def print_rules(self) -> str:
        """All rules as the command prints them now, for what the cluster has now."""
        command = [sys.executable, "-m", "zoneward", "proxy", "--node", self.name, "--print"]
        flags = [*FLAGS, *self.flags, "--kubeconfig", str(self.kubeconfig)]
        return self.node.run(*command, *flags)

    def wait_until(
        self, met: Callable[[], bool], *, what: str, patience: float = _PATIENCE, ends: bool = False
    ) -> None:
        limit = time.monotonic() + patience
        while not met():
            if self._process is not None and not ends:
                self._process.check()
            if time.monotonic() > limit:
                raise ProcessError(f"{what}: not within {patience:.0f} s: {self.log.read_text()[-2000:]}")
            time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Opened:
    """One connection: when it began (`time.monotonic`), the port that it came from, where it went, and who answered, or
    why nobody did."""

    begun: float
    source: int
    target: tuple[str, int]
    answered: str | None
    failed: str | None


class Opening:
    """Connections that a client has opened. Complete once the block of `opening` is left."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def all(self) -> list[Opened]:
        found = []
        for line in self._file.read_text().splitlines():
            begun, source, target, outcome = line.split()
            address, port = target.split("|")
            is_failed = outcome.startswith("!")
            found.append(
                Opened(
                    begun=float(begun),
                    source=int(source),
                    target=(address, int(port)),
                    answered=None if is_failed else outcome,
                    failed=outcome[1:] if is_failed else None,
                )
            )
        return found

    def failures(self) -> list[Opened]:
        return [each for each in self.all() if each.failed is not None]


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
            process.wait(10.0)


def _is_nft(pid: int) -> bool:
    with suppress(OSError):
        return b"zoneward.proxy.kernel.nft_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
