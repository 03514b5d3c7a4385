"""A real kube-proxy is there for tests, in a network of its own, and does what `zoneward route` says."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane
from e2e.kube_proxy import KubeProxy
from tests.builders.objects import a_namespace, a_node, a_pod, a_service

PODS = {"a": ("10.1.0.1",), "b": ("10.2.0.1", "10.2.0.2"), "c": ("10.3.0.1",)}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Three zones with a node each, and a Service whose slices are the built-in controller's."""
    with ControlPlane(controllers=SLICE_CONTROLLERS) as plane:
        api = plane.api()
        api.create_all([a_namespace("shop"), *(a_node(f"node-{zone}", zone=zone) for zone in PODS)])
        api.create_all(
            a_pod(
                f"cart-{zone}{number}",
                namespace="shop",
                node=f"node-{zone}",
                ips=[address],
                labels={"app": "cart"},
            )
            for zone, addresses in PODS.items()
            for number, address in enumerate(addresses)
        )
        for name, distribution in (("cart", "PreferSameZone"), ("everywhere", None)):
            api.create(a_service(name, namespace="shop", selector={"app": "cart"}, distribution=distribution))
        yield plane


def routed(plane: ControlPlane, node: str, service: str) -> set[str]:
    """What Zoneward says that the proxy on a node selects."""
    command = [str(Path(sys.executable).parent / "zoneward"), "route", "--node", node, "-o", "json", f"shop/{service}"]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
    done = subprocess.run([*command, "--as-is"], capture_output=True, text=True, env=environment, check=True)
    (port,) = json.loads(done.stdout)["ports"]
    return set(port["cluster"])


@pytest.mark.parametrize("zone", ["a", "b"])
def test_it_programs_what_route_says(plane: ControlPlane, zone: str) -> None:
    near = {f"{address}:8080" for address in PODS[zone]}
    with KubeProxy(plane, node=f"node-{zone}") as proxy:
        address = plane.api().get("/api/v1/namespaces/shop/services/cart")["spec"]["clusterIP"]
        plane.wait_until(lambda: proxy.endpoints(address, 80) == near, what="the endpoints of the zone")
        assert routed(plane, f"node-{zone}", "cart") == near
        address = plane.api().get("/api/v1/namespaces/shop/services/everywhere")["spec"]["clusterIP"]
        plane.wait_until(lambda: len(proxy.endpoints(address, 80)) == 4, what="all endpoints")
        assert routed(plane, f"node-{zone}", "everywhere") == proxy.endpoints(address, 80)


def test_its_network_is_its_own_and_goes_with_it(plane: ControlPlane) -> None:
    with KubeProxy(plane, node="node-c") as proxy:
        assert "kube-proxy" in proxy.run("nft", "list", "tables")
        namespace, pid = proxy.namespace, proxy.process.pid
        ours = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout
        assert "kube-proxy" not in ours
        # The API server's port is ours again on our side alone: it was never taken.
        with socket.create_connection(("127.0.0.1", plane.ports.server)):
            pass
    assert not namespace.exists()
    assert not Path(f"/proc/{pid}").exists()
