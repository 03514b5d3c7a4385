"""Which approach a Service asks for, and which setting wins.

First ``topologyKeys``, then the subsetting annotation (KEP-2004 § Configuration), then the topology annotation (the old
one where it is present, else the new one), then ``spec.trafficDistribution`` (KEP-2433 § Proxies, KEP-4444 § Design
Details), then the controller's default. Values are compared letter for letter, as upstream does.

Subsetting goes before hints because nobody but this project reads its annotation: who sets it means it, while a hints
setting may be there for another controller, or come with a chart.
"""

import dataclasses
from typing import Final

from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.algorithms import registry
from zoneward.routing.algorithms.registry import Heuristic
from zoneward.routing.configuration import Configuration
from zoneward.routing.reasons import Reason
from zoneward.routing.request.asked import Approach, Asked, gate_refusal, not_accepted, refused
from zoneward.routing.request.own_values import SHARE_EXPECTED, own_value, quoted, share_of
from zoneward.routing.request.subsetting_settings import asked_by_annotation, asked_by_default
from zoneward.routing.rules import Rules

_ANNOTATION_HEURISTICS: Final = dict.fromkeys(names.AUTO_VALUES, registry.PROPORTIONAL_ZONE_CPU)
_TOPOLOGY_MODE_HEURISTICS: Final = _ANNOTATION_HEURISTICS | {
    heuristic.name: heuristic for heuristic in (registry.PROPORTIONAL_ZONE_CPU, registry.PREFER_ZONE)
}
_DISTRIBUTIONS: Final = {
    names.PREFER_CLOSE: registry.PREFER_SAME_ZONE,
    names.PREFER_SAME_ZONE: registry.PREFER_SAME_ZONE,
    names.PREFER_SAME_NODE: registry.PREFER_SAME_NODE,
}

