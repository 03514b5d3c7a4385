"""The server that the tests ask: a sandbox, or with ``--server=real`` kube-apiserver itself; they must not notice."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from tests.builders.objects import a_lease, a_namespace
from tests.contract.api import MERGE_PATCH, Api, ApiError, collection_of

_PATIENCE = 30.0
"""Seconds until a sandbox answers; a fraction of one on a machine that has nothing else to do."""
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Server:
    """``kubeconfig`` is for other clients."""

    api: Api
    kubeconfig: Path


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    chosen = str(request.config.getoption("--server", default="sandbox"))
    if chosen == "sandbox":
        with _sandbox(tmp_path_factory.mktemp("sandbox")) as kubeconfig, _server(kubeconfig) as sandbox:
            yield sandbox
    elif chosen == "real":
        from e2e.control_plane import QUICK, ControlPlane  # what it needs is not for those who only want the sandbox

        controllers = ("garbage-collector-controller", "namespace-controller")
        with (
            ControlPlane(controllers=controllers, controller_flags=QUICK) as plane,
            _server(plane.kubeconfig()) as real,
        ):
            yield real
    else:
        with _server(Path(chosen)) as kept:
            yield kept
            _clean_up(kept.api, f"contract-{os.getpid()}-")


@pytest.fixture
def api(server: Server) -> Api:
    return server.api


@pytest.fixture
def namespace(api: Api) -> str:
    """A new one. Its name also tells a test's nodes, which have no namespace, from all others."""
    name = f"contract-{os.getpid()}-{next(_NUMBERS)}"
    api.create(a_namespace(name))
    return name


@pytest.fixture
def leases(namespace: str) -> str:
    """The path of its Leases: the smallest kind, for what holds for all."""
    return collection_of(a_lease("", namespace=namespace))


@contextmanager
def _server(kubeconfig: Path) -> Iterator[Server]:
    server = Server(Api.of(kubeconfig), kubeconfig)
    yield server
    server.api.close()


def _clean_up(api: Api, prefix: str) -> None:
    """What these tests have made, where the server goes on. Nobody else would end what waits for somebody."""
    for path, version, kind in (
        ("/apis/coordination.k8s.io/v1/leases", "coordination.k8s.io/v1", "Lease"),
        ("/api/v1/pods", "v1", "Pod"),
        ("/api/v1/nodes", "v1", "Node"),
        ("/api/v1/namespaces", "v1", "Namespace"),
    ):
        for item in api.get(path)["items"]:
            thing = item | {"apiVersion": version, "kind": kind}
            metadata = thing["metadata"]
            if not metadata.get("namespace", metadata["name"]).startswith(prefix):
                continue
            if "finalizers" in metadata:
                api.patch(thing, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
            with suppress(ApiError):  # it may be gone by then
                api.delete(thing)


@contextmanager
def _sandbox(folder: Path) -> Iterator[Path]:
    """Ended as a user ends it: at once, and content."""
    kubeconfig, log = folder / "kubeconfig", folder / "log"
    command = [sys.executable, "-m", "zoneward", "sandbox", "--port", "0", "--write-kubeconfig", str(kubeconfig)]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            limit = time.monotonic() + _PATIENCE
            while not kubeconfig.exists():
                if process.poll() is not None or time.monotonic() > limit:
                    pytest.fail(f"no sandbox: {log.read_text()}", pytrace=False)
                time.sleep(0.01)
            yield kubeconfig
            process.terminate()
            assert process.wait(timeout=1) == 0, log.read_text()
        finally:
            process.kill()
