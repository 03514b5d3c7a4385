"""What a Service requests: the annotations that count, which approach they come to, and which setting wins.

The first that applies wins: ``topologyKeys``, the subsetting annotation (KEP-2004 § Configuration), the topology
annotation (the old one where it is present, else the new one), ``spec.trafficDistribution`` (KEP-2433 § Proxies,
KEP-4444 § Design Details), the controller's default. Values are compared letter for letter, as upstream does.

Subsetting wins over hints because only Zoneward reads its annotation: it is always meant for Zoneward, while a hints
setting may be meant for another controller, or come with a chart. But hints that are requested beside it stay where it
does nothing: where no proxy of the cluster reads slice groups, and (`RequestedApproach.instead`) where it is not
active.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Final

from msgspec import structs

from zoneward.kube import names
from zoneward.kube.demand import DEMAND_EXPECTED, parse_demand
from zoneward.kube.objects import Service
from zoneward.routing.algorithms.heuristics import (
    BALANCED,
    HEURISTICS,
    PREFER_SAME_NODE,
    PREFER_SAME_ZONE,
    PREFER_ZONE,
    PROPORTIONAL_ZONE_CPU,
    REQUIRE_ZONE,
    SUBSETTING_ALGORITHMS,
    Heuristic,
    find_heuristic,
)
from zoneward.routing.configuration import (
    MAX_OVERLOAD_EXPECTED,
    STARTING_THRESHOLD_EXPECTED,
    BalancedSettings,
    Configuration,
    HintsSettings,
    compatibility_of,
    is_starting_threshold,
    parse_max_overload,
    read_share,
)
from zoneward.routing.demand import Demand
from zoneward.routing.rules import Reason, RuleLog

# --- annotations ------------------------------------------------------------------------------------------------------


_SHOWN: Final = 40
"""Characters of a value in messages: an annotation may have 256 KiB, and a condition has 32."""
_NUMBER: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6})?")
SHARE_EXPECTED: Final = "a share above 0, at most 1 (0.2), or a percentage above 0%, at most 10000% (20%)"


def topology_annotation(service: Service) -> tuple[str, str] | None:
    """Name and value of the topology annotation that counts: the old one where it is present, even empty."""
    annotations = service.metadata.annotations or {}
    for name in (names.TOPOLOGY_AWARE_HINTS_ANNOTATION, names.TOPOLOGY_MODE_ANNOTATION):
        if name in annotations:
            return name, annotations[name]
    return None


def requests_hints(service: Service) -> bool:
    """Whether a topology annotation requests something, be the value known, allowed, overridden or none of it.

    So does a heuristic that balances load, by our own name for it in ``spec.trafficDistribution``.
    """
    annotation = topology_annotation(service)
    distribution = find_heuristic(service.spec.traffic_distribution or "")
    return (annotation is not None and annotation[1] not in names.DISABLED_VALUES) or (
        distribution is not None and distribution.balances
    )


def refuses_hints(service: Service) -> bool:
    """Whether a topology annotation says that the Service gets no hints. An empty one counts like none."""
    annotation = topology_annotation(service)
    return annotation is not None and annotation[1] != "" and annotation[1] in names.DISABLED_VALUES


def requests_subsetting(service: Service) -> bool:
    """Whether the subsetting annotation requests something, be the value known, allowed, overridden or none of it."""
    value = (service.metadata.annotations or {}).get(names.SUBSETTING_ANNOTATION, "")
    return value not in ("", *names.SUBSETTING_DISABLED_VALUES)


def quote_value(value: str) -> str:
    """A value for messages: on one line, in quotes, and not too long."""
    return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")


def parse_share(text: str) -> Fraction | None:
    """A share written as ``0.2`` or as ``20%``; None for anything that is not `SHARE_EXPECTED`.

    ``20`` would be a share of 2000 % and was meant as 20 %: above 1 the sign is required.
    """
    written = read_share(text)
    if written is None:
        return None
    return written.share if 0 < written.share <= (100 if written.is_percentage else 1) else None


def _parse_starting_threshold(text: str) -> Fraction | None:
    return Fraction(text) if _NUMBER.fullmatch(text) and is_starting_threshold(Fraction(text)) else None


@dataclass(frozen=True, slots=True)
class NumberAnnotation:
    """An annotation by which a Service overrides a configured number.

    ``rule`` is recorded where the annotation is present. ``parse`` returns None for a value that is not ``expected``.
    """

    name: str
    rule: str
    expected: str
    parse: Callable[[str], Fraction | None]


HINTS_THRESHOLD: Final = NumberAnnotation(
    names.HINTS_THRESHOLD_ANNOTATION, "hints-threshold-annotation", SHARE_EXPECTED, parse_share
)
MAX_OVERLOAD: Final = NumberAnnotation(
    names.MAX_OVERLOAD_ANNOTATION, "max-overload-annotation", MAX_OVERLOAD_EXPECTED, parse_max_overload
)
STARTING_THRESHOLD: Final = NumberAnnotation(
    names.STARTING_THRESHOLD_ANNOTATION,
    "starting-threshold-annotation",
    STARTING_THRESHOLD_EXPECTED,
    _parse_starting_threshold,
)

NUMBER_ANNOTATIONS: Final = (HINTS_THRESHOLD, MAX_OVERLOAD, STARTING_THRESHOLD)


def demand_parts(service: Service) -> dict[str, Fraction] | None:
    """What a Service says of where its traffic starts; None where it says nothing that can be read."""
    text = (service.metadata.annotations or {}).get(names.DEMAND_ANNOTATION)
    return None if text is None else parse_demand(text)


def check_demand(service: Service, demand: Demand, rules: RuleLog) -> str | None:
    """What is wrong with the annotation of demand, where it is not valid. ``demand`` is what decides; where it is by
    figures of the Service, that is recorded.
    """
    if demand.unit == "figures":
        shares = (f"{zone} {demand.share(zone):.0%}" for zone in demand.zones)
        rules.record("demand-figures", True, f"by figures of this Service, traffic starts in {', '.join(shares)}")
    text = (service.metadata.annotations or {}).get(names.DEMAND_ANNOTATION)
    if text is None:
        return None
    parts = parse_demand(text)
    setting = f"{names.DEMAND_ANNOTATION}: {quote_value(text)}"
    unknown = sorted(set(parts or ()).difference(demand.ready_zones))
    if parts is None:
        problem = f"{setting} is not {DEMAND_EXPECTED}, so it counts as not set"
    elif unknown:
        problem = f"{setting}: no ready Node is in {quote_value(unknown[0])}, which counts for nothing"
    else:
        rules.record("demand-annotation", True, setting)
        return None
    rules.record("demand-annotation", False, problem)
    return problem


def read_number(
    service: Service, annotation: NumberAnnotation, *, configured: Fraction, rules: RuleLog
) -> tuple[Fraction, str | None]:
    """The number that applies to a Service, and what is wrong with its annotation where it is not valid."""
    text = (service.metadata.annotations or {}).get(annotation.name)
    if text is None:
        return configured, None
    value = annotation.parse(text)
    setting = f"{annotation.name}: {quote_value(text)}"
    if value is not None:
        rules.record(annotation.rule, True, setting)
        return value, None
    problem = f"{setting} is not {annotation.expected}, so {float(configured):g} is used"
    rules.record(annotation.rule, False, problem)
    return configured, problem


# --- which approach ---------------------------------------------------------------------------------------------------


TOPOLOGY_MODE_HEURISTICS: Final = {heuristic.name: heuristic for heuristic in (PROPORTIONAL_ZONE_CPU, PREFER_ZONE)}
"""What each value of the annotation ``topology-mode`` requests, besides ``Auto`` and ``<domain>/<heuristic>``."""
DISTRIBUTION_HEURISTICS: Final = {
    names.PREFER_CLOSE: PREFER_SAME_ZONE,
    names.PREFER_SAME_ZONE: PREFER_SAME_ZONE,
    names.PREFER_SAME_NODE: PREFER_SAME_NODE,
}
"""What each value of ``spec.trafficDistribution`` requests."""


class Approach(StrEnum):
    CLUSTER_WIDE = "ClusterWide"
    SUBSETTING = "Subsetting"
    HINTS = "Hints"
    TRAFFIC_DISTRIBUTION = "TrafficDistribution"


@dataclass(frozen=True, slots=True)
class RequestedApproach:
    """What the settings of a Service come to: an approach and a heuristic, or why there is none.

    ``heuristic`` is None where nothing is requested or the request is refused; ``refusal`` then says why. ``accepted``
    is None where the Service has no setting, else whether Zoneward understood all values, with why not;
    ``accepted_detail`` names them. ``starting_threshold`` is for subsetting, in endpoints per zone; ``hints`` are the
    settings of ``ProportionalZoneCPU`` and ``balanced`` those of ``Balanced``, with the Service's own number where it
    has one; None for any other heuristic. ``decided_by`` is the index of the rule that decided, where ``heuristic`` is
    None.
    """

    approach: Approach
    heuristic: Heuristic | None
    refusal: Reason | None = None
    refusal_detail: str = ""
    accepted: bool | None = None
    accepted_reason: Reason = Reason.ACCEPTED
    accepted_detail: str = ""
    starting_threshold: Fraction = Fraction(0)
    hints: HintsSettings | None = None
    balanced: BalancedSettings | None = None
    instead: "RequestedApproach | None" = None
    """For subsetting: the hints that are requested beside it, for when it is not active."""
    decided_by: int | None = field(default=None, compare=False)


def requested_approach(
    service: Service, configuration: Configuration, rules: RuleLog, *, slice_groups_read: bool = True
) -> RequestedApproach:
    """What a Service requests. Records every setting that was read in ``rules``. ``slice_groups_read``: whether any
    proxy of the cluster may read slice groups.
    """
    keys = service.spec.topology_keys or ()
    if keys:
        detail = f"topologyKeys has {', '.join(keys)}: all newer settings are ignored"
        rules.record("topology-keys", False, detail)
        newer = (
            names.SUBSETTING_ANNOTATION in (service.metadata.annotations or {})
            or topology_annotation(service) is not None
            or service.spec.traffic_distribution is not None
        )
        overridden = "spec.topologyKeys is set and overrides every newer setting"
        requested = _refused(Reason.TOPOLOGY_KEYS, overridden, rules.latest)
        return requested if newer else replace(requested, accepted=None)
    if not compatibility_of(configuration).reads_own_settings:
        return _from_hints_settings(service, configuration, rules)
    subsetting = _from_subsetting_annotation(service, configuration, rules)
    if subsetting is not None and subsetting.heuristic is not None:
        beside = _from_hints_settings(service, configuration, RuleLog())
        if beside.heuristic is None:
            _record_overridden_hints(service, configuration, rules)
            return subsetting
        if slice_groups_read:
            _record_overridden_hints(service, configuration, rules)
            return replace(subsetting, instead=_with_problem_of(beside, subsetting))
        rules.record("slice-groups", False, "no proxy of the cluster reads slice groups: the hints stay")
        return _with_problem_of(_from_hints_settings(service, configuration, rules), subsetting)
    hints = _from_hints_settings(service, configuration, rules)
    if subsetting is None and hints.heuristic is None:
        default = _from_default(service, configuration, rules)
        return hints if default is None else _with_problem_of(default, hints)
    if subsetting is None:
        return hints
    if hints.heuristic is None and hints.refusal is None:
        hints = replace(hints, decided_by=subsetting.decided_by)
    return _with_problem_of(hints, subsetting)


# --- refusals and problems --------------------------------------------------------------------------------------------


def _refused(reason: Reason, detail: str, decided_by: int) -> RequestedApproach:
    """The Service requests something that it cannot get."""
    return RequestedApproach(
        Approach.CLUSTER_WIDE,
        None,
        refusal=reason,
        refusal_detail=detail,
        accepted=False,
        accepted_reason=reason,
        accepted_detail=detail,
        decided_by=decided_by,
    )


def with_problem(requested: RequestedApproach, reason: Reason, detail: str) -> RequestedApproach:
    """The same with one more setting that Zoneward does not accept; its detail comes first."""
    if requested.accepted is False:
        detail = f"{detail}; {requested.accepted_detail}"
    return replace(requested, accepted=False, accepted_reason=reason, accepted_detail=detail)


def _with_problem_of(requested: RequestedApproach, other: RequestedApproach) -> RequestedApproach:
    """``requested``, with what is wrong with another setting of the same Service."""
    if other.accepted is not False:
        return requested
    if requested.heuristic is None:
        return other if requested.refusal is None else requested
    return with_problem(requested, other.accepted_reason, other.accepted_detail)


def _check_gates(
    requested: RequestedApproach, configuration: Configuration, rules: RuleLog, *, value: str = ""
) -> RequestedApproach:
    """The request, or its refusal where a feature gate that it needs is off.

    Every request passes here, and its gates follow from what it would write: all hints need TopologyAwareHints, since
    without it API servers drop the field and proxies ignore it (KEP-2433 § Feature Gate). ``value`` is the value of
    ``spec.trafficDistribution``.
    """
    heuristic, gates = requested.heuristic, configuration.gates
    assert heuristic is not None
    needed = []
    if requested.approach is Approach.TRAFFIC_DISTRIBUTION:
        on = gates.service_traffic_distribution
        needed.append(("service-traffic-distribution", "ServiceTrafficDistribution", on))
    if heuristic.subsets:
        needed.append(("topology-aware-subsetting", "TopologyAwareSubsetting", gates.topology_aware_subsetting))
    if not heuristic.subsets or configuration.subsetting.encoding == "hints":
        needed.append(("topology-aware-hints", "TopologyAwareHints", gates.topology_aware_hints))
    if heuristic.name in (names.PREFER_SAME_ZONE, names.PREFER_SAME_NODE) and value != names.PREFER_CLOSE:
        on = gates.prefer_same_traffic_distribution
        needed.append(("prefer-same-traffic-distribution", "PreferSameTrafficDistribution", on))
    for rule, gate, on in needed:
        if not rules.record(f"gate-{rule}", on, f"{gate} is {'on' if on else 'off'}"):
            return _refused(Reason.FEATURE_GATE_OFF, f"the feature gate {gate} is off", rules.latest)
    return requested


# --- subsetting -------------------------------------------------------------------------------------------------------


def _from_subsetting_annotation(
    service: Service, configuration: Configuration, rules: RuleLog
) -> RequestedApproach | None:
    """What the subsetting annotation requests; None where it is absent or empty."""
    value = (service.metadata.annotations or {}).get(names.SUBSETTING_ANNOTATION, "")
    if not value:
        return None
    setting = f"{names.SUBSETTING_ANNOTATION}: {value}"
    if value in names.SUBSETTING_DISABLED_VALUES:
        rules.record("subsetting-annotation", False, f"{setting} asks for none")
        return RequestedApproach(Approach.CLUSTER_WIDE, None, decided_by=rules.latest)
    if value == names.SUBSETTING_REQUIRE:
        requested = RequestedApproach(Approach.SUBSETTING, REQUIRE_ZONE, accepted=True, accepted_detail=setting)
    elif value in names.SUBSETTING_AUTO_VALUES:
        requested = _subsetting(service, configuration, rules, accepted=True, detail=setting)
    else:
        problem = f"{names.SUBSETTING_ANNOTATION}: {quote_value(value)} is not a known value"
        rules.record("subsetting-annotation", False, f"{problem}, so it counts as Disabled")
        return _refused(Reason.UNKNOWN_VALUE, problem, rules.latest)
    assert requested.heuristic is not None
    rules.record("subsetting-annotation", True, f"{setting} asks for {requested.heuristic.name}")
    return _check_gates(requested, configuration, rules)


def _from_default(service: Service, configuration: Configuration, rules: RuleLog) -> RequestedApproach | None:
    """What the controller's default gives to a Service that requests nothing; None where it is cluster-wide.

    Conditions report what a Service itself requests, so a default has none. ``topology-mode: Disabled`` refuses hints
    and no subsetting.
    """
    default = configuration.default_approach
    if default == "Subsetting":
        requested = _subsetting(service, configuration, rules, accepted=None, detail="")
    elif default == "Balanced" and not refuses_hints(service):
        requested = _with_own_number(RequestedApproach(Approach.HINTS, BALANCED), service, configuration, rules)
    else:
        return None
    requested = _check_gates(requested, configuration, rules)
    if requested.heuristic is None:
        return None
    rules.record("default-approach", True, f"the controller's default is {default}: {requested.heuristic.name}")
    return requested


def _subsetting(
    service: Service, configuration: Configuration, rules: RuleLog, *, accepted: bool | None, detail: str
) -> RequestedApproach:
    """Subsetting with the Service's own algorithm and starting threshold where these are valid, else the configured."""
    settings = configuration.subsetting
    problems = []
    algorithm: str = settings.algorithm
    wanted = (service.metadata.annotations or {}).get(names.SUBSETTING_ALGORITHM_ANNOTATION)
    if wanted is not None:
        known = wanted in SUBSETTING_ALGORITHMS
        text = f"{names.SUBSETTING_ALGORITHM_ANNOTATION}: {quote_value(wanted)}"
        if rules.record(
            "subsetting-algorithm", known, text if known else f"{text} is none of them, {algorithm} is used"
        ):
            algorithm = wanted
        else:
            problems.append(f"{text} is not a known value, so {algorithm} is used")
    threshold, problem = read_number(service, STARTING_THRESHOLD, configured=settings.starting_threshold, rules=rules)
    if problem is not None:
        problems.append(problem)
    requested = RequestedApproach(
        Approach.SUBSETTING,
        SUBSETTING_ALGORITHMS[algorithm],
        accepted=accepted,
        accepted_detail=detail,
        starting_threshold=threshold,
    )
    return with_problem(requested, Reason.UNKNOWN_VALUE, "; ".join(problems)) if problems else requested


