"""kube-proxies in three zones program Zoneward's slices as `zoneward route` says, before and after a change."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from e2e.control_plane import ControlPlane
from e2e.controllers import ZonewardController, to_write
from e2e.kube_proxy import KubeProxy
from e2e.pods import LABELS
from e2e.test_version_skew import NAMESPACE, NODES, Programmed, pod
from tests.builders.objects import a_namespace, a_node, a_service

CPU = {"a": "4", "b": "8", "c": "4"}
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


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        api = plane.api()
        nodes = (a_node(name, zone=zone, cpu=CPU[zone]) for name, zone in NODES.items())
        api.create_all([a_namespace(NAMESPACE), *nodes])
        api.create_all(pod(node, index) for node, count in PODS.items() for index in range(count))
        # kube-proxy ignores endpoints that are not ready, with hints or without.
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
    """What `zoneward route` says that the proxy on a node selects."""
    config = str(plane.folder / "configuration.yaml")
    done = plane.zoneward("route", "-n", NAMESPACE, "--node", node, "-o", "json", "--config", config, *flags)
    return {port["service"]: frozenset(port["cluster"]) for port in json.loads(done.stdout)["ports"]}


def _has(proxy: KubeProxy, wanted: Programmed) -> bool:
    return proxy.programmed(NAMESPACE) == wanted


def compared(plane: ControlPlane, proxies: dict[str, KubeProxy]) -> dict[str, Programmed]:
    """Wait until every proxy has programmed what `route` says of the planned slices, and return it by node."""
    configuration = str(plane.folder / "configuration.yaml")
    plane.wait_until(
        lambda: to_write(plane, "-n", NAMESPACE, "--config", configuration) == {}, what="Zoneward's slices"
    )
    selected = {}
    for node, proxy in proxies.items():
        wanted = routed(plane, node)
        assert wanted.keys() == SERVICES.keys()
        assert routed(plane, node, "--as-is") == wanted
        plane.wait_until(partial(_has, proxy, wanted), what=f"proxy of {node}")
        selected[node] = wanted
    return selected


def addresses(*nodes: str, pods: dict[str, int]) -> frozenset[str]:
    listed = (pod(node, index) for node in nodes for index in range(pods[node]))
    return frozenset(f"{listed_pod['status']['podIP']}:8080" for listed_pod in listed)


def test_proxies_program_what_route_says(plane: ControlPlane, proxies: dict[str, KubeProxy]) -> None:
    result = compared(plane, proxies)
    for node, services in result.items():
        assert services["anywhere"] == addresses(*PODS, pods=PODS)
        assert services["same-node"] == addresses(node, pods=PODS)
    assert result["node-a1"]["same-zone"] == addresses("node-a1", "node-a2", pods=PODS)
    # Zone b has two fifths of the CPU and a quarter of the Pods: it also uses endpoints of other zones.
    assert result["node-b1"]["auto"] > addresses("node-b1", pods=PODS)
    assert result["node-b1"]["grouped"] > addresses("node-b1", pods=PODS)
    for name in ("auto", "grouped"):
        assert len({services[name] for services in result.values()}) == len(result)


def test_proxies_follow_pods_that_leave_a_zone_and_return(plane: ControlPlane, proxies: dict[str, KubeProxy]) -> None:
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
