"""Which concrete endpoints serve which zones, moving as few as possible from where they were, and what each of them
gets: the zones that it serves, a hint for its node, a slice group.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

import msgspec

from zoneward.kube.objects import EndpointIdentity
from zoneward.routing.allocation import Allocation, Counts, Zones, allocation_of
from zoneward.routing.endpoint_index import Bucket, EndpointIndex, IndexedEndpoint
from zoneward.routing.zone_groups import EVERY_ZONE, ZoneGroup


class Pool(msgspec.Struct, frozen=True, eq=False):
    """Endpoints that are placed together: those of a bucket, or one of them.

    ``home`` is the zone that they count for, ``previous`` the zones that they served; None for none.
    """

    members: Bucket | IndexedEndpoint
    home: str
    previous: Zones | None

    @property
    def zone(self) -> str:
        """The zone where they are located; empty without one."""
        return self.members.zone if isinstance(self.members, Bucket) else self.members.endpoint.zone or ""

    def __len__(self) -> int:
        return len(self.members) if isinstance(self.members, Bucket) else 1

    def in_order(self) -> Sequence[IndexedEndpoint]:
        return self.members.in_order() if isinstance(self.members, Bucket) else (self.members,)


@dataclass(slots=True)
class Placed:
    """The zones that consume each endpoint: ``consumers`` has those of all endpoints of a bucket, and of endpoints that
    differ from their bucket. ``parts`` counts the endpoints of a pool by their consumers.
    """

    consumers: dict[Bucket | IndexedEndpoint, Zones] = field(default_factory=dict)
    parts: dict[tuple[Pool, Zones], int] = field(default_factory=dict)

    def count_moved(self, zones: Sequence[str], *, starts: bool) -> int:
        """The number of endpoints that serve other zones than before, of these ``zones``.

        One that was in no group served all zones. It counts where the decision ``starts``, and gives it to a group
        without its home; while a decision is in force, it is a new endpoint.
        """
        moved = 0
        for (pool, consumers), size in self.parts.items():
            group = pool.members.previous_group
            if pool.previous is not None:
                differs = consumers != pool.previous
            elif group is None or (starts and group is EVERY_ZONE):
                differs = starts and pool.home not in consumers
            else:
                differs = group is not EVERY_ZONE or len(consumers) < len(zones)
            moved += size if differs else 0
        return moved


def place(pools: Iterable[Pool], allocated: Counts) -> Placed:
    """Place every endpoint.

    ``allocated`` counts the endpoints of each home by their consumers, in the order of an `Allocation`; it adds up to
    the endpoints that have their home there. Endpoints stay where they were as far as it allows. Their identities
    decide which ones leave, and where these go, so that the order of the input does not matter.
    """
    placed = Placed()
    room = dict(allocated)
    unplaced: dict[str, list[Pool]] = {}
    leaving: dict[str, list[tuple[IndexedEndpoint, Pool]]] = {}
    alike: dict[tuple[str, Zones | None], list[Pool]] = {}
    for pool in pools:
        alike.setdefault((pool.home, pool.previous), []).append(pool)
    for (home, previous), same in alike.items():
        count = sum(map(len, same))
        stay = 0 if previous is None else min(count, room.get((previous, home), 0))
        if previous is None or not stay:
            unplaced.setdefault(home, []).extend(same)
            continue
        room[previous, home] -= stay
        for pool in same:
            placed.consumers[pool.members] = previous
            placed.parts[pool, previous] = len(pool)
        for member, pool in _last(same, stay) if stay < count else ():
            placed.parts[pool, previous] -= 1
            leaving.setdefault(home, []).append((member, pool))
    for home in sorted({home for _, home in room} | unplaced.keys()):
        column = {consumers: count for (consumers, zone), count in room.items() if zone == home and count}
        _place_rest(home, column, unplaced.get(home, ()), leaving.get(home, []), placed)
    return placed


def _place_rest(
    home: str,
    column: dict[Zones, int],
    unplaced: Sequence[Pool],
    leaving: list[tuple[IndexedEndpoint, Pool]],
    placed: Placed,
) -> None:
    count = sum(map(len, unplaced)) + len(leaving)
    if sum(column.values()) != count:
        raise ValueError(f"expected room for {count} endpoints of zone {home}, got {sum(column.values())}")
    # Home first: the first by identity stay in their own zone.
    order = sorted(column, key=lambda consumers: consumers != (home,))
    if len(order) == 1:
        for pool in unplaced:
            placed.consumers[pool.members] = order[0]
            placed.parts[pool, order[0]] = len(pool)
        members = leaving
    else:
        members = [(member, pool) for pool in unplaced for member in pool.in_order()] + leaving
        members.sort(key=_identity)
    rooms = (consumers for consumers in order for _ in range(column[consumers]))
    for (member, pool), consumers in zip(members, rooms, strict=False):
        placed.consumers[member] = consumers
        placed.parts[pool, consumers] = placed.parts.get((pool, consumers), 0) + 1


def _last(pools: Sequence[Pool], stay: int) -> list[tuple[IndexedEndpoint, Pool]]:
    """All but the first ``stay`` endpoints by identity, each with its pool."""
    if len(pools) == 1:
        return [(member, pools[0]) for member in pools[0].in_order()[stay:]]
    return sorted(((member, pool) for pool in pools for member in pool.in_order()), key=_identity)[stay:]


def _identity(pair: tuple[IndexedEndpoint, Pool]) -> EndpointIdentity:
    return pair[0].identity


def with_guests_kept(allocation: Allocation, previous: Counts) -> Allocation:
    """An allocation that keeps as many guests as possible in the zone that they served.

    A guest is an endpoint that serves another zone than its home; here each endpoint serves one zone. Each zone keeps
    as many endpoints and guests as before; only the homes of its guests change. No zone both lends
    and borrows endpoints.
    """
    zones = allocation.zones
    lent, lacking = dict.fromkeys(zones, 0), dict.fromkeys(zones, 0)
    counts: dict[tuple[Zones, str], int] = {}
    for (consumers, home), count in allocation.counts.items():
        if consumers == (home,):
            counts[consumers, home] = count
        else:
            lent[home] += count
            lacking[consumers[0]] += count

    def guests(zone: str, home: str) -> int:
        return counts.get(((zone,), home), 0)

    def keep(home: str, most: int, seen: set[str]) -> int:
        """Keep more endpoints of ``home`` where they were. Others make room for them: an augmenting path."""
        for zone in [zone for zone in zones if zone != home and zone not in seen]:
            room = min(most, previous.get(((zone,), home), 0) - guests(zone, home))
            if room <= 0:
                continue
            seen.add(zone)
            stayed = min(room, lacking[zone])
            lacking[zone] -= stayed
            for other in zones if not stayed else ():
                if other == zone or not guests(zone, other):
                    continue
                stayed = keep(other, min(room, guests(zone, other)), seen)
                if stayed:
                    counts[(zone,), other] -= stayed
                    break
            if stayed:
                counts[(zone,), home] = guests(zone, home) + stayed
                return stayed
        return 0

    for home in zones:
        while lent[home] and (stayed := keep(home, lent[home], set())):
            lent[home] -= stayed
    for home in zones:
        for zone in zones:
            moved = min(lent[home], lacking[zone])
            if moved:
                counts[(zone,), home] = guests(zone, home) + moved
                lent[home] -= moved
                lacking[zone] -= moved
    return allocation_of(zones, counts)


# --- targets ----------------------------------------------------------------------------------------------------------


Encoding = Literal["nothing", "hints", "slice-groups"]
"""How slices show targets: by hints, by zone labels, or not at all (all zones consume all endpoints)."""


class Target(msgspec.Struct, frozen=True):
    """What one endpoint gets.

    ``zones`` and ``node`` are its hints; empty and None: it has none. ``group`` is its slice group, None for the slices
    that all zones consume.
    """

    zones: tuple[str, ...] = ()
    node: str | None = None
    group: ZoneGroup | None = None


ALL_ZONES: Final = Target()


@lru_cache(maxsize=4096)
def hint_target(zones: tuple[str, ...], node: str | None = None) -> Target:
    """Equal targets are the same object: thousands of endpoints share a few."""
    return Target(zones=zones, node=node)


@lru_cache(maxsize=4096)
def group_target(group: ZoneGroup | None) -> Target:
    return ALL_ZONES if group is None else Target(group=group)


class Targets:
    """The target of each endpoint.

    ``targets`` has that of all endpoints of a bucket, and that of endpoints that differ from their bucket. With
    ``node_hints`` endpoints that are ready or have hints also have one for their own node (KEP-3015).
    """

    __slots__ = ("encoding", "index", "node_hints", "targets")

    def __init__(
        self,
        index: EndpointIndex,
        encoding: Encoding = "nothing",
        targets: Mapping[Bucket | IndexedEndpoint, Target] | None = None,
        *,
        node_hints: bool = False,
    ) -> None:
        self.index = index
        self.encoding: Encoding = encoding
        self.targets: Mapping[Bucket | IndexedEndpoint, Target] = {} if targets is None else targets
        self.node_hints = node_hints

    def of(self, endpoint: IndexedEndpoint) -> Target:
        """Endpoints that share an address have the target of the first one."""
        if self.index.shared_address:
            endpoint = self.index.shared_address.get(endpoint, endpoint)
        bucket = endpoint.bucket
        target = self.targets.get(endpoint)
        if target is None:
            target = ALL_ZONES if bucket is None else self.targets.get(bucket, ALL_ZONES)
        node = endpoint.endpoint.node_name if self.node_hints else None
        if node and bucket is not None and (bucket.ready or bucket in self.targets):
            return hint_target(target.zones, node)
        return target

    @property
    def values(self) -> tuple[object, ...]:
        """Equal for targets that give the same endpoints the same. They may differ where two say that in two ways."""
        return self.encoding, self.node_hints, self.targets

    def of_bucket(self, bucket: Bucket) -> Target:
        """The target of a bucket, without the node hint."""
        return self.targets.get(bucket, ALL_ZONES)

    def exceptions(self) -> set[IndexedEndpoint]:
        """The endpoints that may have another target than their bucket: those that are placed one by one, and those
        that share an address, because what one of these gets depends on another."""
        shared = self.index.shared_address
        own = (key for key in self.targets if isinstance(key, IndexedEndpoint))
        return {*own, *shared, *shared.values()}

    def count_hinted(self) -> int:
        """The number of endpoints that have hints. It is counted by bucket: a look at each endpoint takes too long."""
        if self.encoding != "hints":
            return 0
        count = 0
        exceptions = self.exceptions()
        for bucket in (*self.index.ready_buckets(), *self.index.unready_buckets()):
            if bucket in self.targets:
                count += len(bucket)
            elif self.node_hints and bucket.ready:
                count += len(bucket) - bucket.without_node
        for endpoint in exceptions:
            own = endpoint.bucket
            is_counted = own is not None and (
                own in self.targets or (self.node_hints and own.ready and bool(endpoint.endpoint.node_name))
            )
            count += (self.of(endpoint) is not ALL_ZONES) - is_counted
        return count
