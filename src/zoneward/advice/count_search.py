"""The smallest changes of the numbers of Pods by zone after which a decision is as wanted: more, fewer, or moved ones.

Whether a number of Pods suffices is not monotone: for three zones, ten and twelve Pods may do, and eleven not. Every
size is therefore looked at in order: first the one that evens out loads best, then all others while there are few of
them. For Services that load alone counts for, the first is the best of its size: to give each Pod to the zone with the
highest load makes the highest load as low as it can be. Above `_IN_ORDER`, sizes are doubled and halved; rounding still
matters there, but only for the next few sizes, so that those below the one that is found are looked at, too.

`decide` reads only how many alike endpoints there are. A trial adds and removes the few by which it differs from the
last one, and decides: less than a millisecond, where a whole plan of a thousand Pods takes thirty. What it finds is
verified by the plan of the changed input (`zoneward.advice.fixes`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, combinations_with_replacement
from math import comb, inf
from typing import Final

from zoneward.advice.changed_cluster import ImpossibleChange, ServicePods
from zoneward.advice.service_input import Change, ServiceInput
from zoneward.kube.objects import Pod, Service
from zoneward.routing.decision import Decision
from zoneward.slices.plan import collect_families, decide_family

PodChanges = Mapping[str, int]
"""By how many Pods each zone changes."""
_IN_ORDER: Final = 24
_MANY: Final = 150
"""Placements of one size that are all looked at."""


class CountSearch:
    """For Services with ``pods`` in each zone, of which ``movable`` may leave it (all, if that is None), and Pods that
    may be added in ``zones``.

    ``suffices`` decides; it is called about ``limit`` times for placements beside the first of each size.
    """

    def __init__(
        self,
        *,
        pods: Mapping[str, int],
        zones: Sequence[str],
        demand: Mapping[str, int],
        suffices: Callable[[PodChanges], bool],
        limit: int,
        movable: Mapping[str, int] | None = None,
    ) -> None:
        self.pods: Final = pods
        self._movable = pods if movable is None else movable
        self.zones: Final = tuple(sorted(zones))
        self._demand = demand
        self.suffices: Final = suffices
        self._left = limit

    def more(self, most: int) -> Iterator[PodChanges]:
        """Sufficient changes with additional Pods, the smallest first; those of more than one size only on demand."""
        return self._found(most, gone=0, new=1)

    def fewer(self, most: int) -> Iterator[PodChanges]:
        return self._found(most, gone=1, new=0)

    def moved(self, most: int) -> Iterator[PodChanges]:
        """Sufficient changes that leave the number of Pods as it is, those that move the fewest first."""
        return self._found(most, gone=1, new=1)

    def wherever(self, changes: PodChanges) -> bool:
        """Whether any other placement of as many Pods suffices, too: only the number counts."""
        size = sum(changes.values())
        every = self._all(gone=max(0, -size), new=max(0, size))
        return every is not None and all(self.suffices(changes) for changes in every)

    def spread(self, extra: int) -> list[PodChanges]:
        """Every possible way to spread the Pods and some more evenly: the numbers of any two zones differ by one at
        most.

        Empty where there are too many ways.
        """
        zones = len(self.zones)
        if not zones or any(count and zone not in self.zones for zone, count in self.pods.items()):
            return []
        evenly, rest = divmod(sum(self.pods.values()) + extra, zones)
        if not evenly or comb(zones, rest) > _MANY // 5:
            return []
        ways = []
        for chosen in combinations(self.zones, rest):
            wanted = {zone: evenly + (zone in chosen) for zone in self.zones}
            ways.append(_without_zeros({zone: wanted[zone] - self.pods.get(zone, 0) for zone in self.zones}))
        return [way for way in ways if all(-change <= self._movable.get(zone, 0) for zone, change in way.items())]

    # --- sizes in order -----------------------------------------------------------------------------------------------

    def _found(self, most: int, *, gone: int, new: int) -> Iterator[PodChanges]:
        """``gone`` and ``new`` are 1 where Pods leave their zones and where others are added, else 0."""
        if new and not self.zones:
            return
        for size in range(1, min(most, _IN_ORDER) + 1):
            even = self._evenly(size, gone=gone, new=new)
            if even is not None and self.suffices(even):
                yield even
            for changes in (self._all(gone=size * gone, new=size * new) or ()) if self._left > 0 else ():
                if changes == even:
                    continue
                self._left -= 1
                if self.suffices(changes):
                    yield changes
                if self._left <= 0:
                    break
        if most > _IN_ORDER:
            yield from self._by_halves(most, gone=gone, new=new)

    def _by_halves(self, most: int, *, gone: int, new: int) -> Iterator[PodChanges]:
        def suffices(size: int) -> PodChanges | None:
            changes = self._evenly(size, gone=gone, new=new)
            return changes if changes is not None and self.suffices(changes) else None

        low, high, smallest = _IN_ORDER, _IN_ORDER * 2, None
        while smallest is None and low < most:
            high = min(high, most)
            smallest = suffices(high)
            if smallest is None:
                low, high = high, high * 2
        if smallest is None:
            return
        while high - low > 1:
            middle = (low + high) // 2
            changes = suffices(middle)
            if changes is None:
                low = middle
            else:
                high, smallest = middle, changes
        size = high - 1
        while size > max(_IN_ORDER, high - 1 - 2 * len(self.zones)):
            changes = suffices(size)
            if changes is not None:
                high, smallest = size, changes
            size -= 1
        yield smallest

    # --- placements of one size ---------------------------------------------------------------------------------------

    def _evenly(self, size: int, *, gone: int, new: int) -> PodChanges | None:
        """The placement that evens out loads best; None where fewer Pods can leave their zones."""
        pods = dict(self.pods)
        for _ in range(size):
            if gone:
                giver = self._least_needy(pods)
                if giver is None:
                    return None
                pods[giver] -= 1
            if new:
                zone = self._neediest(pods)
                pods[zone] = pods.get(zone, 0) + 1
        changes = _without_zeros({zone: count - self.pods.get(zone, 0) for zone, count in pods.items()})
        return changes if sum(map(abs, changes.values())) == (gone + new) * size else None

    def _all(self, *, gone: int, new: int) -> Iterator[PodChanges] | None:
        """All placements with ``gone`` Pods that leave their zones and ``new`` ones; None where there are too many."""
        less = _choices([zone for zone, count in sorted(self.pods.items()) if count], -gone)
        more = _choices(self.zones, new)
        if less is None or more is None:
            return None
        if gone and gone >= sum(self.pods.values()):
            return iter(())
        return (
            _without_zeros(removed | added)
            for removed in less
            if all(-change <= self._movable.get(zone, 0) for zone, change in removed.items())
            for added in more
            if removed.keys().isdisjoint(added)
        )

    def _neediest(self, pods: Mapping[str, int]) -> str:
        """Where a Pod more takes most of the highest load: the zone with the most demand for each Pod."""

        def load(zone: str) -> tuple[float, float]:
            demand, count = self._demand.get(zone, 0), pods.get(zone, 0)
            return (demand / count if count else (inf if demand else 0.0), demand)

        return max(self.zones, key=load)

    def _least_needy(self, pods: Mapping[str, int]) -> str | None:
        """Where a Pod less adds least to the highest load; None where only one Pod is left, or none may leave."""
        if sum(pods.values()) <= 1:
            return None

        def load(zone: str) -> float:
            demand, count = self._demand.get(zone, 0), pods[zone] - 1
            return demand / count if count else (inf if demand else 0.0)

        leaving = {zone: self.pods.get(zone, 0) - pods[zone] for zone in sorted(pods) if pods[zone]}
        movable = (zone for zone, count in leaving.items() if count < self._movable.get(zone, 0))
        return min(movable, key=load, default=None)


def _choices(zones: Sequence[str], change: int) -> list[dict[str, int]] | None:
    """All ways to divide a change among zones; None where there are too many, or no zone."""
    size, one = abs(change), -1 if change < 0 else 1
    if not size:
        return [{}]
    if not zones or comb(size + len(zones) - 1, size) > _MANY:
        return None
    ways = map(Counter, combinations_with_replacement(zones, size))
    return [{zone: one * count for zone, count in way.items()} for way in ways]


def _without_zeros(changes: Mapping[str, int]) -> PodChanges:
    return {zone: change for zone, change in sorted(changes.items()) if change}


# --- decisions about other numbers of Pods ----------------------------------------------------------------------------


class Trials:
    """Decisions about one address family of a Service that is managed."""

    def __init__(self, given: ServiceInput, address_type: str) -> None:
        self._given = given
        self._address_type = address_type
        self.replicas: Final = given.replicas(address_type)
        by_name = {slice_.metadata.name: slice_ for slice_ in given.slices}
        collected = collect_families(
            given.service, pods=given.pods, slices=by_name.values(), cluster_state=given.cluster_state
        )
        (self._endpoints,) = (family for family in collected.endpoints if family.address_type == address_type)
        self._existing = collected.existing[address_type]
        self._previous_groups = self._existing.previous_groups().get
        self._more: dict[str, Sequence[Pod]] = {}
        """Pods to add, by zone."""
        self._changes: dict[str, int] = {}
        """The changes that the endpoints have now."""

    def decide(self, pods: PodChanges, *, service: Service | None = None) -> Decision:
        """The decision after changing the number of Pods by zone. Raises ImpossibleChange.

        Its targets are of no use after the next trial.
        """
        if not isinstance(self.replicas, ServicePods):
            changed = self._given.changed(Change(pods=pods), address_type=self._address_type)
            family = changed.family(self._address_type)
            assert family is not None
            return family.decision
        self._change_to(pods)
        return decide_family(service or self._given.service, self._endpoints, self._existing, self._given.cluster_state)

    def _change_to(self, changes: PodChanges) -> None:
        assert isinstance(self.replicas, ServicePods)
        most = max(changes.values(), default=0)
        if most > 0 and any(
            len(self._more.get(zone, ())) < change for zone, change in changes.items() if zone in self.replicas.zones
        ):
            for zone in self._changes:
                self._set(zone, min(0, self._changes[zone]))
            self._make_more(max(16, 2 * most))
        # Raises before anything changes.
        for zone, change in changes.items():
            if change > len(self._more.get(zone, ())):
                raise ImpossibleChange(f"expected a zone with a ready Node, got {zone!r}")
            self.replicas.removed(zone, -change)
        for zone in {**self._changes, **changes}:
            self._set(zone, changes.get(zone, 0))

    def _set(self, zone: str, change: int) -> None:
        assert isinstance(self.replicas, ServicePods)
        now, endpoints = self._changes.get(zone, 0), self._endpoints
        more = self._more.get(zone, ())
        less = self.replicas.removed(zone, max(-now, -change, 0))
        for pod in (*more[max(0, change) : max(0, now)], *less[max(0, -now) : max(0, -change)]):
            endpoints.remove_pod(pod, endpoints.find(pod))
        for pod in (*more[max(0, now) : max(0, change)], *less[max(0, -change) : max(0, -now)]):
            endpoints.add_pod(pod, self._previous_groups)
        self._changes[zone] = change

    def _make_more(self, count: int) -> None:
        """Pods for all trials, ``count`` for each zone, with unused names and addresses."""
        assert isinstance(self.replicas, ServicePods)
        zones = sorted(self.replicas.zones)
        new = self.replicas.changed(dict.fromkeys(zones, count))[len(self._given.pods) :]
        self._more = {zone: new[index * count :][:count] for index, zone in enumerate(zones)}