# --- hints ------------------------------------------------------------------------------------------------------------


def _from_hints_settings(service: Service, configuration: Configuration, rules: RuleLog) -> RequestedApproach:
    """What the topology annotation requests, else ``spec.trafficDistribution``."""
    unknown, unknown_rule = None, 0
    annotation = topology_annotation(service)
    heuristic = None
    if annotation is None:
        rules.record("annotation", False, "no topology annotation")
    else:
        name, value = annotation
        heuristic = _annotation_heuristic(name, value, configuration)
        if heuristic is not None:
            rules.record("annotation", True, f"{name}: {value} asks for {heuristic.name}")
        elif value in names.DISABLED_VALUES:
            rules.record("annotation", False, f"{name}: {value or chr(34) * 2} asks for nothing")
        else:
            unknown = f"{name}: {quote_value(value)} {_not_known(configuration)}"
            rules.record("annotation", False, f"{unknown}, so it counts as not set")
            unknown_rule = rules.latest
    distribution = service.spec.traffic_distribution
    if annotation is not None and heuristic is not None:
        if distribution is not None:
            rules.record("traffic-distribution", False, f"{distribution} is set too, but the annotation wins")
        setting = f"{annotation[0]}: {annotation[1]}"
        requested = RequestedApproach(Approach.HINTS, heuristic, accepted=True, accepted_detail=setting)
        requested = _check_gates(requested, configuration, rules)
    else:
        requested = _from_distribution(distribution, configuration, rules)
    requested = _with_own_number(requested, service, configuration, rules)
    if unknown is None:
        return requested
    if requested.heuristic is None:
        return _refused(Reason.UNKNOWN_VALUE, unknown, unknown_rule)
    return with_problem(requested, Reason.UNKNOWN_VALUE, unknown)


