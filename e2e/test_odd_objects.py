"""What a real API server takes is read by ``-f``: objects as odd as a server lets them be."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.control_plane import ControlPlane
from tests.builders.objects import SERVICE_NAME, a_namespace, a_node, a_pod, a_service
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


def a_slice(name: str, **fields: object) -> Object:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {SERVICE_NAME: "cart"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    } | fields


def odd_slices() -> Iterator[Object]:
    for number, zone in enumerate(ZONES):
        yield a_slice(f"zone-{number}", endpoints=[{"addresses": [f"10.0.1.{number + 1}"], "zone": zone}])
    for number, port in enumerate(PORTS):
        yield a_slice(f"port-{number}", ports=[{"name": "http", "port": port, "protocol": "TCP"}])
    target = {"kind": HOSTILE, "namespace": "../..", "name": HOSTILE, "uid": HOSTILE}
    yield a_slice("target", endpoints=[{"addresses": ["10.0.2.1"], "targetRef": target}])
    yield a_slice("nulls", endpoints=None, ports=None)
    yield a_slice("names", ports=[{"name": None, "port": 80, "protocol": None, "appProtocol": "example.com/odd"}])
    yield a_slice("many-addresses", endpoints=[{"addresses": ["10.0.2.2", "10.0.2.3"], "hints": {"forZones": [{}]}}])
    yield a_slice("domain", addressType="FQDN", endpoints=[{"addresses": ["a.b."], "hostname": "h"}])
    noted = a_slice("noted")
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


def zoneward(plane: ControlPlane, *arguments: str | Path) -> str:
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
    command = [str(Path(sys.executable).parent / "zoneward"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("suffix", ["json", "yaml", "json.gz"])
@pytest.mark.parametrize("anonymize", [False, True])
def test_what_a_server_takes_is_saved_and_read(
    plane: ControlPlane, tmp_path: Path, suffix: str, anonymize: bool
) -> None:
    file = tmp_path / f"odd.{suffix}"
    zoneward(plane, "snapshot", "-A", "-o", file, *(["--anonymize"] if anonymize else []))
    live = json.loads(zoneward(plane, "plan", "-A", "-o", "json"))["decisions"]
    saved = json.loads(zoneward(plane, "plan", "-f", file, "-o", "json"))["decisions"]
    assert len(saved) == len(live) > 0
    if not anonymize:
        assert saved == live
    for output in ("table", "wide", "yaml", "slices-json"):
        zoneward(plane, "plan", "-f", file, "-o", output)
    if not anonymize:
        zoneward(plane, "route", "-f", file, "--node", "odd", "--as-is")
    zoneward(plane, "compare", "-f", file, "-o", "csv")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_what_kubectl_prints_of_it_is_read(plane: ControlPlane, tmp_path: Path, form: str) -> None:
    command = [str(plane.programs["kubectl"]), "get", "services,nodes,pods,endpointslices", "-A", "-o", form]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
    printed = subprocess.run(command, capture_output=True, env=environment, check=True, timeout=60).stdout
    file = tmp_path / f"odd.{form}"
    file.write_bytes(printed)
    assert json.loads(zoneward(plane, "plan", "-f", file, "-o", "json"))["decisions"]
