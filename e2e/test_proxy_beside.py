"""Zoneward's proxy beside the real kube-proxy for one labelled Service, then instead of it: the steps of the docs."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from e2e.control_plane import ControlPlane
from e2e.kube_proxy import KubeProxy
from e2e.processes import Process, wait_until
from e2e.proxies import READY
from tests.builders.objects import a_namespace, a_node, a_service, a_slice
from tests.contract.api import MERGE_PATCH
from tests.deploy.manifests import PROXY_MODES, container
from tests.patience import PATIENCE

from zoneward.kube.names import PROXY_NAME_LABEL

BESIDE, INSTEAD = PROXY_MODES
NODE, NAMESPACE = "beside-a", "beside"
ENDPOINTS = {"cart": "10.1.0.1", "mail": "10.1.0.2"}
SERVER = """
import socket
with socket.create_server(("", 8080)) as server:
    while True:
        client, (peer, _) = server.accept()
        with client:
            client.sendall(f"{client.getsockname()[0]} 8080 {peer}".encode())
"""


class Node:
    """With kube-proxy, and an endpoint of each Service on its own loopback."""

    def __init__(self, plane: ControlPlane, kube: KubeProxy, folder: Path) -> None:
        self.plane, self.kube, self.folder, self.api = plane, kube, folder, plane.api()
        services = [self.api.read(a_service(name, namespace=NAMESPACE)) for name in ENDPOINTS]
        self.addresses: dict[str, str] = {
            service["metadata"]["name"]: service["spec"]["clusterIP"] for service in services
        }
        self.enter = kube.network.enter
        for address in ENDPOINTS.values():
            kube.run("ip", "address", "add", f"{address}/32", "dev", "lo")
        kube.run("ip", "route", "add", "10.96.0.0/12", "dev", "lo")

    @contextmanager
    def proxy(self, mode: str) -> Iterator[Process]:
        """The command as the manifests have it, until all Services are programmed."""
        replaced = ("--config", "--node", "--lease-namespace")
        given = [arg for arg in container(mode)["args"] if arg.split("=")[0] not in replaced]
        log = self.folder / f"{mode.replace('/', '-')}.log"
        command = [*self.enter, sys.executable, "-m", "zoneward", *given, "--node", NODE]
        command += ["--lease-namespace", NAMESPACE]
        if mode == INSTEAD:
            # kube-proxy still listens on the port.
            command += ["--healthz-listen", "127.0.0.1:0"]
        with Process([*command, "--kubeconfig", str(self.plane.kubeconfig())], log=log) as process:
            wait_until(lambda: READY in log.read_text(), "rules", process)
            yield process

    def is_answered(self, service: str) -> bool:
        try:
            return self.kube.network.ask(self.addresses[service], 80).address == ENDPOINTS[service]
        except OSError:
            return False

    def label(self, service: str, value: str | None) -> None:
        """Set the Service's proxy name, and that of its slice, as the EndpointSlice controller does."""
        change = {"metadata": {"labels": {PROXY_NAME_LABEL: value}}}
        for labelled in (a_service(service, namespace=NAMESPACE), slice_of(service)):
            self.api.patch(labelled, change, content_type=MERGE_PATCH)

    def is_zonewards(self, service: str) -> bool:
        try:
            listed = self.kube.run("nft", "list", "map", "ip", "zoneward", "services")
        except subprocess.CalledProcessError:
            return False
        return f"{self.addresses[service]} . tcp . 80" in listed

    def is_kube_proxys(self, service: str) -> bool:
        return bool(self.kube.endpoints(self.addresses[service], 80))


def slice_of(service: str) -> dict[str, object]:
    return a_slice(f"{service}-1", service=service, addresses=[ENDPOINTS[service]], namespace=NAMESPACE)


@pytest.fixture
def node(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Node]:
    api = control_plane.api()
    api.create_all([a_namespace(NAMESPACE), a_node(NODE, zone="a")])
    api.create_all([*(a_service(name, namespace=NAMESPACE) for name in ENDPOINTS), *map(slice_of, ENDPOINTS)])
    with ExitStack() as stack:
        kube = stack.enter_context(KubeProxy(control_plane, node=NODE))
        node = Node(control_plane, kube, tmp_path)
        server = [*node.enter, sys.executable, "-c", SERVER]
        stack.enter_context(Process(server, log=tmp_path / "server.log"))
        for service in ENDPOINTS:
            wait_until(partial(node.is_answered, service), service)
        yield node


def test_services_answer_at_every_step_from_kube_proxy_to_zoneward(node: Node) -> None:
    with node.proxy(BESIDE):
        assert not any(map(node.is_zonewards, ENDPOINTS))
        node.label("cart", "zoneward")
        wait_until(lambda: node.is_zonewards("cart") and not node.is_kube_proxys("cart"), "Zoneward serves it")
        assert not node.is_zonewards("mail")
        _all_answer(node)
        node.label("cart", None)
        wait_until(lambda: node.is_kube_proxys("cart") and not node.is_zonewards("cart"), "kube-proxy serves it")
        _all_answer(node)
    # kube-proxy stops and its rules stay; Zoneward adds its rules; then kube-proxy's are removed.
    node.kube.process.stop()
    assert all(map(node.is_kube_proxys, ENDPOINTS))
    _all_answer(node)
    with node.proxy(INSTEAD):
        assert all(map(node.is_zonewards, ENDPOINTS))
        _all_answer(node)
        node.kube.run(str(node.plane.programs["kube-proxy"]), "--cleanup")
        assert not any(map(node.is_kube_proxys, ENDPOINTS))
        _all_answer(node)
    _all_answer(node)
    command = [*node.enter, sys.executable, "-m", "zoneward", "proxy", "--cleanup"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert "removed table ip zoneward" in done.stderr
    assert not any(map(node.is_zonewards, ENDPOINTS))


def _all_answer(node: Node) -> None:
    assert all(map(node.is_answered, ENDPOINTS))
