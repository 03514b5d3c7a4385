"""The existing slices of a Service in one address family: who manages them, and where their endpoints were.

A decision starts from what the slices hold: the approach that they were written for, and the group that each endpoint
was in, by the label of its slice or by its hints.
"""

from collections.abc import Collection
from enum import Enum, auto
from typing import Final

from zoneward.kube import names
from zoneward.kube.adoption_marks import manager_of
from zoneward.kube.objects import Endpoint, EndpointIdentity, EndpointSlice, Hints, Service, identity, is_ready
from zoneward.routing.configuration import Configuration
from zoneward.routing.subsetting_decision import BALANCED_GROUPS
from zoneward.routing.zone_groups import EVERY_ZONE, ZoneGroup, group_of_slice, own_group

_REPLACED_MANAGERS: Final = (names.BUILT_IN_MANAGER, names.MANAGER)
"""Where our slices carry the built-in controller's label, they replace the slices that we made under our own."""


class Manager(Enum):
    """Who writes a slice: we, the built-in controller whose slices we replace, or another program."""

    OWN = auto()
    REPLACED = auto()
    OTHER = auto()


def is_owned(slice_: EndpointSlice, service: Service) -> bool:
    """Whether a slice belongs to this very Service: it names no owner, or its owner has the UID of the Service."""
    owners = [owner for owner in slice_.metadata.owner_references or () if owner.controller]
    return not owners or not service.metadata.uid or any(owner.uid == service.metadata.uid for owner in owners)


def approach_of_slice(slice_: EndpointSlice) -> str | None:
    """The approach that a slice was written for, by its annotation."""
    return (slice_.metadata.annotations or {}).get(names.APPROACH_ANNOTATION)


class ExistingSlice:
    """A slice that exists, as it was read once.

    ``is_owned``: it belongs to this very Service. ``previous`` has the group that each endpoint was in, and
    ``identities`` lists the endpoints; both are empty for slices that say nothing about it. ``approach`` is what the
    slice was written for, and counts where ``has_approach``.
    """

    __slots__ = ("approach", "has_approach", "identities", "is_owned", "manager", "previous", "slice")

    def __init__(self, slice_: EndpointSlice, service: Service, configuration: Configuration) -> None:
        label = manager_of(slice_)
        self.slice = slice_
        self.manager = Manager.OTHER
        if label == configuration.manager:
            self.manager = Manager.OWN
        elif label in _REPLACED_MANAGERS:
            self.manager = Manager.REPLACED
        self.is_owned = is_owned(slice_, service)
        # A Service that is being deleted keeps the slices of the built-in controller.
        is_replaced = self.manager is Manager.REPLACED and service.metadata.deletion_timestamp is None
        has_placement = self.is_owned and (self.manager is Manager.OWN or is_replaced)
        self.approach = approach_of_slice(slice_)
        self.has_approach = has_placement and (self.manager is Manager.OWN or self.approach is not None)
        self.identities: tuple[EndpointIdentity, ...] = ()
        self.previous: dict[EndpointIdentity, ZoneGroup] = {}
        if has_placement:
            self.identities = tuple(map(identity, slice_.endpoints or ()))

    def read_groups(self, groups: "_GroupReader") -> None:
        group = groups.of_slice(self.slice) if self.has_approach else None
        for key, endpoint in zip(self.identities, self.slice.endpoints or (), strict=False):
            # Decisions did not place an endpoint that is not ready: its hint is no previous group.
            if group is not None:
                self.previous[key] = group
            elif endpoint.hints is not None and is_ready(endpoint):
                hinted = groups.of_hints(endpoint.hints)
                if hinted is not None:
                    self.previous[key] = hinted


class ExistingSlices:
    """Slices in the order in which they came.

    For a Service that is being deleted we create no slices, so that none may be deleted either: the garbage collector
    deletes all slices with the Service. The built-in controller's slices then count as those of others.
    """

    def __init__(self, service: Service, configuration: Configuration) -> None:
        self._service, self._configuration = service, configuration
        self._slices: dict[str, ExistingSlice] = {}
        self._groups = _GroupReader()

    def set(self, slice_: EndpointSlice) -> ExistingSlice:
        """Add a slice, or replace the one of the same name."""
        existing = ExistingSlice(slice_, self._service, self._configuration)
        existing.read_groups(self._groups)
        self._slices[slice_.metadata.name] = existing
        return existing

    def remove(self, name: str) -> None:
        self._slices.pop(name, None)

    def get(self, name: str) -> ExistingSlice | None:
        return self._slices.get(name)

    def managed_by(self, manager: Manager) -> list[ExistingSlice]:
        return [existing for existing in self._slices.values() if existing.manager is manager]

    @property
    def own(self) -> list[ExistingSlice]:
        return self.managed_by(Manager.OWN)

    @property
    def in_force(self) -> str | None:
        """The approach that all our slices with endpoints were written for; None where they differ."""
        slices = self._slices.values()
        approaches = {existing.approach for existing in slices if existing.has_approach and existing.slice.endpoints}
        return approaches.pop() if len(approaches) == 1 else None

    def previous_groups(self, keys: Collection[EndpointIdentity] | None = None) -> dict[EndpointIdentity, ZoneGroup]:
        """The group that each endpoint was in: of all endpoints, or of some. Our own slices win, then the first by
        name: an endpoint in two slices stays there."""
        groups: dict[EndpointIdentity, ZoneGroup] = {}
        slices = sorted((*self.own, *self.managed_by(Manager.REPLACED)), key=_precedence)
        for existing in reversed(slices):
            previous = existing.previous
            groups.update(previous if keys is None else {key: previous[key] for key in keys if key in previous})
        return groups

    def placed_slices(self) -> list[EndpointSlice]:
        """The slices that show where endpoints were."""
        slices = (*self.managed_by(Manager.REPLACED), *self.own)
        return [existing.slice for existing in slices if existing.identities]

    def replaced_and_others(self) -> tuple[tuple[EndpointSlice, ...], tuple[EndpointSlice, ...]]:
        """The built-in controller's slices that we replace, and slices with another manager."""
        replaced = tuple(existing.slice for existing in self.managed_by(Manager.REPLACED))
        others = tuple(existing.slice for existing in self.managed_by(Manager.OTHER))
        is_deleted = self._service.metadata.deletion_timestamp is not None
        return ((), (*others, *replaced)) if is_deleted else (replaced, others)


def _precedence(existing: ExistingSlice) -> tuple[bool, str]:
    return existing.manager is not Manager.OWN, existing.slice.metadata.name


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

    def of_hints(self, hints: Hints) -> ZoneGroup | None:
        """The group that the hints of an endpoint name."""
        named = hints.for_zones
        if not named:
            return None
        zones = (named[0].name,) if len(named) == 1 else tuple(sorted({zone.name for zone in named}))
        if zones not in self._hinted:
            self._hinted[zones] = own_group(zones[0]) if len(zones) == 1 else ZoneGroup(zones, (1.0,) * len(zones))
        return self._hinted[zones]


def _has_hints(endpoints: Collection[Endpoint] | None) -> bool:
    return any(endpoint.hints is not None for endpoint in endpoints or ())
