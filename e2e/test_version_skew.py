"""Minors of Kubernetes beside each other: what their kube-proxies make of our slices, and of their controllers' slices.

The API server is never older than a proxy or a controller, as Kubernetes demands. ``make e2e`` tries the newest minor,
``make e2e-minors`` every pair of the last three, and 1.34 with the gate off, which is how 1.33 is. KEP-3015 § Version
Skew Strategy, KEP-4444 § Version Skew Strategy.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

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
GATE: Final = "PreferSameTrafficDistribution"
"""Of 1.33 (off), 1.34 (on) and 1.35 (for good)."""
HAS_THE_GATE: Final = "1.34"
MINORS: Final = tried_minors(os.environ)
Programmed = dict[str, frozenset[str]]
"""By Service, where connections to it go."""


class Proxy(NamedTuple):
    """``kind`` is what ``zoneward route --proxy`` calls it."""

    minor: str
    kind: str
    has_gate: bool = True


class Writer(NamedTuple):
    """Whose slices they are: those of a minor's built-in controller, or ours."""

    minor: str | None = None
    has_gate: bool = True

    def __str__(self) -> str:
        return "zoneward" if self.minor is None else f"{self.minor}{'' if self.has_gate else '-without-gate'}"


def until(server: str) -> list[str]:
    """The minors that may be beside an API server."""
    order = list(VERSIONS)
    return [minor for minor in MINORS if order.index(minor) <= order.index(server)]


def proxies(server: str) -> list[Proxy]:
    found = [Proxy(minor, f"kube-proxy-{minor}") for minor in until(server)]
    if HAS_THE_GATE in until(server):
        # It honors what a 1.33 does.
        found.append(Proxy(HAS_THE_GATE, "kube-proxy-1.33", has_gate=False))
    return found


def writers(server: str) -> list[Writer]:
    built_in = [Writer(minor) for minor in until(server)]
    return [Writer(), *built_in, *(Writer(HAS_THE_GATE, False) for each in built_in if each.minor == HAS_THE_GATE)]


PAIRS: Final = [(server, writer) for server in MINORS for writer in writers(server)]


def pod(node: str, number: int) -> Object:
    address = f"10.{list(NODES).index(node) + 1}.0.{number + 1}"
    return a_pod(f"cart-{node}-{number}", namespace=NAMESPACE, node=node, ips=[address], labels=LABELS)


def addresses(*nodes: str) -> frozenset[str]:
    return frozenset(f"{pod(node, number)['status']['podIP']}:8080" for node in nodes for number in range(PODS))


def fill(plane: ControlPlane) -> None:
    api = plane.api()
    api.create_all([a_namespace(NAMESPACE), *(a_node(name, zone=zone, cpu="4") for name, zone in NODES.items())])
    api.create_all(pod(node, number) for node in NODES for number in range(PODS))
    for name, wish in SERVICES.items():
        api.create(a_service(name, namespace=NAMESPACE, selector=LABELS, **wish))


@contextmanager
def written_by(writer: Writer, plane: ControlPlane) -> Iterator[None]:
    """The slices of all Services, by one of them."""
    if writer.minor is None:
        with ZonewardController(plane):
            plane.wait_until(lambda: to_write(plane) == {}, what="our slices")
            yield
        return
    flags = () if writer.has_gate else (f"--feature-gates={GATE}=false",)
    plane.start_controllers(*SLICE_CONTROLLERS, flags=flags, minor=writer.minor)
    yield


def routed(plane: ControlPlane, proxy: Proxy) -> Programmed:
    """What Zoneward says that such a proxy makes of the slices as they are."""
    asked = ("-n", NAMESPACE, "--node", NODE, "--as-is", "--proxy", proxy.kind, "-o", "json")
    return {
        port["service"]: frozenset(port["cluster"])
        for port in json.loads(plane.zoneward("route", *asked).stdout)["ports"]
    }


def programmed(plane: ControlPlane, proxy: KubeProxy) -> Programmed:
    services = plane.api().get(f"/api/v1/namespaces/{NAMESPACE}/services")["items"]
    return {each["metadata"]["name"]: frozenset(proxy.endpoints(each["spec"]["clusterIP"], 80)) for each in services}


def promised(writer: Writer, proxy: Proxy) -> Programmed:
    """What the proposals say of these versions beside each other."""
    everywhere, zone, node = addresses(*NODES), addresses("node-a1", "node-a2"), addresses(NODE)
    # Controllers give no hints for a value that they do not know; proxies without hints for nodes take the zone's.
    same_node = everywhere if not writer.has_gate else node if proxy.has_gate else zone
    return {
        "anywhere": everywhere,
        "auto": zone,
        "close": zone,
        "same-zone": zone if writer.has_gate else everywhere,
        "same-node": same_node,
        "both": zone,
        "disabled": same_node,
    }


@pytest.mark.parametrize(("server", "writer"), PAIRS, ids=[f"{server}-{writer}" for server, writer in PAIRS])
def test_each_proxy_programs_what_the_proposals_and_route_say(server: str, writer: Writer) -> None:
    with ControlPlane(minor=server) as plane:
        fill(plane)
        with written_by(writer, plane):
            for kind in proxies(server):
                wanted = promised(writer, kind)
                settings = {} if kind.has_gate else {"featureGates": {GATE: False}}
                program = find_programs(environment=os.environ, minor=kind.minor)["kube-proxy"]
                with KubeProxy(plane, node=NODE, settings=settings, program=program) as proxy:
                    plane.wait_until(lambda: programmed(plane, proxy) == wanted, what=kind.kind)  # noqa: B023
                assert routed(plane, kind) == wanted, kind.kind
