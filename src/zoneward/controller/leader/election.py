"""What a replica does with the Lease of leader election, as last observed. Values in, values out.

The clocks of two replicas are never compared. The times in a Lease are of the replica that wrote them, and are only for
people. A replica measures with its own monotonic clock how long a Lease has not changed. Three facts ensure that no two
replicas may write at once, however late messages arrive, as long as their clocks run at about the same speed:

1. A leader may write for ``renew_deadline`` from the moment at which it *began* the last write of the Lease that is
   known to be done. The Lease was written then or later.
2. Another takes over only when it has *seen* the Lease unchanged for the duration in it, which is longer. It saw it
   when it was written or later.
3. It takes over by a write that the server refuses if the Lease has changed since it was seen.
"""

import math
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from zoneward.kube.objects import Lease, LeaseSpec, ObjectKey, ObjectMeta

_LEAST_DEADLINE: Final = 1.2
"""In retry periods, as in client-go: time for one more attempt after a failed one."""
_MOST_TRANSITIONS: Final = 2**31 - 1
"""An API server refuses a Lease with more, and no replica could lead any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """Seconds; client-go's defaults. Raises ValueError if a leader could not renew in time, or others not notice."""

    lease_duration: float = 15.0
    """Other replicas do not take over a Lease that is unchanged for less than this; written as whole seconds, rounded
    up."""
    renew_deadline: float = 10.0
    """A leader may write for this long without renewing. The rest of ``lease_duration`` is for clocks that run at
    different speeds, and for writes that arrive late."""
    retry_period: float = 2.0
    """The longest time between two reads or renewals of the Lease."""

    def __post_init__(self) -> None:
        duration, deadline, period = self.lease_duration, self.renew_deadline, self.retry_period
        if not all(math.isfinite(seconds) for seconds in (duration, deadline, period)):
            raise ValueError(f"expected finite times, got {duration:g} s, {deadline:g} s and {period:g} s")
        if period <= 0:
            raise ValueError(f"retryPeriod: expected more than 0 s, got {period:g} s")
        if deadline <= period * _LEAST_DEADLINE:
            least = f"{_LEAST_DEADLINE:g} x retryPeriod ({period * _LEAST_DEADLINE:g} s)"
            raise ValueError(f"renewDeadline: expected more than {least}, got {deadline:g} s")
        if duration <= deadline:
            raise ValueError(f"leaseDuration: expected more than renewDeadline ({deadline:g} s), got {duration:g} s")
        if duration < 1:
            raise ValueError(f"leaseDuration: expected at least 1 s, got {duration:g} s")

    @property
    def call_timeout(self) -> float:
        """Seconds for a call about the Lease: three of them fit before the deadline."""
        return self.renew_deadline / 3

    @property
    def write_timeout(self) -> float:
        """Seconds for a leader's other writes: this much is always left while it renews in time."""
        return self.renew_deadline / 2

    @property
    def whole_seconds(self) -> int:
        """The duration in the format of a Lease."""
        return math.ceil(self.lease_duration)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLease:
    """The Lease when it was last read or written.

    ``since``: by this replica's clock, when it first saw the Lease in this state. ``is_gone``: the Lease was deleted,
    and ``since`` is of the last one seen; or it never existed, and ``lease`` is None.
    """

    lease: Lease | None
    since: float
    is_gone: bool = False

    @property
    def spec(self) -> LeaseSpec:
        return self.lease.spec if self.lease is not None else LeaseSpec()

    @property
    def holder(self) -> str:
        """The holder's identity; empty for none."""
        return self.spec.holder_identity or ""


def observe_lease(lease: Lease | None, *, before: ObservedLease | None, at: float) -> ObservedLease:
    """``lease`` None: it does not exist. ``at``: when the answer arrived, not when the request was sent."""
    if lease is None:
        return ObservedLease(lease=None, since=at, is_gone=True) if before is None else _gone(before)
    is_same = before is not None and before.lease is not None and before.lease.spec == lease.spec
    return ObservedLease(lease=lease, since=before.since if before is not None and is_same else at)


def _gone(before: ObservedLease) -> ObservedLease:
    # Its holder may not have noticed, and may write until its deadline.
    return ObservedLease(lease=before.lease, since=before.since, is_gone=True)


@dataclass(frozen=True, slots=True)
class LeaseWait:
    """Another replica leads, for ``seconds`` more unless it renews."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LeaseClaim:
    """The Lease to write: create it where it has no version, else update that version."""

    lease: Lease


def decide_about_lease(
    observed: ObservedLease, *, key: ObjectKey, identity: str, timing: LeaseTiming, now: float, stamp: str
) -> LeaseWait | LeaseClaim:
    """What to do about a Lease, ``key`` (namespace, name). ``now``: of the clock of ``observed.since``.

    ``stamp``: the time of day, for people; it differs from all earlier stamps of this replica, because other
    replicas recognize a renewal by it.
    """
    if observed.holder not in ("", identity):
        left = observed.since + _duration(observed.spec, timing) - now
        if left > 0:
            return LeaseWait(left)
    old = observed.spec
    is_ours = observed.holder == identity
    spec = LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=timing.whole_seconds,
        acquire_time=old.acquire_time if is_ours and old.acquire_time else stamp,
        renew_time=stamp,
        lease_transitions=min(
            (old.lease_transitions or 0) + (observed.lease is not None and not is_ours), _MOST_TRANSITIONS
        ),
    )
    return LeaseClaim(_lease_with(observed, spec, key))


def released_lease(observed: ObservedLease, *, identity: str, stamp: str) -> LeaseClaim | None:
    """The released Lease, as client-go writes it; None if another replica holds it."""
    if observed.holder != identity or observed.is_gone or observed.lease is None:
        return None
    spec = LeaseSpec(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=stamp,
        renew_time=stamp,
        lease_transitions=observed.spec.lease_transitions,
    )
    return LeaseClaim(replace(observed.lease, spec=spec))


def _duration(spec: LeaseSpec, timing: LeaseTiming) -> float:
    # The duration that its holder relies on, which may differ from this replica's.
    return spec.lease_duration_seconds or timing.lease_duration


def _lease_with(observed: ObservedLease, spec: LeaseSpec, key: ObjectKey) -> Lease:
    if observed.lease is not None and not observed.is_gone:
        return replace(observed.lease, spec=spec)
    namespace, name = key
    return Lease(metadata=ObjectMeta(namespace=namespace, name=name), spec=spec)
