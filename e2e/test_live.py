"""Commands on a real API server, with exactly the rights of ``examples/cluster-role.yaml``."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane
from e2e.pod_readiness import set_pod_ready
from tests.builders.objects import a_namespace, a_node, a_pod, a_service
from tests.contract.api import MERGE_PATCH, ApiError, Object

ROOT = Path(__file__).parents[1]
ROLE = yaml.safe_load((ROOT / "examples" / "cluster-role.yaml").read_text())
LIST_ONLY = [{**rule, "verbs": ["list"]} for rule in ROLE["rules"]]
ZONES = "abc"
PATIENCE = 30.0
AFTERWARDS = 1.5
"""Seconds in which nothing more is to be told: the built-in controller has written its slices long before."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Six Nodes in three zones; a Service with nine Pods that asks for Auto, with slices of the built-in controller."""
    with ControlPlane(users=("reader", "half", "lister"), controllers=SLICE_CONTROLLERS) as plane:
        api = plane.api()
        api.create_all([a_namespace("shop")])
        api.create_all([a_node(f"node-{zone}{number}", zone=zone) for zone in ZONES for number in (1, 2)])
        pods = (
            a_pod(
                f"cart-{zone}{number}",
                namespace="shop",
                node=f"node-{zone}1",
                ips=[f"10.1.{index}.{number}"],
                labels={"app": "cart"},
            )
            for index, zone in enumerate(ZONES)
            for number in range(1, 4)
        )
        api.create_all(pods)
        auto = {"service.kubernetes.io/topology-mode": "Auto"}
        api.create(a_service("cart", namespace="shop", selector={"app": "cart"}, annotations=auto))
        plane.allow("reader", ROLE["rules"])
        plane.allow("lister", LIST_ONLY)
        for user in ("reader", "lister"):
            plane.wait_until(lambda user=user: may_list(plane, user, "services"), what="rights")  # type: ignore[misc]
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


class Watching:
    """``plan --watch -o json``, while it runs."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path, notes: Path) -> None:
        self._process, self._output, self._notes = process, output, notes

    @property
    def lines(self) -> list[Object]:
        return [json.loads(line) for line in self._output.read_text().splitlines(keepends=True) if line.endswith("\n")]

    @property
    def notes(self) -> str:
        return self._notes.read_text()

    def wait_for(self, met: Callable[[], object]) -> None:
        limit = time.monotonic() + PATIENCE
        while not met():
            assert self._process.poll() is None, self.notes
            assert time.monotonic() < limit, f"told {self.lines}; notes {self.notes}"
            time.sleep(0.02)

    def told_after(self, known: int) -> list[tuple[str, Object]]:
        """Types and decisions of all lines but the ``known`` first, once there is one and no more have come."""
        self.wait_for(lambda: len(self.lines) > known)
        time.sleep(AFTERWARDS)
        return [(line["type"], line["decision"]) for line in self.lines[known:]]


@contextmanager
def watching(plane: ControlPlane, user: str, folder: Path) -> Iterator[Watching]:
    """Begun, and ended by Ctrl-C."""
    output, notes = folder / "lines", folder / "notes"
    command = [str(Path(sys.executable).parent / "zoneward"), "plan", "-n", "shop", "--watch", "-o", "json"]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig(user))}
    with (
        output.open("wb") as to,
        notes.open("wb") as errors,
        subprocess.Popen(command, stdout=to, stderr=errors, env=environment) as process,
    ):
        try:
            found = Watching(process, output, notes)
            found.wait_for(lambda: any(line["type"] == "SYNCED" for line in found.lines))
            yield found
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=PATIENCE) == 130
        finally:
            process.kill()


def annotate(plane: ControlPlane, **annotations: str | None) -> None:
    service = a_service("cart", namespace="shop")
    named = {f"service.kubernetes.io/{name.replace('_', '-')}": value for name, value in annotations.items()}
    plane.api().patch(service, {"metadata": {"annotations": named}}, content_type=MERGE_PATCH)


def test_whoever_may_only_list_gets_a_plan(plane: ControlPlane) -> None:
    done = run(plane, "lister", "plan", "-n", "shop", "-o", "json")
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


def test_each_change_of_a_decision_is_told_once(plane: ControlPlane, tmp_path: Path) -> None:
    with watching(plane, "reader", tmp_path) as watch:
        added, synced = watch.lines
        assert (added["type"], added["decision"]["service"]) == ("ADDED", "cart")
        assert (synced["type"], synced["services"], synced["decisions"]) == ("SYNCED", 1, 1)
        try:
            set_pod_ready(plane.api(), "shop", "cart-a1", False)
            ((type_, decision),) = watch.told_after(2)
            assert (type_, decision["service"], decision["endpoints"]) == ("CHANGED", "cart", 8)
        finally:
            set_pod_ready(plane.api(), "shop", "cart-a1", True)
        ((type_, decision),) = watch.told_after(3)
        assert (type_, decision) == ("CHANGED", added["decision"])
        try:
            annotate(plane, topology_mode=None)
            ((type_, decision),) = watch.told_after(4)
            assert (type_, decision["active"]) == ("CHANGED", False)
        finally:
            annotate(plane, topology_mode="Auto")
        assert watch.told_after(5) == [("CHANGED", added["decision"])]
        assert watch.notes == ""


def test_a_server_that_goes_and_comes_back_is_followed_again(plane: ControlPlane, tmp_path: Path) -> None:
    with watching(plane, "reader", tmp_path) as watch:
        plane.stop_server()
        watch.wait_for(lambda: watch.notes)
        plane.start_server()
        first = watch.lines[0]["decision"]
        # The built-in controller comes back later than we do, and its slices change the rules of a decision.
        try:
            set_pod_ready(plane.api(), "shop", "cart-a1", False)
            watch.wait_for(lambda: watch.lines[-1].get("decision", {}).get("endpoints") == 8)
        finally:
            set_pod_ready(plane.api(), "shop", "cart-a1", True)
        watch.wait_for(lambda: watch.lines[-1]["decision"] == first)
        assert {line["type"] for line in watch.lines[2:]} == {"CHANGED"}


def test_whoever_may_only_list_is_told_what_watching_needs(plane: ControlPlane) -> None:
    done = run(plane, "lister", "plan", "-n", "shop", "--watch", "-o", "json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert 'verbs: ["watch"]' in done.stderr
