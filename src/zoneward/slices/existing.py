"""The existing slices of a Service in one address family: who manages them, and where their endpoints were.

A decision starts from what the slices hold: the approach that they were written for, and the group that each endpoint
was in, by the label of its slice or by its hints.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from operator import attrgetter
from typing import Final

from zoneward.kube import names
from zoneward.kube.objects import Endpoint, EndpointIdentity, EndpointSlice, Hints, Service, identity, is_ready
from zoneward.routing.configuration import Configuration
from zoneward.routing.placement.groups import EVERY_ZONE, ZoneGroup, own_group
from zoneward.routing.selection.group_labels import group_of_slice
from zoneward.routing.subsetting_decision import BALANCED_GROUPS
from zoneward.slices.ports import PortKey

_REPLACED_MANAGERS: Final = (names.BUILT_IN_MANAGER, names.MANAGER)
"""Where our slices carry the built-in controller's label, they replace the slices that we made under our own."""

GroupKey = tuple[PortKey, tuple[str, ...]]
"""The ports and the zones (none: all zones) of endpoints that share slices."""


def is_owned(slice_: EndpointSlice, service: Service) -> bool:
    """Whether a slice belongs to this very Service: it names no owner, or its owner has the UID of the Service."""
    owners = [owner for owner in slice_.metadata.owner_references or () if owner.controller]
    return not owners or not service.metadata.uid or any(owner.uid == service.metadata.uid for owner in owners)


def approach_of_slice(slice_: EndpointSlice) -> str | None:
    """The approach that a slice was written for, by its annotation."""
    return (slice_.metadata.annotations or {}).get(names.APPROACH_ANNOTATION)


class ExistingSlice:
    """A slice that exists.

    ``rank`` numbers slices in the order in which they came. ``has_placement``: the slice shows where endpoints were,
    and ``identities`` lists these. It belongs to this very Service, and is our own or will be replaced.
    ``has_approach``: the approach that it was written for counts too, and ``group`` is the group of its label. It is
    our own, or was until our label changed. ``clean`` is set while it is known that nothing in it has to change.
    """

    __slots__ = ("clean", "group", "has_approach", "has_placement", "identities", "rank", "slice")

    def __init__(self, rank: int, slice_: EndpointSlice) -> None:
        self.rank = rank
        self.slice = slice_
        self.identities: list[EndpointIdentity] = []
        self.group: ZoneGroup | None = None
        self.has_placement = self.has_approach = False
        self.clean: GroupKey | None = None


