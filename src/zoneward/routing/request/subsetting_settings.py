"""What a Service says about subsetting, and what the controller's default says for it (KEP-2004 § Configuration)."""

import re
from fractions import Fraction
from typing import Final

from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.algorithms import registry
from zoneward.routing.configuration import STARTING_THRESHOLD_EXPECTED, Configuration, is_starting_threshold
from zoneward.routing.reasons import Reason
from zoneward.routing.request.asked import Approach, Asked, gate_refusal, not_accepted, refused
from zoneward.routing.request.own_values import own_value, quoted
from zoneward.routing.rules import Rules

_NUMBER: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6})?")


def asked_by_annotation(service: Service, configuration: Configuration, rules: Rules) -> Asked | None:
    """What the subsetting annotation asks for; None where it is absent or empty."""
    value = (service.metadata.annotations or {}).get(names.SUBSETTING_ANNOTATION, "")
    if not value:
        return None
    setting = f"{names.SUBSETTING_ANNOTATION}: {value}"
    if value in names.SUBSETTING_DISABLED_VALUES:
        rules.ask("subsetting-annotation", False, f"{setting} asks for none")
        return Asked(Approach.CLUSTER_WIDE, None)
    if value != names.SUBSETTING_REQUIRE and value not in names.SUBSETTING_AUTO_VALUES:
        problem = f"{names.SUBSETTING_ANNOTATION}: {quoted(value)} is not a known value"
        rules.ask("subsetting-annotation", False, f"{problem}, so it counts as Disabled")
        return refused(Reason.UNKNOWN_VALUE, problem)
    if value == names.SUBSETTING_REQUIRE:
        asked = Asked(Approach.SUBSETTING, registry.REQUIRE_ZONE, accepted=True, accepted_detail=setting)
    else:
        asked = _tuned(service, configuration, rules, accepted=True, detail=setting)
    assert asked.heuristic is not None
    rules.ask("subsetting-annotation", True, f"{setting} asks for {asked.heuristic.name}")
    return gate_refusal(asked, configuration, rules) or asked


def asked_by_default(service: Service, configuration: Configuration, rules: Rules) -> Asked | None:
    """What the controller's default asks for where nobody else asked; None where it is cluster-wide.

    Conditions are for what a Service says itself, so there are none for a default.
    """
    if configuration.default_approach != "Subsetting":
        return None
    asked = _tuned(service, configuration, rules, accepted=None, detail="")
    if gate_refusal(asked, configuration, rules) is not None:
        return None
    assert asked.heuristic is not None
    rules.ask("default-approach", True, f"the controller's default is Subsetting: {asked.heuristic.name}")
    return asked


def _tuned(
    service: Service, configuration: Configuration, rules: Rules, *, accepted: bool | None, detail: str
) -> Asked:
    """The algorithm and the starting threshold: the Service's own where they are valid, else the controller's."""
    settings = configuration.subsetting
    annotations = service.metadata.annotations or {}
    problems = []
    algorithm: str = settings.algorithm
    own = annotations.get(names.SUBSETTING_ALGORITHM_ANNOTATION)
    if own is not None:
        known = own in registry.SUBSETTING_ALGORITHMS
        text = f"{names.SUBSETTING_ALGORITHM_ANNOTATION}: {quoted(own)}"
        if rules.ask("subsetting-algorithm", known, text if known else f"{text} is none of them, {algorithm} is used"):
            algorithm = own
        else:
            problems.append(f"{text} is not a known value, so {algorithm} is used")
    threshold, problem = own_value(
        service,
        names.STARTING_THRESHOLD_ANNOTATION,
        ask=lambda passed, detail: rules.ask("starting-threshold-annotation", passed, detail),
        parse=_starting_threshold,
        expected=STARTING_THRESHOLD_EXPECTED,
        configured=settings.starting_threshold,
    )
    if problem is not None:
        problems.append(problem)
    asked = Asked(
        Approach.SUBSETTING,
        registry.SUBSETTING_ALGORITHMS[algorithm],
        accepted=accepted,
        accepted_detail=detail,
        starting_threshold=threshold,
    )
    return not_accepted(asked, Reason.UNKNOWN_VALUE, "; ".join(problems)) if problems else asked


def _starting_threshold(text: str) -> Fraction | None:
    return Fraction(text) if _NUMBER.fullmatch(text) and is_starting_threshold(Fraction(text)) else None


def asks_for_subsetting(service: Service) -> bool:
    """Whether the annotation is there and asks for something, be it known, allowed, overruled or none of it."""
    value = (service.metadata.annotations or {}).get(names.SUBSETTING_ANNOTATION, "")
    return value not in ("", *names.SUBSETTING_DISABLED_VALUES)
