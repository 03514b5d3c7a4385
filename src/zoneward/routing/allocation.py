"""Supply and allocation: how many endpoints of each zone serve which zones. Counts only, no endpoint is named.

`allocate` and `rebalance` call the algorithms, which work on flat arrays: here is the only place where allocations
become arrays and back. The arrays have a number for each group of consumers and each zone, at ``group * zones + zone``.
The zones' own groups come first, in name order, also where they are empty; shared groups follow
(`zoneward.routing.algorithms.signature`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final

from zoneward.routing.algorithms.heuristics import Heuristic
from zoneward.routing.algorithms.local import rebalance_lazily
from zoneward.routing.algorithms.signature import IMPOSSIBLE, max_groups, reals_length, scratch_length
from zoneward.routing.score import MEASURES, measure
from zoneward.routing.zone_groups import WEIGHT_DIGITS, ZoneGroup

Zones = tuple[str, ...]
"""Zones that consume the same endpoints, in name order."""
Counts = Mapping[tuple[Zones, str], int]
"""Endpoints by the zones that consume them, and the zone where they are located."""


@dataclass(frozen=True, slots=True)
class Supply:
    """Ready endpoints by the zone where they are located, and those of them that served zones before."""

    ready: Mapping[str, int]
    previous: Counts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Endpoints by the zones that consume them and the zone where they are located, without zeros.

    ``zones`` are all zones that were considered, in name order. ``weights`` has those of consumers that do not all
    weigh 1. Single zones come first in ``counts``, then zones that share endpoints, both in name order.
    """

    zones: Zones
    counts: Counts
    weights: Mapping[Zones, tuple[float, ...]] = field(default_factory=dict)

    def group(self, consumers: Zones) -> ZoneGroup:
        return ZoneGroup(consumers, self.weights.get(consumers) or (1.0,) * len(consumers))

    def by_consumers(self) -> dict[Zones, dict[str, int]]:
        """``{consumers: {located: count}}``"""
        rows: dict[Zones, dict[str, int]] = {}
        for (consumers, located), count in self.counts.items():
            rows.setdefault(consumers, {})[located] = count
        return rows

    def size(self, consumers: Zones) -> int:
        """Endpoints that exactly these zones consume."""
        return sum(count for (zones, _), count in self.counts.items() if zones == consumers)

    def as_map(self) -> dict[str, dict[str, int]]:
        """``{located: {consumer: count}}``. The consumer of endpoints that several zones share is all their names, with
        commas between.
        """
        rows: dict[str, dict[str, int]] = {zone: {} for zone in self.zones}
        for (consumers, located), count in self.counts.items():
            rows[located][",".join(consumers)] = count
        return {located: row for located, row in rows.items() if row}

    def by_zone(self) -> dict[str, dict[str, int]]:
        """``{located: {consumer: count}}`` with an entry for each zone that consumes, alone or with others. An endpoint
        counts for each."""
        rows: dict[str, dict[str, int]] = {}
        for (consumers, located), count in self.counts.items():
            for zone in consumers:
                row = rows.setdefault(located, {})
                row[zone] = row.get(zone, 0) + count
        return {located: dict(sorted(rows[located].items())) for located in sorted(rows)}


def allocation_of(
    zones: Iterable[str], counts: Counts, weights: Mapping[Zones, tuple[float, ...]] | None = None
) -> Allocation:
    """An allocation from counts in any order, which may have zeros."""
    ordered = sorted(counts.items(), key=lambda item: (len(item[0][0]) > 1, item[0]))
    return Allocation(tuple(zones), {key: count for key, count in ordered if count}, weights or {})


# --- calls of algorithms ----------------------------------------------------------------------------------------------


_REMEMBERED: Final = 1 << 13
"""Allocations in memory, at about 2 kB. The Services of a cluster share its demand and most have few endpoints, so that
many have equal counts."""


def threshold_parameters(threshold: Fraction, start_threshold: Fraction) -> tuple[int, int, int, int]:
    """The parameters of an algorithm that keeps below one threshold, and starts below another."""
    return threshold.numerator, threshold.denominator, start_threshold.numerator, start_threshold.denominator


