"""On a real API server a Service's traffic distribution is reported as honored once a node's proxy has programmed it;
the kernel then selects the same endpoints as with a real kube-proxy."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from e2e.control_plane import ControlPlane
from e2e.controllers import ZonewardController
from e2e.kube_proxy import KubeProxy
from e2e.pods import LABELS, a_shop
from e2e.processes import Process
from tests.builders.objects import a_namespace, a_service
from tests.contract.api import MERGE_PATCH, Object

NAMESPACE, LEASES, NODE = "honored", "honored-system", "node-a"
CONDITION = "zoneward.dev/TrafficDistributionHonored"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        plane.api().create_all([a_namespace(LEASES), *a_shop(NAMESPACE, 6)])
        yield plane


@pytest.fixture(scope="module")
def node(plane: ControlPlane) -> Iterator[KubeProxy]:
    """A real kube-proxy and Zoneward's proxy in one namespace, and the controller."""
    with ExitStack() as running:
        running.enter_context(ZonewardController(plane, "--leader-elect-resource-namespace", LEASES))
        node = running.enter_context(KubeProxy(plane, node=NODE))
        command: list[str | Path] = [*node.network.enter, sys.executable, "-m", "zoneward", "proxy", "--node", NODE]
        command += ["--kubeconfig", plane.kubeconfig(), "--cluster-cidr", "10.0.0.0/8"]
        command += ["--lease-namespace", LEASES, "--healthz-listen", "127.0.0.1:0", "--log-format", "json"]
        running.enter_context(Process(command, log=plane.folder / "zoneward-proxy.log"))
        yield node


def condition(plane: ControlPlane, service: Object) -> Any:
    conditions = plane.api().read(service).get("status", {}).get("conditions", ())
    return next((entry for entry in conditions if entry["type"] == CONDITION), None)


def programmed(node: KubeProxy, address: str) -> set[str]:
    """The endpoints of an address in Zoneward's table."""
    listed = json.loads(node.run("nft", "--json", "list", "map", "ip", "zoneward", "endpoints"))["nftables"]
    (elements,) = (entry["map"].get("elem", ()) for entry in listed if "map" in entry)
    return {":".join(map(str, value["concat"])) for key, value in elements if key["concat"][0] == address}


def test_condition_follows_the_kernel_and_the_traffic_distribution(plane: ControlPlane, node: KubeProxy) -> None:
    service = a_service("cart", namespace=NAMESPACE, selector=LABELS, distribution="PreferSameZone")
    address = plane.api().create(service)["spec"]["clusterIP"]
    plane.wait_until(lambda: (condition(plane, service) or {}).get("status") == "True", what="the condition")
    first = condition(plane, service)
    assert first["reason"] == "Programmed"
    assert programmed(node, address) == {"10.1.0.1:8080", "10.1.0.4:8080"}
    plane.wait_until(lambda: node.endpoints(address, 80) == programmed(node, address), what="the same of kube-proxy")
    plane.api().patch(service, {"spec": {"trafficDistribution": "PreferSameNode"}}, content_type=MERGE_PATCH)
    plane.wait_until(
        lambda: (new := condition(plane, service))["status"] == "True" and new["message"] != first["message"],
        what="the condition of the other distribution",
    )
    plane.wait_until(lambda: node.endpoints(address, 80) == programmed(node, address), what="the same of kube-proxy")
    plane.api().patch(service, {"spec": {"trafficDistribution": None}}, content_type=MERGE_PATCH)
    plane.wait_until(lambda: condition(plane, service) is None, what="no condition")
