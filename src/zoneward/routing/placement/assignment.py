"""The assignment of endpoints to the zones that consume them: the result of a decision, endpoint by endpoint."""

from collections.abc import Mapping
from typing import Literal

from zoneward.routing.placement.endpoint_index import Bucket, EndpointIndex, IndexedEndpoint
from zoneward.routing.placement.groups import ZoneGroup

AssignmentKind = Literal["nothing", "hints", "groups"]


class Assignment:
    """The group of zones that consume each endpoint.

    ``kind`` says how slices show it: by hints, by slice groups, or not at all (all zones consume all endpoints).
    ``bucket_groups`` has the group of all endpoints of a bucket, ``endpoint_groups`` that of endpoints that differ from
    their bucket. With ``node_hints`` endpoints that are ready or in a group also have a hint for their own node
    (KEP-3015).

    `zoneward.slices.encode` turns it into hints and labels.
    """

    __slots__ = ("bucket_groups", "endpoint_groups", "endpoint_index", "kind", "node_hints")

    def __init__(
        self,
        endpoint_index: EndpointIndex,
        kind: AssignmentKind = "nothing",
        *,
        bucket_groups: Mapping[Bucket, ZoneGroup | None] | None = None,
        endpoint_groups: Mapping[IndexedEndpoint, ZoneGroup | None] | None = None,
        node_hints: bool = False,
    ) -> None:
        self.kind = kind
        self.bucket_groups = {} if bucket_groups is None else bucket_groups
        self.endpoint_groups = {} if endpoint_groups is None else endpoint_groups
        self.node_hints = node_hints
        self.endpoint_index = endpoint_index

    def group_of(self, member: IndexedEndpoint) -> ZoneGroup | None:
        """The slice group of an endpoint; None for the slices that all zones consume."""
        member = self.endpoint_index.shared_address.get(member, member)
        if member in self.endpoint_groups:
            return self.endpoint_groups[member]
        return self.bucket_groups.get(member.bucket) if member.bucket is not None else None

    def special_endpoints(self) -> set[IndexedEndpoint]:
        """The endpoints that their bucket says nothing about: those in another group than their bucket, and those that
        share an address, because what one of these gets depends on another."""
        shared = self.endpoint_index.shared_address
        return {*self.endpoint_groups, *shared, *shared.values()}

    def count_hinted(self) -> int:
        """The number of endpoints that have hints. It is counted by bucket: a look at each endpoint takes too long."""
        if self.kind != "hints":
            return 0
        count, has_unhinted_bucket = 0, False
        for bucket in (*self.endpoint_index.ready_buckets(), *self.endpoint_index.unready_buckets()):
            if self.bucket_groups.get(bucket) is not None:
                count += len(bucket)
            elif self.node_hints and bucket.ready:
                count += len(bucket) - bucket.without_node
            elif bucket.ready:
                has_unhinted_bucket = True
        if has_unhinted_bucket:
            count += sum(
                member.bucket is not None and self.bucket_groups.get(member.bucket) is None
                for member in self.endpoint_groups
            )
        return count + sum(map(self._has_hints, self.endpoint_index.shared_address.values()))

    def _has_hints(self, member: IndexedEndpoint) -> bool:
        bucket = member.bucket
        if bucket is None:
            return False
        group = self.endpoint_groups.get(member) or self.bucket_groups.get(bucket)
        return bool(group is not None and group.zones) or bool(self.node_hints and member.endpoint.node_name)
