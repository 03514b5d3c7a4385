"""What an operator can set: feature gates, thresholds, sizes (``ZonewardConfiguration``). Values only: `cli` reads the
files.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

from msgspec import Meta, field
from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.input_error import ConfigurationError, show
from zoneward.kube.prometheus_settings import PrometheusSettings
from zoneward.kube.selectors import LabelSelector, SelectorError, parse_selector
from zoneward.kube.settings import (
    FileName,
    Seconds,
    Settings,
    bounds,
    exact_number,
    setting_type,
    zone_items,
    zone_pairs,
)
from zoneward.kube.validation import DEFAULT_ENDPOINTS_PER_SLICE, ENDPOINTS_PER_SLICE
from zoneward.routing.algorithms.heuristics import SUBSETTING_ALGORITHMS
from zoneward.routing.algorithms.set_value import COST_UNIT

UPSTREAM_THRESHOLD: Final = Fraction(1, 5)
"""Upstream's one threshold, for starting and for keeping."""

Objective = Literal["score", "locality"]
MissingCPU = Literal["count-nodes", "disable"]
DemandSource = Literal["cpu", "nodes", "even", "file", "prometheus"]
AutoHeuristic = Literal["ProportionalZoneCPU", "Balanced"]
StoredHints = Literal["all", "zones", "none"]
DefaultApproach = Literal["ClusterWide", "Subsetting", "Balanced"]
Encoding = Literal["slice-groups", "hints"]
MAX_OVERLOAD_EXPECTED: Final = "a share from 0 to 10 (0.2), or a percentage from 0% to 1000% (20%)"
_MOST_OVERLOAD: Final = 10
_SHARE: Final = re.compile(r"(?P<number>[0-9]{1,5}(\.[0-9]{1,6})?)(?P<percent>%?)")
STARTING_THRESHOLD_EXPECTED: Final = "a number above 0 (3 is three endpoints a zone), at most 1000"
_Threshold = Annotated[Fraction, bounds("a share above 0 (0.2 is 20 %), at most 100", gt=0, le=100)]
_Tolerance = Annotated[Fraction, bounds("a share of all traffic from 0 to 1 (0.1 is 10 %)", ge=0, le=1)]

_HIGHEST_RATIO: Final = 10**9
_COST_EXPECTED: Final = "a number from 0 to 1e9"
_PART_EXPECTED: Final = f"{_COST_EXPECTED}: only their ratios matter"
_Cost = Annotated[Fraction, bounds(_COST_EXPECTED, ge=0, le=_HIGHEST_RATIO)]


# --- numbers that people write ----------------------------------------------------------------------------------------


def parse_demand_parts(value: object) -> tuple[tuple[str, Fraction], ...]:
    """(zone, part) of demand, by zone. Raises ValueError with the zone."""
    return tuple(sorted((zone, _read_ratio(part, zone, _PART_EXPECTED)) for zone, part in zone_items(value, "zones")))


def _parse_costs(value: object) -> tuple[tuple[str, str, Fraction], ...]:
    return tuple(pair for pair in zone_pairs(value, "zones", _read_cost) if pair[0] != pair[1])


def _read_cost(value: object, start: str, end: str) -> Fraction:
    cost = _read_ratio(value, f"{start}.{end}", _COST_EXPECTED)
    if cost and start == end:
        raise ValueError(f"{start}.{end}: expected 0 within a zone, got {show(value)}")
    return cost


def _read_ratio(value: object, name: str, expected: str) -> Fraction:
    try:
        ratio = exact_number(value)
    except ValueError:
        ratio = Fraction(-1)
    if not 0 <= ratio <= _HIGHEST_RATIO:
        raise ValueError(f"{name}: expected {expected}, got {show(value)}")
    return ratio


class WrittenShare(NamedTuple):
    """A share, and whether it was written with a percent sign."""

    share: Fraction
    is_percentage: bool


