"""Kubernetes' own controllers work with a sandbox as their cluster, and do there what they do in a real one."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane, controller_flags
from e2e.pods import LABELS, Shop, a_shop, address
from e2e.processes import PATIENCE, Process, wait_until
from e2e.programs import find_programs
from e2e.sandbox import Sandbox, a_sandbox
from tests.builders.objects import SERVICE_NAME, a_service
from tests.contract.api import Api, Object

CART = a_service("cart", namespace="shop", selector=LABELS, annotations={"service.kubernetes.io/topology-mode": "Auto"})


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with a_sandbox(tmp_path) as sandbox:
        yield sandbox


@contextmanager
def controllers(sandbox: Sandbox, *names: str) -> Iterator[Process]:
    """kube-controller-manager with these controllers. It has to speak JSON."""
    folder = sandbox.kubeconfig.parent
    program = str(find_programs(environment=os.environ)["kube-controller-manager"])
    common = controller_flags(sandbox.kubeconfig, names, certificates=folder / "certificates")
    # There are no permissions to look up in a sandbox.
    command = [program, *common, "--authentication-skip-lookup", "--kube-api-content-type=application/json"]
    with Process(command, log=folder / "controllers.log") as process:
        yield process


def pod(number: int) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"cart-{number}", "namespace": "shop"}}


def slices(api: Api) -> list[Object]:
    found = api.get("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", labelSelector=f"{SERVICE_NAME}=cart")
    items: list[Object] = found["items"]
    return items


def endpoints(api: Api) -> dict[str, Object]:
    """By address."""
    return {each["addresses"][0]: each for item in slices(api) for each in item["endpoints"] or ()}


def comparable(api: Api) -> list[Object]:
    """The slices without what is never twice the same."""
    found: list[Object] = []
    for item in slices(api):
        metadata: dict[str, Any] = item["metadata"]
        for name in ("name", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
            metadata.pop(name, None)
        metadata.setdefault("annotations", {}).pop("endpoints.kubernetes.io/last-change-trigger-time", None)
        for owner in metadata["ownerReferences"]:
            del owner["uid"]
        for endpoint in item["endpoints"]:
            del endpoint["targetRef"]["uid"]
        item["endpoints"].sort(key=lambda endpoint: str(endpoint["addresses"]))
        found.append(item)
    return found


def test_the_built_in_slice_controller_follows_pods_and_services_as_in_a_real_cluster(sandbox: Sandbox) -> None:
    written = []
    controller = SLICE_CONTROLLERS[0]
    with controllers(sandbox, controller), ControlPlane(controllers=[controller]) as plane:
        for api in (sandbox.api, plane.api()):
            found = partial(endpoints, api)
            api.create_all([*a_shop("shop", 9), CART])
            wait_until(lambda found=found: len(found()) == 9, "nine endpoints")  # type: ignore[misc]
            Shop(api, "shop").make_ready("cart-0", False)
            wait_until(lambda found=found: not found()[address(0)]["conditions"]["ready"], "one is not ready")  # type: ignore[misc]
            api.delete(pod(1))
            wait_until(lambda found=found: address(1) not in found(), "one is gone")  # type: ignore[misc]
            written.append(comparable(api))
    assert written[0] == written[1]
    assert sum(each["conditions"]["ready"] for each in written[0][0]["endpoints"]) == 7


def test_it_ends_at_once_while_kubectl_watches(sandbox: Sandbox) -> None:
    kubectl = str(find_programs(environment=os.environ)["kubectl"])
    common = [kubectl, "--kubeconfig", str(sandbox.kubeconfig), "get", "-A", "-w", "-o", "name"]
    watches = [
        subprocess.Popen([*common, kind], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for kind in ("services", "namespaces")
    ]
    try:
        for watch in watches:
            assert watch.stdout is not None
            assert watch.stdout.readline()
        os.kill(sandbox.process.pid, signal.SIGTERM)
        wait_until(lambda: not sandbox.process.runs, "its end")
        assert not sandbox.kubeconfig.exists()
        assert "Traceback" not in sandbox.process.last_lines()
        for watch in watches:
            watch.wait(timeout=PATIENCE)
    finally:
        for watch in watches:
            watch.kill()
            watch.communicate()
