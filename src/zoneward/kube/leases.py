"""Two kinds of Leases: in one, the proxy of a node reports to the controller what it has programmed; the other is that
of the controller's leader election, and shows whether a controller runs.

The Lease of a proxy has the resourceVersion up to which everything is in the kernel: versions of a kind compare as
numbers (KEP-5504). Thus one object per node reports about all Services, with as few writes as the Leases of kubelets.

Replicas of the controller never compare clocks. Commands do: they read its Lease once.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.formats import MAX_NAME_LENGTH, name_with_suffix
from zoneward.kube.objects import Lease, LeaseSpec, ObjectKey, ObjectMeta, OwnerReference, parse_resource_version
from zoneward.kube.workload_objects import Lease as ControllerLease

RENEW_INTERVAL: Final = 60.0
"""Seconds between two renewals of the Lease by the proxy, give or take a tenth."""
LEASE_DURATION: Final = 180.0
"""Seconds after its last renewal for which a proxy counts as alive."""
PROXY_LEASE_SELECTOR: Final = f"{names.COMPONENT_LABEL}={names.PROXY_COMPONENT}"
"""The label selector of these Leases."""
MAX_NOT_PROGRAMMED: Final = 50
"""Services that a Lease may list as not programmed."""


@dataclass(frozen=True, slots=True)
class ProgrammedReport:
    """What a node has in its kernel: every Service and slice up to these versions, except Services ``excluded``."""

    services: int
    slices: int
    excluded: tuple[ObjectKey, ...] = ()


@dataclass(frozen=True, slots=True)
class ProxyStatus:
    """The content of a Lease. ``programmed`` is None if it cannot be read. ``proxy_name`` is empty for the usual proxy,
    which does not serve Services with ``service.kubernetes.io/service-proxy-name``."""

    node: str
    proxy_name: str
    programmed: ProgrammedReport | None


def proxy_lease_name(node: str, proxy_name: str = "") -> str:
    """``zoneward-proxy-NODE`` if it is short enough; ``zoneward-proxy.NODE-HASH`` if not, or for a proxy with a name.

    The dot distinguishes the two: a Node may have the name ``NODE-HASH``, and an admission policy cannot compute the
    hash.
    """
    name = f"{names.PROXY_COMPONENT}-{node}"
    if not proxy_name and len(name) <= MAX_NAME_LENGTH:
        return name
    digest = hashlib.sha256(f"{node}/{proxy_name}".encode()).hexdigest()[:16]
    return name_with_suffix(f"{names.PROXY_COMPONENT}.{node}", f"-{digest}")


def build_proxy_lease(
    node: str,
    programmed: ProgrammedReport,
    *,
    namespace: str,
    proxy_name: str,
    renewed: str,
    owner: OwnerReference | None,
) -> Lease:
    """A new Lease. ``renewed`` is a time of the API; ``owner`` is the Node: Kubernetes deletes the Lease with it."""
    annotations = {
        names.PROGRAMMED_SERVICES_ANNOTATION: str(programmed.services),
        names.PROGRAMMED_SLICES_ANNOTATION: str(programmed.slices),
    }
    if programmed.excluded:
        annotations[names.NOT_PROGRAMMED_ANNOTATION] = ",".join("/".join(key) for key in programmed.excluded)
    if proxy_name:
        annotations[names.PROXY_NAME_ANNOTATION] = proxy_name
    return Lease(
        metadata=ObjectMeta(
            name=proxy_lease_name(node, proxy_name),
            namespace=namespace,
            labels={names.COMPONENT_LABEL: names.PROXY_COMPONENT},
            annotations=annotations,
            owner_references=None if owner is None else (owner,),
        ),
        spec=LeaseSpec(holder_identity=node, lease_duration_seconds=round(LEASE_DURATION), renew_time=renewed),
    )


def parse_proxy_lease(lease: Lease) -> ProxyStatus:
    """Read a Lease that any client may have written."""
    annotations = lease.metadata.annotations or {}
    services = parse_resource_version(annotations.get(names.PROGRAMMED_SERVICES_ANNOTATION))
    slices = parse_resource_version(annotations.get(names.PROGRAMMED_SLICES_ANNOTATION))
    programmed = None
    if services is not None and slices is not None:
        programmed = ProgrammedReport(
            services, slices, tuple(_parse_keys(annotations.get(names.NOT_PROGRAMMED_ANNOTATION, "")))
        )
    return ProxyStatus(lease.spec.holder_identity or "", annotations.get(names.PROXY_NAME_ANNOTATION, ""), programmed)


def _parse_keys(text: str) -> Iterable[ObjectKey]:
    for key in text.split(","):
        namespace, slash, name = key.partition("/")
        if slash:
            yield namespace, name


# --- the Lease of the controller --------------------------------------------------------------------------------------


CONTROLLER_LEASE: Final = "zoneward-controller"
"""The default name. It is in the namespace of the controller's Pod."""
_DURATION: Final = 15
"""The default duration of its Lease, in seconds."""
_CLOCK_SKEW: Final = 60
"""Tolerated difference between the clocks of the holder and the reader, in seconds."""


def is_held(lease: ControllerLease, *, now: datetime) -> bool:
    """Whether a replica holds the Lease and renewed it in time, or after ``now``."""
    renewed = _renewed(lease)
    if not lease.spec.holder_identity or renewed is None:
        return False
    seconds = (lease.spec.lease_duration_seconds or _DURATION) + _CLOCK_SKEW
    return now - renewed <= timedelta(seconds=seconds)


def writes_no_slices(lease: ControllerLease) -> bool:
    """Whether the last holder of the Lease runs an overlay, which does not update the slices of adopted Services."""
    return (lease.metadata.annotations or {}).get(names.MODE_ANNOTATION) == names.OVERLAY_MODE


def without_expired_holder(lease: ControllerLease, *, now: datetime) -> ControllerLease:
    """The Lease, released if its holder did not renew it in time, so that a snapshot stays true when read later."""
    return lease if is_held(lease, now=now) else replace(lease, spec=replace(lease.spec, holder_identity=""))


def is_led(leases: Iterable[ControllerLease], *, name: str = CONTROLLER_LEASE) -> bool:
    """Whether a replica that writes slices holds a Lease of this name, at the time of the newest renewal among all
    Leases.

    Kubelets renew their Leases every ten seconds, so that the newest renewal shows when a snapshot was taken.
    """
    leases = tuple(leases)
    renewals = [renewed for lease in leases if (renewed := _renewed(lease)) is not None]
    return bool(renewals) and any(
        is_held(lease, now=max(renewals)) and not writes_no_slices(lease)
        for lease in leases
        if lease.metadata.name == name
    )


def _renewed(lease: ControllerLease) -> datetime | None:
    try:
        renewed = datetime.fromisoformat(lease.spec.renew_time or "")
        return renewed.astimezone(UTC) if renewed.tzinfo is not None else renewed.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
