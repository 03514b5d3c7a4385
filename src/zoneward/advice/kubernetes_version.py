"""The version of Kubernetes that a cluster runs, as far as its Nodes say it, and what that version calls settings."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import Node
from zoneward.kube.proxy_programs import minor_version
from zoneward.routing.configuration import Configuration, FeatureGates

SAME_ZONE_SINCE: Final = 34
"""The minor version whose API server takes ``PreferSameZone`` and ``PreferSameNode`` by default (KEP-3015 §
Implementation History). Older ones refuse them. ``PreferClose`` means the same as ``PreferSameZone`` in all."""
OVERLAY_SINCE: Final = 36
"""The minor version whose API server has ``MutatingAdmissionPolicy`` (``admissionregistration.k8s.io/v1``)."""
DISTRIBUTION_SINCE: Final = 31
"""The minor version with ``spec.trafficDistribution`` on by default (KEP-4444 § Implementation History)."""


def kubernetes_minor(nodes: Iterable[Node]) -> int | None:
    """The minor version of the newest kubelet, None where none is known. API servers are at least as new (version skew
    policy).
    """
    kubelets = (node.status.node_info.kubelet_version for node in nodes if node.status and node.status.node_info)
    return max((minor for kubelet in kubelets if (minor := minor_version(kubelet)) is not None), default=None)


def setting_name(approach: str, kubernetes: int | None) -> str:
    """What a cluster of this version calls an approach: ``PreferSameZone`` is ``PreferClose`` before 1.34."""
    return names.PREFER_CLOSE if approach == names.PREFER_SAME_ZONE and is_too_new(approach, kubernetes) else approach


def is_too_new(setting: str, kubernetes: int | None) -> bool:
    """Whether an API server of this version is known to refuse a value of ``spec.trafficDistribution``."""
    return is_before(SAME_ZONE_SINCE, kubernetes) and setting in (names.PREFER_SAME_ZONE, names.PREFER_SAME_NODE)


def is_before(since: int, kubernetes: int | None) -> bool:
    """Whether a minor version is known to be older than ``since``."""
    return kubernetes is not None and kubernetes < since


def kubernetes_configuration(configuration: Configuration, kubernetes: int | None) -> Configuration:
    """The same, deciding as the built-in controller of this version does."""
    return replace(configuration.as_upstream(), gates=kubernetes_gates(kubernetes))


def kubernetes_gates(kubernetes: int | None) -> FeatureGates:
    """The feature gates that are on by default in this version; all of today's where it is not known."""
    return FeatureGates(
        service_traffic_distribution=not is_before(DISTRIBUTION_SINCE, kubernetes),
        prefer_same_traffic_distribution=not is_before(SAME_ZONE_SINCE, kubernetes),
    )
