"""``zoneward meter`` as a process on a node's namespace. Needs root."""

import sys
from pathlib import Path
from typing import Final

from e2e.nodes import Node
from e2e.processes import Daemon, Process, fetch

_AS_IN_A_CONTAINER: Final = ("setpriv", "--no-new-privs", "--inh-caps", "-all", "--bounding-set", "-all,+net_admin")
_STATUS: Final = "http://127.0.0.1:10274"


class ZonewardMeter(Daemon):
    """The meter of a node; `start` it as often as needed. ``flags`` are added to its command.

    It has the one capability of its DaemonSet.
    """

    def __init__(self, node: Node, kubeconfig: Path, folder: Path, *flags: str) -> None:
        super().__init__()
        self.node, self.kubeconfig, self.flags = node, kubeconfig, flags
        self.log = folder / f"meter-{node.name}.log"

    def start(self) -> None:
        """Until it counts."""
        if self._process is not None:
            self._process.kill()
        command = [sys.executable, "-m", "zoneward", "meter", "--node", self.node.name, "--dump-period", "5s"]
        command += ["--kubeconfig", str(self.kubeconfig), "--log-format", "json", *self.flags]
        self._process = Process([*self.node.enter, *_AS_IN_A_CONTAINER, *command], log=self.log)
        self.wait_until(lambda: self.get("/readyz")[0] == 200, what="the meter")

    def get(self, path: str) -> tuple[int, str]:
        return self.node.call(fetch, f"{_STATUS}{path}")
