"""Version skew: kube-proxies of several minors program Zoneward's slices, and those of built-in controllers.

The API server is never older than a proxy or a controller, as Kubernetes demands. ``make e2e`` tries the newest minor,
``make e2e-minors`` every pair of the last three. KEP-3015 § Version Skew Strategy, KEP-4444 § Version Skew Strategy.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane
from e2e.controllers import ZonewardController, command_json, to_write
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
"""The node with the proxy."""
ANNOTATION: Final = "service.kubernetes.io/topology-mode"
SERVICES: Final[dict[str, dict[str, Any]]] = {
    "anywhere": {},
    "auto": {"annotations": {ANNOTATION: "Auto"}},
    "close": {"distribution": "PreferClose"},
    "same-zone": {"distribution": "PreferSameZone"},
    "same-node": {"distribution": "PreferSameNode"},
    "both": {"annotations": {ANNOTATION: "Auto"}, "distribution": "PreferSameNode"},
    "disabled": {"annotations": {ANNOTATION: "Disabled"}, "distribution": "PreferSameNode"},
    "subset": {"annotations": {"endpointslice.kubernetes.io/subsetting": "Auto"}},
}
CONFIGURATION: Final = """
apiVersion: zoneward.dev/v1alpha1
kind: ZonewardConfiguration
subsetting: {encoding: hints}
"""
MINORS: Final = tried_minors(os.environ)
Programmed = dict[str, frozenset[str]]
"""By Service, the endpoints that a proxy selects."""


def until(server: str) -> list[str]:
    """The minors that are supported beside an API server."""
    order = list(VERSIONS)
    return [minor for minor in MINORS if order.index(minor) <= order.index(server)]


ZONEWARD: Final = "zoneward"
PAIRS: Final = [(server, writer) for server in MINORS for writer in (ZONEWARD, *until(server))]
"""The minor of the API server, and the writer of slices: Zoneward, or the minor of a built-in controller."""


def pod(node: str, index: int, *, ready: bool = True) -> Object:
    address = f"10.{list(NODES).index(node) + 1}.0.{index + 1}"
    return a_pod(f"cart-{node}-{index}", namespace=NAMESPACE, node=node, ips=[address], labels=LABELS, ready=ready)


def addresses(*nodes: str) -> frozenset[str]:
    return frozenset(f"{pod(node, index)['status']['podIP']}:8080" for node in nodes for index in range(PODS))


def fill(plane: ControlPlane) -> None:
    api = plane.api()
    api.create_all([a_namespace(NAMESPACE), *(a_node(name, zone=zone, cpu="4") for name, zone in NODES.items())])
    api.create_all(pod(node, index) for node in NODES for index in range(PODS))
    # Only Zoneward's slices have hints for them; no proxy uses these endpoints.
    api.create_all(pod(node, PODS, ready=False) for node in NODES)
    for name, wish in SERVICES.items():
        api.create(a_service(name, namespace=NAMESPACE, selector=LABELS, **wish))


@contextmanager
def written_by(writer: str, plane: ControlPlane) -> Iterator[None]:
    """Have the slices written by one of the writers in `PAIRS`."""
    if writer == ZONEWARD:
        config = plane.folder / "configuration.yaml"
        config.write_text(CONFIGURATION)
        with ZonewardController(plane, "--config", str(config)):
            plane.wait_until(lambda: to_write(plane, "-A", "--config", str(config)) == {}, what="Zoneward's slices")
            yield
        return
    plane.start_controllers(*SLICE_CONTROLLERS, minor=writer)
    yield


def routed(plane: ControlPlane, minor: str) -> Programmed:
    """What `zoneward route` says that a minor's kube-proxy selects from the existing slices."""
    asked = ("-n", NAMESPACE, "--node", NODE, "--as-is", "--proxy", f"kube-proxy-{minor}")
    document = command_json(plane.kubeconfig(), "route", *asked)
    return {port["service"]: frozenset(port["cluster"]) for port in document["ports"]}


def promised(writer: str) -> Programmed:
    """The endpoints that the proposals require for these versions."""
    everywhere, zone, node = addresses(*NODES), addresses("node-a1", "node-a2"), addresses(NODE)
    return {
        "anywhere": everywhere,
        "auto": zone,
        "close": zone,
        "same-zone": zone,
        "same-node": node,
        "both": zone,
        "disabled": node,
        # Kubernetes has no subsetting.
        "subset": zone if writer == ZONEWARD else everywhere,
    }


@pytest.mark.parametrize(("server", "writer"), PAIRS, ids=[f"{server}-{writer}" for server, writer in PAIRS])
def test_proxies_program_what_the_proposals_and_route_say(server: str, writer: str) -> None:
    with ControlPlane(minor=server) as plane:
        fill(plane)
        with written_by(writer, plane):
            for minor in until(server):
                program = find_programs(environment=os.environ, minor=minor)["kube-proxy"]
                with KubeProxy(plane, node=NODE, program=program) as proxy:
                    plane.wait_until(lambda: proxy.programmed(NAMESPACE) == promised(writer), what=minor)
                assert routed(plane, minor) == promised(writer), minor
