"""The values that name nobody and stay when a snapshot is anonymized: lists of known values, and no heuristics.

A domain like ``kubernetes.io`` makes nothing harmless: people name things under it, too.
"""

import re
from typing import Final

from zoneward.kube import leader_labels, names, quantity
from zoneward.kube.objects import Allocatable, Number
from zoneward.kube.validation import ADDRESS_TYPES, PROTOCOLS

_ZONE: Final = (names.ZONE_LABEL, "failure-domain.beta.kubernetes.io/zone")
_REGION: Final = (names.REGION_LABEL, "failure-domain.beta.kubernetes.io/region")
_HOSTNAME: Final = "kubernetes.io/hostname"
ZONE_LABELS: Final = frozenset(_ZONE)
REGION_LABELS: Final = frozenset(_REGION)
NODE_LABELS: Final = frozenset({_HOSTNAME})
"""Labels whose values name a Node."""
KEPT_KEYS: Final = frozenset(
    {
        *_ZONE,
        *_REGION,
        _HOSTNAME,
        names.SERVICE_NAME_LABEL,
        names.MANAGED_BY_LABEL,
        names.HEADLESS_LABEL,
        names.PROXY_NAME_LABEL,
        names.OS_LABEL,
        *names.NODE_EXCLUDED_LABELS,
        *leader_labels.ROLE_LABELS,
        *leader_labels.ACTIVE_LABELS,
    }
)
"""Labels that something depends on. Of the others, what decisions ask for is whether they are there and equal."""
ROLES: Final = leader_labels.LEADERS | leader_labels.FOLLOWERS
MANAGERS: Final = frozenset({names.MANAGER, names.BUILT_IN_MANAGER, "endpointslicemirroring-controller.k8s.io"})
"""Who manages a slice decides what happens to it, where it is a controller that is known."""

SERVICE_TYPES: Final = frozenset({"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"})
FAMILIES: Final = frozenset({"IPv4", "IPv6"})
KINDS_OF_ADDRESSES: Final = frozenset(ADDRESS_TYPES)
POLICIES: Final = frozenset({"Cluster", "Local"})
TRANSPORTS: Final = frozenset(PROTOCOLS)
APP_PROTOCOLS: Final = frozenset(
    {
        *("kubernetes.io/h2c", "kubernetes.io/ws", "kubernetes.io/wss"),
        *("http", "https", "http2", "h2c", "grpc", "tcp", "udp", "tls", "ws", "wss", "redis", "mysql", "mongo"),
    }
)
PHASES: Final = frozenset({"Pending", "Running", "Succeeded", "Failed", "Unknown"})
RESTART_POLICIES: Final = frozenset({"Always", "OnFailure", "Never"})
OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
STATES: Final = frozenset({"True", "False", "Unknown"})
TOPOLOGY_KEYS: Final = frozenset({"*", _HOSTNAME, *_ZONE, *_REGION})
TARGETS: Final = frozenset({"", "Pod", "Node"})
CONDITIONS: Final = frozenset({names.ACCEPTED_CONDITION, names.PROGRAMMED_CONDITION})
"""Zoneward's own, which record what was reported last."""

_TOPOLOGY: Final = frozenset((*names.AUTO_VALUES, *names.DISABLED_VALUES, "ProportionalZoneCPU", "PreferZone"))
SETTINGS: Final = {
    names.TOPOLOGY_AWARE_HINTS_ANNOTATION: _TOPOLOGY,
    names.TOPOLOGY_MODE_ANNOTATION: _TOPOLOGY,
    names.SUBSETTING_ANNOTATION: frozenset(
        (*names.SUBSETTING_AUTO_VALUES, names.SUBSETTING_REQUIRE, *names.SUBSETTING_DISABLED_VALUES)
    ),
    names.SUBSETTING_ALGORITHM_ANNOTATION: frozenset[str](),
}
"""Annotations that decisions read, with their known values."""
DISTRIBUTIONS: Final = frozenset(names.TRAFFIC_DISTRIBUTIONS)

_NUMBER: Final = re.compile(r"[0-9.]{1,40}%?", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]{1,20}", re.ASCII)
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)
_SOME_TIME: Final = "1970-01-01T00:00:00Z"
_LONGEST_QUANTITY: Final = 20

_COMPASS: Final = "(?:north|south|east|west|central|northeast|northwest|southeast|southwest)"
_CLOUDS: Final = re.compile(
    rf"(?:af|ap|ca|cn|eu|il|me|mx|sa|us)-(?:gov-)?{_COMPASS}-[0-9][a-z]?"  # Amazon's
    rf"|(?:africa|asia|australia|europe|me|northamerica|southamerica|us)-{_COMPASS}[0-9]{{1,2}}(?:-[a-z])?"  # Google's
    rf"|(?:{_COMPASS})?(?:us|uk|europe|asia|australia|india|japan|korea)(?:{_COMPASS})?[0-9]?(?:-[1-3])?"  # Azure's
    r"|(?:zone-?)?(?:[a-z]|[0-9]{1,2})",
    re.ASCII,
)
"""Zones and regions that are everybody's, and those that say nothing."""


_KUBELET: Final = re.compile(r"(v1\.[0-9]{1,3}\.[0-9]{1,3})(\+(?:k3s|rke2r)[0-9]{1,3})?.*", re.ASCII | re.DOTALL)


def kept_kubelet_version(text: str) -> str:
    """The version, and the distribution that has a proxy of its own; empty for anything else."""
    found = _KUBELET.fullmatch(text)
    return f"{found[1]}{found[2] or ''}" if found else ""


def is_public_place(name: str) -> bool:
    return _CLOUDS.fullmatch(name) is not None


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None


def kept_time(text: str | None) -> str | None:
    """A time; some time in place of anything else, for it matters that there is one."""
    return text if text is None or is_time(text) else _SOME_TIME


def kept_version(text: str | None) -> str | None:
    return text if text is not None and _DIGITS.fullmatch(text) else None


def kept_amount(allocatable: Allocatable | None) -> Allocatable | None:
    """The CPU, as it is written where that is as short as people write it."""
    if allocatable is None or allocatable.cpu is None:
        return allocatable
    return Allocatable(cpu=_amount(allocatable.cpu))


def _amount(cpu: Number) -> Number | None:
    try:
        amount = quantity.parse(cpu)
    except ValueError:
        return None
    return cpu if len(str(cpu)) <= _LONGEST_QUANTITY else f"{quantity.in_milli(amount)}m"
