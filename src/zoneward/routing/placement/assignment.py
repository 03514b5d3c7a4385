"""Which group each endpoint is in, told by buckets and the few that are apart from their bucket."""

from collections.abc import Mapping
from typing import Literal

from zoneward.kube.objects import ForNode, ForZone, Hints
from zoneward.routing.placement.endpoint_index import Bucket, EndpointIndex, IndexedEndpoint
from zoneward.routing.placement.groups import Group

Kind = Literal["nothing", "hints", "groups"]


class Assignment:
    """What a decision says about each endpoint: hints, a slice group, or nothing.

    ``whole`` has the group of all endpoints of a bucket, ``apart`` those that are in another. With ``node_hints`` every
    ready endpoint is also hinted to its own node (KEP-3015).
    """

    def __init__(
        self,
        endpoint_index: EndpointIndex,
        kind: Kind = "nothing",
        *,
        whole: Mapping[Bucket, Group | None] | None = None,
        apart: Mapping[IndexedEndpoint, Group | None] | None = None,
        node_hints: bool = False,
    ) -> None:
        self.kind = kind
        self.whole = {} if whole is None else whole
        self.apart = {} if apart is None else apart
        self.node_hints = node_hints
        self.endpoint_index = endpoint_index
        self._twins = endpoint_index.twins
        self._version = endpoint_index.version
        self._cell_hints: dict[Bucket, Hints | None] = {}
        self._zone_hints: dict[tuple[str, ...], Hints] = {}
        self._node_hints: dict[tuple[tuple[str, ...], str], Hints] = {}

    def group_of(self, member: IndexedEndpoint) -> Group | None:
        """The slice group of an endpoint; None for the slices that all zones consume."""
        member = self._twins.get(member, member)
        if member in self.apart:
            return self.apart[member]
        return self.whole.get(member.bucket) if member.bucket is not None else None

    def hints_of(self, member: IndexedEndpoint) -> Hints | None:
        """The hints of an endpoint."""
        if self.kind != "hints":
            return None
        if self._twins:
            member = self._twins.get(member, member)
        bucket = member.bucket
        if bucket is None or not bucket.ready:
            return None
        group = self.apart.get(member) if self.apart else None
        if group is None:
            if not self.node_hints:
                return self._of_cell(bucket)
            group = self.whole.get(bucket)
        zones = group.zones if group is not None else ()
        node = member.endpoint.node_name if self.node_hints else None
        if node:
            return self._of_node(zones, node)
        return self._of_zones(zones)

    def all_hints(self) -> tuple[Hints | None, ...]:
        """The hints of every endpoint, in order."""
        self._check()
        if self.kind != "hints":
            return (None,) * self.endpoint_index.size
        return tuple(map(self.hints_of, self.endpoint_index.in_order()))

    def all_groups(self) -> tuple[Group | None, ...] | None:
        """The slice group of every endpoint, in order; None where there are no groups at all."""
        self._check()
        return tuple(map(self.group_of, self.endpoint_index.in_order())) if self.kind == "groups" else None

    def _check(self) -> None:
        if self._version != self.endpoint_index.version:
            raise RuntimeError("expected a decision to be asked before its endpoints change, got asked afterwards")

    def _of_cell(self, bucket: Bucket) -> Hints | None:
        if bucket not in self._cell_hints:
            group = self.whole.get(bucket)
            self._cell_hints[bucket] = self._of_zones(group.zones) if group is not None else None
        return self._cell_hints[bucket]

    def _of_zones(self, zones: tuple[str, ...]) -> Hints | None:
        if not zones:
            return None
        found = self._zone_hints.get(zones)
        if found is None:
            found = self._zone_hints[zones] = Hints(for_zones=tuple(map(ForZone, zones)))
        return found

    def _of_node(self, zones: tuple[str, ...], node: str) -> Hints:
        found = self._node_hints.get((zones, node))
        if found is None:
            of_zones = self._of_zones(zones)
            for_zones = of_zones.for_zones if of_zones is not None else None
            found = self._node_hints[zones, node] = Hints(for_zones=for_zones, for_nodes=(ForNode(node),))
        return found
