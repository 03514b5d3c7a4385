"""The proxies that are compared, each as it runs on a node: Zoneward's, and kube-proxy."""

import itertools
import json
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self

import yaml
from e2e.control_plane import ControlPlane
from e2e.kube_proxy import kube_proxy_configuration
from e2e.processes import Process

from bench.api_server import ApiServer
from bench.processes import cpu_with_children, tree, zoneward
from bench.proxy_cluster import NODE, Object
from zoneward.proxy.ruleset.base_rules import TABLE

PODS: Final = "10.0.0.0/12"
_NUMBERS: Final = itertools.count(1)
_LISTEN: Final = "127.0.0.1:10272"
_METRICS: Final = "127.0.0.1:10249"
_PATIENCE: Final = 300.0
_PROGRAMMED: Final = "kubeproxy_sync_proxy_rules_last_timestamp_seconds"


class _Proxy:
    """A context manager: started on entering, ended on leaving. ``started`` is the moment at which the command was, by
    ``time.perf_counter``. ``inside`` begins a command that is to run in another network namespace.
    """

    name: str
    _table: str
    _pause = 0.005
    """Seconds between two checks."""

    def __enter__(self) -> Self:
        self.started = time.perf_counter()
        self._process = self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()

    def _start(self) -> Process:
        raise NotImplementedError

    def _programmed(self) -> dict[str, Any] | None:
        raise NotImplementedError

    def until_programmed(self) -> dict[str, Any]:
        """Wait for the rules in the kernel; the proxy's own report of it. Raises ProcessError, TimeoutError."""
        limit = time.monotonic() + _PATIENCE
        while (state := self._programmed()) is None:
            self._process.check()
            if time.monotonic() > limit:
                raise TimeoutError(self._process.last_lines())
            time.sleep(self._pause)
        return state

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._process.pid,)

    @property
    def cpu(self) -> float:
        """Seconds of all of them, with those of the ``nft`` that kube-proxy started and that have ended."""
        return sum(map(cpu_with_children, self.pids))

    def clear(self) -> None:
        """Remove its tables in both families."""
        for family in ("ip", "ip6"):
            subprocess.run(("nft", "delete", "table", family, self._table), check=True)


class Zoneward(_Proxy):
    """Zoneward's proxy."""

    name, _table = "zoneward", TABLE

    def __init__(self, kubeconfig: Path, folder: Path, *flags: str, inside: Sequence[str] = ()) -> None:
        options = ("--node", NODE, "--kubeconfig", str(kubeconfig), "--cluster-cidr", PODS, "--log-format", "json")
        self._options, self._folder, self._inside = (*options, *flags), folder, inside

    def _start(self) -> Process:
        return zoneward("proxy", *self._options, folder=self._folder, inside=self._inside)

    def _programmed(self) -> dict[str, Any] | None:
        """The line of its log about the start."""
        lines = self._process.log.read_text().splitlines()
        return next((json.loads(line) for line in lines if '"all Services are programmed"' in line), None)

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the proxy and the one that programs the kernel."""
        return tuple(tree(self._process.pid))

    def metrics(self) -> dict[str, float]:
        """Metrics by full name with labels."""
        return _metrics(f"http://{_LISTEN}/metrics")


class KubeProxy(_Proxy):
    """The real one, of Kubernetes."""

    name = _table = "kube-proxy"
    _pause = 0.05

    def __init__(self, plane: ControlPlane, *, inside: Sequence[str] = ()) -> None:
        self._plane, self._inside = plane, inside

    def _start(self) -> Process:
        folder = self._plane.folder / f"kube-proxy-{next(_NUMBERS)}"
        folder.mkdir()
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(kube_proxy_configuration(self._plane, NODE, pods=PODS)))
        command = [*self._inside, str(self._plane.programs["kube-proxy"]), f"--config={config}"]
        return Process(command, log=folder / "log")

    def _programmed(self) -> dict[str, Any] | None:
        try:
            metrics = _metrics(f"http://{_METRICS}/metrics")
        except OSError:
            return None
        synced = {name: value for name, value in metrics.items() if name.startswith(_PROGRAMMED) and '"IPv4"' in name}
        return synced if any(synced.values()) else None


def _metrics(address: str) -> dict[str, float]:
    with urllib.request.urlopen(address, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


@asynccontextmanager
async def plane() -> AsyncIterator[tuple[ControlPlane, ApiServer]]:
    with ControlPlane() as control:
        async with ApiServer(control.address, token=control.admin.token, authority=control.authority) as server:
            yield control, server


async def create(server: ApiServer, objects: Sequence[Object]) -> None:
    """Objects in any order, but namespaces first."""

    async def make(object_: Object) -> None:
        group, _, version = object_["apiVersion"].rpartition("/")
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        namespace = object_["metadata"].get("namespace")
        where = f"{root}/namespaces/{namespace}" if namespace else root
        await server.ask("POST", f"{where}/{object_['kind'].lower()}s", object_)
        if object_["kind"] == "Node":
            await server.patch_status(f"{where}/nodes/{object_['metadata']['name']}", object_["status"])

    for object_ in objects:
        if object_["kind"] == "Namespace":
            await make(object_)
    await server.all(lambda object_=object_: make(object_) for object_ in objects if object_["kind"] != "Namespace")  # type: ignore[misc]
