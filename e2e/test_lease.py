"""Two electors on a real API server, with no more permissions than they need: killed, stopped, ended, cut off."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.control_plane import ControlPlane
from e2e.lease_elector import QUICK
from e2e.processes import Process
from tests.builders.objects import a_namespace
from tests.contract.api import Api

from zoneward.controller.leader.leader_elector import since_boot

NAMESPACE = "leading"
ROOT = Path(__file__).parents[1]
RULES = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}]
PROGRAM = ROOT / "e2e" / "lease_elector.py"


class Runner:
    """An elector in a process."""

    def __init__(self, plane: ControlPlane, folder: Path, *, lease: str, identity: str) -> None:
        self.identity, self.log = identity, folder / f"{identity}.log"
        kubeconfig = str(plane.kubeconfig("reader"))
        self.process = Process([sys.executable, PROGRAM, kubeconfig, NAMESPACE, lease, identity], log=self.log)

    def told(self) -> list[tuple[str, float]]:
        lines = (line.split() for line in self.log.read_text().splitlines())
        return [(words[0], float(words[1])) for words in lines if words[0] in ("leads", "follows")]

    @property
    def leads(self) -> bool:
        told = self.told()
        return bool(told) and told[-1][0] == "leads"

    def signal(self, number: signal.Signals) -> float:
        """When it was sent."""
        os.kill(self.process.pid, number)
        return since_boot()


Started = Callable[[str], Runner]


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    control_plane.api().create(a_namespace(NAMESPACE))
    control_plane.allow("reader", RULES)
    return control_plane


@pytest.fixture
def started(plane: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Started]:
    """Starts an elector for the Lease of this test."""
    runners: list[Runner] = []

    def start(identity: str) -> Runner:
        runners.append(Runner(plane, tmp_path, lease=lease_of(request), identity=identity))
        return runners[-1]

    yield start
    for runner in runners:
        runner.process.stop()


def lease_of(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).replace("_", "-")[:60].strip("-")


def wait_until(met: Callable[[], bool], *, patience: float = 30) -> None:
    limit = time.monotonic() + patience
    while not met():
        assert time.monotonic() < limit
        time.sleep(0.01)


def spec(api: Api, request: pytest.FixtureRequest) -> dict[str, Any]:
    found = api.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{lease_of(request)}")
    answer: dict[str, Any] = found["spec"]
    return answer


def leader_and_heir(started: Started) -> tuple[Runner, Runner]:
    first = started("first")
    wait_until(lambda: first.leads)
    second = started("second")
    time.sleep(2)
    assert not second.leads
    return first, second


def test_after_a_kill_the_other_leads_within_the_duration_and_two_seconds(
    plane: ControlPlane, started: Started, request: pytest.FixtureRequest
) -> None:
    first, second = leader_and_heir(started)
    died = first.signal(signal.SIGKILL)
    wait_until(lambda: second.leads)
    assert 1.5 <= second.told()[-1][1] - died <= QUICK.lease_duration + 2
    found = spec(plane.api(), request)
    assert (found["holderIdentity"], found["leaseTransitions"], found["leaseDurationSeconds"]) == ("second", 1, 3)
    assert found["acquireTime"] <= found["renewTime"]


def test_whoever_is_ended_lets_go_and_the_other_leads_at_its_next_look(
    plane: ControlPlane, started: Started, request: pytest.FixtureRequest
) -> None:
    first, second = leader_and_heir(started)
    ended = first.signal(signal.SIGTERM)
    wait_until(lambda: second.leads)
    assert second.told()[-1][1] - ended <= 1.5
    assert [what for what, _ in first.told()] == ["leads", "follows"]
    assert spec(plane.api(), request)["leaseTransitions"] == 1


def test_whoever_stood_still_follows_as_soon_as_it_goes_on(started: Started) -> None:
    first, second = leader_and_heir(started)
    first.signal(signal.SIGSTOP)
    wait_until(lambda: second.leads)
    went_on = first.signal(signal.SIGCONT)
    wait_until(lambda: not first.leads)
    what, when = first.told()[-1]
    assert what == "follows"
    assert when - went_on < 0.5
    time.sleep(2)
    assert second.leads
    assert not first.leads


def test_without_the_server_nobody_leads_and_with_it_somebody_does_again(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # One of its own: others use the shared one.
    with ControlPlane() as plane:
        plane.api().create(a_namespace(NAMESPACE))
        plane.allow("reader", RULES)
        first = Runner(plane, tmp_path, lease=lease_of(request), identity="first")
        wait_until(lambda: first.leads)
        plane.stop_server()
        gone = since_boot()
        wait_until(lambda: not first.leads)
        assert first.told()[-1][1] - gone <= QUICK.renew_deadline + 0.2
        plane.start_server()
        wait_until(lambda: first.leads)
        first.process.stop()
