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
from e2e.pods import LABELS, Shop, a_shop
from e2e.processes import PATIENCE
from tests.builders.objects import a_service
from tests.contract.api import MERGE_PATCH, Object
from tests.deploy.manifests import ROOT

ROLE = yaml.safe_load((ROOT / "examples" / "cluster-role.yaml").read_text())
LIST_ONLY = [{**rule, "verbs": ["list"]} for rule in ROLE["rules"]]
CORE, DISCOVERY = ROLE["rules"]
WITHOUT_PODS = [{**CORE, "resources": [each for each in CORE["resources"] if each != "pods"]}, DISCOVERY]
FLIPPED = "cart-0"
PODS = 9
AFTERWARDS = 0.5
"""Seconds in which nothing more is to be told."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A Service with nine Pods in three zones that asks for Auto, with slices of the built-in controller."""
    with ControlPlane(users=("reader", "half", "lister"), controllers=SLICE_CONTROLLERS) as plane:
        api = plane.api()
        auto = {"service.kubernetes.io/topology-mode": "Auto"}
        api.create_all([*a_shop("shop", PODS), a_service("cart", namespace="shop", selector=LABELS, annotations=auto)])
        for user, rules in (("reader", ROLE["rules"]), ("lister", LIST_ONLY), ("half", WITHOUT_PODS)):
            plane.allow(user, rules)
            plane.wait_until_allowed(user, "/api/v1/services")
        plane.wait_until(lambda: len(Shop(api, "shop").ready()) == PODS, what="its slices")
        yield plane


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


def test_commands_need_no_more_than_their_role(plane: ControlPlane) -> None:
    done = plane.zoneward("plan", "-n", "shop", "-o", "json", user="lister")
    (decision,) = json.loads(done.stdout)["decisions"]
    assert (decision["service"], decision["active"], decision["endpoints"]) == ("cart", True, PODS)
    assert decision["inZoneTraffic"] == 1
    for command in (("compare", "-A"), ("route", "-A", "--node", "node-a")):
        assert "cart" in plane.zoneward(*command, "-o", "json", user="reader").stdout


@pytest.mark.parametrize(
    ("user", "command", "rule"),
    [
        ("half", ("plan", "-A"), '{apiGroups: [""], resources: ["pods"], verbs: ["list"]}'),
        ("lister", ("plan", "-n", "shop", "--watch", "-o", "json"), 'verbs: ["watch"]'),
    ],
)
def test_without_one_permission_the_rule_is_told(
    plane: ControlPlane, user: str, command: tuple[str, ...], rule: str
) -> None:
    done = plane.zoneward(*command, user=user, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert rule in done.stderr


def test_each_change_of_a_decision_is_told_once(plane: ControlPlane, tmp_path: Path) -> None:
    with watching(plane, "reader", tmp_path) as watch:
        added, synced = watch.lines
        assert (added["type"], added["decision"]["service"]) == ("ADDED", "cart")
        assert (synced["type"], synced["services"], synced["decisions"]) == ("SYNCED", 1, 1)
        try:
            Shop(plane.api(), "shop").make_ready(FLIPPED, False)
            ((type_, decision),) = watch.told_after(2)
            assert (type_, decision["service"], decision["endpoints"]) == ("CHANGED", "cart", PODS - 1)
        finally:
            Shop(plane.api(), "shop").make_ready(FLIPPED, True)
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
            Shop(plane.api(), "shop").make_ready(FLIPPED, False)
            watch.wait_for(lambda: watch.lines[-1].get("decision", {}).get("endpoints") == PODS - 1)
        finally:
            Shop(plane.api(), "shop").make_ready(FLIPPED, True)
        watch.wait_for(lambda: watch.lines[-1]["decision"] == first)
        assert {line["type"] for line in watch.lines[2:]} == {"CHANGED"}
