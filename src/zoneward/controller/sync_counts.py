"""What a sync is called in the labels of metrics: few words, whatever Services say.

The proposals name the values (KEP-2004 § Observability, KEP-2433 § Observability): ``approach`` is ``random`` or
``auto``, ``result`` of endpoints with hints ``Auto`` or ``SameZone``. Each of them thinks of one feature; in a
controller that has them all, ``feature`` says which. ``topology`` and ``traffic_distribution`` are upstream's.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.algorithms.registry import PROPORTIONAL_ZONE_CPU
from zoneward.routing.decision import Decision
from zoneward.routing.request.asked import Approach


class Feature(StrEnum):
    """What a Service asks for, in force or not."""

    NONE = ""
    HINTS = "TopologyAwareHints"
    SUBSETTING = "TopologyAwareSubsetting"
    TRAFFIC_DISTRIBUTION = "ServiceTrafficDistribution"


class HintedBy(StrEnum):
    """What endpoints have their hints from: demand by CPU, or the zone that they are in."""

    AUTO = "Auto"
    SAME_ZONE = "SameZone"


class TrafficDistribution(StrEnum):
    """Upstream's values, and upstream's word for all others."""

    PREFER_CLOSE = names.PREFER_CLOSE
    PREFER_SAME_ZONE = names.PREFER_SAME_ZONE
    PREFER_SAME_NODE = names.PREFER_SAME_NODE
    OTHER = "ImplementationSpecific"


class SyncLabels(NamedTuple):
    """The labels of ``endpointslices_changed_per_sync``, under their names."""

    approach: str
    feature: str
    topology: str
    traffic_distribution: str


_FEATURES: Final = {
    Approach.CLUSTER_WIDE: Feature.NONE,
    Approach.HINTS: Feature.HINTS,
    Approach.SUBSETTING: Feature.SUBSETTING,
    Approach.TRAFFIC_DISTRIBUTION: Feature.TRAFFIC_DISTRIBUTION,
}


def sync_labels(service: Service, decision: Decision) -> SyncLabels:
    """``approach`` is ``auto`` where what is asked for is in force, else ``random``."""
    approach, asked = decision.approach, traffic_distribution(service, decision)
    return SyncLabels(
        approach="auto" if decision.active else "random",
        feature=_FEATURES[approach].value,
        topology="Auto" if approach is Approach.HINTS else "Disabled",
        traffic_distribution=asked.value if asked is not None else "",
    )


def traffic_distribution(service: Service, decision: Decision) -> TrafficDistribution | None:
    """What ``spec.trafficDistribution`` has; None where something else decides, as upstream counts."""
    value = service.spec.traffic_distribution
    if value is None or decision.approach is not Approach.TRAFFIC_DISTRIBUTION:
        return None
    return TrafficDistribution(value) if value in names.TRAFFIC_DISTRIBUTIONS else TrafficDistribution.OTHER


def hinted_by(decision: Decision) -> HintedBy | None:
    """None where the decision sets no hints. Hints in place of slice groups are made from demand, too."""
    kind = None if decision.assignment is None else decision.assignment.kind
    # Upstream's ways set hints that no assignment has, or some hints where not all can be set.
    if not (kind == "hints" or (kind == "nothing" and decision.active)):
        return None
    if decision.approach is Approach.SUBSETTING or decision.heuristic == PROPORTIONAL_ZONE_CPU.name:
        return HintedBy.AUTO
    return HintedBy.SAME_ZONE
