"""What an operator can set: feature gates, thresholds, sizes (``ZonewardConfiguration``). Values only: `cli` reads the
files.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from math import isfinite
from typing import Any, Final, Literal, get_args

from zoneward.kube import names
from zoneward.kube.durations import duration_between
from zoneward.kube.formats import label_value_problems
from zoneward.kube.input_error import ConfigurationError
from zoneward.kube.prometheus_settings import PrometheusSettings, read_prometheus_settings
from zoneward.kube.validation import DEFAULT_ENDPOINTS_PER_SLICE, ENDPOINTS_PER_SLICE
from zoneward.routing.adoption_settings import ADOPTION_KEYS, AdoptionSettings, read_adoption_setting
from zoneward.routing.algorithms.heuristics import SUBSETTING_ALGORITHMS
from zoneward.routing.share_text import MAX_OVERLOAD_EXPECTED, is_max_overload, parse_max_overload
from zoneward.routing.zone_costs import ZoneCosts

API_VERSION: Final = "zoneward.dev/v1alpha1"
KIND: Final = "ZonewardConfiguration"
PROGRAMS: Final = ("controller", "proxy", "meter", "prices")
"""Sections that the programs and ``zoneward report`` read themselves."""
UPSTREAM_THRESHOLD: Final = Fraction(1, 5)
"""Upstream's one threshold, for starting and for keeping."""

Objective = Literal["score", "locality"]
MissingCPU = Literal["count-nodes", "disable"]
DemandSource = Literal["cpu", "nodes", "even", "file", "prometheus"]
AutoHeuristic = Literal["ProportionalZoneCPU", "Balanced"]
StoredHints = Literal["all", "zones", "none"]
DefaultApproach = Literal["ClusterWide", "Subsetting", "Balanced"]
Encoding = Literal["slice-groups", "hints"]
_TOLERANCE_EXPECTED: Final = "a share of all traffic from 0 to 1 (0.1 is 10 %)"
_HIGHEST_COST: Final = 10**9
_DEMAND_EXPECTED: Final = "a number from 0 to 1e9: only their ratios matter"
_GRACE: Final = duration_between(0, 3600, "from 0s to 1h")
_COST_EXPECTED: Final = "a number from 0 to 1e9"
STARTING_THRESHOLD_EXPECTED: Final = "a number above 0 (3 is three endpoints a zone), at most 1000"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureGates:
    """Feature gates of the proposals. All are on but ``ServiceTopology``, which the others replaced."""

    topology_aware_hints: bool = True
    topology_aware_subsetting: bool = True
    service_traffic_distribution: bool = True
    prefer_same_traffic_distribution: bool = True
    service_traffic_policy: bool = True
    service_topology: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandSettings:
    """Where traffic is expected to start: in proportion to the allocatable CPU of the Nodes in each zone (KEP-2433
    § Assumptions), to their number, or evenly in all zones.

    ``zones`` has the parts of zones, by name, and wins over ``source``: only their ratios matter, and a zone that has
    none is expected to send nothing. Within a zone traffic starts in proportion to CPU.

    ``file`` and ``prometheus`` have figures of single Services; the others get the demand of ``zones``, else of CPU.
    Both are set also where another source is chosen, so that an option can choose them. ``adoption`` is for a running
    controller.
    """

    source: DemandSource = "cpu"
    zones: tuple[tuple[str, Fraction], ...] = ()
    file: str | None = None
    prometheus: PrometheusSettings | None = None
    adoption: AdoptionSettings = field(default_factory=AdoptionSettings)

    @property
    def has_figures(self) -> bool:
        """Whether figures of single Services are to be read."""
        return self.source in ("file", "prometheus")


