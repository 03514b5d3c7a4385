"""Findings 3xx: the settings of a Service. The decision itself says whether a value is accepted."""

import json
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec.structs import replace

from zoneward.advice.cluster_abilities import is_too_new
from zoneward.advice.findings import codes
from zoneward.advice.findings.cluster_view import ClusterView, ServiceView
from zoneward.advice.findings.codes import Finding
from zoneward.advice.shell_commands import kubectl
from zoneward.kube import names
from zoneward.kube.adoption_marks import ADOPTION_MARKS
from zoneward.kube.demand import DEMAND_EXPECTED, parse_demand
from zoneward.kube.input_error import near_names
from zoneward.kube.objects import Service
from zoneward.kube.safe_text import printable
from zoneward.routing.algorithms.heuristics import HEURISTICS, SUBSETTING_ALGORITHMS, find_heuristic
from zoneward.routing.configuration import Configuration
from zoneward.routing.request import (
    DISTRIBUTION_HEURISTICS,
    HINTS_THRESHOLD,
    MAX_OVERLOAD,
    STARTING_THRESHOLD,
    TOPOLOGY_MODE_HEURISTICS,
    RequestedApproach,
    quote_value,
    requested_approach,
    requests_subsetting,
)
from zoneward.routing.rules import Reason, RuleLog
from zoneward.slices.decide import managers_of
from zoneward.slices.existing import approach_of_slice

_DISTRIBUTION: Final = "spec.trafficDistribution"
_TOPOLOGY: Final = (names.TOPOLOGY_AWARE_HINTS_ANNOTATION, names.TOPOLOGY_MODE_ANNOTATION)
_NUMBERS: Final = {annotation.name: annotation for annotation in (HINTS_THRESHOLD, MAX_OVERLOAD, STARTING_THRESHOLD)}
_OWN_NAMES: Final = tuple(
    f"{names.DOMAIN}/{name}" for name in HEURISTICS if find_heuristic(f"{names.DOMAIN}/{name}") is not None
)
_VALUES: Final = {
    names.TOPOLOGY_AWARE_HINTS_ANNOTATION: (*names.AUTO_VALUES, *names.DISABLED_VALUES),
    names.TOPOLOGY_MODE_ANNOTATION: (
        *names.AUTO_VALUES,
        *names.DISABLED_VALUES,
        *TOPOLOGY_MODE_HEURISTICS,
        *_OWN_NAMES,
    ),
    names.SUBSETTING_ANNOTATION: (
        *names.SUBSETTING_AUTO_VALUES,
        names.SUBSETTING_REQUIRE,
        *names.SUBSETTING_DISABLED_VALUES,
    ),
    _DISTRIBUTION: (*DISTRIBUTION_HEURISTICS, *_OWN_NAMES),
}
"""Values that a misspelt one may stand for. They decide nothing."""
_ANNOTATIONS: Final = frozenset(
    (*_TOPOLOGY, names.SUBSETTING_ANNOTATION, names.SUBSETTING_ALGORITHM_ANNOTATION, *_NUMBERS, names.DEMAND_ANNOTATION)
)
_KNOWN_ANNOTATIONS: Final = _ANNOTATIONS | {*ADOPTION_MARKS}
_LONGEST: Final = 100
"""Longer texts are not compared with known values: nobody misspells that much."""
_ALIKE_NAMES: Final = 0.85
_ALIKE_VALUES: Final = 0.6


def setting_findings(view: ClusterView) -> Iterator[Finding]:
    """The settings of each Service as they are: ``--what-if`` changes none of them."""
    for service in view.services:
        yield from _values(service, view)
        yield from _demand(service)
        yield from _deprecated(service, view)
        yield from _misspelt_annotations(service)
        yield from _two_settings(service)
        if view.knows("EndpointSlices"):
            yield from _only_zoneward(service, view)


# --- values -----------------------------------------------------------------------------------------------------------


def _settings(service: Service) -> dict[str, str]:
    """The settings of a Service, by precedence."""
    annotations = service.metadata.annotations or {}
    settings = {name: annotations[name] for name in (names.SUBSETTING_ANNOTATION, *_TOPOLOGY) if annotations.get(name)}
    distribution = service.spec.traffic_distribution
    return settings if distribution is None else {**settings, _DISTRIBUTION: distribution}


