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
from e2e.processes import Process
from tests.builders.objects import a_namespace, a_node, a_pod, a_service
from tests.contract.api import MERGE_PATCH, Object

NAMESPACE, LEASES, NODE = "honored", "honored-system", "honored-a"
LABELS = {"app": "cart"}
CONDITION = "zoneward.dev/TrafficDistributionHonored"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        api = plane.api()
        api.create_all([a_namespace(NAMESPACE), a_namespace(LEASES)])
        api.create_all(a_node(f"honored-{zone}", zone=zone, cpu="4") for zone in "abc")
        for number, zone in enumerate("aabbcc"):
            name, address = f"cart-{number}", f"10.1.0.{number + 1}"
            api.create(a_pod(name, namespace=NAMESPACE, node=f"honored-{zone}", ips=[address], labels=LABELS))
        yield plane


@pytest.fixture(scope="module")
def node(plane: ControlPlane) -> Iterator[KubeProxy]:
    """Real kube-proxy and ours, in one namespace; and the controller."""
    with ExitStack() as running:
        running.enter_context(ZonewardController(plane, "--leader-elect-resource-namespace", LEASES))
        node = running.enter_context(KubeProxy(plane, node=NODE))
        command: list[str | Path] = [*("nsenter", f"--net={node.namespace}", "--", sys.executable, "-m", "zoneward")]
        command += ["proxy", "--node", NODE, "--kubeconfig", plane.kubeconfig(), "--cluster-cidr", "10.0.0.0/8"]
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


def test_it_is_honored_when_the_kernel_has_it_and_after_another_wish_anew(plane: ControlPlane, node: KubeProxy) -> None:
    service = a_service("cart", namespace=NAMESPACE, selector=LABELS, distribution="PreferSameZone")
    address = plane.api().create(service)["spec"]["clusterIP"]
    plane.wait_until(lambda: (condition(plane, service) or {}).get("status") == "True", what="the condition")
    first = condition(plane, service)
    assert first["reason"] == "Programmed"
    assert ours(node, address) == {"10.1.0.1:8080", "10.1.0.2:8080"}
    plane.wait_until(lambda: node.endpoints(address, 80) == ours(node, address), what="the same of kube-proxy")
    plane.api().patch(service, {"spec": {"trafficDistribution": "PreferSameNode"}}, content_type=MERGE_PATCH)
    plane.wait_until(
        lambda: (found := condition(plane, service))["status"] == "True" and found["message"] != first["message"],
        what="the condition of the other wish",
    )
    assert ours(node, address) == node.endpoints(address, 80)


def test_it_goes_with_the_wish(plane: ControlPlane, node: KubeProxy) -> None:
    service = a_service("plain", namespace=NAMESPACE, selector=LABELS, distribution="PreferSameZone")
    plane.api().create(service)
    plane.wait_until(lambda: (condition(plane, service) or {}).get("status") == "True", what="the condition")
    plane.api().patch(service, {"spec": {"trafficDistribution": None}}, content_type=MERGE_PATCH)
    plane.wait_until(lambda: condition(plane, service) is None, what="no condition")
    assert node.rules()
