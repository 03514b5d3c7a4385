"""Kubernetes' own controllers work with a sandbox as their cluster, and do there what they do in a real one."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane, controller_flags
from e2e.processes import Process
from e2e.programs import find_programs
from e2e.sandbox import Sandbox, a_sandbox
from tests.builders.objects import SERVICE_NAME, a_namespace, a_node, a_pod, a_service
from tests.contract.api import Api, ApiError, Object

PATIENCE = 30.0
LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
SHOP = a_namespace("shop")
CART = a_service(
    "cart",
    namespace="shop",
    selector={"app": "cart"},
    annotations={"service.kubernetes.io/topology-mode": "Auto"},
)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with a_sandbox(tmp_path) as sandbox:
        yield sandbox


@contextmanager
def controllers(
    sandbox: Sandbox, *names: str, log: str = "controllers.log", flags: tuple[str, ...] = ()
) -> Iterator[Process]:
    """kube-controller-manager with these controllers. It has to speak JSON."""
    folder = sandbox.kubeconfig.parent
    program = str(find_programs(environment=os.environ)["kube-controller-manager"])
    common = controller_flags(sandbox.kubeconfig, names, certificates=folder / "certificates")
    # There are no rights to look up in a sandbox.
    command = [program, *common, "--authentication-skip-lookup", "--kube-api-content-type=application/json", *flags]
    with Process(command, log=folder / log) as process:
        yield process


def wait_until(met: Callable[[], object], what: str) -> None:
    limit = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < limit, f"{what}: not within {PATIENCE:.0f} s"
        time.sleep(0.05)


def pods() -> list[Object]:
    return [
        a_pod(
            f"cart-{number}",
            namespace="shop",
            node=f"node-{zone}",
            ips=[f"10.1.0.{number}"],
            labels={"app": "cart"},
            ready=number != 9,
        )
        for number, zone in enumerate("abcabcabc", start=1)
    ]


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
        metadata["annotations"].pop("endpoints.kubernetes.io/last-change-trigger-time", None)
        for owner in metadata["ownerReferences"]:
            del owner["uid"]
        for endpoint in item["endpoints"]:
            del endpoint["targetRef"]["uid"]
        item["endpoints"].sort(key=lambda endpoint: str(endpoint["addresses"]))
        found.append(item)
    return found


def test_the_built_in_slice_controller_fills_slices_as_in_a_real_cluster(sandbox: Sandbox) -> None:
    written = []
    with controllers(sandbox, *SLICE_CONTROLLERS[:1]), ControlPlane(controllers=SLICE_CONTROLLERS[:1]) as plane:
        for api in (sandbox.api, plane.api()):
            api.create_all([SHOP, *(a_node(f"node-{zone}", zone=zone) for zone in "abc"), *pods()])
            api.create(CART)
            wait_until(lambda api=api: len(endpoints(api)) == 9, "nine endpoints")  # type: ignore[misc]
            written.append(comparable(api))
    assert written[0] == written[1]
    assert [each["conditions"]["ready"] for each in written[0][0]["endpoints"]] == [True] * 8 + [False]


def test_it_follows_pods_and_services(sandbox: Sandbox) -> None:
    api = sandbox.api
    with controllers(sandbox, *SLICE_CONTROLLERS[:1]) as process:
        api.create_all([SHOP, *(a_node(f"node-{zone}", zone=zone) for zone in "abc"), *pods(), CART])
        wait_until(lambda: len(endpoints(api)) == 9, "nine endpoints")
        api.patch(pods()[0], {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, subresource="status")
        wait_until(lambda: not endpoints(api)["10.1.0.1"]["conditions"]["ready"], "one is not ready")
        api.delete(pods()[1])
        wait_until(lambda: "10.1.0.2" not in endpoints(api), "one is gone")
        api.delete(CART)
        wait_until(lambda: not slices(api), "no slices of a Service that is gone")
        process.check()


def test_two_of_them_agree_on_a_leader_and_the_other_follows_when_it_dies(sandbox: Sandbox) -> None:
    flags = (
        "--leader-elect",
        "--leader-elect-lease-duration=4s",
        "--leader-elect-renew-deadline=3s",
        "--leader-elect-retry-period=500ms",
    )
    lease = {**LEASE, "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"}}

    def held() -> Object:
        try:
            spec: Object = sandbox.api.read(lease)["spec"]
        except ApiError:
            return {}
        return spec

    def reasons() -> list[str]:
        events = sandbox.api.get("/apis/events.k8s.io/v1/namespaces/kube-system/events")
        return [each["reason"] for each in events["items"]]

    name = SLICE_CONTROLLERS[0]
    with controllers(sandbox, name, log="first.log", flags=flags) as first:
        wait_until(lambda: held().get("holderIdentity"), "a leader")
        leader = held()["holderIdentity"]
        with controllers(sandbox, name, log="second.log", flags=flags) as second:
            wait_until(lambda: "acquire leader lease" in second.log.read_text(), "another that wants to lead")
            renewed = held()["renewTime"]
            wait_until(lambda: held()["renewTime"] > renewed, "a renewal")
            assert held()["holderIdentity"] == leader
            first.kill()
            wait_until(lambda: held()["holderIdentity"] not in ("", leader), "another leader")
            assert held()["leaseTransitions"] == 1
            wait_until(lambda: reasons() == ["LeaderElection"] * 2, "an event of each")


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
        limit = time.monotonic() + 2
        while sandbox.process.runs:
            assert time.monotonic() < limit, "it still runs"
            time.sleep(0.01)
        assert not sandbox.kubeconfig.exists()
        assert "Traceback" not in sandbox.process.last_lines()
        for watch in watches:
            watch.wait(timeout=PATIENCE)
    finally:
        for watch in watches:
            watch.kill()
            watch.communicate()
