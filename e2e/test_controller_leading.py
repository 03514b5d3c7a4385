"""Two replicas on a real API server, whose audit log says who wrote what: killed, ended, stopped and continued."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from e2e.control_plane import ControlPlane
from e2e.controllers import ZonewardController
from e2e.pod_readiness import flipping, set_pod_ready
from tests.builders.objects import SERVICE_NAME, a_namespace, a_node, a_pod, a_service

NAMESPACE = "led"
LABELS = {"app": "cart"}
SERVICES = tuple(f"cart-{number}" for number in range(6))
PODS = 6
DURATION, DEADLINE, RETRY = 4.0, 3.0, 0.5
USERS = ("first", "second")
ALL = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
WRITES = ("create", "update", "patch", "delete")
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "resources": [{"group": "coordination.k8s.io"}]},
        {"level": "Metadata", "users": list(USERS), "verbs": list(WRITES)},
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True)
class Write:
    """One that was done; of anything but the Lease."""

    user: str
    resource: str
    begun: float
    ended: float


class Led:
    """Services that all select the same Pods."""

    def __init__(self, plane: ControlPlane, audit: Path) -> None:
        self.plane, self.api, self._audit = plane, plane.api(), audit

    def writes(self, user: str, *, since: float = 0.0, resource: str | None = None) -> list[Write]:
        """By time of the day, in order."""
        whole, _, _ = self._audit.read_text().rpartition("\n")
        found = [
            Write(
                event["user"]["username"],
                event["objectRef"]["resource"],
                _seconds(event["requestReceivedTimestamp"]),
                _seconds(event["stageTimestamp"]),
            )
            for event in map(json.loads, whole.splitlines())
            if event["responseStatus"]["code"] < 300
        ]
        return [
            each
            for each in sorted(found, key=lambda each: each.ended)
            if each.user == user and each.ended >= since and resource in (None, each.resource)
        ]

    def make_ready(self, number: int, ready: bool) -> None:
        set_pod_ready(self.api, NAMESPACE, f"cart-{number}", ready)

    def flipping(self) -> AbstractContextManager[None]:
        """Each change is a write for each Service."""
        return flipping(self.api, NAMESPACE, "cart-0", period=0.1)

    def versions(self) -> dict[str, str]:
        """Of Services, slices and Events, by their uid."""
        paths = (
            "/api/v1/{}/services",
            "/apis/discovery.k8s.io/v1/{}/endpointslices",
            "/apis/events.k8s.io/v1/{}/events",
        )
        found = [each for path in paths for each in self.api.get(path.format(f"namespaces/{NAMESPACE}"))["items"]]
        return {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in found}

    def unready(self) -> set[str]:
        """Services whose slices list the first Pod as one that is not ready."""
        found = self.api.get(f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices")["items"]
        return {
            each["metadata"]["labels"][SERVICE_NAME]
            for each in found
            for one in each["endpoints"] or ()
            if not one["conditions"]["ready"]
        }


@pytest.fixture(scope="module")
def led(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Led]:
    folder = tmp_path_factory.mktemp("audit")
    policy, audit = folder / "policy.yaml", folder / "audit.log"
    policy.write_text(yaml.safe_dump(POLICY))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={audit}", "--audit-log-mode=blocking")
    with ControlPlane(users=USERS, server_flags=flags) as plane:
        api = plane.api()
        api.create_all([a_namespace(NAMESPACE), *(a_node(f"node-{zone}", zone=zone) for zone in "abc")])
        api.create_all(
            a_pod(
                f"cart-{number}",
                namespace=NAMESPACE,
                node=f"node-{'abc'[number % 3]}",
                ips=[f"10.1.0.{number + 1}"],
                labels=LABELS,
            )
            for number in range(PODS)
        )
        api.create_all(
            a_service(name, namespace=NAMESPACE, selector=LABELS, distribution="PreferSameZone") for name in SERVICES
        )
        for user in USERS:
            plane.allow(user, ALL)
        yield Led(plane, audit)


Pair = tuple[ZonewardController, ZonewardController]


@pytest.fixture
def pair(led: Led, request: pytest.FixtureRequest) -> Iterator[Pair]:
    """The leader, "first", and a replica that waits, "second"; all is written."""
    flags = (
        f"--leader-elect-lease-duration={DURATION:g}s",
        f"--leader-elect-renew-deadline={DEADLINE:g}s",
        f"--leader-elect-retry-period={RETRY * 1000:g}ms",
        f"--leader-elect-resource-namespace={NAMESPACE}",
        f"--leader-elect-resource-name={request.node.name.replace('_', '-')[:60].strip('-')}",
    )
    with ZonewardController(led.plane, *flags, user="first", elects=True) as first:
        first.wait_until(lambda: leads(first), what="the first leads")
        with ZonewardController(led.plane, *flags, user="second", elects=True) as second:
            led.make_ready(0, False)
            first.wait_until(lambda: led.unready() == set(SERVICES), what="slices")
            led.make_ready(0, True)
            first.wait_until(lambda: not led.unready(), what="slices")
            assert not leads(second)
            yield first, second


def leads(controller: ZonewardController) -> bool:
    told = [line["event"] for line in controller.lines if line["event"] in ("leads", "stepped down")]
    return bool(told) and told[-1] == "leads"


def _seconds(time_of_day: str) -> float:
    return datetime.fromisoformat(time_of_day).timestamp()


def taken_over(led: Led, heir: ZonewardController, *, since: float, by: str = "second") -> float:
    """Seconds until it has written a slice."""
    heir.wait_until(lambda: bool(led.writes(by, since=since, resource="endpointslices")), what="a write by the heir")
    return led.writes(by, since=since, resource="endpointslices")[0].ended - since


def test_after_a_kill_the_other_writes_within_the_duration_and_two_seconds(led: Led, pair: Pair) -> None:
    first, second = pair
    began = time.time()
    with led.flipping():
        time.sleep(0.5)
        first.kill()
        killed = time.time()
        took = taken_over(led, second, since=killed)
    assert took <= DURATION + 2
    # It may not be sooner: the first could still have been at work.
    before, after = led.writes("first", since=began), led.writes("second", since=began)
    assert before
    assert after[0].begun - before[-1].ended > DEADLINE - RETRY


def test_whoever_is_ended_finishes_and_the_other_writes_at_once(led: Led, pair: Pair) -> None:
    first, second = pair
    began = time.time()
    with led.flipping():
        time.sleep(0.5)
        ended = time.time()
        assert first.terminate() == 0
        took = taken_over(led, second, since=ended)
    assert took <= 2
    assert led.writes("first", since=began)[-1].ended < led.writes("second", since=began)[0].begun


def test_a_new_leader_that_finds_all_as_it_should_be_writes_and_tells_nothing(led: Led, pair: Pair) -> None:
    first, second = pair
    before, quiet = led.versions(), time.time()
    assert first.terminate() == 0
    second.wait_until(lambda: leads(second), what="the second leads")
    time.sleep(1.5)
    assert led.writes("second", since=quiet) == []
    assert led.versions() == before
    led.make_ready(0, False)
    second.wait_until(lambda: led.unready() == set(SERVICES), what="slices", patience=2)
    led.make_ready(0, True)


def test_whoever_stood_still_writes_nothing_until_it_leads_again(led: Led, pair: Pair) -> None:
    first, second = pair
    with led.flipping():
        time.sleep(0.5)
        first.signal(signal.SIGSTOP)
        stopped = time.time()
        assert taken_over(led, second, since=stopped) <= DURATION + 2
        went_on = time.time()
        first.signal(signal.SIGCONT)
        first.wait_until(lambda: not leads(first), what="the first steps down")
        time.sleep(DURATION)
        ended = time.time()
        assert [each for each in led.writes("first", since=went_on) if each.ended < ended] == []
        assert len(led.writes("second", since=went_on)) > len(SERVICES)
        assert first.is_ready
        assert second.terminate() == 0
        assert taken_over(led, first, since=ended, by="first") <= 3
    assert leads(first)
