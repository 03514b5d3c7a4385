"""Which settings a cluster can apply as it is, and which of them is best for a Service.

Kubernetes itself knows three: the annotation ``topology-mode: Auto`` (ProportionalZoneCPU), and ``PreferSameZone`` and
``PreferSameNode`` in ``spec.trafficDistribution``. All others are written by Zoneward's controller, and slice groups
are also read by no proxy but Zoneward's. What a cluster cannot apply is shown, but never recommended.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from zoneward.advice.kubernetes_version import setting_name
from zoneward.advice.node_proxies import NodeProxies
from zoneward.advice.now import traffic_now
from zoneward.advice.service_input import ServiceInput
from zoneward.kube import names
from zoneward.kube.adoption_marks import has_selector_annotation
from zoneward.kube.objects import EndpointSlice, Pod, Service
from zoneward.routing.algorithms.heuristics import BALANCED, BUILT_IN_HEURISTICS, HEURISTICS, PROPORTIONAL_ZONE_CPU
from zoneward.routing.configuration import Configuration
from zoneward.routing.request.what_if import NO_APPROACH
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.comparison import (
    ComparedApproach,
    ServiceComparison,
    TrafficNumbers,
    compare_service,
    slices_share,
    with_load_changes,
)
from zoneward.slices.comparison_memo import ComparisonMemo

CONTROLLER: Final = "controller"
PROXY: Final = "proxy"
_SINCE: Final = {names.PREFER_SAME_ZONE: 31, names.PREFER_SAME_NODE: 34}
"""The minor version of Kubernetes that has a distribution on by default (KEP-4444, KEP-3015 § Implementation History).
"""
_KNOWN: Final = (
    NO_APPROACH,
    names.PREFER_SAME_ZONE,
    PROPORTIONAL_ZONE_CPU.name,
    names.PREFER_SAME_NODE,
    BALANCED.name,
)
"""Of equal ones the first is recommended: what users know best, and nothing to set before all of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAbilities:
    """What runs in a cluster already.

    ``controller``: Zoneward's controller writes slices. ``slice_groups``: the proxies on all nodes read slice groups,
    or slices show groups by hints. ``kubernetes`` is the minor version, None where nothing says it.
    """

    controller: bool
    slice_groups: bool
    kubernetes: int | None = None

    def missing_for(self, approach: str) -> str | None:
        """What an approach needs that is missing: `CONTROLLER`, `PROXY` (beside the controller), or a version of
        Kubernetes (``1.34``); None where the cluster can apply it."""
        if approach in _SINCE:
            since = _SINCE[approach]
            return f"1.{since}" if self.kubernetes is not None and self.kubernetes < since else None
        if approach == NO_APPROACH or approach in BUILT_IN_HEURISTICS:
            return None
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
    """What a cluster can do, by all of its slices and by the proxies on its nodes."""
    consumers = {kind.consumer for kind in node_proxies.kind_of.values()} or {node_proxies.default.consumer}
    return ClusterAbilities(
        controller=any(
            (each.metadata.labels or {}).get(names.MANAGED_BY_LABEL) == configuration.manager for each in slices
        ),
        slice_groups=configuration.subsetting.encoding == "hints"
        or all(each.zone_slices != "ignored" for each in consumers),
        kubernetes=kubernetes,
    )


