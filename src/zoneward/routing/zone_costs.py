"""What a request costs that leaves its zone: the table by which ``Balanced`` prefers near zones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

COST_UNIT: Final = 1_000_000
"""A cost of 1, as algorithms take it."""


@dataclass(frozen=True, slots=True)
class ZoneCosts:
    """Costs of a request by where it starts and where its endpoint is; 0 within a zone. Only their ratios matter.

    ``pairs`` has (from, to, cost), and wins over the cost between zones of one region, or of different or unknown ones.
    """

    same_region: Fraction = Fraction(1)
    other_region: Fraction = Fraction(1)
    pairs: tuple[tuple[str, str, Fraction], ...] = ()


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
