"""The Lease in which the proxy of a node reports what it has programmed; the controller reads it.

It has the resourceVersion up to which everything is in the kernel: versions of a kind compare as numbers (KEP-5504). So
one object a node reports about every Service, and costs one write now and then, as the Leases of kubelets do.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from zoneward.kube import names
from zoneward.kube.objects import Lease, LeaseSpec, ObjectKey, ObjectMeta, OwnerReference, parse_resource_version

RENEW_INTERVAL: Final = 60.0
"""Seconds after which a proxy renews its Lease at the latest, give or take a tenth."""
LEASE_DURATION: Final = 180.0
"""Seconds after the last renewal in which a proxy counts as alive."""
PROXY_LEASE_SELECTOR: Final = f"{names.COMPONENT_LABEL}={names.PROXY_COMPONENT}"
"""The label selector of these Leases."""
MAX_NOT_PROGRAMMED: Final = 50
"""Services that a Lease may name as not programmed."""
_LONGEST_NAME: Final = 253


@dataclass(frozen=True, slots=True)
class ProgrammedReport:
    """What a node has in its kernel: every Service and slice up to these versions, except Services ``excluded``."""

    services: int
    slices: int
    excluded: tuple[ObjectKey, ...] = ()


@dataclass(frozen=True, slots=True)
class ProxyStatus:
    """What a Lease says. ``programmed`` None: nothing that can be read. ``proxy_name`` empty: the node's own proxy, and
    not one for Services with ``service.kubernetes.io/service-proxy-name``."""

    node: str
    proxy_name: str
    programmed: ProgrammedReport | None


def proxy_lease_name(node: str, proxy_name: str = "") -> str:
    """``zoneward-proxy-NODE``, as long as it fits; ``zoneward-proxy.NODE-HASH`` for a proxy with a name.

    The dot tells the two apart: a Node may be called ``NODE-HASH`` too, and an admission policy, which cannot compute
    the hash, must not take its Lease for one of ``NODE``.
    """
    name = f"{names.PROXY_COMPONENT}-{node}"
    if not proxy_name and len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(f"{node}/{proxy_name}".encode()).hexdigest()[:16]
    name = f"{names.PROXY_COMPONENT}.{node}"[: _LONGEST_NAME - len(digest) - 1].rstrip(".-")
    return f"{name}-{digest}"


def build_proxy_lease(
    node: str,
    programmed: ProgrammedReport,
    *,
    namespace: str,
    proxy_name: str,
    renewed: str,
    owner: OwnerReference | None,
) -> Lease:
    """Build a new Lease. ``renewed`` is a time of the API; ``owner`` the Node, with which it goes."""
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
    """Read a Lease, whoever wrote it."""
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
    for each in text.split(","):
        namespace, slash, name = each.partition("/")
        if slash:
            yield namespace, name
