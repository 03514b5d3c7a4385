"""The Lease of the controller's leader election, as others read it: whether a controller runs.

Replicas never compare clocks. Others do, because nobody waits until a Lease has not changed for long enough.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from zoneward.kube.workload_objects import Lease

CONTROLLER_LEASE: Final = "zoneward-controller"
"""The name by default. Its namespace is that of the controller's Pod."""
_DURATION: Final = 15
"""Seconds, where a Lease does not say how long it lasts."""
_CLOCK_SKEW: Final = 60
"""Seconds by which the clocks of a holder and of a reader may differ."""


def is_held(lease: Lease, *, now: datetime) -> bool:
    """Whether a replica holds the Lease and has renewed it in time. One that was renewed later than ``now`` is held."""
    renewed = _renewed(lease)
    if not lease.spec.holder_identity or renewed is None:
        return False
    seconds = (lease.spec.lease_duration_seconds or _DURATION) + _CLOCK_SKEW
    return now - renewed <= timedelta(seconds=seconds)


def without_expired_holder(lease: Lease, *, now: datetime) -> Lease:
    """The Lease without its holder, as if it were released, unless it is held. Then a file that it is written to says
    so at any later time."""
    return lease if is_held(lease, now=now) else replace(lease, spec=replace(lease.spec, holder_identity=""))


def is_led(leases: Iterable[Lease], *, name: str = CONTROLLER_LEASE) -> bool:
    """Whether a replica holds a Lease of this name, at the time at which the newest of all Leases was renewed.

    Kubelets renew theirs every ten seconds, so that these show when a file was written.
    """
    leases = tuple(leases)
    renewals = [renewed for each in leases if (renewed := _renewed(each)) is not None]
    return bool(renewals) and any(is_held(each, now=max(renewals)) for each in leases if each.metadata.name == name)


def _renewed(lease: Lease) -> datetime | None:
    try:
        renewed = datetime.fromisoformat(lease.spec.renew_time or "")
        return renewed.astimezone(UTC) if renewed.tzinfo is not None else renewed.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
