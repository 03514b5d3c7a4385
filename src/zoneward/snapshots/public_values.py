"""Values that name nobody and are kept when a snapshot is anonymized: lists of known values, no guesses.

A domain such as ``kubernetes.io`` proves nothing: people name their own things under it.
"""

import re
from typing import Final

from zoneward.kube import leader_labels, names, quantity
from zoneward.kube.objects import Number
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
"""Labels that decisions or checks read. Of all others only presence and equality matter."""
_ROLES: Final = leader_labels.LEADERS | leader_labels.FOLLOWERS
_MANAGERS: Final = frozenset({names.MANAGER, names.BUILT_IN_MANAGER, "endpointslicemirroring-controller.k8s.io"})
"""Known controllers: who manages a slice decides whether Zoneward writes it."""

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
SPREAD_KEYS: Final = frozenset({names.ZONE_LABEL, _HOSTNAME, names.REGION_LABEL})
SCALED_KINDS: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet"})
TARGETS: Final = frozenset({"", "Pod", "Node"})
CONDITIONS: Final = frozenset({names.ACCEPTED_CONDITION, names.PROGRAMMED_CONDITION})
"""Conditions that Zoneward writes."""

_TOPOLOGY: Final = frozenset((*names.AUTO_VALUES, *names.DISABLED_VALUES, "ProportionalZoneCPU", "PreferZone"))
SETTINGS: Final = {
    names.TOPOLOGY_AWARE_HINTS_ANNOTATION: _TOPOLOGY,
    names.TOPOLOGY_MODE_ANNOTATION: _TOPOLOGY,
    names.SUBSETTING_ANNOTATION: frozenset(
        (*names.SUBSETTING_AUTO_VALUES, names.SUBSETTING_REQUIRE, *names.SUBSETTING_DISABLED_VALUES)
    ),
    names.SUBSETTING_ALGORITHM_ANNOTATION: frozenset[str](),
}
"""Annotations that hold a setting, with its known values."""
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
"""Public zones and regions, and those that say nothing, such as ``zone-a``."""

_KUBELET: Final = re.compile(r"(v1\.[0-9]{1,3}\.[0-9]{1,3})(\+(?:k3s|rke2r)[0-9]{1,3})?.*", re.ASCII | re.DOTALL)


def is_public_label(key: str, value: str) -> bool:
    """Whether the value of a label is one that Kubernetes or an operator defines."""
    if key in leader_labels.ROLE_LABELS:
        return value.lower() in _ROLES
    if key in leader_labels.ACTIVE_LABELS:
        return value in ("true", "false")
    return (key == names.MANAGED_BY_LABEL and value in _MANAGERS) or (
        key == names.OS_LABEL and value in ("linux", names.WINDOWS)
    )


def is_public_place(name: str) -> bool:
    """Whether this is the zone or region of a cloud, or a name that says nothing."""
    return _CLOUDS.fullmatch(name) is not None


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None


def kept_kubelet_version(text: str) -> str:
    """The version, and the distribution where it has its own proxy; empty for any other text."""
    match = _KUBELET.fullmatch(text)
    return f"{match[1]}{match[2] or ''}" if match else ""


def kept_time(text: str) -> str:
    """The time, or 1970 for text that is not a time: only its presence matters then."""
    return text if is_time(text) else _SOME_TIME


def kept_version(text: str) -> str | None:
    """A resourceVersion that is a number."""
    return text if _DIGITS.fullmatch(text) else None


def kept_cpu(cpu: Number) -> Number | None:
    """A quantity as written, if it is short; otherwise the same amount in milli-CPUs. None for any other text."""
    try:
        amount = quantity.parse(cpu)
    except ValueError:
        return None
    return cpu if len(str(cpu)) <= _LONGEST_QUANTITY else f"{quantity.in_milli(amount)}m"
