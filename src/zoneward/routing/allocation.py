"""The allocation: groups of endpoints, where they are located and which zones consume them."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from zoneward.routing.algorithms.heuristics import Heuristic
from zoneward.routing.algorithms.signature import IMPOSSIBLE, max_groups, reals_length, scratch_length
from zoneward.routing.placement.groups import WEIGHT_DIGITS, ZoneGroup, own_group


@dataclass(frozen=True, slots=True)
class Allocation:
    """Counts by group: ``counts[group * n + located]`` for n ``zones`` in name order.

    The first n groups are the zones' own, in their order, also where they are empty. Shared groups follow in the order
    of their zones.
    """

    zones: tuple[str, ...]
    groups: tuple[ZoneGroup, ...]
    counts: tuple[int, ...]

    def size(self, group: int) -> int:
        """Endpoints in a group, by index."""
        zones = len(self.zones)
        return sum(self.counts[group * zones : (group + 1) * zones])

    def as_map(self) -> dict[str, dict[str, int]]:
        """``{located: {consumer: count}}`` without zeros; a zone without endpoints has no entry.

        The consumer of a group that several zones share is all their names, with commas between.
        """
        size = len(self.zones)
        rows = {
            located: {
                str(group): self.counts[number * size + row]
                for number, group in enumerate(self.groups)
                if self.counts[number * size + row]
            }
            for row, located in enumerate(self.zones)
        }
        return {located: row for located, row in rows.items() if row}

    def by_zone(self) -> dict[str, dict[str, int]]:
        """The same with an entry for each zone that consumes, alone or with others; an endpoint counts for each."""
        size = len(self.zones)
        found: dict[str, dict[str, int]] = {}
        for number, group in enumerate(self.groups):
            for position, located in enumerate(self.zones):
                count = self.counts[number * size + position]
                for zone in group.zones if count else ():
                    row = found.setdefault(located, {})
                    row[zone] = row.get(zone, 0) + count
        return {located: dict(sorted(found[located].items())) for located in sorted(found)}


def allocate(
    heuristic: Heuristic,
    *,
    zones: tuple[str, ...],
    demand: Sequence[int],
    supply: Sequence[int],
    previous: Sequence[int],
    parameters: Sequence[int],
) -> Allocation | None:
    """Run a heuristic's algorithm over plain lists. None where it finds that no allocation may be made."""
    size = len(zones)
    composition = [0] * (max_groups(size) * size)
    weights = [0.0] * (max_groups(size) * size)
    scratch = [0] * scratch_length(size)
    reals = [0.0] * reals_length(size)
    groups = heuristic.allocate(demand, supply, parameters, previous, composition, weights, scratch, reals)
    if groups == IMPOSSIBLE:
        return None
    return allocation_of(zones, groups, composition, weights)


def threshold_parameters(threshold: Fraction, start_threshold: Fraction) -> tuple[int, int, int, int]:
    """The parameters of an algorithm that keeps below one threshold, and starts below another."""
    return threshold.numerator, threshold.denominator, start_threshold.numerator, start_threshold.denominator


def allocation_of(
    zones: tuple[str, ...], groups: int, composition: Sequence[int], weights: Sequence[float]
) -> Allocation:
    """The arrays that an algorithm wrote, as a value.

    Weights get the digits that slices keep. Empty shared groups are left out; one that a single zone consumes becomes
    part of the zone's own.
    """
    size = len(zones)
    counts = list(composition[: size * size])
    shared: list[tuple[ZoneGroup, Sequence[int]]] = []
    for group in range(size, groups):
        row = composition[group * size : (group + 1) * size]
        if not any(row):
            continue
        rounded = [round(weight, WEIGHT_DIGITS) for weight in weights[group * size : (group + 1) * size]]
        consumers = [zone for zone, weight in enumerate(rounded) if weight > 0]
        if len(consumers) == 1:
            for located, number in enumerate(row):
                counts[consumers[0] * size + located] += number
        else:
            group_zones = tuple(zones[zone] for zone in consumers)
            shared.append((ZoneGroup(group_zones, tuple(rounded[zone] for zone in consumers)), row))
    # In the order in which they are read back from slices, which lose the algorithm's order.
    shared.sort(key=lambda each: each[0].zones)
    return Allocation(
        zones,
        (*map(own_group, zones), *(group for group, _ in shared)),
        (*counts, *(number for _, row in shared for number in row)),
    )