NO_APPROACH: Final = "none"
WHAT_IF_VALUES: Final = (
    "Auto",
    registry.PROPORTIONAL_ZONE_CPU.name,
    registry.PREFER_ZONE.name,
    names.PREFER_SAME_ZONE,
    names.PREFER_SAME_NODE,
    *registry.SUBSETTING_ALGORITHMS,
    registry.REQUIRE_ZONE.name,
    NO_APPROACH,
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
        newer = (
            names.SUBSETTING_ANNOTATION in (service.metadata.annotations or {})
            or topology_annotation(service) is not None
            or service.spec.traffic_distribution is not None
        )
        overridden = "spec.topologyKeys is set and overrides every newer setting"
        asked = refused(Reason.TOPOLOGY_KEYS, overridden)
        return asked if newer else dataclasses.replace(asked, accepted=None)
    if configuration.upstream:
        return _asked_for_hints(service, configuration, rules)
    subsetting = asked_by_annotation(service, configuration, rules)
    if subsetting is not None and subsetting.heuristic is not None:
        _overruled(service, configuration, rules)
        return subsetting
    hints = _asked_for_hints(service, configuration, rules)
    if subsetting is None and hints.heuristic is None:
        default = asked_by_default(service, configuration, rules)
        return hints if default is None else _beside(default, hints)
    return hints if subsetting is None else _beside(hints, subsetting)


def _beside(asked: Asked, other: Asked) -> Asked:
    """What is asked for, where another setting asks for nothing that may be done: that may be worth telling."""
    if other.accepted is not False:
        return asked
    if asked.heuristic is None:
        return other if asked.refusal is None else asked
    return not_accepted(asked, other.accepted_reason, other.accepted_detail)


def _overruled(service: Service, configuration: Configuration, rules: Rules) -> None:
    """Hints settings beside a subsetting annotation that asks for something."""
    annotation = topology_annotation(service)
    if annotation is not None and _from_annotation(*annotation, configuration) is not None:
        rules.ask("annotation", False, f"{annotation[0]}: {annotation[1]} is set too, but subsetting wins")
    distribution = service.spec.traffic_distribution
    if distribution is not None:
        rules.ask("traffic-distribution", False, f"{distribution} is set too, but subsetting wins")


def _asked_for_hints(service: Service, configuration: Configuration, rules: Rules) -> Asked:
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
            unknown = f"{name}: {quoted(value)} is not a known value"
            rules.ask("annotation", False, f"{unknown}, so it counts as not set")
    distribution = service.spec.traffic_distribution
    if annotation is not None and heuristic is not None:
        if distribution is not None:
            rules.ask("traffic-distribution", False, f"{distribution} is set too, but the annotation wins")
        setting = f"{annotation[0]}: {annotation[1]}"
        asked = Asked(Approach.HINTS, heuristic, accepted=True, accepted_detail=setting)
        return gate_refusal(asked, configuration, rules) or _with_own_threshold(asked, service, configuration, rules)
    asked = _with_own_threshold(_from_distribution(distribution, configuration, rules), service, configuration, rules)
    if unknown is None:
        return asked
    if asked.heuristic is None:
        return refused(Reason.UNKNOWN_VALUE, unknown)
    return not_accepted(asked, Reason.UNKNOWN_VALUE, unknown)


def _with_own_threshold(asked: Asked, service: Service, configuration: Configuration, rules: Rules) -> Asked:
    """The Service's own threshold for hints that balance; they are kept as much longer as configured."""
    if asked.heuristic is None or not asked.heuristic.balances or configuration.upstream:
        return asked
    configured = configuration.hints
    start, problem = own_value(
        service,
        names.HINTS_THRESHOLD_ANNOTATION,
        ask=lambda passed, detail: rules.ask("hints-threshold-annotation", passed, detail),
        parse=share_of,
        expected=SHARE_EXPECTED,
        configured=configured.start_threshold,
    )
    keep = start + configured.keep_threshold - configured.start_threshold
    hints = dataclasses.replace(configured, start_threshold=start, keep_threshold=keep)
    asked = dataclasses.replace(asked, hints=hints)
    return asked if problem is None else not_accepted(asked, Reason.UNKNOWN_VALUE, problem)


def asks_for_hints(service: Service) -> bool:
    """Whether a topology annotation is there and asks for something, be it known, allowed, overruled or none of it.

    So does our own name for ``Auto`` in ``spec.trafficDistribution``.
    """
    annotation = topology_annotation(service)
    distribution = registry.find(service.spec.traffic_distribution or "")
    return (annotation is not None and annotation[1] not in names.DISABLED_VALUES) or (
        distribution is not None and distribution.balances
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
        rules.ask("traffic-distribution", False, f"{value!r} is not a known value, so it counts as not set")
        return refused(Reason.UNKNOWN_VALUE, f"{setting!r} is not a known value")
    rules.ask("traffic-distribution", True, f"{value} asks for {heuristic.name}")
    asked = Asked(Approach.TRAFFIC_DISTRIBUTION, heuristic, accepted=True, accepted_detail=setting)
    return gate_refusal(asked, configuration, rules, value=value) or asked


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
        if name
        not in (
            names.TOPOLOGY_AWARE_HINTS_ANNOTATION,
            names.TOPOLOGY_MODE_ANNOTATION,
            names.SUBSETTING_ANNOTATION,
            names.SUBSETTING_ALGORITHM_ANNOTATION,
        )
    }
    distribution = value if value in _DISTRIBUTIONS else None
    if value in _TOPOLOGY_MODE_HEURISTICS:
        annotations[names.TOPOLOGY_MODE_ANNOTATION] = value
    if value in registry.SUBSETTING_ALGORITHMS:
        annotations[names.SUBSETTING_ANNOTATION] = "Auto"
        annotations[names.SUBSETTING_ALGORITHM_ANNOTATION] = value
    elif value == registry.REQUIRE_ZONE.name:
        annotations[names.SUBSETTING_ANNOTATION] = names.SUBSETTING_REQUIRE
    else:
        # Not the controller's default either.
        annotations[names.SUBSETTING_ANNOTATION] = "Disabled"
    return replace(
        service,
        metadata=replace(service.metadata, annotations=annotations),
        spec=replace(service.spec, traffic_distribution=distribution),
    )