def _values(view: ServiceView, cluster: ClusterView) -> Iterator[Finding]:
    configuration = view.given.cluster_state.configuration

    def knows(configuration: Configuration, name: str, value: str) -> bool:
        requested = _requested(_with_only(view.service, name, value), configuration)
        return requested.accepted is not False or requested.accepted_reason is not Reason.UNKNOWN_VALUE

    for name, value in _settings(view.service).items():
        # What only Zoneward knows is not misspelt.
        if not knows(_of_zoneward(configuration), name, value):
            # An API server refuses the names that it does not know yet.
            possible = [other for other in _VALUES[name] if not is_too_new(other, cluster.kubernetes)]
            offered = [other for other in possible if knows(configuration, name, other)]
            yield _unknown(view, name, value, "it counts as not set", possible, offered)
    annotations = view.service.metadata.annotations or {}
    algorithm = annotations.get(names.SUBSETTING_ALGORITHM_ANNOTATION)
    if algorithm is not None and algorithm not in SUBSETTING_ALGORITHMS:
        then = f"{configuration.subsetting.algorithm} is used"
        known = tuple(SUBSETTING_ALGORITHMS)
        yield _unknown(view, names.SUBSETTING_ALGORITHM_ANNOTATION, algorithm, then, known, known)
    for name, annotation in _NUMBERS.items():
        text = annotations.get(name)
        if text is not None and annotation.parse(text) is None:
            message = f"{name}: {quote_value(text)} is not {annotation.expected}: the configured number is used"
            yield codes.UNKNOWN_VALUE.finding(view.object, message)


def _demand(view: ServiceView) -> Iterator[Finding]:
    text = (view.service.metadata.annotations or {}).get(names.DEMAND_ANNOTATION)
    if text is not None and parse_demand(text) is None:
        message = f"{names.DEMAND_ANNOTATION}: {quote_value(text)} is not {DEMAND_EXPECTED}: it counts as not set"
        yield codes.UNKNOWN_VALUE.finding(view.object, message)


def _unknown(
    view: ServiceView, name: str, value: str, then: str, possible: Collection[str], offered: Collection[str]
) -> Finding:
    """``possible`` are the values that may be meant, ``offered`` those to use where none is like it."""
    meant = _nearest(value, tuple(possible), _ALIKE_VALUES)
    message = f"{name}: {quote_value(value)} is not a known value, {then}"
    if meant is None:
        known = ", ".join(other for other in offered if other and not other[0].islower())
        return codes.UNKNOWN_VALUE.finding(
            view.object, message, fix=f"Use one of {known}; or remove the setting." if known else ""
        )
    return codes.MISSPELT_VALUE.finding(view.object, f"{message}; {meant} is", command=_set(view.service, name, meant))


def _with_only(service: Service, name: str, value: str) -> Service:
    """The Service with this setting and no other."""
    annotations = {key: text for key, text in (service.metadata.annotations or {}).items() if key not in _ANNOTATIONS}
    if name != _DISTRIBUTION:
        annotations[name] = value
    distribution = value if name == _DISTRIBUTION else None
    return replace(
        service,
        metadata=replace(service.metadata, annotations=annotations),
        spec=replace(service.spec, traffic_distribution=distribution, topology_keys=None),
    )


def _of_zoneward(configuration: Configuration) -> Configuration:
    """The same with the values that only Zoneward knows, where Kubernetes decides."""
    return replace(configuration, upstream=False)


def _requested(service: Service, configuration: Configuration) -> RequestedApproach:
    return requested_approach(service, configuration, RuleLog())


@lru_cache(maxsize=1 << 12)
def _nearest(text: str, known: tuple[str, ...], alike: float) -> str | None:
    """The known text that was probably meant; case and surrounding blanks do not matter."""
    word = text.strip()
    if not word or len(word) > _LONGEST:
        return None
    return next(iter(near_names(word, filter(None, known), least=alike)), None)


def _set(service: Service, name: str, value: str | None, *, instead_of: str | None = None) -> str:
    """The command that sets a setting (``None`` removes it), and removes another annotation; as `kubectl`."""
    about, namespace = ("service", service.metadata.name), service.metadata.namespace
    if name == _DISTRIBUTION:
        patch = json.dumps({"spec": {"trafficDistribution": value}}, separators=(",", ":"))
        return kubectl("patch", "-p", patch, names=about, namespace=namespace)
    marks = [f"{name}-" if value is None else f"{name}={value}"]
    if instead_of is not None:
        marks.append(f"{instead_of}-")
    return kubectl("annotate", "--overwrite", names=(*about, *marks), namespace=namespace)


def _copy(service: Service, name: str, value: str, *, instead_of: str) -> str:
    """The command that gives an annotation the value of another one; none for a value that a line cannot show."""
    is_shown = len(value) <= _LONGEST and value == printable(value)
    return _set(service, name, value, instead_of=instead_of) if is_shown else ""


def _remove(service: Service, settings: Sequence[str]) -> str:
    """The one command that removes settings."""
    if len(settings) == 1:
        return _set(service, settings[0], None)
    patch: dict[str, Any] = {"metadata": {"annotations": {name: None for name in settings if name != _DISTRIBUTION}}}
    if _DISTRIBUTION in settings:
        patch["spec"] = {"trafficDistribution": None}
    about, text = ("service", service.metadata.name), json.dumps(patch, separators=(",", ":"))
    return kubectl("patch", "--type=merge", "-p", text, names=about, namespace=service.metadata.namespace)


# --- other names, other settings --------------------------------------------------------------------------------------


