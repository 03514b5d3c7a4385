"""On a real API server it is told that a traffic distribution is honored once a node's proxy has programmed it, and the
kernel then sends where a real kube-proxy's does."""

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
    """Real kube-proxy and ours, in one namespace; and the controller."""
    with ExitStack() as running:
        running.enter_context(ZonewardController(plane, "--leader-elect-resource-namespace", LEASES))
        node = running.enter_context(KubeProxy(plane, node=NODE))
        command: list[str | Path] = [*node.network.enter, sys.executable, "-m", "zoneward", "proxy", "--node", NODE]
        command += ["--kubeconfig", plane.kubeconfig(), "--cluster-cidr", "10.0.0.0/8"]
        command += ["--lease-namespace", LEASES, "--healthz-listen", "127.0.0.1:0", "--log-format", "json"]
        running.enter_context(Process(command, log=plane.folder / "zoneward-proxy.log"))
        yield node


def condition(plane: ControlPlane, service: Object) -> Any:
    found = plane.api().read(service).get("status", {}).get("conditions", ())
    return next((each for each in found if each["type"] == CONDITION), None)


def ours(node: KubeProxy, address: str) -> set[str]:
    """Where our table sends what comes to an address."""
    listed = json.loads(node.run("nft", "--json", "list", "map", "ip", "zoneward", "endpoints"))["nftables"]
    (elements,) = (each["map"].get("elem", ()) for each in listed if "map" in each)
    return {":".join(map(str, value["concat"])) for key, value in elements if key["concat"][0] == address}


def test_it_is_honored_when_the_kernel_has_it_and_goes_with_the_wish(plane: ControlPlane, node: KubeProxy) -> None:
    service = a_service("cart", namespace=NAMESPACE, selector=LABELS, distribution="PreferSameZone")
    address = plane.api().create(service)["spec"]["clusterIP"]
    plane.wait_until(lambda: (condition(plane, service) or {}).get("status") == "True", what="the condition")
    first = condition(plane, service)
    assert first["reason"] == "Programmed"
    assert ours(node, address) == {"10.1.0.1:8080", "10.1.0.4:8080"}
    plane.wait_until(lambda: node.endpoints(address, 80) == ours(node, address), what="the same of kube-proxy")
    plane.api().patch(service, {"spec": {"trafficDistribution": "PreferSameNode"}}, content_type=MERGE_PATCH)
    plane.wait_until(
        lambda: (found := condition(plane, service))["status"] == "True" and found["message"] != first["message"],
        what="the condition of the other wish",
    )
    plane.wait_until(lambda: node.endpoints(address, 80) == ours(node, address), what="the same of kube-proxy")
    plane.api().patch(service, {"spec": {"trafficDistribution": None}}, content_type=MERGE_PATCH)
    plane.wait_until(lambda: condition(plane, service) is None, what="no condition")
