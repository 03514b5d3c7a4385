"""How many endpoints and slices there are in all, without ever counting them all: each sync takes out what its Service
counted before, and puts in what it counts now. As upstream's ``metrics/cache.go``, but by Service and address family:
upstream's dual-stack Services count with one of their families alone."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from zoneward.controller.metric_labels import HintedBy, TrafficDistribution
from zoneward.kube.objects import ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyCount:
    """One address family of a Service. ``desired_slices`` are as many as there would be if all were full."""

    endpoints: int = 0
    slices: int = 0
    desired_slices: int = 0
    hinted: int = 0
    hinted_by: HintedBy | None = None


NOTHING: Final = FamilyCount()


def family_count(
    groups: Iterable[tuple[int, int]], *, max_endpoints: int, hinted: int = 0, hinted_by: HintedBy | None = None
) -> FamilyCount:
    """Count a family by its groups of slices: (endpoints, slices) of those with the same ports for the same zones.

    A family without endpoints should have one slice: the placeholder.
    """
    endpoints = slices = desired = 0
    for there, held in groups:
        endpoints += there
        slices += held
        desired += -(-there // max_endpoints)
    return FamilyCount(
        endpoints=endpoints, slices=slices, desired_slices=desired or 1, hinted=hinted, hinted_by=hinted_by
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    families: tuple[FamilyCount, ...]
    traffic_distribution: TrafficDistribution | None


class Accounts:
    """The totals of all Services. A change costs the families of its Service."""

    def __init__(self) -> None:
        self.endpoints = self.slices = self.desired_slices = 0
        self.hinted: Final[Counter[HintedBy]] = Counter()
        self.by_traffic_distribution: Final[Counter[TrafficDistribution]] = Counter()
        self._entries: dict[ObjectKey, _Entry] = {}

    def put(
        self,
        service: ObjectKey,
        families: Mapping[str, FamilyCount],
        *,
        traffic_distribution: TrafficDistribution | None = None,
    ) -> None:
        """What a Service counts now, in place of what it did. ``families`` is by address type."""
        entry = _Entry(tuple(families.values()), traffic_distribution)
        self._add(self._entries.get(service), -1)
        self._entries[service] = entry
        self._add(entry, 1)

    def drop(self, service: ObjectKey) -> None:
        """A Service is gone, or is no longer ours. One that never counted is no fault."""
        self._add(self._entries.pop(service, None), -1)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._entries)

    def _add(self, entry: _Entry | None, sign: int) -> None:
        if entry is None:
            return
        for family in entry.families:
            self.endpoints += sign * family.endpoints
            self.slices += sign * family.slices
            self.desired_slices += sign * family.desired_slices
            if family.hinted_by is not None:
                self.hinted[family.hinted_by] += sign * family.hinted
        if entry.traffic_distribution is not None:
            self.by_traffic_distribution[entry.traffic_distribution] += sign
