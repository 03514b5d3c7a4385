"""Which settings a cluster can apply as it is.

Kubernetes itself knows three: the annotation ``topology-mode: Auto`` (ProportionalZoneCPU), and ``PreferSameZone`` and
``PreferSameNode`` in ``spec.trafficDistribution``. Zoneward's controller writes all others, and only Zoneward's proxy
reads slice groups. Commands show what a cluster cannot apply, but never recommend it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from zoneward.advice.kubernetes_version import (
    DISTRIBUTION_SINCE,
    OVERLAY_SINCE,
    SAME_ZONE_SINCE,
    is_before,
    setting_name,
)
from zoneward.advice.node_proxies import NodeProxies
from zoneward.kube import names
from zoneward.kube.adoption_marks import has_selector_annotation
from zoneward.kube.objects import EndpointSlice, Service
from zoneward.routing.algorithms.heuristics import BALANCED, BUILT_IN_HEURISTICS, HEURISTICS, PROPORTIONAL_ZONE_CPU
from zoneward.routing.configuration import Configuration
from zoneward.routing.what_if import NO_APPROACH

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
    ``kubernetes`` is the minor version, None where it is unknown.
    """

    controller: bool
    slice_groups: bool
    overlay: bool = False
    kubernetes: int | None = None

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
        return setting_name(approach, self.kubernetes)


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
        controller=any(
            (slice_.metadata.labels or {}).get(names.MANAGED_BY_LABEL) == configuration.manager for slice_ in slices
        ),
        slice_groups=configuration.subsetting.encoding == "hints"
        or all(consumer.zone_slices != "ignored" for consumer in consumers),
        overlay=configuration.is_overlay,
        kubernetes=kubernetes,
    )


def is_built_in(
    service: Service, slices: Iterable[EndpointSlice], configuration: Configuration, abilities: ClusterAbilities
) -> bool:
    """Whether the built-in controller decides about a Service: it manages the slices, or no slice names a manager and
    Zoneward's controller does not run.
    """
    managers = {(slice_.metadata.labels or {}).get(names.MANAGED_BY_LABEL) for slice_ in slices}
    if configuration.manager in managers or has_selector_annotation(service):
        return False
    return names.BUILT_IN_MANAGER in managers or not abilities.controller


def familiarity(approach: str) -> int:
    """Higher for approaches that users know better; equal for all that Kubernetes does not have."""
    return -_KNOWN.index(approach) if approach in _KNOWN else -len(_KNOWN)
