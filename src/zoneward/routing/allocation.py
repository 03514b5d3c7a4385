"""Supply and allocation: how many endpoints of each zone serve which zones. Counts only, no endpoint is named."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from zoneward.routing.placement.groups import ZoneGroup

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