def read_share(text: str) -> WrittenShare | None:
    """A share with at most six decimals; None for anything else, such as a sign or blanks."""
    match = _SHARE.fullmatch(text)
    if match is None:
        return None
    return WrittenShare(Fraction(match["number"]) / (100 if match["percent"] else 1), bool(match["percent"]))


def parse_max_overload(text: str) -> Fraction | None:
    """The highest overload that ``Balanced`` may cause; None for anything that is not `MAX_OVERLOAD_EXPECTED`."""
    written = read_share(text)
    return written.share if written is not None and 0 <= written.share <= _MOST_OVERLOAD else None


def _parse_max_overload(value: object) -> Fraction:
    share = parse_max_overload(value) if isinstance(value, str) else exact_number(value)
    if share is None:
        raise ValueError(f"expected {MAX_OVERLOAD_EXPECTED}, got {show(value)}")
    return share


if TYPE_CHECKING:
    DemandParts = tuple[tuple[str, Fraction], ...]
    MaxOverload = Fraction
    CostPairs = tuple[tuple[str, str, Fraction], ...]
else:
    DemandParts = setting_type(tuple, parse_demand_parts)
    MaxOverload = setting_type(Fraction, _parse_max_overload)
    CostPairs = setting_type(tuple, _parse_costs)


# --- sections of the file ---------------------------------------------------------------------------------------------


class FeatureGates(Settings, frozen=True, kw_only=True, rename="pascal"):
    """Feature gates of the proposals. All are on except ``ServiceTopology``, which the others replaced."""

    topology_aware_hints: bool = True
    topology_aware_subsetting: bool = True
    service_traffic_distribution: bool = True
    prefer_same_traffic_distribution: bool = True
    service_traffic_policy: bool = True
    service_topology: bool = False


class AdoptionSettings(Settings, frozen=True, kw_only=True):
    """How a running controller adopts measured demand.

    No zone's part is below ``floor`` of its share of CPU. Figures that add up to less than ``min_traffic`` are ignored.
    Figures are read every ``refresh`` seconds, and count for ``max_age`` seconds.

    A Service adopts new demand if its endpoints would be overloaded otherwise, or if more than ``margin`` of all its
    traffic would newly stay in its zone. At most ``max_changes_per_hour`` Services do.
    """

    floor: Annotated[Fraction, bounds("a part from 0 to 1 (0.5: half of the share of CPU)", ge=0, le=1)] = Fraction(
        1, 2
    )
    min_traffic: Annotated[Fraction, bounds("a number from 0 to 1e9", ge=0, le=10**9)] = Fraction(100)
    margin: Annotated[Fraction, bounds("a share of all traffic from 0 to 1 (0.1 is 10 %)", ge=0, le=1)] = Fraction(
        3, 20
    )
    max_changes_per_hour: Annotated[int, Meta(ge=1, le=10_000)] = 20
    refresh: Annotated[Seconds, bounds("a duration from 10s to 1h", ge=10, le=3_600)] = 300.0
    max_age: Annotated[Seconds, bounds("a duration from 1m to 168h", ge=60, le=168 * 3_600)] = 3 * 3_600.0


class DemandSettings(AdoptionSettings, frozen=True, kw_only=True):
    """Where traffic is expected to start: in proportion to the allocatable CPU of the Nodes in each zone (KEP-2433
    § Assumptions), to their number, or evenly in all zones.

    ``zones`` has the parts of zones, by name, and wins over ``source``: only their ratios matter, and a zone that is
    missing is expected to send nothing. Within a zone traffic starts in proportion to CPU.

    ``file`` and ``prometheus`` have figures of single Services; the others get the demand of ``zones``, else of CPU.
    Both may be set with another source, so that an option can choose them.
    """

    source: DemandSource = "cpu"
    zones: DemandParts = ()
    file: FileName | None = None
    prometheus: PrometheusSettings | None = None

    @property
    def has_figures(self) -> bool:
        """Whether to read figures of single Services."""
        return self.source in ("file", "prometheus")


