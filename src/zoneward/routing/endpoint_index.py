"""The endpoints of one Service in one address family, counted by what makes them alike to a decision.

Endpoints that are in the same zone, and were in the same group before, are alike to every rule: they are in one
`Bucket`. A decision reads how many endpoints each bucket has, and looks at single endpoints only where it splits a
bucket. A decision therefore costs as much as there are buckets (zones times groups), and an endpoint that changes only
moves from one bucket to another.

A proxy sees each address once, even where several Pods have it (Pods on the host's network do). Such an address counts
once, and all its endpoints get the same hint, because nobody knows which of them a proxy reads.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from operator import attrgetter
from typing import Final

from zoneward.kube.objects import Endpoint, EndpointIdentity, is_ready
from zoneward.routing.zone_groups import ZoneGroup

_IDENTITY: Final = attrgetter("identity")
_FIRST_NAMES: Final = 3
"""A rule lists this many names, and only counts the others."""


class IndexedEndpoint:
    """One endpoint in the index.

    ``previous_group`` is the group that it was in, ``bucket`` where it is counted; None for one that shares the address
    of another, or that is not in the index.
    """

    __slots__ = ("bucket", "endpoint", "identity", "previous_group")

    def __init__(self, endpoint: Endpoint, identity: EndpointIdentity, previous_group: ZoneGroup | None = None) -> None:
        self.endpoint = endpoint
        self.identity = identity
        self.previous_group = previous_group
        self.bucket: Bucket | None = None

    @property
    def name(self) -> str:
        """The name of its Pod, or its addresses."""
        target = self.endpoint.target_ref
        return target.name if target else ", ".join(self.endpoint.addresses or ("?",))


class Bucket:
    """Endpoints in one ``zone`` (empty: without a zone) that were in one group. All of them are ready, or none is."""

    __slots__ = ("_first_names", "_ordered", "members", "previous_group", "ready", "without_node", "zone")

    def __init__(self, zone: str, previous_group: ZoneGroup | None, ready: bool) -> None:
        self.zone = zone
        self.previous_group = previous_group
        self.ready = ready
        self.members: set[IndexedEndpoint] = set()
        self.without_node = 0
        """The number of endpoints that are on no Node."""
        self._ordered: list[IndexedEndpoint] | None = None
        self._first_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.members)

    def in_order(self) -> list[IndexedEndpoint]:
        """By identity. The list belongs to the bucket, which keeps it up to date once somebody has asked for it."""
        if self._ordered is None:
            self._ordered = sorted(self.members, key=_IDENTITY)
        return self._ordered

    def first_names(self) -> tuple[str, ...]:
        """The first few names, kept until one of them leaves or an earlier one comes."""
        if self._first_names is None:
            self._first_names = tuple(nsmallest(_FIRST_NAMES, (member.name for member in self.members)))
        return self._first_names

    def add(self, member: IndexedEndpoint) -> None:
        self.members.add(member)
        if not member.endpoint.node_name:
            self.without_node += 1
        first = self._first_names
        if first is not None and (len(first) < _FIRST_NAMES or member.name < first[-1]):
            self._first_names = None
        if self._ordered is not None:
            insort(self._ordered, member, key=_IDENTITY)

    def remove(self, member: IndexedEndpoint) -> None:
        self.members.remove(member)
        if not member.endpoint.node_name:
            self.without_node -= 1
        if self._first_names is not None and member.name in self._first_names:
            self._first_names = None
        ordered = self._ordered
        if ordered is not None:
            position = bisect_left(ordered, member.identity, key=_IDENTITY)
            while ordered[position] is not member:
                position += 1
            del ordered[position]


class EndpointIndex:
    """All endpoints that a decision counts.

    ``merge_addresses``: endpoints that share an address count as one. Upstream counts each of them.
    """

    def __init__(self, *, merge_addresses: bool = True) -> None:
        self.shared_address: dict[IndexedEndpoint, IndexedEndpoint] = {}
        """Ready endpoints that share an address with another, by the one that counts: the first by identity. These are
        in no bucket."""
        self.ready_count = 0
        """The number of ready endpoints, each address once."""
        self.total_count = 0
        """The number of all endpoints, ready or not."""
        self._merge = merge_addresses
        # By the group's id: the bucket holds the group, so that the id stays valid.
        self._buckets: dict[tuple[str, int, bool], Bucket] = {}
        self._by_address: dict[str, IndexedEndpoint | list[IndexedEndpoint]] = {}

    def ready_buckets(self) -> list[Bucket]:
        """The buckets of ready endpoints, without empty ones."""
        return [bucket for bucket in self._buckets.values() if bucket.ready and bucket.members]

    def ready_by_zone(self) -> dict[str, int]:
        """The number of ready endpoints in each zone that has some."""
        counts: dict[str, int] = {}
        for bucket in self.ready_buckets():
            counts[bucket.zone] = counts.get(bucket.zone, 0) + len(bucket)
        return counts

    def unready_buckets(self) -> list[Bucket]:
        """The buckets of endpoints that are not ready, without empty ones."""
        return [bucket for bucket in self._buckets.values() if not bucket.ready and bucket.members]

    def has_ready(self, address: str) -> bool:
        """Whether a ready endpoint has an address, where endpoints that share one count as one."""
        return address in self._by_address

    def previous_groups(self) -> Iterator[ZoneGroup]:
        """Every group that some endpoint was in, some of them more than once."""
        for bucket in self._buckets.values():
            if bucket.previous_group is not None and bucket.members:
                yield bucket.previous_group
        for member in self.shared_address:
            if member.previous_group is not None:
                yield member.previous_group

    def zones(self) -> set[str]:
        """Every zone that has an endpoint."""
        zones = {bucket.zone for bucket in self._buckets.values() if bucket.members}
        zones.update(member.endpoint.zone or "" for member in self.shared_address)
        return zones - {""}

    # --- changes ------------------------------------------------------------------------------------------------------

    def add(self, member: IndexedEndpoint) -> None:
        self.total_count += 1
        ready = is_ready(member.endpoint)
        if ready:
            if self._merge:
                known = self._by_address.setdefault(_address(member), member)
                if known is not member:
                    self._add_to_shared(member, known if isinstance(known, list) else [known])
                    return
            self.ready_count += 1
        self._add_to_bucket(member, ready)

    def remove(self, member: IndexedEndpoint) -> None:
        self.total_count -= 1
        if not is_ready(member.endpoint):
            self._remove_from_bucket(member)
        elif not self._merge:
            self.ready_count -= 1
            self._remove_from_bucket(member)
        else:
            self._remove_ready(member)

    def _add_to_shared(self, member: IndexedEndpoint, sharing: list[IndexedEndpoint]) -> None:
        first = sharing[0]
        if member.identity < first.identity:
            self._remove_from_bucket(first)
            self._add_to_bucket(member, True)
            sharing.insert(0, member)
        else:
            sharing.append(member)
        self._by_address[_address(member)] = sharing
        self._count_first(sharing)

    def _remove_ready(self, member: IndexedEndpoint) -> None:
        address = _address(member)
        sharing = self._by_address[address]
        if not isinstance(sharing, list):
            del self._by_address[address]
            self.ready_count -= 1
            self._remove_from_bucket(member)
            return
        self.shared_address.pop(member, None)
        was_first = sharing[0] is member
        sharing.remove(member)
        if was_first:
            self._remove_from_bucket(member)
            sharing.sort(key=_IDENTITY)
            self.shared_address.pop(sharing[0])
            self._add_to_bucket(sharing[0], True)
        if len(sharing) == 1:
            self._by_address[address] = sharing[0]
        else:
            self._count_first(sharing)

    def _count_first(self, sharing: list[IndexedEndpoint]) -> None:
        for member in sharing[1:]:
            self.shared_address[member] = sharing[0]

    def _add_to_bucket(self, member: IndexedEndpoint, ready: bool) -> None:
        zone = member.endpoint.zone or ""
        key = (zone, id(member.previous_group), ready)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(zone, member.previous_group, ready)
        member.bucket = bucket
        bucket.add(member)

    def _remove_from_bucket(self, member: IndexedEndpoint) -> None:
        bucket = member.bucket
        assert bucket is not None
        member.bucket = None
        bucket.remove(member)
        if not bucket.members:
            self._buckets.pop((bucket.zone, id(bucket.previous_group), bucket.ready))


def count_and_first_names(buckets: Iterable[Bucket]) -> tuple[int, tuple[str, ...]]:
    """How many endpoints some buckets have, and the first few names of these."""
    buckets = list(buckets)
    names = (name for bucket in buckets for name in bucket.first_names())
    return sum(map(len, buckets)), tuple(nsmallest(_FIRST_NAMES, names))


def _address(member: IndexedEndpoint) -> str:
    addresses = member.endpoint.addresses
    return addresses[0] if addresses else ""
