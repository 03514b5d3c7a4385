"""Who leads: what a candidate does about the Lease as it last saw it. Values in, values out.

Two clocks never meet here. The times in a Lease are of whoever wrote them, and are only told to people. A candidate
counts, by a clock of its own that never goes back, how long a Lease has stayed as it is. Three facts make it so that
no two may write at once, however late anything comes, as long as clocks run about equally fast:

1. A leader may write for ``renew_deadline`` from the moment at which it *began* the last write of the Lease that is
   known to have been done. The Lease was written then or later.
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
"""In retry periods, as client-go has it: time for one more attempt after a failed one."""
_MOST_TRANSITIONS: Final = 2**31 - 1
"""An API server refuses a Lease with more, and nobody could lead any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds; client-go's defaults. Raises ValueError where a leader could not renew in time, or others not tell."""

    lease_duration: float = 15.0
    """For so long others leave a Lease alone that does not change; written as whole seconds, rounded up."""
    renew_deadline: float = 10.0
    """For so long a leader may write without having renewed. What is left to ``lease_duration`` is for clocks that run
    unequally, and for writes that arrive late."""
    retry_period: float = 2.0
    """The longest time between two looks at the Lease, or renewals of it."""

    def __post_init__(self) -> None:
        duration, deadline, period = self.lease_duration, self.renew_deadline, self.retry_period
        if not all(math.isfinite(each) for each in (duration, deadline, period)):
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
    def call(self) -> float:
        """Seconds after which a call about the Lease is given up: three of them fit before the deadline."""
        return self.renew_deadline / 3

    @property
    def write(self) -> float:
        """Seconds that a leader's other writes may take: while renewals come in their time, that much is left."""
        return self.renew_deadline / 2

    @property
    def whole_seconds(self) -> int:
        """The duration as a Lease has it."""
        return math.ceil(self.lease_duration)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The Lease when it was last read or written.

    ``since``: by our own clock, when it was first seen as it is. ``is_gone``: there is none any more, ``since`` is of
    the last one that was seen; or there never was one, and ``lease`` is None.
    """

    lease: Lease | None
    since: float
    is_gone: bool = False

    @property
    def spec(self) -> LeaseSpec:
        return self.lease.spec if self.lease is not None else LeaseSpec()

    @property
    def holder(self) -> str:
        """Empty: nobody."""
        return self.spec.holder_identity or ""


def seen(lease: Lease | None, *, before: Seen | None, at: float) -> Seen:
    """``lease`` None: there is none. ``at``: when the answer was there, not when it was asked for."""
    if lease is None:
        return Seen(lease=None, since=at, is_gone=True) if before is None else _gone(before)
    is_same = before is not None and before.lease is not None and before.lease.spec == lease.spec
    return Seen(lease=lease, since=before.since if before is not None and is_same else at)


def _gone(before: Seen) -> Seen:
    # Whoever held it may not have noticed, and may write until its deadline.
    return Seen(lease=before.lease, since=before.since, is_gone=True)


@dataclass(frozen=True, slots=True)
class Wait:
    """Somebody else leads, for ``seconds`` more if nothing more is heard of it."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Claim:
    """Write this: to create it where it has no version, else over the version it has."""

    lease: Lease


def decide(known: Seen, *, key: ObjectKey, identity: str, timing: Timing, now: float, stamp: str) -> Wait | Claim:
    """What to do about a Lease, ``key`` (namespace, name). ``now``: of the clock of ``known.since``.

    ``stamp``: the time of day for people to read, other than in every earlier claim of ours: by it others see that the
    Lease was renewed.
    """
    if known.holder not in ("", identity):
        left = known.since + _duration(known.spec, timing) - now
        if left > 0:
            return Wait(left)
    old = known.spec
    is_ours = known.holder == identity
    spec = LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=timing.whole_seconds,
        acquire_time=old.acquire_time if is_ours and old.acquire_time else stamp,
        renew_time=stamp,
        lease_transitions=min(
            (old.lease_transitions or 0) + (known.lease is not None and not is_ours), _MOST_TRANSITIONS
        ),
    )
    return Claim(_written(known, spec, key))


def release(known: Seen, *, identity: str, stamp: str) -> Claim | None:
    """The Lease let go, so that others need not wait; None where it is not ours. As client-go lets go."""
    if known.holder != identity or known.is_gone or known.lease is None:
        return None
    spec = LeaseSpec(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=stamp,
        renew_time=stamp,
        lease_transitions=known.spec.lease_transitions,
    )
    return Claim(replace(known.lease, spec=spec))


def _duration(spec: LeaseSpec, timing: Timing) -> float:
    # What its holder counts on, which may be set otherwise than we are.
    return spec.lease_duration_seconds or timing.lease_duration


def _written(known: Seen, spec: LeaseSpec, key: ObjectKey) -> Lease:
    if known.lease is not None and not known.is_gone:
        return replace(known.lease, spec=spec)
    namespace, name = key
    return Lease(metadata=ObjectMeta(namespace=namespace, name=name), spec=spec)
