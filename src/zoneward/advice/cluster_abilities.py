"""The version of Kubernetes that a cluster runs, and which settings it can apply as it is.

Kubernetes itself knows three: the annotation ``topology-mode: Auto`` (ProportionalZoneCPU), and ``PreferSameZone`` and
``PreferSameNode`` in ``spec.trafficDistribution``. Zoneward's controller writes all others, and only Zoneward's proxy
reads slice groups. Commands show what a cluster cannot apply, but never recommend it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from zoneward.advice.node_proxies import NodeProxies
from zoneward.kube import names
from zoneward.kube.adoption_marks import manager_of
from zoneward.kube.objects import EndpointSlice, Node
from zoneward.kube.proxy_programs import minor_version
from zoneward.routing.algorithms.heuristics import BALANCED, BUILT_IN_HEURISTICS, HEURISTICS, PROPORTIONAL_ZONE_CPU
from zoneward.routing.configuration import Configuration, FeatureGates
from zoneward.routing.what_if import NO_APPROACH

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
    """The same, deciding as the built-in controller of this version does. Traffic starts where it did."""
    return replace(configuration.as_upstream(), demand=configuration.demand, gates=kubernetes_gates(kubernetes))


def kubernetes_gates(kubernetes: int | None) -> FeatureGates:
    """The feature gates that are on by default in this version; all of today's where it is not known."""
    return FeatureGates(
        service_traffic_distribution=not is_before(DISTRIBUTION_SINCE, kubernetes),
        prefer_same_traffic_distribution=not is_before(SAME_ZONE_SINCE, kubernetes),
    )


CONTROLLER: Final = "controller"
PROXY: Final = "proxy"
_SINCE: Final = {names.PREFER_SAME_ZONE: DISTRIBUTION_SINCE, names.PREFER_SAME_NODE: SAME_ZONE_SINCE}
"""The minor version of Kubernetes that enables a distribution by default."""
_KNOWN: Final = (
    NO_APPROACH,
    names.PREFER_SAME_ZONE,
    PROPORTIONAL_ZONE_CPU.name,
    names.PREFER_SAME_NODE,
    BALANCED.name,
)
"""The first of several equal settings is recommended: no setting at all, then what users know best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAbilities:
    """What runs in a cluster already.

    ``controller``: Zoneward's controller writes slices. ``slice_groups``: the proxies on all nodes read slice groups,
    or slices show groups by hints. ``overlay``: decisions are to reach slices by an overlay, which has hints alone.
    ``kubernetes`` is the minor version, None where it is unknown. ``same_zone`` is the name of ``PreferSameZone`` that
    all proxies know.
    """

    controller: bool
    slice_groups: bool
    overlay: bool = False
    kubernetes: int | None = None
    same_zone: str = names.PREFER_SAME_ZONE

    def missing_for(self, approach: str) -> str | None:
        """What the cluster lacks for an approach: `CONTROLLER`, `PROXY` (beside the controller), or a version of
        Kubernetes (``1.34``); None where the cluster can apply it."""
        if approach in _SINCE:
            return f"1.{_SINCE[approach]}" if is_before(_SINCE[approach], self.kubernetes) else None
        if approach == NO_APPROACH or approach in BUILT_IN_HEURISTICS:
            return None
        if self.overlay:
            if HEURISTICS[approach].weighs:
                return CONTROLLER
            return f"1.{OVERLAY_SINCE}" if is_before(OVERLAY_SINCE, self.kubernetes) else None
        if HEURISTICS[approach].subsets and not self.slice_groups:
            return PROXY
        return None if self.controller else CONTROLLER

    def name_of(self, approach: str) -> str:
        """What the cluster calls an approach."""
        return setting_name(self.same_zone if approach == names.PREFER_SAME_ZONE else approach, self.kubernetes)


def abilities_of(
    slices: Iterable[EndpointSlice],
    *,
    node_proxies: NodeProxies,
    configuration: Configuration,
    kubernetes: int | None = None,
) -> ClusterAbilities:
    """What a cluster can apply, from all of its slices and the proxies on its nodes."""
    consumers = {kind.consumer for kind in node_proxies.kind_of.values()} or {node_proxies.default.consumer}
    return ClusterAbilities(
        controller=any(manager_of(slice_) == configuration.manager for slice_ in slices),
        slice_groups=configuration.subsetting.encoding == "hints"
        or all(consumer.zone_slices != "ignored" for consumer in consumers),
        overlay=configuration.is_overlay,
        kubernetes=kubernetes,
    )


def familiarity(approach: str) -> int:
    """Higher for approaches that users know better; equal for all that Kubernetes does not have."""
    return -_KNOWN.index(approach) if approach in _KNOWN else -len(_KNOWN)