@dataclass(frozen=True, slots=True, kw_only=True)
class HintsSettings:
    """Overload thresholds as shares above fair (0.2 = 20 %), what Nodes without allocatable CPU mean, and which
    heuristic ``Auto`` requests in the topology annotations.

    Hints start strictly below ``start_threshold`` and are kept strictly below ``keep_threshold`` (KEP-2433 § Overload).
    Hints that are kept may leave ``in_zone_tolerance`` less of the traffic in its zone than an allocation from nothing
    would (0.1 = 10 % of all traffic).

    A Node without a zone voids no hints for ``new_node_grace`` seconds after it was created.
    """

    start_threshold: Fraction = Fraction(1, 5)
    keep_threshold: Fraction = Fraction(3, 10)
    in_zone_tolerance: Fraction = Fraction(1, 10)
    missing_cpu: MissingCPU = "count-nodes"
    auto: AutoHeuristic = "ProportionalZoneCPU"
    new_node_grace: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsettingSettings:
    """What Services that request subsetting get (KEP-2004).

    Subsetting starts with ``starting_threshold`` endpoints per zone and ``padding`` more, and stops with ``padding``
    fewer. The overload of every endpoint stays below ``overload_threshold`` (0.5 = 50 % above fair). ``encoding``
    writes groups as slices with a zone label, or as hints, which any kube-proxy reads. A lazy update may leave
    ``in_zone_tolerance`` less of the traffic in its zone than a full rebalance would (0.1 = 10 % of all traffic).
    """

    algorithm: str = "local"
    starting_threshold: Fraction = Fraction(3)
    padding: int = 3
    overload_threshold: Fraction = Fraction(1, 2)
    in_zone_tolerance: Fraction = Fraction(1, 10)
    encoding: Encoding = "slice-groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancedSettings:
    """What Services that request ``Balanced`` get.

    No endpoint gets more than ``max_overload`` above its fair part (0.2 = 20 %). Of what is left, ``score`` is the
    highest score of KEP-2004, and ``locality`` the least cost of traffic between zones by ``costs``.
    """

    max_overload: Fraction = Fraction(1, 5)
    objective: Objective = "score"
    costs: ZoneCosts = field(default_factory=ZoneCosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Everything a decision can depend on besides the cluster's objects.

    With ``upstream`` every decision is the one of current Kubernetes, where the proposals or Zoneward differ from it.
    With ``keep_built_in_label`` slices have the built-in controller's label, so that Zoneward keeps its slices as its
    own. ``stored_hints`` are the hints that the API server stores of those that are sent. Nodes
    that were created after ``nodes_new_since`` (RFC 3339, in UTC) are new; without it none is.
    """

    gates: FeatureGates = field(default_factory=FeatureGates)
    default_approach: DefaultApproach = "ClusterWide"
    demand: DemandSettings = field(default_factory=DemandSettings)
    hints: HintsSettings = field(default_factory=HintsSettings)
    subsetting: SubsettingSettings = field(default_factory=SubsettingSettings)
    balanced: BalancedSettings = field(default_factory=BalancedSettings)
    max_endpoints_per_slice: int = DEFAULT_ENDPOINTS_PER_SLICE
    upstream: bool = False
    keep_built_in_label: bool = False
    stored_hints: StoredHints = "all"
    nodes_new_since: str | None = None

    @property
    def manager(self) -> str:
        """The value of the managed-by label on slices that the controller writes."""
        return names.BUILT_IN_MANAGER if self.upstream or self.keep_built_in_label else names.MANAGER

    def as_upstream(self) -> "Configuration":
        """The same, deciding as current Kubernetes does: by CPU, with one threshold, no hints with Nodes without CPU,
        and the only ``Auto`` that it knows.
        """
        thresholds = HintsSettings(
            start_threshold=UPSTREAM_THRESHOLD, keep_threshold=UPSTREAM_THRESHOLD, missing_cpu="disable"
        )
        return replace(self, demand=DemandSettings(), hints=thresholds, upstream=True)

    def __post_init__(self) -> None:
        gates = self.gates
        for refused, reason in (
            (gates.topology_aware_hints and gates.service_topology, "TopologyAwareHints together with ServiceTopology"),
            (
                gates.topology_aware_hints and not gates.service_traffic_policy,
                "TopologyAwareHints without ServiceTrafficPolicy",
            ),
            (
                gates.topology_aware_subsetting and gates.service_topology,
                "TopologyAwareSubsetting together with ServiceTopology",
            ),
        ):
            if refused:
                raise ConfigurationError(f"featureGates: expected a combination that works, got {reason}")
        if self.max_endpoints_per_slice not in ENDPOINTS_PER_SLICE:
            raise ConfigurationError(
                f"maxEndpointsPerSlice: expected a number from {ENDPOINTS_PER_SLICE[0]} to {ENDPOINTS_PER_SLICE[-1]},"
                f" got {self.max_endpoints_per_slice}"
            )
        for name, value in (
            ("startThreshold", self.hints.start_threshold),
            ("keepThreshold", self.hints.keep_threshold),
        ):
            if not 0 < value <= 100:
                raise ConfigurationError(
                    f"hints.{name}: expected a share above 0 (0.2 is 20 %), at most 100, got {_shown(value)}"
                )
        if self.hints.keep_threshold < self.hints.start_threshold:
            raise ConfigurationError(
                f"hints.keepThreshold: expected at least startThreshold ({float(self.hints.start_threshold):g}),"
                f" got {float(self.hints.keep_threshold):g}"
            )
        _check_tolerance("hints", self.hints.in_zone_tolerance)
        _check_subsetting(self.subsetting)
        _check_balanced(self.balanced)
        if self.demand.zones and not any(part for _, part in self.demand.zones):
            raise ConfigurationError("demand.zones: expected a part above 0, got 0 for all: only their ratios matter")
        if self.demand.source == "file" and self.demand.file is None:
            raise ConfigurationError("demand.file: expected a file with the source file, got none")
        if self.demand.source == "prometheus" and self.demand.prometheus is None:
            raise ConfigurationError("demand.prometheus.url: expected an address with the source prometheus, got none")


def _check_tolerance(section: str, tolerance: Fraction) -> None:
    if not 0 <= tolerance <= 1:
        raise ConfigurationError(f"{section}.inZoneTolerance: expected {_TOLERANCE_EXPECTED}, got {_shown(tolerance)}")


def _check_subsetting(settings: SubsettingSettings) -> None:
    if not is_starting_threshold(settings.starting_threshold):
        raise ConfigurationError(
            f"subsetting.startingThreshold: expected {STARTING_THRESHOLD_EXPECTED},"
            f" got {_shown(settings.starting_threshold)}"
        )
    if not 0 <= settings.padding <= 1000:
        raise ConfigurationError(
            f"subsetting.padding: expected a number of endpoints from 0 to 1000, got {settings.padding}"
        )
    if not 0 < settings.overload_threshold <= 100:
        raise ConfigurationError(
            "subsetting.overloadThreshold: expected a share above 0 (0.5 is 50 %), at most 100,"
            f" got {_shown(settings.overload_threshold)}"
        )
    _check_tolerance("subsetting", settings.in_zone_tolerance)
    if settings.encoding == "hints" and SUBSETTING_ALGORITHMS[settings.algorithm].weighs:
        raise ConfigurationError(
            f"subsetting.encoding: expected slice-groups with {settings.algorithm}, got hints, which have no weights"
        )


def _check_balanced(settings: BalancedSettings) -> None:
    if not is_max_overload(settings.max_overload):
        raise ConfigurationError(
            f"balanced.maxOverload: expected {MAX_OVERLOAD_EXPECTED}, got {_shown(settings.max_overload)}"
        )
    costs = settings.costs
    if not any((costs.same_region, costs.other_region, *(cost for _, _, cost in costs.pairs))):
        raise ConfigurationError("balanced.costs: expected a cost above 0, got 0 for all: only their ratios matter")


def is_starting_threshold(value: Fraction) -> bool:
    """Whether a starting threshold, in endpoints per zone, is in the range that makes sense."""
    return 0 < value <= 1000


def configuration_from(document: Mapping[str, Any]) -> Configuration:
    """A configuration document (already parsed YAML or JSON) as a value.

    `zoneward.controller.controller_configuration`, `zoneward.proxy.proxy_configuration`,
    `zoneward.meter.meter_configuration` and `zoneward.advice.prices` read its sections `PROGRAMS`. Raises
    ConfigurationError for an unknown key, a wrong type, a value out of range, or gates that exclude each other.
    """
    rest = {key: value for key, value in document.items() if key not in PROGRAMS}
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if (got := rest.pop(key, None)) != expected:
            raise ConfigurationError(f"{key}: expected {expected}, got {got!r}")
    for key in rest:
        if key not in _SECTIONS:
            expected = ", ".join((*_SECTIONS, *PROGRAMS))
            raise ConfigurationError(f"{key}: expected one of {expected}, got an unknown key")
    return Configuration(**{_SECTIONS[key][0]: _SECTIONS[key][1](value) for key, value in rest.items()})


def _read_gates(value: Any) -> FeatureGates:
    known = {_pascal(gate.name): gate.name for gate in fields(FeatureGates)}
    section = _section(value, "featureGates")
    return FeatureGates(**{known[k]: _boolean(v, f"featureGates.{k}") for k, v in _known_items(section, known)})


def _read_demand(value: Any) -> DemandSettings:
    section = _section(value, "demand")
    items = _known_items(section, (*_DEMAND, *ADOPTION_KEYS), within="demand")
    adoption = dict(read_adoption_setting(key, value) for key, value in items if key in ADOPTION_KEYS)
    values = {key: _DEMAND[key](value) for key, value in items if key in _DEMAND}
    return DemandSettings(**values, adoption=replace(AdoptionSettings(), **adoption))  # type: ignore[arg-type]


def read_demand_parts(value: Any, path: str) -> tuple[tuple[str, Fraction], ...]:
    """(zone, part) of demand, by zone. Raises ConfigurationError with the path and the zone."""
    parts = {zone: _share(part, f"{path}.{zone}", _DEMAND_EXPECTED) for zone, part in _zone_items(value, path)}
    for zone, part in parts.items():
        if not 0 <= part <= _HIGHEST_COST:
            raise ConfigurationError(f"{path}.{zone}: expected {_DEMAND_EXPECTED}, got {_shown(part)}")
    return tuple(sorted(parts.items()))


def _read_hints(value: Any) -> HintsSettings:
    section = _section(value, "hints")
    return HintsSettings(**{_snake(k): _HINTS[k](v) for k, v in _known_items(section, _HINTS, within="hints")})


def _read_subsetting(value: Any) -> SubsettingSettings:
    section = _section(value, "subsetting")
    return SubsettingSettings(
        **{_snake(k): _SUBSETTING[k](v) for k, v in _known_items(section, _SUBSETTING, within="subsetting")}
    )


def _read_balanced(value: Any) -> BalancedSettings:
    section = _section(value, "balanced")
    return BalancedSettings(
        **{_snake(k): _BALANCED[k](v) for k, v in _known_items(section, _BALANCED, within="balanced")}
    )


def _read_costs(value: Any) -> ZoneCosts:
    section = _section(value, "balanced.costs")
    return ZoneCosts(
        **{_COSTS[k][0]: _COSTS[k][1](v) for k, v in _known_items(section, _COSTS, within="balanced.costs")}
    )


def _read_pairs(value: Any) -> tuple[tuple[str, str, Fraction], ...]:
    """(from, to, cost) of every pair of zones, by name. A pair that is given in one direction has its cost in both."""
    path = "balanced.costs.zones"
    given = {
        (start, end): _cost(cost, f"{path}.{start}.{end}")
        for start, costs in _zone_items(value, path)
        for end, cost in _zone_items(costs, f"{path}.{start}")
    }
    for (start, end), cost in given.items():
        if start == end and cost:
            raise ConfigurationError(f"{path}.{start}.{end}: expected 0 within a zone, got {_shown(cost)}")
    both = {(end, start): cost for (start, end), cost in given.items()} | given
    return tuple((start, end, cost) for (start, end), cost in sorted(both.items()) if start != end)


def _zone_items(value: Any, path: str) -> list[tuple[str, Any]]:
    section = _section(value, path)
    for zone in section:
        if not isinstance(zone, str) or not zone or any(label_value_problems(zone)):
            raise ConfigurationError(f"{path}: expected names of zones, got {zone!r}")
    return list(section.items())


def _section(value: Any, key: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{key}: expected a map, got {value!r}")
    return value


def _known_items(section: Mapping[str, Any], known: Any, *, within: str = "featureGates") -> list[tuple[str, Any]]:
    for key in section:
        if key not in known:
            raise ConfigurationError(f"{within}.{key}: expected one of {', '.join(known)}, got an unknown key")
    return list(section.items())


def _boolean(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{path}: expected true or false, got {value!r}")
    return value


def _file_name(value: Any, path: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{path}: expected the name of a file, got {value!r}")
    return value


def _integer(value: Any, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{path}: expected a whole number, got {value!r}")
    return value


def _share(value: Any, path: str, expected: str = "a share above 0 (0.2 is 20 %)") -> Fraction:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or (isinstance(value, float) and not isfinite(value))
    ):
        raise ConfigurationError(f"{path}: expected {expected}, got {value!r}")
    # The shortest text of a float is what the file has: 0.2 is a fifth here, not the double next to it.
    return Fraction(repr(value) if isinstance(value, float) else value)


def _max_overload(value: Any) -> Fraction:
    path = "balanced.maxOverload"
    if not isinstance(value, str):
        return _share(value, path, MAX_OVERLOAD_EXPECTED)
    share = parse_max_overload(value)
    if share is None:
        raise ConfigurationError(f"{path}: expected {MAX_OVERLOAD_EXPECTED}, got {value!r}")
    return share


def _grace(value: Any) -> float:
    try:
        return _GRACE(value)
    except ValueError as error:
        raise ConfigurationError(f"hints.newNodeGrace: {error}") from None


def _cost(value: Any, path: str) -> Fraction:
    cost = _share(value, path, _COST_EXPECTED)
    if not 0 <= cost <= _HIGHEST_COST:
        raise ConfigurationError(f"{path}: expected {_COST_EXPECTED}, got {_shown(cost)}")
    return cost


def _shown(value: Fraction) -> str:
    """A number for messages; never too large for a float."""
    if abs(value) < 10**15:
        return f"{float(value):g}"
    return "a number far above" if value > 0 else "a number far below"


def _choice(value: Any, path: str, choices: tuple[str, ...]) -> Any:
    if value not in choices:
        raise ConfigurationError(f"{path}: expected {' or '.join(choices)}, got {value!r}")
    return value


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


_DEMAND: Final[Mapping[str, Callable[[Any], Any]]] = {
    "source": lambda value: _choice(value, "demand.source", get_args(DemandSource)),
    "zones": lambda value: read_demand_parts(value, "demand.zones"),
    "file": lambda value: None if value is None else _file_name(value, "demand.file"),
    "prometheus": lambda value: read_prometheus_settings(value, "demand.prometheus"),
}
_HINTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "startThreshold": lambda value: _share(value, "hints.startThreshold"),
    "keepThreshold": lambda value: _share(value, "hints.keepThreshold"),
    "missingCPU": lambda value: _choice(value, "hints.missingCPU", get_args(MissingCPU)),
    "inZoneTolerance": lambda value: _share(value, "hints.inZoneTolerance", _TOLERANCE_EXPECTED),
    "auto": lambda value: _choice(value, "hints.auto", get_args(AutoHeuristic)),
    "newNodeGrace": _grace,
}
_SUBSETTING: Final[Mapping[str, Callable[[Any], Any]]] = {
    "algorithm": lambda value: _choice(value, "subsetting.algorithm", tuple(SUBSETTING_ALGORITHMS)),
    "startingThreshold": lambda value: _share(value, "subsetting.startingThreshold", STARTING_THRESHOLD_EXPECTED),
    "padding": lambda value: _integer(value, "subsetting.padding"),
    "overloadThreshold": lambda value: _share(value, "subsetting.overloadThreshold"),
    "inZoneTolerance": lambda value: _share(value, "subsetting.inZoneTolerance", _TOLERANCE_EXPECTED),
    "encoding": lambda value: _choice(value, "subsetting.encoding", get_args(Encoding)),
}
_BALANCED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "maxOverload": _max_overload,
    "objective": lambda value: _choice(value, "balanced.objective", get_args(Objective)),
    "costs": _read_costs,
}
_COSTS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "sameRegion": ("same_region", lambda value: _cost(value, "balanced.costs.sameRegion")),
    "otherRegion": ("other_region", lambda value: _cost(value, "balanced.costs.otherRegion")),
    "zones": ("pairs", _read_pairs),
}
"""The reader of each key of these sections."""
_SECTIONS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "featureGates": ("gates", _read_gates),
    "defaultApproach": (
        "default_approach",
        lambda value: _choice(value, "defaultApproach", get_args(DefaultApproach)),
    ),
    "demand": ("demand", _read_demand),
    "hints": ("hints", _read_hints),
    "subsetting": ("subsetting", _read_subsetting),
    "balanced": ("balanced", _read_balanced),
    "maxEndpointsPerSlice": ("max_endpoints_per_slice", lambda value: _integer(value, "maxEndpointsPerSlice")),
}
"""The field of `Configuration` for each key, and its reader."""
