"""What a real API server takes is read by ``-f``: objects as odd as a server lets them be."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.control_plane import ControlPlane
from e2e.controllers import decisions
from tests.builders.objects import a_namespace, a_node, a_pod, a_service, a_slice
from tests.contract.api import Object

NAMESPACE = "odd"
HOSTILE = "a\x00\x1b[2J\x85\u2028\u202e\ufeff\U0001f600 }\n- {b: 'c\"d"
"""What an API server takes wherever it takes any text."""
ZONES = ("my zone", "", "a\nb", "x" * 5000, HOSTILE)
PORTS = (None, -(2**31), -1, 0, 70_000, 2**31 - 1)
QUANTITIES = (
    *("1e3", "1Ei", "9E", "8Ei", "100n", "1e-3", "1e100", "1e999", "1e99999", "12345678901234567890", "9" * 5000),
    *("+4", ".5", "5.", "-0", "0." + "1" * 5000),
)


def odd_slice(name: str, **fields: object) -> Object:
    return a_slice(name, service="cart", namespace=NAMESPACE, addresses=["10.0.0.1"]) | fields


def odd_slices() -> Iterator[Object]:
    for number, zone in enumerate(ZONES):
        yield odd_slice(f"zone-{number}", endpoints=[{"addresses": [f"10.0.1.{number + 1}"], "zone": zone}])
    for number, port in enumerate(PORTS):
        yield odd_slice(f"port-{number}", ports=[{"name": "http", "port": port, "protocol": "TCP"}])
    target = {"kind": HOSTILE, "namespace": "../..", "name": HOSTILE, "uid": HOSTILE}
    yield odd_slice("target", endpoints=[{"addresses": ["10.0.2.1"], "targetRef": target}])
    yield odd_slice("nulls", endpoints=None, ports=None)
    yield odd_slice("names", ports=[{"name": None, "port": 80, "protocol": None, "appProtocol": "example.com/odd"}])
    yield odd_slice("many-addresses", endpoints=[{"addresses": ["10.0.2.2", "10.0.2.3"], "hints": {"forZones": [{}]}}])
    yield odd_slice("domain", addressType="FQDN", endpoints=[{"addresses": ["a.b."], "hostname": "h"}])
    noted = odd_slice("noted")
    noted["metadata"]["annotations"] = {"example.com/odd": HOSTILE, "zoneward.dev/approach": HOSTILE}
    noted["metadata"]["ownerReferences"] = [{"apiVersion": "x y\n/v1", "kind": HOSTILE, "name": "../x", "uid": HOSTILE}]
    yield noted


def odd_services() -> Iterator[Object]:
    yield a_service("cart", namespace=NAMESPACE, selector={"app": "cart"}, annotations={"zoneward.dev/odd": HOSTILE})
    for number, port in enumerate(({"port": 80, "targetPort": 0}, {"port": 80, "targetPort": ""})):
        service = a_service(f"target-{number}", namespace=NAMESPACE, selector={"app": "cart"})
        service["spec"]["ports"] = [port]
        yield service
    mode = a_service("mode", namespace=NAMESPACE, annotations={"service.kubernetes.io/topology-mode": HOSTILE})
    condition = {"type": "zoneward.dev/Odd", "status": "True", "reason": "a", "message": HOSTILE}
    mode["status"] = {"conditions": [condition | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    yield mode
    elsewhere = a_service("elsewhere", namespace=NAMESPACE)
    elsewhere["spec"] = {"type": "ExternalName", "externalName": "a.b"}
    yield elsewhere
    none = a_service("none", namespace=NAMESPACE)
    none["spec"] = {"clusterIP": "None", "ports": None}
    yield none


def odd_nodes() -> Iterator[Object]:
    for number, quantity in enumerate(QUANTITIES):
        yield a_node(f"cpu-{number}", cpu=quantity)
    yield a_node("no-zone", zone="")
    odd = a_node("odd", address=HOSTILE)
    odd["status"]["conditions"].append({"type": HOSTILE, "status": HOSTILE, "reason": HOSTILE, "message": HOSTILE})
    yield odd


def odd_pods() -> Iterator[Object]:
    pod = a_pod("odd", node="odd", ips=["10.1.1.1"], namespace=NAMESPACE, labels={"app": "cart"})
    pod["status"]["phase"] = HOSTILE
    pod["status"]["conditions"].append({"type": "example.com/odd", "status": HOSTILE})
    yield pod


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        api = plane.api()
        api.create_all([a_namespace(NAMESPACE)])
        api.create_all([*odd_nodes()])
        api.create_all([*odd_services(), *odd_slices(), *odd_pods()])
        yield plane


@pytest.mark.parametrize("flags", [("odd.json",), ("odd.yaml",), ("odd.json.gz", "--anonymize")], ids=" ".join)
def test_what_a_server_takes_is_saved_and_read(plane: ControlPlane, tmp_path: Path, flags: tuple[str, ...]) -> None:
    name, *options = flags
    file = str(tmp_path / name)
    plane.zoneward("snapshot", "-A", "-o", file, *options)
    saved = json.loads(plane.zoneward("plan", "-f", file, "-o", "json").stdout)["decisions"]
    live = decisions(plane, "-A")
    assert len(saved) == len(live) > 0
    for output in ("wide", "yaml", "slices-json"):
        plane.zoneward("plan", "-f", file, "-o", output)
    plane.zoneward("compare", "-f", file, "-o", "csv")
    if not options:
        assert saved == live
        plane.zoneward("route", "-f", file, "--node", "odd", "--as-is")


def test_what_kubectl_prints_of_it_is_read(plane: ControlPlane, tmp_path: Path) -> None:
    for form in ("json", "yaml"):
        file = tmp_path / f"odd.{form}"
        file.write_text(plane.kubectl("get", "services,nodes,pods,endpointslices", "-A", "-o", form))
        assert json.loads(plane.zoneward("plan", "-f", str(file), "-o", "json").stdout)["decisions"]
