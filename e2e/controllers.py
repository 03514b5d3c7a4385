"""``zoneward controller`` as a process beside the tests, as an operator runs it."""

import io
import itertools
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final, Self

from e2e.control_plane import ADMIN, ControlPlane, User
from e2e.nodes import Namespace
from e2e.processes import Daemon, Process, fetch

from zoneward.cli.main import run

TAKE_OVER: Final = "take-over"
ONLY_MARKED: Final = "only-marked"
LISTENS: Final = "status server listens"
_COMMAND: Final = (sys.executable, "-m", "zoneward", "controller")
_NUMBERS: Final = itertools.count(1)


class ZonewardController(Daemon):
    """Runs from entering the block to leaving it; entered, its cache is filled and ``/readyz`` says ok.

    ``flags`` are added to the command's; it elects a leader only if ``elects``. Its log is a separate file in the
    plane's folder, ``log``. ``network`` is the namespace that it is in, from which a door must lead to the server.
    """

    def __init__(
        self,
        plane: ControlPlane,
        *flags: str,
        mode: str = TAKE_OVER,
        user: User | str = ADMIN,
        elects: bool = False,
        network: Namespace | None = None,
    ) -> None:
        super().__init__()
        self._plane, self._network = plane, network
        self._command: tuple[str | Path, ...] = (
            *(() if network is None else network.enter),
            *(*_COMMAND, f"--{mode}"),
            *("--kubeconfig", plane.kubeconfig(user), "--listen", "127.0.0.1:0", "--log-format", "json"),
            *(() if elects else ("--no-leader-elect",)),
            *flags,
        )

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_until(lambda: self.is_ready, what="/readyz")
        except BaseException:
            self.kill()
            raise
        return self

    def start(self) -> None:
        """With a new log, without waiting for anything. Start it from a thread that lives as long."""
        self.log = self._plane.folder / f"zoneward-controller-{next(_NUMBERS)}.log"
        self._process = Process(self._command, log=self.log)
        self._port: int | None = None

    @property
    def is_ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def get(self, path: str) -> tuple[int, str]:
        if self._port is None:
            self._port = next((int(line["port"]) for line in self.logged(LISTENS)), None)
        if self._port is None:
            return 0, ""
        url = f"http://127.0.0.1:{self._port}{path}"
        return fetch(url) if self._network is None else self._network.call(fetch, url)


def command_json(kubeconfig: Path, *arguments: str) -> Any:
    """The JSON that a command prints. It runs in this process: a program would take longer to start than to answer."""
    output = io.TextIOWrapper(io.BytesIO())
    with redirect_stdout(output):
        status = run([*arguments, "-o", "json", "-q", "--kubeconfig", str(kubeconfig)])
        output.flush()
    assert status == 0, arguments
    output.seek(0)
    return json.loads(output.read())


def decisions(plane: ControlPlane, *arguments: str) -> list[dict[str, Any]]:
    """The decisions of `zoneward plan`, by Zoneward's rules unless ``--compat`` is among the arguments."""
    is_upstream = any(argument.startswith("--compat") for argument in arguments)
    mode = () if is_upstream else ("--with", "controller")
    decided: list[dict[str, Any]] = command_json(plane.kubeconfig(), "plan", *mode, *arguments)["decisions"]
    return decided


def to_write(plane: ControlPlane, *arguments: str) -> dict[str, Any]:
    """The planned writes, by Service (default: all); empty once everything is as planned."""
    left = {}
    for decision in decisions(plane, *(arguments or ("-A",))):
        writes = {name: count for name, count in decision["slices"].items() if name != "unchanged" and count}
        if writes or decision["replacedSlices"]:
            left[f"{decision['namespace']}/{decision['service']}"] = writes | {"replaced": decision["replacedSlices"]}
    return left
