"""API servers that are killed and start again at the same address, with the same objects."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from e2e.control_plane import ControlPlane
from e2e.ports import free_port
from e2e.processes import Process, wait_until
from tests.contract.api import Api, ApiError, Object

_PROGRAM: Final = Path(__file__).with_name("lasting_sandbox.py")
_TOKEN: Final = "the-same-at-each-start"
_KEPT: Final = (
    "/api/v1/nodes",
    "/api/v1/services",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/apis/coordination.k8s.io/v1/leases",
)


class SandboxServer:
    """A sandbox; enter the block to start it. Its objects are read before it is killed, and restored when it starts."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.kubeconfig = folder, folder / "kubeconfig"
        self._process: Process | None = None
        self.port = free_port()
        self.api = Api(f"http://127.0.0.1:{self.port}", _TOKEN)
        self._objects = folder / "objects.json"

    def __enter__(self) -> Self:
        self._keep([], "0")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
        self.api.close()

    def kill(self) -> None:
        assert self._process is not None
        items, version = [], "0"
        for path in _KEPT:
            listed = self.api.get(path)
            kind = listed["kind"].removesuffix("List")
            version = listed["metadata"]["resourceVersion"]
            items += [{"kind": kind, "apiVersion": listed["apiVersion"], **item} for item in listed["items"]]
        self._process.kill()
        self._process = None
        self._keep(items, version)

    def start(self) -> None:
        command: list[str | Path] = [sys.executable, _PROGRAM, _TOKEN, str(self.port), self._objects, self.kubeconfig]
        self._process = Process(command, log=self._folder / "sandbox.log")
        wait_until(lambda: _answers(self.api), "a sandbox", self._process)

    def _keep(self, items: list[Object], version: str) -> None:
        listed = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items}
        self._objects.write_text(json.dumps(listed))


class PlaneServer:
    """The API server of a control plane that runs."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.port, self.kubeconfig, self.api = plane.ports.server, plane.kubeconfig(), plane.api()

    def kill(self) -> None:
        self._plane.stop_server()

    def start(self) -> None:
        self._plane.start_server()


ApiServer = SandboxServer | PlaneServer
"""``port`` is on the loopback of the tests. After `kill` and `start` it has the same objects, unless written to."""


def _answers(api: Api) -> bool:
    with suppress(OSError, ApiError):
        return bool(api.get("/api/v1/namespaces/default"))
    return False
