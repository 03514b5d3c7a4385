"""What an elector does about the Lease that it sees, and what nobody should set."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from zoneward.controller.leader.election import (
    LeaseClaim,
    LeaseTiming,
    LeaseWait,
    ObservedLease,
    decide_about_lease,
    observe_lease,
    released_lease,
)
from zoneward.kube.objects import Lease, LeaseSpec, ObjectMeta

KEY = ("kube-system", "zoneward")
STAMP = "2026-01-01T12:00:00.000000Z"
TIMING = LeaseTiming()


def a_lease(holder: str | None, *, version: str = "7", renewed: str = "long ago", **fields: Any) -> Lease:
    spec = LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=15,
        acquire_time="first",
        renew_time=renewed,
        lease_transitions=3,
    )
    namespace, name = KEY
    metadata = ObjectMeta(namespace=namespace, name=name, uid="u", resource_version=version, labels={"team": "a"})
    return Lease(metadata=metadata, spec=replace(spec, **fields))


def seen(lease: Lease | None, *, before: ObservedLease | None = None, at: float = 100.0) -> ObservedLease:
    return observe_lease(lease, before=before, at=at)


def decided(known: ObservedLease, *, now: float = 100.0, timing: LeaseTiming = TIMING) -> LeaseWait | LeaseClaim:
    return decide_about_lease(known, key=KEY, identity="me", timing=timing, now=now, stamp=STAMP)


def claimed(known: ObservedLease, *, now: float = 100.0) -> Lease:
    move = decided(known, now=now)
    assert isinstance(move, LeaseClaim)
    return move.lease


def test_where_there_is_no_lease_one_is_created() -> None:
    lease = claimed(seen(None))
    assert lease.metadata == ObjectMeta(namespace="kube-system", name="zoneward")
    assert lease.spec == LeaseSpec(
        holder_identity="me", lease_duration_seconds=15, acquire_time=STAMP, renew_time=STAMP, lease_transitions=0
    )


def test_a_lease_that_was_let_go_is_taken_at_once_and_the_change_is_counted() -> None:
    lease = claimed(seen(a_lease("")))
    assert lease.metadata == a_lease("").metadata, "the version that was seen, its labels, its uid"
    spec = lease.spec
    assert (spec.holder_identity, spec.acquire_time, spec.renew_time) == ("me", STAMP, STAMP)
    assert spec.lease_transitions == 4
    full = claimed(seen(a_lease("", lease_transitions=2**31 - 1)))
    assert full.spec.lease_transitions == 2**31 - 1, "an API server refuses more"


def test_another_s_is_left_alone_for_its_duration_from_when_it_was_first_seen() -> None:
    known = seen(a_lease("other"))
    assert decided(known, now=100.0) == LeaseWait(15.0)
    assert decided(known, now=114.5) == LeaseWait(0.5)
    assert claimed(known, now=115.0).spec.lease_transitions == 4
    # Its duration is the holder's, or ours where it says none.
    for duration, waited in ((60, 60.0), (None, 15.0)):
        assert decided(seen(a_lease("other", lease_duration_seconds=duration))) == LeaseWait(waited)


def test_only_a_change_of_what_the_holder_writes_begins_the_time_anew() -> None:
    first = seen(a_lease("other"))
    labelled = seen(a_lease("other", version="8"), before=first, at=105.0)
    assert (labelled.since, labelled.lease) == (100.0, a_lease("other", version="8"))
    renewed = seen(a_lease("other", version="9", renewed="now"), before=labelled, at=106.0)
    assert renewed.since == 106.0


def test_what_we_hold_is_let_go_as_client_go_does_and_nothing_else_is() -> None:
    claim = released_lease(seen(a_lease("me")), identity="me", stamp=STAMP)
    assert claim is not None
    assert claim.lease.metadata == a_lease("me").metadata
    assert claim.lease.spec == LeaseSpec(
        holder_identity="", lease_duration_seconds=1, acquire_time=STAMP, renew_time=STAMP, lease_transitions=3
    )
    others = seen(a_lease("other"))
    gone = seen(None, before=seen(a_lease("me")), at=101.0)
    assert [released_lease(each, identity="me", stamp=STAMP) for each in (others, gone)] == [None, None]


TIMES = st.text(max_size=3)


@given(
    written=st.builds(
        LeaseSpec, holder_identity=st.sampled_from(["", "me", "other"]), acquire_time=TIMES, renew_time=TIMES
    ),
    since=st.floats(0, 1e6),
    passed=st.floats(0, 60),
)
def test_the_times_in_a_lease_decide_nothing(written: LeaseSpec, since: float, passed: float) -> None:
    plain = LeaseSpec(holder_identity=written.holder_identity)
    moves = [
        decided(observe_lease(Lease(spec=spec), before=None, at=since), now=since + passed) for spec in (written, plain)
    ]
    assert type(moves[0]) is type(moves[1])
    assert isinstance(moves[0], LeaseClaim) or moves == [moves[0]] * 2
    assert isinstance(moves[0], LeaseWait) == (written.holder_identity == "other" and since + 15 - (since + passed) > 0)


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ((10, 10, 2), "leaseDuration: expected more than renewDeadline (10 s), got 10 s"),
        ((15, 2.4, 2), "renewDeadline: expected more than 1.2 x retryPeriod (2.4 s), got 2.4 s"),
        ((15, 10, 0), "retryPeriod: expected more than 0 s, got 0 s"),
        ((0.9, 0.5, 0.1), "leaseDuration: expected at least 1 s, got 0.9 s"),
        ((float("inf"), 10, 2), "expected finite times, got inf s, 10 s and 2 s"),
    ],
)
def test_times_with_which_nobody_could_lead_are_refused(times: tuple[float, float, float], problem: str) -> None:
    duration, deadline, period = times
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (its words are what is tested)
        LeaseTiming(lease_duration=duration, renew_deadline=deadline, retry_period=period)
    assert str(caught.value) == problem


def test_a_lease_never_promises_less_than_is_waited_for() -> None:
    timing = LeaseTiming(lease_duration=1.2, renew_deadline=0.8, retry_period=0.2)
    assert (timing.whole_seconds, TIMING.whole_seconds) == (2, 15)
