"""A real API server takes the node proxy's manifests, and grants what it needs and nothing that it must not have."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from e2e.control_plane import ControlPlane, User
from e2e.programs import find_programs
from tests.contract.api import ApiError, Object
from tests.contract.objects import a_node, a_service, an_endpoint_slice
from tests.deploy.manifests import DEPLOY, PROXY_MODES, the
from tests.deploy.test_proxy_rights import Kernel, a_proxy

from zoneward.sources.kubeconfig import find_access
from zoneward.sources.node_leases import lease_name

BESIDE, INSTEAD = PROXY_MODES
NODE, PATIENCE = "node-a", 60.0
LEASES = "/apis/coordination.k8s.io/v1/namespaces/zoneward-system/leases"
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}


class Cluster:
    """To which the manifests were applied. ``account`` is the proxy's."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.api = plane, plane.api()
        self.kubectl("apply", "--filename", str(DEPLOY / "base" / "namespace.yaml"))
        self.kubectl("apply", "--kustomize", str(DEPLOY / BESIDE), "--validate=strict")
        self.account = self._account()
        self.as_proxy = plane.api(self.account)

    def kubectl(self, *arguments: str) -> str:
        kubectl = str(find_programs(environment=os.environ)["kubectl"])
        command = [kubectl, "--kubeconfig", str(self.plane.kubeconfig()), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _account(self) -> User:
        metadata = the("ServiceAccount", BESIDE)["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        token = self.api.request("POST", path, asked)["status"]["token"]
        return User(f"system:serviceaccount:{namespace}:{name}", token=token)

    def told(self) -> list[Object]:
        found: list[Object] = self.api.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        return found

    def leases(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.api.get(LEASES)["items"]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ControlPlane() as plane:
        yield Cluster(plane)


def a_pod(mode: str, namespace: str) -> Object:
    template = deepcopy(the("DaemonSet", mode)["spec"]["template"])
    metadata = template["metadata"] | {"name": "proxy-0", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"], "metadata": metadata}


@pytest.mark.parametrize("mode", PROXY_MODES, ids=("beside", "instead"))
def test_the_server_takes_every_manifest_and_a_pod_of_the_daemon_set(cluster: Cluster, mode: str) -> None:
    cluster.kubectl("apply", "--kustomize", str(DEPLOY / mode), "--validate=strict", "--dry-run=server")
    cluster.api.request("POST", "/api/v1/namespaces/zoneward-proxy/pods", a_pod(mode, "zoneward-proxy"), query=STRICT)
    # It has to be a namespace of its own: the controller's takes no Pod on the host's network.
    path = "/api/v1/namespaces/zoneward-system/pods"
    with pytest.raises(ApiError, match="violates PodSecurity"):
        cluster.api.request("POST", path, a_pod(mode, "zoneward-system"), query=STRICT)


def test_a_proxy_writes_leases_of_nodes_and_cannot_write_the_controllers(cluster: Cluster) -> None:
    def lease(name: str) -> Object:
        metadata = {"name": name, "namespace": "zoneward-system"}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}

    def is_denied() -> bool:
        try:
            cluster.as_proxy.request("POST", LEASES, lease("zoneward-controller"), query={"dryRun": "All"})
        except ApiError as error:
            return "ValidatingAdmissionPolicy" in str(error)
        return False

    # A policy is in force some moments after it is there.
    cluster.plane.wait_until(is_denied, what="the policy", patience=PATIENCE)
    cluster.as_proxy.request("POST", LEASES, lease(lease_name("other")))
    there = cluster.api.request("POST", LEASES, lease("zoneward-controller"))
    there["spec"] = {"holderIdentity": "nobody"}
    with pytest.raises(ApiError, match="writes only Leases whose names begin"):
        cluster.as_proxy.request("PUT", f"{LEASES}/zoneward-controller", there)
    cluster.api.request("PUT", f"{LEASES}/zoneward-controller", there)


def test_its_rights_are_enough_to_follow_to_tell_and_to_say_what_is_programmed(cluster: Cluster) -> None:
    service = a_service("refused")
    cluster.api.create_all([a_node(NODE, zone="a"), service, a_service("cart")])
    cluster.api.create_all([an_endpoint_slice("cart-1", service="cart", addresses=["10.1.0.1"])])
    address = cluster.api.read(service)["spec"]["clusterIP"]
    access = find_access(
        kubeconfig=str(cluster.plane.kubeconfig(cluster.account)), context=None, impersonate=None, environment={}
    )

    async def run() -> None:
        kernel, stop = Kernel(), asyncio.Event()
        kernel.faults.refused.add(address)
        proxy: Any = a_proxy(access, kernel, lease_namespace="zoneward-system")
        running = asyncio.create_task(proxy.run(stop))
        await until(lambda: any(each["reason"] == "ServiceNotProgrammed" for each in cluster.told()), running)
        await until(lambda: lease_name(NODE) in cluster.leases(), running)
        stop.set()
        await running

    asyncio.run(run())
    (event,) = (each for each in cluster.told() if each["reason"] == "ServiceNotProgrammed")
    assert event["regarding"]["name"] == "refused"
    assert event["reportingController"] == "zoneward.dev/node-proxy"
    assert address in event["note"]


async def until(met: Callable[[], bool], running: "asyncio.Task[object]") -> None:
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(met):
            assert not running.done(), running.exception()
            await asyncio.sleep(0.05)