class HintsSettings(Settings, frozen=True, kw_only=True):
    """Overload thresholds as shares above fair (0.2 = 20 %), what Nodes without allocatable CPU mean, and which
    heuristic ``Auto`` requests in the topology annotations.

    Hints start strictly below ``start_threshold`` and are kept strictly below ``keep_threshold`` (KEP-2433 § Overload).
    Existing hints may leave ``in_zone_tolerance`` less of the traffic in its zone than a new allocation would
    (0.1 = 10 % of all traffic).

    A Node without a zone voids no hints for ``new_node_grace`` seconds after it was created.
    """

    start_threshold: _Threshold = Fraction(1, 5)
    keep_threshold: _Threshold = Fraction(3, 10)
    missing_cpu: MissingCPU = field(default="count-nodes", name="missingCPU")
    in_zone_tolerance: _Tolerance = Fraction(1, 10)
    auto: AutoHeuristic = "ProportionalZoneCPU"
    new_node_grace: Annotated[Seconds, bounds("a duration from 0s to 1h", le=3_600)] = 120.0


class SubsettingSettings(Settings, frozen=True, kw_only=True):
    """What Services that request subsetting get (KEP-2004).

    Subsetting starts with ``starting_threshold`` endpoints per zone and ``padding`` more, and stops with ``padding``
    fewer. The overload of every endpoint stays below ``overload_threshold`` (0.5 = 50 % above fair). ``encoding``
    writes groups as slices with a zone label, or as hints, which any kube-proxy reads. A lazy update may leave
    ``in_zone_tolerance`` less of the traffic in its zone than a full rebalance would (0.1 = 10 % of all traffic).
    """

    algorithm: Annotated[str, Meta(description=" or ".join(SUBSETTING_ALGORITHMS))] = "local"
    starting_threshold: Annotated[Fraction, bounds(STARTING_THRESHOLD_EXPECTED, gt=0, le=1000)] = Fraction(3)
    padding: Annotated[int, Meta(ge=0, le=1000)] = 3
    overload_threshold: Annotated[Fraction, bounds("a share above 0 (0.5 is 50 %), at most 100", gt=0, le=100)] = (
        Fraction(1, 2)
    )
    in_zone_tolerance: _Tolerance = Fraction(1, 10)
    encoding: Encoding = "slice-groups"


class ZoneCosts(Settings, frozen=True):
    """Costs of a request by where it starts and where its endpoint is; 0 within a zone. Only their ratios matter.

    ``pairs`` has (from, to, cost), and wins over the cost between zones of one region, or of different or unknown ones.
    """

    same_region: _Cost = Fraction(1)
    other_region: _Cost = Fraction(1)
    pairs: CostPairs = field(default=(), name="zones")


class BalancedSettings(Settings, frozen=True, kw_only=True):
    """What Services that request ``Balanced`` get.

    No endpoint gets more than ``max_overload`` above its fair part (0.2 = 20 %). Within this bound, ``score`` maximizes
    the score of KEP-2004, and ``locality`` minimizes the cost of traffic between zones by ``costs``.
    """

    max_overload: Annotated[MaxOverload, bounds(MAX_OVERLOAD_EXPECTED, ge=0, le=_MOST_OVERLOAD)] = Fraction(1, 5)
    objective: Objective = "score"
    costs: ZoneCosts = ZoneCosts()


class OverlaySettings(Settings, frozen=True, kw_only=True):
    """Services whose labels match ``service_selector`` are in the overlay, beside those that ask for it themselves."""

    service_selector: Annotated[str, Meta(description="a label selector (team=shop,tier!=cache)")] = ""

    def __post_init__(self) -> None:
        try:
            _ = self.selector
        except SelectorError as error:
            raise ConfigurationError(f"serviceSelector: {error}") from None

    @property
    def selector(self) -> LabelSelector | None:
        """None: no Service is selected by its labels."""
        return _parse_selector(self.service_selector) if self.service_selector.strip() else None


_parse_selector: Final = lru_cache(maxsize=16)(parse_selector)


