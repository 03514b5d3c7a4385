"""The server that the tests ask: a sandbox, or with ``--server=real`` kube-apiserver itself; they must not notice."""

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

import pytest
from tests.builders.objects import a_lease, a_namespace
from tests.contract.api import MERGE_PATCH, Api, ApiError, collection_of
from tests.sandbox.server.running_sandbox import run_sandbox

from zoneward.sandbox.server.persistence import new_registry

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Api]:
    chosen = str(request.config.getoption("--server", default="sandbox"))
    if chosen == "sandbox":
        with run_sandbox(new_registry()) as sandbox:
            yield sandbox.api
    elif chosen == "real":
        from e2e.control_plane import ControlPlane  # what it needs is not for those who only want the sandbox

        controllers = ("garbage-collector-controller", "namespace-controller")
        with (
            ControlPlane(controllers=controllers) as plane,
            closing(Api.of(plane.kubeconfig())) as real,
        ):
            yield real
    else:
        with closing(Api.of(Path(chosen))) as api:
            yield api
            _clean_up(api, f"contract-{os.getpid()}-")


@pytest.fixture
def api(server: Api) -> Api:
    return server


@pytest.fixture
def namespace(api: Api) -> str:
    """A new namespace. Its name is also a prefix for the nodes of a test, which have no namespace."""
    name = f"contract-{os.getpid()}-{next(_NUMBERS)}"
    api.create(a_namespace(name))
    return name


@pytest.fixture
def leases(namespace: str) -> str:
    """The path of its Leases: the smallest kind, for what holds for all."""
    return collection_of(a_lease("", namespace=namespace))


def _clean_up(api: Api, prefix: str) -> None:
    """Delete the objects of these tests from a server that continues to run, with their finalizers."""
    for path, version, kind in (
        ("/apis/coordination.k8s.io/v1/leases", "coordination.k8s.io/v1", "Lease"),
        ("/api/v1/pods", "v1", "Pod"),
        ("/api/v1/nodes", "v1", "Node"),
        ("/api/v1/namespaces", "v1", "Namespace"),
    ):
        for item in api.get(path)["items"]:
            obj = item | {"apiVersion": version, "kind": kind}
            metadata = obj["metadata"]
            if not metadata.get("namespace", metadata["name"]).startswith(prefix):
                continue
            if "finalizers" in metadata:
                api.patch(obj, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
            with suppress(ApiError):  # it may be gone by then
                api.delete(obj)