def allocate(
    heuristic: Heuristic, demand: Mapping[str, int], supply: Supply, *, parameters: Sequence[int]
) -> Allocation | None:
    """Run a heuristic's algorithm. None where it finds that no allocation may be made."""
    zones = tuple(sorted(demand.keys() | supply.ready.keys()))
    return _allocate(
        heuristic,
        zones,
        tuple(demand.get(zone, 0) for zone in zones),
        tuple(supply.ready.get(zone, 0) for zone in zones),
        tuple(parameters),
        tuple(_composition([(zone,) for zone in zones], zones, supply.previous)),
    )


@lru_cache(maxsize=_REMEMBERED)
def _allocate(
    heuristic: Heuristic,
    zones: Zones,
    demand: tuple[int, ...],
    ready: tuple[int, ...],
    parameters: tuple[int, ...],
    previous: tuple[int, ...],
) -> Allocation | None:
    size = len(zones)
    composition = [0] * (max_groups(size) * size)
    weights = [0.0] * (max_groups(size) * size)
    groups = heuristic.allocate(
        demand,
        ready,
        parameters,
        previous,
        composition,
        weights,
        [0] * scratch_length(size),
        [0.0] * reals_length(size),
    )
    return None if groups == IMPOSSIBLE else _allocation(zones, groups, composition, weights)


def rebalance(
    demand: Mapping[str, int],
    supply: Supply,
    *,
    weights: Mapping[Zones, tuple[float, ...]],
    threshold: Fraction,
) -> tuple[Allocation, bool]:
    """Add the endpoints that served no zones before to those that did, and nothing else. Returns also whether the
    overload stays below the threshold. ``weights`` has those of all consumers that share endpoints.
    """
    zones = tuple(sorted(demand))
    groups = [*((zone,) for zone in zones), *sorted(weights)]
    composition = _composition(groups, zones, supply.previous)
    flat_weights = _weights(groups, zones, weights)
    result = rebalance_lazily(
        [demand[zone] for zone in zones],
        [supply.ready.get(zone, 0) for zone in zones],
        (threshold.numerator, threshold.denominator),
        len(groups),
        composition,
        flat_weights,
        [0] * len(groups),
        [0.0] * len(zones),
        [0.0] * len(zones),
    )
    return _allocation(zones, len(groups), composition, flat_weights), result != IMPOSSIBLE


def measures_of(allocation: Allocation, demand: Mapping[str, int]) -> list[float]:
    """What the proposal measures (`zoneward.routing.score`), except slices, with demand in the allocation's zones."""
    zones = allocation.zones
    groups = list(dict.fromkeys(consumers for consumers, _ in allocation.counts))
    composition = _composition(groups, zones, allocation.counts)
    weights = _weights(groups, zones, allocation.weights)
    measures = [0.0] * MEASURES
    weighed = [demand.get(zone, 0) for zone in zones]
    measure(weighed, len(groups), composition, weights, 1, measures, [0.0] * len(zones))
    return measures


def _composition(groups: Iterable[Zones], zones: Zones, counts: Counts) -> list[int]:
    return [counts.get((consumers, zone), 0) for consumers in groups for zone in zones]


def _weights(groups: Iterable[Zones], zones: Zones, weights: Mapping[Zones, tuple[float, ...]]) -> list[float]:
    flat: list[float] = []
    for consumers in groups:
        by_zone = dict(zip(consumers, weights.get(consumers) or (1.0,) * len(consumers), strict=True))
        flat += [by_zone.get(zone, 0.0) for zone in zones]
    return flat


def _allocation(zones: Zones, groups: int, composition: Sequence[int], weights: Sequence[float]) -> Allocation:
    """The arrays that an algorithm wrote, as a value.

    Weights get the digits that slices keep. A shared group that a single zone consumes becomes part of the zone's own.
    """
    size = len(zones)
    counts: dict[tuple[Zones, str], int] = {}
    weights_of: dict[Zones, tuple[float, ...]] = {}
    for group in range(groups):
        row = composition[group * size : (group + 1) * size]
        if not any(row):
            continue
        consumers: Zones = (zones[group],) if group < size else ()
        if group >= size:
            rounded = [round(weight, WEIGHT_DIGITS) for weight in weights[group * size : (group + 1) * size]]
            consumers = tuple(zone for zone, weight in zip(zones, rounded, strict=True) if weight > 0)
            positive = tuple(weight for weight in rounded if weight > 0)
            if len(consumers) > 1 and any(weight != 1 for weight in positive):
                weights_of[consumers] = positive
        for located, count in zip(zones, row, strict=True):
            counts[consumers, located] = counts.get((consumers, located), 0) + count
    return allocation_of(zones, counts, weights_of)
