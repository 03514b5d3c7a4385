"""What a request costs that leaves its zone: the table by which ``Balanced`` prefers near zones."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import field

from zoneward.kube.input_error import show
from zoneward.kube.settings import Settings, bounds, exact_number, setting_type, zone_pairs

COST_UNIT: Final = 1_000_000
"""A cost of 1, as algorithms take it."""


_HIGHEST: Final = 10**9
_EXPECTED: Final = "a number from 0 to 1e9"
_Cost = Annotated[Fraction, bounds(_EXPECTED, ge=0, le=_HIGHEST)]


def _parse_pairs(value: object) -> tuple[tuple[str, str, Fraction], ...]:
    return tuple(pair for pair in zone_pairs(value, "zones", _read_cost) if pair[0] != pair[1])


def _read_cost(value: object, start: str, end: str) -> Fraction:
    try:
        cost = exact_number(value)
    except ValueError:
        cost = Fraction(-1)
    if not 0 <= cost <= _HIGHEST:
        raise ValueError(f"{start}.{end}: expected {_EXPECTED}, got {show(value)}")
    if cost and start == end:
        raise ValueError(f"{start}.{end}: expected 0 within a zone, got {show(value)}")
    return cost


if TYPE_CHECKING:
    CostPairs = tuple[tuple[str, str, Fraction], ...]
else:
    CostPairs = setting_type(tuple, _parse_pairs)


class ZoneCosts(Settings, frozen=True):
    """Costs of a request by where it starts and where its endpoint is; 0 within a zone. Only their ratios matter.

    ``pairs`` has (from, to, cost), and wins over the cost between zones of one region, or of different or unknown ones.
    """

    same_region: _Cost = Fraction(1)
    other_region: _Cost = Fraction(1)
    pairs: CostPairs = field(default=(), name="zones")


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