def _deprecated(view: ServiceView, cluster: ClusterView) -> Iterator[Finding]:
    service = view.service
    old, new = _TOPOLOGY
    annotations = service.metadata.annotations or {}
    if old in annotations and not cluster.needs_old_annotation:
        message = f"{old} is deprecated, and hides {new} where both are there"
        value = annotations.get(new) or annotations[old] or "Disabled"
        command = _copy(service, new, value, instead_of=old)
        yield codes.DEPRECATED_SETTING.finding(view.object, message, command=command)
    # Proxies that honor hints for nodes came with the new name; Zoneward's also runs where the API does not know it.
    same_zone = cluster.name_of(names.PREFER_SAME_ZONE)
    has_new_name = same_zone == names.PREFER_SAME_ZONE
    if service.spec.traffic_distribution == names.PREFER_CLOSE and has_new_name and cluster.all_honor_node_hints:
        message = f"{_DISTRIBUTION}: {names.PREFER_CLOSE} is a deprecated name of {names.PREFER_SAME_ZONE}"
        command = _set(service, _DISTRIBUTION, names.PREFER_SAME_ZONE)
        yield codes.DEPRECATED_SETTING.finding(view.object, message, command=command)
    if service.spec.topology_keys:
        message = "spec.topologyKeys overrides every newer setting; Kubernetes 1.22 removed it"
        fix = f"Remove spec.topologyKeys, and ask for {same_zone} or Auto."
        yield codes.DEPRECATED_SETTING.finding(view.object, message, fix=fix)


def _misspelt_annotations(view: ServiceView) -> Iterator[Finding]:
    annotations = view.service.metadata.annotations or {}
    known = tuple(sorted(_ANNOTATIONS))
    for name, value in annotations.items():
        if name in _KNOWN_ANNOTATIONS or len(name) > _LONGEST:
            continue
        meant = _nearest(name, known, _ALIKE_NAMES)
        if meant is not None:
            command = _copy(view.service, meant, value, instead_of=name)
            yield codes.MISSPELT_ANNOTATION.finding(
                view.object, f"nobody reads the annotation {name}; {meant} is one", command=command
            )


def _two_settings(view: ServiceView) -> Iterator[Finding]:
    service, state = view.service, view.given.cluster_state
    set_ = {
        name: value
        for name, value in _settings(service).items()
        if value not in names.DISABLED_VALUES and (name != names.SUBSETTING_ANNOTATION or requests_subsetting(service))
    }
    requested = state.requested(service)
    if requested.instead is not None:
        # Hints complement subsetting: they stay while it is not active.
        del set_[names.SUBSETTING_ANNOTATION]
        requested = requested.instead
    if len(set_) < 2:
        return
    alone = {name: _requested(_with_only(service, name, value), state.configuration) for name, value in set_.items()}
    both = " and ".join(f"{name}: {_shown(value)}" for name, value in set_.items())
    wins = f": {requested.accepted_detail} wins" if requested.accepted else ""
    subsetting = alone.get(names.SUBSETTING_ANNOTATION)
    if subsetting is not None and subsetting.heuristic is not None and subsetting.heuristic != requested.heuristic:
        wins += ", as no proxy of the cluster reads slice groups"
        del alone[names.SUBSETTING_ANNOTATION]
    winner = next((name for name, requested_alone in alone.items() if requested_alone.accepted), None)
    # No traffic changes: the others have no effect already.
    command = "" if winner is None else _remove(service, [name for name in set_ if name != winner])
    fix = f"To keep {winner} and remove the rest: " if command else ""
    yield codes.TWO_SETTINGS.finding(view.object, f"{both} are both set{wins}", fix=fix, command=command)


def _shown(value: str) -> str:
    quoted = quote_value(value)
    return value if quoted == repr(value) and value.isprintable() else quoted


def _only_zoneward(view: ServiceView, cluster: ClusterView) -> Iterator[Finding]:
    if any(key[:2] == view.key for key in cluster.overlays) or cluster.expects_overlay_of(view.service):
        return
    configuration = view.given.cluster_state.configuration
    requested = _requested(view.service, _of_zoneward(configuration))
    # Slices of Zoneward's controller that carry the label of the built-in one say what they were written for.
    by_zoneward = view.runs_zoneward or any(map(approach_of_slice, view.given.slices))
    if not requested.accepted or requested.heuristic is None or by_zoneward:
        return
    if names.BUILT_IN_MANAGER not in managers_of(view.given.slices):
        return
    upstream = _requested(view.service, configuration.as_upstream())
    if upstream.heuristic is None:
        manager = names.BUILT_IN_MANAGER
        message = f"{requested.accepted_detail}: {manager} writes the slices of the Service, and does not know it"
        same_zone = cluster.name_of(names.PREFER_SAME_ZONE)
        fix = codes.ONLY_ZONEWARD.fix.replace(names.PREFER_SAME_ZONE, same_zone)
        yield codes.ONLY_ZONEWARD.finding(view.object, message, fix=fix)
