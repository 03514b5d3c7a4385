"""The allocation: how many endpoints located in one zone another zone consumes."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from zoneward.routing.algorithms.registry import Heuristic
from zoneward.routing.algorithms.results import ALLOCATED, SCRATCH_PER_ZONE


@dataclass(frozen=True, slots=True)
class Allocation:
    """Counts by zone: ``counts[located * n + consumer]`` for n ``zones`` in name order."""

    zones: tuple[str, ...]
    counts: tuple[int, ...]

    def consumed(self, zone: int) -> int:
        """Endpoints that a zone consumes, by index."""
        return sum(self.counts[zone :: len(self.zones)])

    def as_map(self) -> dict[str, dict[str, int]]:
        """``{located: {consumer: count}}`` without zeros; a zone without endpoints has no entry."""
        size = len(self.zones)
        rows = {
            located: {
                consumer: number
                for consumer, number in zip(self.zones, self.counts[row * size : (row + 1) * size], strict=True)
                if number
            }
            for row, located in enumerate(self.zones)
        }
        return {located: row for located, row in rows.items() if row}


def allocate(
    heuristic: Heuristic,
    *,
    zones: tuple[str, ...],
    demand: Sequence[int],
    supply: Sequence[int],
    previous: Sequence[int],
    threshold: Fraction,
    start_threshold: Fraction,
) -> Allocation | None:
    """Run a heuristic's rule over plain lists. None where it finds that no allocation may be made."""
    size = len(zones)
    counts = [0] * (size * size)
    parameters = (threshold.numerator, threshold.denominator, start_threshold.numerator, start_threshold.denominator)
    scratch = [0] * (size * SCRATCH_PER_ZONE)
    result = heuristic.allocate(demand, supply, parameters, previous, counts, scratch)
    return Allocation(zones, tuple(counts)) if result == ALLOCATED else None