class ExistingSlices:
    """Slices by manager: our ``own``, the built-in controller's, which ours ``replaced``, and those of all ``others``.

    ``indexed``: it keeps an index of the slices that list an endpoint, for slices that change.

    For a Service that is being deleted we create no slices, so that none may be deleted either: the garbage collector
    deletes all slices with the Service. The built-in controller's slices then count as those of others.
    """

    def __init__(self, service: Service, configuration: Configuration, *, indexed: bool = True) -> None:
        self.own: dict[str, ExistingSlice] = {}
        self.replaced: dict[str, ExistingSlice] = {}
        self.others: dict[str, ExistingSlice] = {}
        self.listed_twice: set[EndpointIdentity] = set()
        """Endpoints that are listed more than once, maybe in one slice."""
        self._approaches: Counter[str | None] = Counter()
        """How many of our slices with endpoints were written for each approach."""
        self._service = service
        self._replaces = service.metadata.deletion_timestamp is None
        self._manager = configuration.manager
        self._indexed = indexed
        # Only slices that show where an endpoint was.
        self._by_endpoint: dict[EndpointIdentity, ExistingSlice | list[ExistingSlice]] = {}
        self._groups = _GroupReader()

    @property
    def in_force(self) -> str | None:
        """The approach that all our slices with endpoints were written for; None where they differ."""
        return next(iter(self._approaches)) if len(self._approaches) == 1 else None

    def get(self, name: str) -> ExistingSlice | None:
        return self.own.get(name) or self.replaced.get(name) or self.others.get(name)

    def with_endpoint(self, key: EndpointIdentity) -> tuple[ExistingSlice, ...]:
        """The slices that list an endpoint."""
        found = self._by_endpoint.get(key)
        if found is None:
            return ()
        return tuple(found) if isinstance(found, list) else (found,)

    def previous_groups(self, keys: Iterable[EndpointIdentity] | None = None) -> dict[EndpointIdentity, ZoneGroup]:
        """The group that each endpoint was in: of some endpoints, or of all that are listed."""
        slices: Iterable[ExistingSlice]
        if keys is None:
            slices = (*in_order(self.replaced), *in_order(self.own))
        else:
            # Our own slices come last, and win.
            own = self.own.keys()
            listing = {each for key in keys for each in self.with_endpoint(key)}
            slices = sorted(listing, key=lambda each: (each.slice.metadata.name in own, each.rank))
        found: dict[EndpointIdentity, ZoneGroup] = {}
        for each in slices:
            if each.has_placement:
                keys = each.identities
                for number, endpoint in enumerate(each.slice.endpoints or ()):
                    # Decisions did not place an endpoint that is not ready: its hint is no previous group.
                    if each.group is not None or (endpoint.hints is not None and is_ready(endpoint)):
                        group = self._groups.of_endpoint(endpoint, each.group)
                        if group is not None:
                            found[keys[number] if keys else identity(endpoint)] = group
        return found

    def replaced_and_others(self) -> tuple[tuple[EndpointSlice, ...], tuple[EndpointSlice, ...]]:
        """The built-in controller's slices that ours replace, and those of everybody else."""
        replaced = tuple(each.slice for each in in_order(self.replaced))
        others = tuple(each.slice for each in in_order(self.others))
        return (replaced, others) if self._replaces else ((), (*others, *replaced))

    # --- changes ------------------------------------------------------------------------------------------------------

    def set(self, slice_: EndpointSlice, rank: int) -> list[EndpointIdentity]:
        """Add a slice, or replace the one of the same name. Returns the endpoints whose previous group may change."""
        name = slice_.metadata.name
        manager = (slice_.metadata.labels or {}).get(names.MANAGED_BY_LABEL)
        kind = self.own if manager == self._manager else self.others
        if manager in _REPLACED_MANAGERS and kind is self.others:
            kind = self.replaced
        each = kind.get(name)
        removed: list[EndpointIdentity] = []
        if each is None:
            removed = self.remove(name)
            each = kind[name] = ExistingSlice(rank, slice_)
        is_own = kind is self.own
        has_placement = (is_own or (kind is self.replaced and self._replaces)) and is_owned(slice_, self._service)
        return removed + self._update(each, slice_, is_own=is_own, has_placement=has_placement)

    def remove(self, name: str) -> list[EndpointIdentity]:
        """Remove a slice. Returns the endpoints that it listed."""
        for kind in (self.own, self.replaced, self.others):
            each = kind.pop(name, None)
            if each is not None:
                if each.has_placement:
                    self._remove_from_index(each)
                if each.has_approach:
                    self._count_approach(each.slice, -1)
                return each.identities
        return []

    def _update(
        self, each: ExistingSlice, slice_: EndpointSlice, *, is_own: bool, has_placement: bool
    ) -> list[EndpointIdentity]:
        old, old_identities, old_group, was_indexed = each.slice, each.identities, each.group, each.has_placement
        if each.has_approach:
            self._count_approach(old, -1)
        each.has_approach = has_placement and (is_own or approach_of_slice(slice_) is not None)
        if each.has_approach:
            self._count_approach(slice_, 1)
        each.slice = slice_
        each.has_placement = has_placement
        each.group = self._groups.of_slice(slice_) if each.has_approach else None
        if not self._indexed:
            return []
        identities = [identity(endpoint) for endpoint in slice_.endpoints or ()] if has_placement else []
        if was_indexed and has_placement and identities == old_identities:
            # The identities that are in the index already stay in use.
            if each.group is old_group:
                pairs = zip(old.endpoints or (), slice_.endpoints or (), old_identities, strict=True)
                return [
                    key
                    for one, other, key in pairs
                    if one.hints != other.hints
                    or (one.conditions != other.conditions and is_ready(one) is not is_ready(other))
                ]
            return old_identities
        if was_indexed:
            self._remove_from_index(each)
        each.identities = identities
        if has_placement:
            self._add_to_index(each)
        return [*old_identities, *identities]

    def _count_approach(self, slice_: EndpointSlice, number: int) -> None:
        if slice_.endpoints:
            approach = approach_of_slice(slice_)
            self._approaches[approach] += number
            if not self._approaches[approach]:
                del self._approaches[approach]

    def _add_to_index(self, each: ExistingSlice) -> None:
        for key in each.identities:
            found = self._by_endpoint.get(key)
            if found is None:
                self._by_endpoint[key] = each
                continue
            if isinstance(found, list):
                found.append(each)
            else:
                self._by_endpoint[key] = [found, each]
            self.listed_twice.add(key)

    def _remove_from_index(self, each: ExistingSlice) -> None:
        for key in each.identities:
            found = self._by_endpoint[key]
            if not isinstance(found, list):
                del self._by_endpoint[key]
                continue
            found.remove(each)
            if len(found) == 1:
                self._by_endpoint[key] = found[0]
                self.listed_twice.discard(key)


def in_order(slices: dict[str, ExistingSlice]) -> list[ExistingSlice]:
    """By rank: the order in which they came."""
    return sorted(slices.values(), key=attrgetter("rank"))


class _GroupReader:
    """The groups that slices show, each as one object: thousands of endpoints share a few."""

    __slots__ = ("_hinted", "_labelled")

    def __init__(self) -> None:
        self._hinted: dict[tuple[str, ...], ZoneGroup] = {}
        self._labelled: dict[ZoneGroup, ZoneGroup] = {}

    def of_slice(self, slice_: EndpointSlice) -> ZoneGroup | None:
        """The group of one of our slices by its label; None where only the hints of its endpoints show it."""
        group = group_of_slice(slice_)
        if group is not None:
            return self._labelled.setdefault(group, group)
        if approach_of_slice(slice_) not in BALANCED_GROUPS or _has_hints(slice_.endpoints):
            return None
        return EVERY_ZONE

    def of_endpoint(self, endpoint: Endpoint, group: ZoneGroup | None) -> ZoneGroup | None:
        """The group of an endpoint: that of its slice, or else the one in its hints."""
        if group is not None or endpoint.hints is None:
            return group
        zones = _hinted_zones(endpoint.hints)
        if zones is None:
            return None
        if zones not in self._hinted:
            self._hinted[zones] = own_group(zones[0]) if len(zones) == 1 else ZoneGroup(zones, (1.0,) * len(zones))
        return self._hinted[zones]


def _has_hints(endpoints: Collection[Endpoint] | None) -> bool:
    return any(endpoint.hints is not None for endpoint in endpoints or ())


def _hinted_zones(hints: Hints) -> tuple[str, ...] | None:
    zones = hints.for_zones
    if not zones:
        return None
    return (zones[0].name,) if len(zones) == 1 else tuple(sorted({zone.name for zone in zones}))
