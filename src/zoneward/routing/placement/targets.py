"""What each endpoint gets: the zones that it serves, a hint for its node, a slice group."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal

import msgspec

from zoneward.routing.placement.endpoint_index import Bucket, EndpointIndex, IndexedEndpoint
from zoneward.routing.placement.groups import ZoneGroup

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
        endpoint = self.index.shared_address.get(endpoint, endpoint)
        bucket = endpoint.bucket
        target = self.targets.get(endpoint)
        if target is None:
            target = ALL_ZONES if bucket is None else self.targets.get(bucket, ALL_ZONES)
        node = endpoint.endpoint.node_name if self.node_hints else None
        if node and bucket is not None and (bucket.ready or bucket in self.targets):
            return hint_target(target.zones, node)
        return target

    def is_equal(self, other: "Targets") -> bool:
        """Whether both give the same endpoints the same targets. False may be wrong where they say it in two ways."""
        values, others = ((targets.encoding, targets.node_hints, targets.targets) for targets in (self, other))
        return values == others

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
