"""Which approach a Service asks for, and which setting wins (KEP-2433 § Proxies, KEP-4444 § Design Details).

First ``topologyKeys``, then the annotation (the old one where it is present, else the new one), then
``spec.trafficDistribution``. Values are compared letter for letter, as upstream does.
"""

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.algorithms import registry
from zoneward.routing.algorithms.registry import Heuristic
from zoneward.routing.configuration import Configuration
from zoneward.routing.reasons import Reason
from zoneward.routing.rules import Rules


class Approach(StrEnum):
    CLUSTER_WIDE = "ClusterWide"
    SUBSETTING = "Subsetting"
    HINTS = "Hints"
    TRAFFIC_DISTRIBUTION = "TrafficDistribution"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the settings of a Service come to.

    ``heuristic`` is None where nothing is asked for or nothing may be done; ``refusal`` then says why something that
    was asked for may not be done. ``accepted`` is None where no setting is present, else whether all values were
    understood, with ``accepted_detail`` naming them.
    """

    approach: Approach
    heuristic: Heuristic | None
    refusal: Reason | None = None
    refusal_detail: str = ""
    accepted: bool | None = None
    accepted_detail: str = ""


_ANNOTATION_HEURISTICS: Final = dict.fromkeys(names.AUTO_VALUES, registry.PROPORTIONAL_ZONE_CPU)
_TOPOLOGY_MODE_HEURISTICS: Final = _ANNOTATION_HEURISTICS | {
    heuristic.name: heuristic for heuristic in (registry.PROPORTIONAL_ZONE_CPU, registry.PREFER_ZONE)
}
_DISTRIBUTIONS: Final = {
    names.PREFER_CLOSE: registry.PREFER_SAME_ZONE,
    names.PREFER_SAME_ZONE: registry.PREFER_SAME_ZONE,
    names.PREFER_SAME_NODE: registry.PREFER_SAME_NODE,
}

WHAT_IF_VALUES: Final = (
    "Auto",
    registry.PROPORTIONAL_ZONE_CPU.name,
    registry.PREFER_ZONE.name,
    names.PREFER_SAME_ZONE,
    names.PREFER_SAME_NODE,
    "none",
)


def topology_annotation(service: Service) -> tuple[str, str] | None:
    """Name and value of the topology annotation that counts: the old one where it is present, even empty."""
    annotations = service.metadata.annotations or {}
    for name in (names.TOPOLOGY_AWARE_HINTS_ANNOTATION, names.TOPOLOGY_MODE_ANNOTATION):
        if name in annotations:
            return name, annotations[name]
    return None


def asked_for(service: Service, configuration: Configuration, rules: Rules) -> Asked:
    """What a Service asks for, with every question written into ``rules``."""
    keys = service.spec.topology_keys or ()
    if keys:
        detail = f"topologyKeys has {', '.join(keys)}: all newer settings are ignored"
        rules.ask("topology-keys", False, detail)
        newer = topology_annotation(service) is not None or service.spec.traffic_distribution is not None
        overridden = "spec.topologyKeys is set and overrides every newer setting"
        asked = _refused(Reason.TOPOLOGY_KEYS, overridden)
        return asked if newer else dataclasses.replace(asked, accepted=None)
    unknown = None
    annotation = topology_annotation(service)
    heuristic = None
    if annotation is None:
        rules.ask("annotation", False, "no topology annotation")
    else:
        name, value = annotation
        heuristic = _from_annotation(name, value, configuration)
        if heuristic is not None:
            rules.ask("annotation", True, f"{name}: {value} asks for {heuristic.name}")
        elif value in names.DISABLED_VALUES:
            rules.ask("annotation", False, f"{name}: {value or chr(34) * 2} asks for nothing")
        else:
            rules.ask("annotation", False, f"{name}: {value!r} is not a known value, so it counts as not set")
            unknown = f"{name}: {value!r} is not a known value"
    distribution = service.spec.traffic_distribution
    if annotation is not None and heuristic is not None:
        if distribution is not None:
            rules.ask("traffic-distribution", False, f"{distribution} is set too, but the annotation wins")
        gate = configuration.gates.topology_aware_hints
        if not rules.ask("gate-topology-aware-hints", gate, f"TopologyAwareHints is {_on(gate)}"):
            return _refused(Reason.FEATURE_GATE_OFF, "the feature gate TopologyAwareHints is off")
        setting = f"{annotation[0]}: {annotation[1]}"
        return Asked(Approach.HINTS, heuristic, accepted=True, accepted_detail=setting)
    asked = _from_distribution(distribution, configuration, rules)
    if unknown is None:
        return asked
    if asked.heuristic is None:
        return _refused(Reason.UNKNOWN_VALUE, unknown)
    return dataclasses.replace(asked, accepted=False, accepted_detail=unknown)


def _refused(reason: Reason, detail: str) -> Asked:
    return Asked(
        Approach.CLUSTER_WIDE, None, refusal=reason, refusal_detail=detail, accepted=False, accepted_detail=detail
    )


def _from_annotation(name: str, value: str, configuration: Configuration) -> Heuristic | None:
    if name == names.TOPOLOGY_AWARE_HINTS_ANNOTATION or configuration.upstream:
        return _ANNOTATION_HEURISTICS.get(value)
    return _TOPOLOGY_MODE_HEURISTICS.get(value) or registry.find(value)


def _from_distribution(value: str | None, configuration: Configuration, rules: Rules) -> Asked:
    if value is None:
        rules.ask("traffic-distribution", False, "spec.trafficDistribution is not set")
        return Asked(Approach.CLUSTER_WIDE, None)
    setting = f"spec.trafficDistribution: {value}"
    heuristic = _DISTRIBUTIONS.get(value) or (None if configuration.upstream else registry.find(value))
    if heuristic is None:
        detail = f"{setting!r} is not a known value"
        rules.ask("traffic-distribution", False, f"{value!r} is not a known value, so it counts as not set")
        return _refused(Reason.UNKNOWN_VALUE, detail)
    rules.ask("traffic-distribution", True, f"{value} asks for {heuristic.name}")
    gates = configuration.gates
    needed = [
        ("service-traffic-distribution", "ServiceTrafficDistribution", gates.service_traffic_distribution),
        # Without it there is no field to write hints to, and no proxy that reads them.
        ("topology-aware-hints", "TopologyAwareHints", gates.topology_aware_hints),
    ]
    if value != names.PREFER_CLOSE and heuristic.name in names.TRAFFIC_DISTRIBUTIONS:
        needed.append(
            (
                "prefer-same-traffic-distribution",
                "PreferSameTrafficDistribution",
                gates.prefer_same_traffic_distribution,
            )
        )
    for rule, gate, on in needed:
        if not rules.ask(f"gate-{rule}", on, f"{gate} is {_on(on)}"):
            detail = f"the feature gate {gate} is off"
            return _refused(Reason.FEATURE_GATE_OFF, detail)
    return Asked(Approach.TRAFFIC_DISTRIBUTION, heuristic, accepted=True, accepted_detail=setting)


def _on(gate: bool) -> str:
    return "on" if gate else "off"


def as_if_asked(service: Service, value: str) -> Service:
    """The same Service as if it asked for ``value`` and for nothing else; ``none`` asks for nothing.

    ``topologyKeys`` and traffic policies stay: they would still be there. Raises ValueError for a value that is none of
    `WHAT_IF_VALUES`.
    """
    if value not in WHAT_IF_VALUES:
        raise ValueError(f"expected one of {', '.join(WHAT_IF_VALUES)}, got {value!r}")
    annotations = {
        name: text
        for name, text in (service.metadata.annotations or {}).items()
        if name not in (names.TOPOLOGY_AWARE_HINTS_ANNOTATION, names.TOPOLOGY_MODE_ANNOTATION)
    }
    distribution = value if value in _DISTRIBUTIONS else None
    if value in _TOPOLOGY_MODE_HEURISTICS:
        annotations[names.TOPOLOGY_MODE_ANNOTATION] = value
    return replace(
        service,
        metadata=replace(service.metadata, annotations=annotations),
        spec=replace(service.spec, traffic_distribution=distribution),
    )
