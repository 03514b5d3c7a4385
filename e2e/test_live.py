"""Commands on a real API server, with exactly the rights of ``examples/cluster-role.yaml``."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane
from tests.contract.api import ApiError
from tests.contract.objects import a_namespace, a_node, a_pod, a_service

ROOT = Path(__file__).parents[1]
ROLE = yaml.safe_load((ROOT / "examples" / "cluster-role.yaml").read_text())
ZONES = "abc"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Six Nodes in three zones; a Service with nine Pods that asks for Auto, with slices of the built-in controller."""
    with ControlPlane(users=("reader", "half"), controllers=SLICE_CONTROLLERS) as plane:
        api = plane.api()
        api.create_all([a_namespace("shop")])
        api.create_all([a_node(f"node-{zone}{number}", zone=zone) for zone in ZONES for number in (1, 2)])
        pods = (
            a_pod(
                f"cart-{zone}{number}",
                namespace="shop",
                node=f"node-{zone}1",
                address=f"10.1.{index}.{number}",
                labels={"app": "cart"},
            )
            for index, zone in enumerate(ZONES)
            for number in range(1, 4)
        )
        api.create_all(pods)
        auto = {"service.kubernetes.io/topology-mode": "Auto"}
        api.create(a_service("cart", namespace="shop", selector={"app": "cart"}, annotations=auto))
        plane.allow("reader", ROLE["rules"])
        plane.wait_until(lambda: may_list(plane, "reader", "services"), what="the reader's rights")
        yield plane


def may_list(plane: ControlPlane, user: str, plural: str) -> bool:
    try:
        plane.api(user).get(f"/api/v1/{plural}")
    except ApiError:
        return False
    return True


def run(plane: ControlPlane, user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig(user))}
    command = [str(Path(sys.executable).parent / "zoneward"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=60)


def test_whoever_may_only_list_gets_a_plan(plane: ControlPlane) -> None:
    done = run(plane, "reader", "plan", "-n", "shop", "-o", "json")
    assert done.returncode == 0, done.stderr
    (decision,) = json.loads(done.stdout)["decisions"]
    assert (decision["service"], decision["active"], decision["endpoints"]) == ("cart", True, 9)
    assert decision["inZoneTraffic"] == 1


@pytest.mark.parametrize("command", [("compare", "-A"), ("route", "-A", "--node", "node-a1")], ids=" ".join)
def test_other_commands_need_no_more(plane: ControlPlane, command: tuple[str, ...]) -> None:
    done = run(plane, "reader", *command, "-o", "json")
    assert done.returncode == 0, done.stderr
    assert "cart" in done.stdout


def test_without_one_of_the_rights_the_rule_is_told(plane: ControlPlane) -> None:
    core, discovery = ROLE["rules"]
    plane.allow("half", [{**core, "resources": [each for each in core["resources"] if each != "pods"]}, discovery])
    plane.wait_until(lambda: may_list(plane, "half", "services"), what="half of the rights")
    done = run(plane, "half", "plan", "-A")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "pods" in done.stderr
    assert '{apiGroups: [""], resources: ["pods"], verbs: ["list"]}' in done.stderr


def test_a_snapshot_by_kubectl_gives_the_same(plane: ControlPlane) -> None:
    printed = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": api, "kind": kind, **each}
            for api, kind, path in (
                ("v1", "Service", "/api/v1/services"),
                ("v1", "Node", "/api/v1/nodes"),
                ("v1", "Pod", "/api/v1/pods"),
                ("discovery.k8s.io/v1", "EndpointSlice", "/apis/discovery.k8s.io/v1/endpointslices"),
            )
            for each in plane.api().get(path)["items"]
        ],
    }
    file = plane.folder / "snapshot.json"
    file.write_text(json.dumps(printed))
    live, saved = (run(plane, "reader", "plan", *where, "-o", "json") for where in (("-A",), ("-f", str(file))))
    assert live.returncode == saved.returncode == 0, live.stderr + saved.stderr
    assert live.stdout == saved.stdout
