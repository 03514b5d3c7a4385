"""A real kube-proxy on a node of each zone programs our slices as `zoneward route` says, before and after a change."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from e2e.control_plane import ControlPlane
from e2e.controllers import ZonewardController, to_write
from e2e.kube_proxy import KubeProxy
from e2e.pods import LABELS
from tests.builders.objects import a_namespace, a_node, a_pod, a_service
from tests.contract.api import Object

NAMESPACE = "shop"
NODES = {"node-a1": ("a", "4"), "node-a2": ("a", "4"), "node-b1": ("b", "8"), "node-c1": ("c", "4")}
PODS = {"node-a1": 4, "node-a2": 3, "node-b1": 4, "node-c1": 4}
SERVICES: dict[str, dict[str, Any]] = {
    "anywhere": {},
    "auto": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}},
    "prefer-zone": {"annotations": {"service.kubernetes.io/topology-mode": "PreferZone"}},
    "same-zone": {"distribution": "PreferSameZone"},
    "same-node": {"distribution": "PreferSameNode"},
    "grouped": {"annotations": {"endpointslice.kubernetes.io/subsetting": "Auto"}},
}
CONFIGURATION = """
apiVersion: zoneward.dev/v1alpha1
kind: ZonewardConfiguration
subsetting: {encoding: hints}
"""
Programmed = dict[str, frozenset[str]]
"""By Service, where connections to it go."""


def pod(node: str, index: int, *, ready: bool = True) -> Object:
    address = f"10.{list(NODES).index(node) + 1}.0.{index + 1}"
    return a_pod(f"cart-{node}-{index}", namespace=NAMESPACE, node=node, ips=[address], labels=LABELS, ready=ready)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        api = plane.api()
        nodes = (a_node(name, zone=zone, cpu=cpu) for name, (zone, cpu) in NODES.items())
        api.create_all([a_namespace(NAMESPACE), *nodes])
        api.create_all(pod(node, index) for node, count in PODS.items() for index in range(count))
        # Their endpoints have hints, and change nothing for kube-proxy.
        api.create_all(pod(node, count, ready=False) for node, count in PODS.items())
        for name, wish in SERVICES.items():
            api.create(a_service(name, namespace=NAMESPACE, selector=LABELS, **wish))
        (plane.folder / "configuration.yaml").write_text(CONFIGURATION)
        yield plane


@pytest.fixture(scope="module")
def proxies(plane: ControlPlane) -> Iterator[dict[str, KubeProxy]]:
    """By node, one in each zone."""
    with ExitStack() as running:
        flags = ("--config", str(plane.folder / "configuration.yaml"))
        running.enter_context(ZonewardController(plane, *flags))
        yield {node: running.enter_context(KubeProxy(plane, node=node)) for node in ("node-a1", "node-b1", "node-c1")}


def routed(plane: ControlPlane, node: str, *flags: str) -> Programmed:
    """What Zoneward says that the proxy on a node selects."""
    config = str(plane.folder / "configuration.yaml")
    done = plane.zoneward("route", "-n", NAMESPACE, "--node", node, "-o", "json", "--config", config, *flags)
    return {port["service"]: frozenset(port["cluster"]) for port in json.loads(done.stdout)["ports"]}


def programmed(plane: ControlPlane, proxy: KubeProxy) -> Programmed:
    services = plane.api().get(f"/api/v1/namespaces/{NAMESPACE}/services")["items"]
    return {
        service["metadata"]["name"]: frozenset(proxy.endpoints(service["spec"]["clusterIP"], 80))
        for service in services
    }


def compared(plane: ControlPlane, proxies: dict[str, KubeProxy]) -> dict[str, Programmed]:
    """What all of them have programmed, once our slices are as planned: the same as `route` says."""
    configuration = str(plane.folder / "configuration.yaml")
    plane.wait_until(lambda: to_write(plane, "-n", NAMESPACE, "--config", configuration) == {}, what="our slices")
    selected = {}
    for node, proxy in proxies.items():
        wanted = routed(plane, node)
        assert wanted.keys() == SERVICES.keys()
        assert routed(plane, node, "--as-is") == wanted
        plane.wait_until(lambda wanted=wanted, proxy=proxy: programmed(plane, proxy) == wanted, what=f"proxy of {node}")  # type: ignore[misc]
        selected[node] = wanted
    return selected


def addresses(*nodes: str, pods: dict[str, int]) -> frozenset[str]:
    listed = (pod(node, index) for node in nodes for index in range(pods[node]))
    return frozenset(f"{listed_pod['status']['podIP']}:8080" for listed_pod in listed)


def test_each_node_s_proxy_programs_what_route_says(plane: ControlPlane, proxies: dict[str, KubeProxy]) -> None:
    result = compared(plane, proxies)
    for node, services in result.items():
        assert services["anywhere"] == addresses(*PODS, pods=PODS)
        assert services["same-node"] == addresses(node, pods=PODS)
    assert result["node-a1"]["same-zone"] == addresses("node-a1", "node-a2", pods=PODS)
    # Zone b has two fifths of the CPU and a quarter of the Pods: others lend it some.
    assert result["node-b1"]["auto"] > addresses("node-b1", pods=PODS)
    assert result["node-b1"]["grouped"] > addresses("node-b1", pods=PODS)
    for name in ("auto", "grouped"):
        assert len({services[name] for services in result.values()}) == len(result)


def test_the_same_after_pods_have_left_a_zone_and_come_back(plane: ControlPlane, proxies: dict[str, KubeProxy]) -> None:
    api = plane.api()
    gone = [pod("node-c1", index) for index in range(PODS["node-c1"])]
    for deleted in gone:
        api.delete(deleted)
    left = PODS | {"node-c1": 0}
    result = compared(plane, proxies)
    assert result["node-c1"]["same-node"] == result["node-c1"]["same-zone"] == addresses(*PODS, pods=left)
    assert result["node-a1"]["same-node"] == addresses("node-a1", pods=PODS)
    assert not any(result[node][name] & addresses("node-c1", pods=PODS) for node in result for name in SERVICES)
    api.create_all(gone)
    assert compared(plane, proxies)["node-c1"]["same-node"] == addresses("node-c1", pods=PODS)
