"""Minors of Kubernetes beside each other: what their kube-proxies make of our slices, and of their controllers' slices.

The API server is never older than a proxy or a controller, as Kubernetes demands. ``make e2e`` tries the newest minor,
``make e2e-minors`` every pair of the last three. KEP-3015 § Version Skew Strategy, KEP-4444 § Version Skew Strategy.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane
from e2e.controllers import ZonewardController, to_write
from e2e.kube_proxy import KubeProxy
from e2e.pods import LABELS
from e2e.programs import VERSIONS, find_programs, tried_minors
from tests.builders.objects import a_namespace, a_node, a_pod, a_service
from tests.contract.api import Object

NAMESPACE: Final = "shop"
NODES: Final = {"node-a1": "a", "node-a2": "a", "node-b1": "b", "node-c1": "c"}
PODS: Final = 3
"""On each node."""
NODE: Final = "node-a1"
"""Whose proxy is looked at."""
ANNOTATION: Final = "service.kubernetes.io/topology-mode"
SERVICES: Final[dict[str, dict[str, Any]]] = {
    "anywhere": {},
    "auto": {"annotations": {ANNOTATION: "Auto"}},
    "close": {"distribution": "PreferClose"},
    "same-zone": {"distribution": "PreferSameZone"},
    "same-node": {"distribution": "PreferSameNode"},
    "both": {"annotations": {ANNOTATION: "Auto"}, "distribution": "PreferSameNode"},
    "disabled": {"annotations": {ANNOTATION: "Disabled"}, "distribution": "PreferSameNode"},
}
MINORS: Final = tried_minors(os.environ)
Programmed = dict[str, frozenset[str]]
"""By Service, where connections to it go."""


def until(server: str) -> list[str]:
    """The minors that may be beside an API server."""
    order = list(VERSIONS)
    return [minor for minor in MINORS if order.index(minor) <= order.index(server)]


ZONEWARD: Final = "zoneward"
PAIRS: Final = [(server, writer) for server in MINORS for writer in (ZONEWARD, *until(server))]
"""An API server, and whose slices: Zoneward's, or those of a minor's built-in controller."""


def pod(node: str, index: int, *, ready: bool = True) -> Object:
    address = f"10.{list(NODES).index(node) + 1}.0.{index + 1}"
    return a_pod(f"cart-{node}-{index}", namespace=NAMESPACE, node=node, ips=[address], labels=LABELS, ready=ready)


def addresses(*nodes: str) -> frozenset[str]:
    return frozenset(f"{pod(node, index)['status']['podIP']}:8080" for node in nodes for index in range(PODS))


def fill(plane: ControlPlane) -> None:
    api = plane.api()
    api.create_all([a_namespace(NAMESPACE), *(a_node(name, zone=zone, cpu="4") for name, zone in NODES.items())])
    api.create_all(pod(node, index) for node in NODES for index in range(PODS))
    # Our slices have hints for them, the built-in controllers' do not; no proxy uses them or minds.
    api.create_all(pod(node, PODS, ready=False) for node in NODES)
    for name, wish in SERVICES.items():
        api.create(a_service(name, namespace=NAMESPACE, selector=LABELS, **wish))


@contextmanager
def written_by(writer: str, plane: ControlPlane) -> Iterator[None]:
    """The slices of all Services, by one writer of PAIRS."""
    if writer == ZONEWARD:
        with ZonewardController(plane):
            plane.wait_until(lambda: to_write(plane) == {}, what="our slices")
            yield
        return
    plane.start_controllers(*SLICE_CONTROLLERS, minor=writer)
    yield


def routed(plane: ControlPlane, minor: str) -> Programmed:
    """What Zoneward says that a minor's kube-proxy makes of the slices as they are."""
    asked = ("-n", NAMESPACE, "--node", NODE, "--as-is", "--proxy", f"kube-proxy-{minor}", "-o", "json")
    return {
        port["service"]: frozenset(port["cluster"])
        for port in json.loads(plane.zoneward("route", *asked).stdout)["ports"]
    }


def programmed(plane: ControlPlane, proxy: KubeProxy) -> Programmed:
    services = plane.api().get(f"/api/v1/namespaces/{NAMESPACE}/services")["items"]
    return {
        service["metadata"]["name"]: frozenset(proxy.endpoints(service["spec"]["clusterIP"], 80))
        for service in services
    }


def promised() -> Programmed:
    """What the proposals say of these versions beside each other."""
    everywhere, zone, node = addresses(*NODES), addresses("node-a1", "node-a2"), addresses(NODE)
    return {
        "anywhere": everywhere,
        "auto": zone,
        "close": zone,
        "same-zone": zone,
        "same-node": node,
        "both": zone,
        "disabled": node,
    }


@pytest.mark.parametrize(("server", "writer"), PAIRS, ids=[f"{server}-{writer}" for server, writer in PAIRS])
def test_each_proxy_programs_what_the_proposals_and_route_say(server: str, writer: str) -> None:
    with ControlPlane(minor=server) as plane:
        fill(plane)
        with written_by(writer, plane):
            for minor in until(server):
                program = find_programs(environment=os.environ, minor=minor)["kube-proxy"]
                with KubeProxy(plane, node=NODE, program=program) as proxy:
                    plane.wait_until(lambda: programmed(plane, proxy) == promised(), what=minor)
                assert routed(plane, minor) == promised(), minor
