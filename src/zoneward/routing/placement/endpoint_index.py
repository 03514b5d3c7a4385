"""The endpoints of one Service in one address family, as decisions see them: counted by what makes them alike.

Endpoints that are located in one zone and were in one group are alike to every rule: they lie in one bucket. A decision
asks how many are in each bucket, and for names only where a bucket is split. So it costs as much as there are buckets (zones
by groups), and one endpoint that changes moves from a bucket to another. Proxies see an address once, whoever stands
behind it (Pods on the host's network do): it counts once, and all that have it get the same hint, for it is chance
which of them a proxy reads.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from heapq import nsmallest
from operator import attrgetter
from typing import Final

from zoneward.kube.objects import Endpoint, Identity, is_ready
from zoneward.kube.objects import identity as identity_of
from zoneward.routing.placement.groups import Group

_IDENTITY: Final = attrgetter("identity")
_FEW: Final = 3
"""Names that a rule tells before it only counts."""


class IndexedEndpoint:
    """One endpoint. ``before`` is the group it was in, ``bucket`` where it is counted; None for one that is not."""

    __slots__ = ("before", "bucket", "endpoint", "identity")

    def __init__(self, endpoint: Endpoint, identity: Identity, before: Group | None = None) -> None:
        self.endpoint = endpoint
        self.identity = identity
        self.before = before
        self.bucket: Bucket | None = None

    @property
    def name(self) -> str:
        """The Pod behind it, or its addresses."""
        target = self.endpoint.target_ref
        return target.name if target else ", ".join(self.endpoint.addresses or ("?",))


class Bucket:
    """Endpoints in one ``zone`` (empty: in none) that were in one group, all of them ready or none."""

    __slots__ = ("_first", "_ordered", "before", "members", "nodeless", "ready", "zone")

    def __init__(self, zone: str, before: Group | None, ready: bool) -> None:
        self.zone = zone
        self.before = before
        self.ready = ready
        self.members: set[IndexedEndpoint] = set()
        self.nodeless = 0
        """Of these, how many are on no Node."""
        self._ordered: list[IndexedEndpoint] | None = None
        self._first: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.members)

    def in_order(self) -> list[IndexedEndpoint]:
        """By identity. The list is the bucket's own, kept from the first time it was asked for."""
        if self._ordered is None:
            self._ordered = sorted(self.members, key=_IDENTITY)
        return self._ordered

    def first_names(self) -> tuple[str, ...]:
        """The first few names, kept until one of them goes or an earlier one comes."""
        if self._first is None:
            self._first = tuple(nsmallest(_FEW, (member.name for member in self.members)))
        return self._first

    def add(self, member: IndexedEndpoint) -> None:
        self.members.add(member)
        if not member.endpoint.node_name:
            self.nodeless += 1
        if self._first is not None and (len(self._first) < _FEW or member.name < self._first[-1]):
            self._first = None
        if self._ordered is not None:
            insort(self._ordered, member, key=_IDENTITY)

    def remove(self, member: IndexedEndpoint) -> None:
        self.members.remove(member)
        if not member.endpoint.node_name:
            self.nodeless -= 1
        if self._first is not None and member.name in self._first:
            self._first = None
        ordered = self._ordered
        if ordered is not None:
            position = bisect_left(ordered, member.identity, key=_IDENTITY)
            while ordered[position] is not member:
                position += 1
            del ordered[position]