class DecisionSettings(Settings, frozen=True, kw_only=True):
    """The sections of a configuration file that decisions depend on."""

    gates: FeatureGates = field(default=FeatureGates(), name="featureGates")
    default_approach: DefaultApproach = "ClusterWide"
    demand: DemandSettings = DemandSettings()
    hints: HintsSettings = HintsSettings()
    subsetting: SubsettingSettings = SubsettingSettings()
    balanced: BalancedSettings = BalancedSettings()
    overlay: OverlaySettings = OverlaySettings()
    max_endpoints_per_slice: Annotated[int, Meta(ge=ENDPOINTS_PER_SLICE[0], le=ENDPOINTS_PER_SLICE[-1])] = (
        DEFAULT_ENDPOINTS_PER_SLICE
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for problem in _conflicts(self):
            raise ConfigurationError(problem)


class Configuration(DecisionSettings, frozen=True, kw_only=True):
    """Everything that a decision depends on except the cluster's objects.

    With ``upstream`` every decision is the one of current Kubernetes, where the proposals or Zoneward differ from it.
    With ``keep_built_in_label`` slices have the built-in controller's label, so that Zoneward takes over its slices.
    With ``is_overlay`` the built-in controller writes its slices, and their hints are Zoneward's
    (`zoneward.slices.overlay.overlay_configuration`).
    ``stored_hints``: which of the hints that it gets the API server stores. Nodes that were created after
    ``nodes_new_since`` (RFC 3339, in UTC) are new; without it none is.
    """

    upstream: bool = False
    keep_built_in_label: bool = False
    is_overlay: bool = False
    stored_hints: StoredHints = "all"
    nodes_new_since: str | None = None

    @classmethod
    def of(cls, settings: DecisionSettings, *, keep_built_in_label: bool = False) -> "Configuration":
        values = {name: getattr(settings, name) for name in DecisionSettings.__struct_fields__}
        return cls(**values, keep_built_in_label=keep_built_in_label)

    @property
    def manager(self) -> str:
        """The value of the managed-by label on slices that the controller writes."""
        is_built_in = self.upstream or self.keep_built_in_label or self.is_overlay
        return names.BUILT_IN_MANAGER if is_built_in else names.MANAGER

    def as_upstream(self) -> "Configuration":
        """The same, deciding as current Kubernetes does: by CPU, with one threshold, no hints with Nodes without CPU,
        and the only ``Auto`` that it knows.
        """
        thresholds = HintsSettings(
            start_threshold=UPSTREAM_THRESHOLD, keep_threshold=UPSTREAM_THRESHOLD, missing_cpu="disable"
        )
        return replace(self, demand=DemandSettings(), hints=thresholds, upstream=True, is_overlay=False)


def _conflicts(settings: DecisionSettings) -> Iterator[str]:
    """What is wrong between fields, each of which is valid."""
    gates, demand, hints, subsetting = settings.gates, settings.demand, settings.hints, settings.subsetting
    works = "featureGates: expected a combination that works, got"
    if gates.topology_aware_hints and gates.service_topology:
        yield f"{works} TopologyAwareHints together with ServiceTopology"
    if gates.topology_aware_hints and not gates.service_traffic_policy:
        yield f"{works} TopologyAwareHints without ServiceTrafficPolicy"
    if gates.topology_aware_subsetting and gates.service_topology:
        yield f"{works} TopologyAwareSubsetting together with ServiceTopology"
    if hints.keep_threshold < hints.start_threshold:
        start, keep = float(hints.start_threshold), float(hints.keep_threshold)
        yield f"hints.keepThreshold: expected at least startThreshold ({start:g}), got {keep:g}"
    algorithm = SUBSETTING_ALGORITHMS.get(subsetting.algorithm)
    if algorithm is None:
        expected = " or ".join(SUBSETTING_ALGORITHMS)
        yield f"subsetting.algorithm: expected {expected}, got {show(subsetting.algorithm)}"
    elif algorithm.weighs and subsetting.encoding == "hints":
        expected = f"slice-groups with {subsetting.algorithm}"
        yield f"subsetting.encoding: expected {expected}, got hints, which have no weights"
    costs = settings.balanced.costs
    if not any((costs.same_region, costs.other_region, *(cost for _, _, cost in costs.pairs))):
        yield "balanced.costs: expected a cost above 0, got 0 for all: only their ratios matter"
    if demand.zones and not any(part for _, part in demand.zones):
        yield "demand.zones: expected a part above 0, got 0 for all: only their ratios matter"
    if demand.source == "file" and demand.file is None:
        yield "demand.file: expected a file with the source file, got none"
    if demand.source == "prometheus" and not (demand.prometheus and demand.prometheus.url):
        yield "demand.prometheus.url: expected an address with the source prometheus, got none"


def is_starting_threshold(value: Fraction) -> bool:
    """Whether a starting threshold, in endpoints per zone, is in the range that makes sense."""
    return 0 < value <= 1000


def cost_table(costs: ZoneCosts, zones: Sequence[str], regions: Mapping[str, str]) -> tuple[int, ...]:
    """The cost of a request from each zone to each zone, at ``start * n + end``, scaled so that the largest cost of the
    settings is `COST_UNIT`."""
    return _cost_table(costs, tuple(zones), tuple(sorted(regions.items())))


@lru_cache(maxsize=256)
def _cost_table(costs: ZoneCosts, zones: tuple[str, ...], known: tuple[tuple[str, str], ...]) -> tuple[int, ...]:
    regions = dict(known)
    most = max((costs.same_region, costs.other_region, *(cost for _, _, cost in costs.pairs)))
    pairs = {(start, end): cost for start, end, cost in costs.pairs}

    def cost(start: str, end: str) -> int:
        if start == end or not most:
            return 0
        cost = pairs.get((start, end))
        if cost is None:
            near = start in regions and regions.get(start) == regions.get(end)
            cost = costs.same_region if near else costs.other_region
        return round(cost / most * COST_UNIT)

    return tuple(cost(start, end) for start in zones for end in zones)


# --- what differs from current Kubernetes -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """What Zoneward does differently from current Kubernetes: ``--compat=upstream`` chooses `KUBERNETES`. Thresholds
    differ too (`Configuration.as_upstream`).

    ``sets_hints_in_slices``: hints follow from how endpoints lie in slices, not from the decision.
    ``reads_own_settings``: annotations and values that only Zoneward knows count. ``knows_new_nodes``: a new Node
    without a zone voids no hints. ``merges_addresses``: endpoints with the same address count as one.
    ``counts_without_ports``: endpoints without ports count. ``needs_nodes``: Pods do not count while no Node is known.
    ``needs_families``: a Service without IP families or cluster IP gets both families. ``hints_unready``: endpoints
    that are not ready have hints. ``repeats_events``: every sync that fails sends an Event.
    """

    sets_hints_in_slices: bool
    reads_own_settings: bool
    knows_new_nodes: bool
    merges_addresses: bool
    counts_without_ports: bool
    needs_nodes: bool
    needs_families: bool
    hints_unready: bool
    repeats_events: bool


ZONEWARD: Final = Compatibility(
    sets_hints_in_slices=False,
    reads_own_settings=True,
    knows_new_nodes=True,
    merges_addresses=True,
    counts_without_ports=False,
    needs_nodes=False,
    needs_families=False,
    hints_unready=True,
    repeats_events=False,
)
KUBERNETES: Final = Compatibility(
    sets_hints_in_slices=True,
    reads_own_settings=False,
    knows_new_nodes=False,
    merges_addresses=False,
    counts_without_ports=True,
    needs_nodes=True,
    needs_families=True,
    hints_unready=False,
    repeats_events=True,
)


def compatibility_of(configuration: Configuration) -> Compatibility:
    return KUBERNETES if configuration.upstream else ZONEWARD