def _record_overridden_hints(service: Service, configuration: Configuration, rules: RuleLog) -> None:
    """Record the hints settings that a subsetting annotation overrides."""
    annotation = topology_annotation(service)
    if annotation is not None and _annotation_heuristic(*annotation, configuration) is not None:
        rules.record("annotation", False, f"{annotation[0]}: {annotation[1]} is set too, but subsetting wins")
    distribution = service.spec.traffic_distribution
    if distribution is not None:
        rules.record("traffic-distribution", False, f"{distribution} is set too, but subsetting wins")


def _annotation_heuristic(name: str, value: str, configuration: Configuration) -> Heuristic | None:
    if value in names.AUTO_VALUES:
        return HEURISTICS[configuration.hints.auto]
    if name == names.TOPOLOGY_AWARE_HINTS_ANNOTATION or not compatibility_of(configuration).reads_own_settings:
        return None
    return TOPOLOGY_MODE_HEURISTICS.get(value) or find_heuristic(value)


def _not_known(configuration: Configuration) -> str:
    """Why a value counts as not set: Kubernetes does not know all of Zoneward's."""
    own = compatibility_of(configuration).reads_own_settings
    return "is not a known value" if own else "is not a value that Kubernetes knows"


def _from_distribution(value: str | None, configuration: Configuration, rules: RuleLog) -> RequestedApproach:
    if value is None:
        rules.record("traffic-distribution", False, "spec.trafficDistribution is not set")
        return RequestedApproach(Approach.CLUSTER_WIDE, None, decided_by=rules.latest)
    setting = f"spec.trafficDistribution: {value}"
    heuristic = DISTRIBUTION_HEURISTICS.get(value)
    if heuristic is None and compatibility_of(configuration).reads_own_settings:
        heuristic = find_heuristic(value)
    if heuristic is None:
        unknown = f"{quote_value(value)} {_not_known(configuration)}"
        rules.record("traffic-distribution", False, f"{unknown}, so it counts as not set")
        problem = f"spec.trafficDistribution: {unknown}"
        return _refused(Reason.UNKNOWN_VALUE, problem, rules.latest)
    has_new_names = configuration.gates.prefer_same_traffic_distribution
    is_alias = has_new_names and value != heuristic.name
    asks = f"{value} asks for {heuristic.name}" if is_alias else f"spec.trafficDistribution is {value}"
    rules.record("traffic-distribution", True, asks)
    requested = RequestedApproach(Approach.TRAFFIC_DISTRIBUTION, heuristic, accepted=True, accepted_detail=setting)
    return _check_gates(requested, configuration, rules, value=value)


def _with_own_number(
    requested: RequestedApproach, service: Service, configuration: Configuration, rules: RuleLog
) -> RequestedApproach:
    """The same with the Service's own overload threshold or highest overload, where its heuristic reads one.

    The keep threshold stays above the threshold by the configured distance.
    """
    if requested.heuristic is BALANCED:
        settings = configuration.balanced
        most, problem = read_number(service, MAX_OVERLOAD, configured=settings.max_overload, rules=rules)
        requested = replace(requested, balanced=structs.replace(settings, max_overload=most))
    elif requested.heuristic is PROPORTIONAL_ZONE_CPU and compatibility_of(configuration).reads_own_settings:
        configured = configuration.hints
        start, problem = read_number(service, HINTS_THRESHOLD, configured=configured.start_threshold, rules=rules)
        hints = configured
        if start != configured.start_threshold:
            keep = start + configured.keep_threshold - configured.start_threshold
            hints = structs.replace(configured, start_threshold=start, keep_threshold=keep)
        requested = replace(requested, hints=hints)
    else:
        return requested
    return requested if problem is None else with_problem(requested, Reason.UNKNOWN_VALUE, problem)