class EndpointIndex:
    """All endpoints that count. ``apart``: those that share an address are not one (upstream).

    ``twins`` are ready endpoints that share an address with another, by the one that stands for both: the first by
    identity. They are in no bucket. ``members`` gives all in the order in which a decision tells its answers.
    """

    def __init__(self, *, apart: bool = False, members: Callable[[], Iterable[IndexedEndpoint]] | None = None) -> None:
        self.twins: dict[IndexedEndpoint, IndexedEndpoint] = {}
        self.number = 0
        """Of the ready ones, each address once."""
        self.size = 0
        """Of all, ready or not."""
        self.version = 0
        """Another one after every change."""
        self._apart = apart
        self._members = members
        # By the group's id: buckets hold the group, so that it stays what it is.
        self._cells: dict[tuple[str, int, bool], Bucket] = {}
        self._at: dict[str, IndexedEndpoint | list[IndexedEndpoint]] = {}

    def ready(self) -> list[Bucket]:
        """The buckets of ready endpoints, without empty ones."""
        return [bucket for bucket in self._cells.values() if bucket.ready and bucket.members]

    def rest(self) -> list[Bucket]:
        """The buckets of endpoints that are not ready."""
        return [bucket for bucket in self._cells.values() if not bucket.ready and bucket.members]

    def previous_groups(self) -> Iterator[Group]:
        """Every group that some endpoint was in, some of them more than once."""
        for bucket in self._cells.values():
            if bucket.before is not None and bucket.members:
                yield bucket.before
        for twin in self.twins:
            if twin.before is not None:
                yield twin.before

    def zones(self) -> set[str]:
        """Every zone that an endpoint is in."""
        found = {bucket.zone for bucket in self._cells.values() if bucket.members}
        found.update(twin.endpoint.zone or "" for twin in self.twins)
        return found - {""}

    def in_order(self) -> Iterable[IndexedEndpoint]:
        """All members, in the order in which a decision tells its answers."""
        return self._members() if self._members is not None else ()

    # --- changes ------------------------------------------------------------------------------------------------------

    def add(self, member: IndexedEndpoint) -> None:
        self.version += 1
        self.size += 1
        ready = is_ready(member.endpoint)
        if ready:
            if not self._apart:
                there = self._at.setdefault(_address(member), member)
                if there is not member:
                    self._share(member, there if isinstance(there, list) else [there])
                    return
            self.number += 1
        self._enter(member, ready)

    def remove(self, member: IndexedEndpoint) -> None:
        self.version += 1
        self.size -= 1
        if not is_ready(member.endpoint):
            self._leave(member)
        elif self._apart:
            self.number -= 1
            self._leave(member)
        else:
            self._part(member)

    def _share(self, member: IndexedEndpoint, together: list[IndexedEndpoint]) -> None:
        first = together[0]
        if member.identity < first.identity:
            self._leave(first)
            self._enter(member, True)
            together.insert(0, member)
        else:
            together.append(member)
        self._at[_address(member)] = together
        self._stand_for(together)

    def _part(self, member: IndexedEndpoint) -> None:
        address = _address(member)
        there = self._at[address]
        if not isinstance(there, list):
            del self._at[address]
            self.number -= 1
            self._leave(member)
            return
        self.twins.pop(member, None)
        was_first = there[0] is member
        there.remove(member)
        if was_first:
            self._leave(member)
            there.sort(key=_IDENTITY)
            self.twins.pop(there[0])
            self._enter(there[0], True)
        if len(there) == 1:
            self._at[address] = there[0]
        else:
            self._stand_for(there)

    def _stand_for(self, together: list[IndexedEndpoint]) -> None:
        for twin in together[1:]:
            self.twins[twin] = together[0]

    def _enter(self, member: IndexedEndpoint, ready: bool) -> None:
        zone = member.endpoint.zone or ""
        key = (zone, id(member.before), ready)
        bucket = self._cells.get(key)
        if bucket is None:
            bucket = self._cells[key] = Bucket(zone, member.before, ready)
        member.bucket = bucket
        bucket.add(member)

    def _leave(self, member: IndexedEndpoint) -> None:
        bucket = member.bucket
        assert bucket is not None
        member.bucket = None
        bucket.remove(member)
        if not bucket.members:
            self._cells.pop((bucket.zone, id(bucket.before), bucket.ready))


def index_endpoints(
    endpoints: Iterable[Endpoint], before: Callable[[Identity], Group | None], *, apart: bool = False
) -> EndpointIndex:
    """The endpoint_index of a list of endpoints. ``before`` gives the group that one was in."""
    members = []
    for endpoint in endpoints:
        key = identity_of(endpoint)
        members.append(IndexedEndpoint(endpoint, key, before(key)))
    endpoint_index = EndpointIndex(apart=apart, members=lambda: members)
    for member in members:
        endpoint_index.add(member)
    return endpoint_index


def count_and_first_names(buckets: Iterable[Bucket]) -> tuple[int, tuple[str, ...]]:
    """How many endpoints lie in some buckets, and the first few names."""
    buckets = list(buckets)
    return sum(map(len, buckets)), tuple(nsmallest(_FEW, (name for bucket in buckets for name in bucket.first_names())))


def _address(member: IndexedEndpoint) -> str:
    addresses = member.endpoint.addresses
    return addresses[0] if addresses else ""
