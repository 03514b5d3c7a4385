"""Two replicas on a real API server: the leader is killed, terminated, or suspended. The audit log shows who writes."""

import signal
import time
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import pytest
from e2e.control_plane import ControlPlane
from e2e.controllers import ZonewardController
from e2e.pods import LABELS, AuditLog, Shop, a_shop
from tests.builders.objects import SERVICE_NAME, a_service

NAMESPACE = "led"
SERVICES = tuple(f"cart-{index}" for index in range(6))
PODS = 6
FLIPPED = "cart-0"
"""Each change of it is a write for each Service."""
DURATION, DEADLINE = 6.0, 5.0
LONG = 300.0
"""The lease duration of tests in which the next leader must not wait for it."""
USERS = ("first", "second")
ALL = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
RULES = (
    {"level": "None", "resources": [{"group": "coordination.k8s.io"}]},
    {"level": "Metadata", "users": list(USERS), "verbs": ["create", "update", "patch", "delete"]},
    {"level": "None"},
)


class Write(NamedTuple):
    """A successful write, except of the Lease."""

    user: str
    resource: str
    begun: float
    ended: float


class Led(Shop):
    """Services that all select the same Pods."""

    def __init__(self, plane: ControlPlane, audit: AuditLog) -> None:
        super().__init__(plane.api(), NAMESPACE)
        self.plane, self._audit = plane, audit

    def writes(self, user: str, *, since: float = 0.0, resource: str | None = None) -> list[Write]:
        """The writes of a user, in order."""
        written = [
            Write(
                event["user"]["username"],
                event["objectRef"]["resource"],
                _seconds(event["requestReceivedTimestamp"]),
                _seconds(event["stageTimestamp"]),
            )
            for event in self._audit.entries()
            if event["responseStatus"]["code"] < 300
        ]
        return [
            write_
            for write_ in sorted(written, key=lambda write_: write_.ended)
            if write_.user == user and write_.ended >= since and resource in (None, write_.resource)
        ]

    def unready(self) -> set[str]:
        """Services whose slices list an endpoint that is not ready."""
        return {
            slice_["metadata"]["labels"][SERVICE_NAME]
            for slice_ in self.slices()
            for one in slice_["endpoints"] or ()
            if not one["conditions"]["ready"]
        }


@pytest.fixture(scope="module")
def led(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Led]:
    audit = AuditLog(tmp_path_factory.mktemp("audit"), *RULES)
    with ControlPlane(users=USERS, server_flags=audit.flags) as plane:
        api = plane.api()
        api.create_all(a_shop(NAMESPACE, PODS))
        api.create_all(
            a_service(name, namespace=NAMESPACE, selector=LABELS, distribution="PreferSameZone") for name in SERVICES
        )
        for user in USERS:
            plane.allow(user, ALL)
        yield Led(plane, audit)


Pair = tuple[ZonewardController, ZonewardController]


@pytest.fixture
def pair(led: Led, request: pytest.FixtureRequest) -> Iterator[Pair]:
    """The leader "first" and the waiting replica "second"; all slices are written."""
    duration: float = getattr(request, "param", DURATION)
    flags = (
        f"--leader-elect-lease-duration={duration:g}s",
        f"--leader-elect-renew-deadline={duration - DURATION + DEADLINE:g}s",
        "--leader-elect-retry-period=500ms",
        f"--leader-elect-resource-namespace={NAMESPACE}",
        f"--leader-elect-resource-name={request.function.__name__.replace('_', '-')[:60].strip('-')}",
    )
    with ZonewardController(led.plane, *flags, user="first", elects=True) as first:
        first.wait_until(lambda: leads(first), what="the first leads")
        with ZonewardController(led.plane, *flags, user="second", elects=True) as second:
            led.make_ready(FLIPPED, False)
            first.wait_until(lambda: led.unready() == set(SERVICES), what="slices")
            led.make_ready(FLIPPED, True)
            first.wait_until(lambda: not led.unready(), what="slices")
            assert not leads(second)
            yield first, second


def leads(controller: ZonewardController) -> bool:
    events = [line["event"] for line in controller.lines if line["event"] in ("became leader", "stopped leading")]
    return events[-1:] == ["became leader"]


def _seconds(time_of_day: str) -> float:
    return datetime.fromisoformat(time_of_day).timestamp()


def taken_over(led: Led, heir: ZonewardController, *, since: float, by: str = "second") -> None:
    """Wait until the replica ``by`` writes a slice."""
    heir.wait_until(lambda: bool(led.writes(by, since=since, resource="endpointslices")), what="a write by the heir")


def test_other_replica_writes_when_the_lease_of_a_killed_one_expires(led: Led, pair: Pair) -> None:
    first, second = pair
    began = time.time()
    with led.flipping(FLIPPED, period=0.1):
        taken_over(led, first, since=began, by="first")
        first.kill()
        taken_over(led, second, since=time.time())
    # Not earlier: the first could still be writing.
    before, after = led.writes("first", since=began), led.writes("second", since=began)
    assert after[0].begun - before[-1].ended > (DURATION - DEADLINE) / 2


@pytest.mark.parametrize("pair", [LONG], indirect=True)
def test_terminated_leader_releases_its_lease(led: Led, pair: Pair) -> None:
    first, second = pair
    began = time.time()
    with led.flipping(FLIPPED, period=0.1):
        taken_over(led, first, since=began, by="first")
        ended = time.time()
        assert first.terminate() == 0
        taken_over(led, second, since=ended)
    assert led.writes("first", since=began)[-1].ended < led.writes("second", since=began)[0].begun


@pytest.mark.parametrize("pair", [LONG], indirect=True)
def test_new_leader_writes_nothing_if_everything_is_right(led: Led, pair: Pair) -> None:
    first, second = pair
    quiet = time.time()
    assert first.terminate() == 0
    second.wait_until(lambda: leads(second), what="the second leads")
    time.sleep(1.5)
    assert led.writes("second", since=quiet) == []
    led.make_ready(FLIPPED, False)
    second.wait_until(lambda: led.unready() == set(SERVICES), what="slices")
    led.make_ready(FLIPPED, True)


def test_suspended_leader_writes_nothing_until_it_leads_again(led: Led, pair: Pair) -> None:
    first, second = pair
    with led.flipping(FLIPPED, period=0.1):
        time.sleep(0.5)
        first.signal(signal.SIGSTOP)
        stopped = time.time()
        taken_over(led, second, since=stopped)
        went_on = time.time()
        first.signal(signal.SIGCONT)
        first.wait_until(lambda: not leads(first), what="the first steps down")
        time.sleep(DURATION)
        ended = time.time()
        assert [write for write in led.writes("first", since=went_on) if write.ended < ended] == []
        second.wait_until(lambda: len(led.writes("second", since=went_on)) > len(SERVICES), what="writes")
        first.wait_until(lambda: first.is_ready, what="a replica that waits")
        assert second.terminate() == 0
        taken_over(led, first, since=ended, by="first")
    assert leads(first)
