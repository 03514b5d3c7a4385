"""Whether a controller runs, by the Leases that are known."""

from datetime import UTC, datetime, timedelta

import pytest

from zoneward.kube.controller_lease import CONTROLLER_LEASE, is_held, is_led, without_expired_holder
from zoneward.kube.workload_objects import Lease, LeaseSpec, WorkloadMeta

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_lease(
    seconds: float = 0, *, name: str = CONTROLLER_LEASE, holder: str | None = "a", duration: int | None = 15
) -> Lease:
    """A Lease that was renewed ``age`` seconds before noon."""
    renewed = (NOON - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=duration, renew_time=renewed)
    return Lease(metadata=WorkloadMeta(name=name, namespace="zoneward-system"), spec=spec)


@pytest.mark.parametrize(
    ("lease", "expected"),
    [
        (a_lease(10), True),
        (a_lease(74), True),
        (a_lease(76), False),
        (a_lease(76, duration=60), True),
        (a_lease(70, duration=None), True),
        (a_lease(-3600), True),
        (a_lease(0, holder=""), False),
        (a_lease(0, holder=None), False),
        (Lease(spec=LeaseSpec(holder_identity="a")), False),
        (Lease(spec=LeaseSpec(holder_identity="a", renew_time="yesterday")), False),
        (Lease(spec=LeaseSpec(holder_identity="a", renew_time="0001-01-01T00:00:00+14:00")), False),
    ],
)
def test_a_lease_is_held_while_its_holder_renews_it(lease: Lease, expected: bool) -> None:
    assert is_held(lease, now=NOON) is expected
    assert is_held(without_expired_holder(lease, now=NOON), now=NOON) is expected
    assert is_led([without_expired_holder(lease, now=NOON)]) is (expected and lease.metadata.name == CONTROLLER_LEASE)


def test_newest_renewal_is_the_time_of_a_file() -> None:
    kubelet = a_lease(0, name="node-a")
    assert is_led([a_lease(20), kubelet])
    assert not is_led([a_lease(600), kubelet])
    assert is_led([a_lease(600)]), "nothing else says what time it was"
    assert not is_led([kubelet])
    assert is_led([a_lease(5, name="other"), kubelet], name="other")
    assert not is_led([])