class InForce(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """What the slices of a Service in the cluster do now, in one address family."""

    traffic: TrafficNumbers | None
    slices: int
    score: float | None


class Recommendation(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """All approaches for a Service in one address family, what is in force, and what is best.

    ``best`` is the best that the cluster can apply as it is; ``better`` the best with Zoneward's controller, where that
    is another one. Both are None where nothing can be predicted. ``now`` is None without slices.
    """

    comparison: ServiceComparison
    now: InForce | None
    best: str | None
    better: str | None

    def candidate(self, approach: str | None) -> ComparedApproach | None:
        return next((each for each in self.comparison.candidates if each.approach == approach), None)


def recommend(
    service: Service,
    *,
    approaches: tuple[str, ...],
    pods: Iterable[Pod],
    slices: Iterable[EndpointSlice],
    cluster_state: ClusterState,
    node_proxies: NodeProxies,
    abilities: ClusterAbilities,
    taken: Container[str] = (),
    unchanged: ServiceInput | None = None,
    flows: bool = False,
    memo: ComparisonMemo | None = None,
) -> tuple[Recommendation, ...]:
    """Compare the ``approaches`` for one Service (`compare_service`, also for the ``memo``), with what is in force now.

    The approaches that Kubernetes knows are decided by the demand of the controller that manages the Service's slices.
    Where the cluster was changed, ``unchanged`` is the same Service as it was read: what is in force is of that, and
    loads are compared with it. ``flows``: with those between zones.
    """
    slices = tuple(slices)
    built_in = is_built_in(service, slices, cluster_state.configuration, abilities)
    compared = compare_service(
        service,
        approaches=approaches,
        pods=pods,
        slices=slices,
        cluster_state=cluster_state,
        taken=taken,
        built_in=built_in,
        flows=flows,
        memo=memo,
    )
    if unchanged is None:
        now = _in_force(service, slices, cluster_state, node_proxies, flows=flows)
    else:
        now = _in_force(unchanged.service, unchanged.slices, unchanged.cluster_state, node_proxies, flows=flows)
        before = compare_service(
            unchanged.service,
            approaches=approaches,
            pods=unchanged.pods,
            slices=unchanged.slices,
            cluster_state=unchanged.cluster_state,
            taken=unchanged.taken,
            built_in=built_in,
        )
        compared = with_load_changes(compared, before)
    keep_threshold = float(cluster_state.configuration.hints.keep_threshold)
    found = []
    for each in compared:
        best = best_of(each, abilities, keep_threshold=keep_threshold)
        better = best_of(each, abilities, keep_threshold=keep_threshold, with_controller=True)
        found.append(
            Recommendation(
                comparison=each, now=now.get(each.address_type), best=best, better=better if better != best else None
            )
        )
    return tuple(found)


def is_built_in(
    service: Service, slices: Iterable[EndpointSlice], configuration: Configuration, abilities: ClusterAbilities
) -> bool:
    """Whether the built-in controller decides about a Service: it manages the slices, or nothing says who does and
    Zoneward's controller does not run.
    """
    managers = {(each.metadata.labels or {}).get(names.MANAGED_BY_LABEL) for each in slices}
    if configuration.manager in managers or has_selector_annotation(service):
        return False
    return names.BUILT_IN_MANAGER in managers or not abilities.controller


def overloads(compared: ComparedApproach, keep_threshold: float) -> bool:
    """Whether a setting puts the busiest endpoint at the threshold for keeping hints or above: then it is never best.

    Cluster-wide traffic never does: any overload comes from other fields of the Service.
    """
    return compared.active and compared.traffic is not None and compared.traffic.max_overload >= keep_threshold


def best_of(
    comparison: ServiceComparison, abilities: ClusterAbilities, *, keep_threshold: float, with_controller: bool = False
) -> str | None:
    """The approach with the highest score that is active, overloads no endpoint, and that the cluster can apply.

    Scores that look the same with one digit are equal. Then what the Service asks for is best, else what users know
    best, else what writes the fewest slices.
    """
    usable = (None, CONTROLLER) if with_controller else (None,)
    scored = [
        (each, each.score)
        for each in comparison.candidates
        if each.score is not None
        and (each.active or each.approach == NO_APPROACH)
        and abilities.missing_for(each.approach) in usable
        and not overloads(each, keep_threshold)
    ]
    if not scored:
        return None
    asked = comparison.requested.heuristic or NO_APPROACH

    def rank(pair: tuple[ComparedApproach, float]) -> tuple[float, bool, int, int]:
        each, score = pair
        return round(score, 1), each.approach == asked, familiarity(each.approach), -each.writes

    return max(scored, key=rank)[0].approach


def familiarity(approach: str) -> int:
    """The largest for what users know best; the same for all that they do not know from Kubernetes."""
    return -_KNOWN.index(approach) if approach in _KNOWN else -len(_KNOWN)


def _in_force(
    service: Service,
    slices: tuple[EndpointSlice, ...],
    cluster_state: ClusterState,
    node_proxies: NodeProxies,
    *,
    flows: bool,
) -> dict[str, InForce]:
    found = traffic_now(
        service,
        slices=slices,
        demand=cluster_state.for_service(service).demand,
        node_proxies=node_proxies,
        gates=cluster_state.configuration.gates,
    )
    in_force = {}
    for address_type, current in found.items():
        own = [each for each in slices if each.address_type == address_type]
        traffic = None if current.traffic is None else TrafficNumbers.of(current.traffic, flows=flows)
        share = slices_share(own, cluster_state.configuration.max_endpoints_per_slice)
        in_force[address_type] = InForce(
            traffic=traffic,
            slices=len(own),
            score=None if traffic is None else traffic.score(slices=share),
        )
    return in_force
