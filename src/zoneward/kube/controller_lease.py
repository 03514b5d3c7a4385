"""Whether a controller runs, by the Lease of its leader election.

Replicas never compare clocks. Commands do: they read the Lease once.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from zoneward.kube.workload_objects import Lease

CONTROLLER_LEASE: Final = "zoneward-controller"
"""The default name. It is in the namespace of the controller's Pod."""
_DURATION: Final = 15
"""The default duration of a Lease, in seconds."""
_CLOCK_SKEW: Final = 60
"""Tolerated difference between the clocks of the holder and the reader, in seconds."""


def is_held(lease: Lease, *, now: datetime) -> bool:
    """Whether a replica holds the Lease and renewed it in time, or after ``now``."""
    renewed = _renewed(lease)
    if not lease.spec.holder_identity or renewed is None:
        return False
    seconds = (lease.spec.lease_duration_seconds or _DURATION) + _CLOCK_SKEW
    return now - renewed <= timedelta(seconds=seconds)


def without_expired_holder(lease: Lease, *, now: datetime) -> Lease:
    """The Lease, released if its holder did not renew it in time, so that a snapshot stays true when read later."""
    return lease if is_held(lease, now=now) else replace(lease, spec=replace(lease.spec, holder_identity=""))


def is_led(leases: Iterable[Lease], *, name: str = CONTROLLER_LEASE) -> bool:
    """Whether a replica holds a Lease of this name, at the time of the newest renewal among all Leases.

    Kubelets renew their Leases every ten seconds, so that the newest renewal shows when a snapshot was taken.
    """
    leases = tuple(leases)
    renewals = [renewed for lease in leases if (renewed := _renewed(lease)) is not None]
    return bool(renewals) and any(is_held(lease, now=max(renewals)) for lease in leases if lease.metadata.name == name)


def _renewed(lease: Lease) -> datetime | None:
    try:
        renewed = datetime.fromisoformat(lease.spec.renew_time or "")
        return renewed.astimezone(UTC) if renewed.tzinfo is not None else renewed.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
