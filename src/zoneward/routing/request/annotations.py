"""What the annotations of a Service say: which approach they request, and the numbers by which they override the
configuration.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from zoneward.kube import names
from zoneward.kube.demand import DEMAND_EXPECTED, parse_demand
from zoneward.kube.objects import Service
from zoneward.routing.algorithms.heuristics import find_heuristic
from zoneward.routing.configuration import STARTING_THRESHOLD_EXPECTED, is_starting_threshold
from zoneward.routing.demand import Demand
from zoneward.routing.rules import RuleLog
from zoneward.routing.share_text import MAX_OVERLOAD_EXPECTED, parse_max_overload, read_share

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
