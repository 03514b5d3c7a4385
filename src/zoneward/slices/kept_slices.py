"""The existing slices of one Service in one address family, by who manages them, and which of them list an endpoint."""

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from zoneward.kube import names
from zoneward.kube.objects import EndpointIdentity, EndpointSlice, Service, identity
from zoneward.routing.configuration import Configuration
from zoneward.routing.placement.groups import Group
from zoneward.slices.packing import is_owned
from zoneward.slices.ports import PortKey
from zoneward.slices.previous import KnownGroups, said_of

_REPLACED: Final = (names.BUILT_IN_MANAGER, names.MANAGER)
"""Where our slices carry the built-in controller's label, those we made under our own are in the way."""


class KeptSlice:
    """A slice that exists. ``rank`` numbers slices in the order in which they came.

    ``counts``: it tells where endpoints were, and ``identities`` has them: it is our own or will be replaced, and
    belongs to this very Service. ``says``: what it was written for counts too, and ``group`` is the one that its label
    tells of: it is our own, or was until our label was another one. ``settled`` says of which ports and zones it is
    known to be as it should; None where it is not.
    """

    __slots__ = ("counts", "group", "identities", "rank", "says", "settled", "slice")

    def __init__(self, rank: int, slice_: EndpointSlice) -> None:
        self.rank = rank
        self.slice = slice_
        self.identities: list[EndpointIdentity] = []
        self.group: Group | None = None
        self.counts = self.says = False
        self.settled: tuple[PortKey, tuple[str, ...]] | None = None


class KeptSlices:
    """Slices of one address family: our own, those of the built-in controller, which ours replace, and all others'.

    ``once``: nothing will change, so that no index of what they list is made.

    Where a Service is being deleted nothing new is made, so that nothing may go either: the garbage collector takes
    all slices with it. The built-in controller's are then like all others'.
    """

    def __init__(self, service: Service, configuration: Configuration, *, once: bool = False) -> None:
        self.own: dict[str, KeptSlice] = {}
        self.replaced: dict[str, KeptSlice] = {}
        self.others: dict[str, KeptSlice] = {}
        self.doubled: set[EndpointIdentity] = set()
        """Endpoints that are listed twice, be it in one slice."""
        self.said: Counter[str | None] = Counter()
        """What slices of ours with endpoints were written for, each with the number of slices that say so."""
        self._service = service
        self._replaces = service.metadata.deletion_timestamp is None
        self._manager = configuration.manager
        self._once = once
        # Those that count alone, for they tell where an endpoint was.
        self._listed: dict[EndpointIdentity, KeptSlice | list[KeptSlice]] = {}
        self._known = KnownGroups()

    def of(self, name: str) -> KeptSlice | None:
        return self.own.get(name) or self.replaced.get(name) or self.others.get(name)

    def listing(self, key: EndpointIdentity) -> tuple[KeptSlice, ...]:
        """The slices that list an endpoint."""
        there = self._listed.get(key)
        if there is None:
            return ()
        return tuple(there) if isinstance(there, list) else (there,)

    def placement(self, keys: Iterable[EndpointIdentity] | None = None) -> dict[EndpointIdentity, Group]:
        """The group that each endpoint was in, of those that are listed: of some, or of all."""
        slices: Iterable[KeptSlice]
        if keys is None:
            slices = (*in_order(self.replaced), *in_order(self.own))
        else:
            # Our own slices have the last word.
            own = self.own.keys()
            listing = {each for key in keys for each in self.listing(key)}
            slices = sorted(listing, key=lambda each: (each.slice.metadata.name in own, each.rank))
        found: dict[EndpointIdentity, Group] = {}
        for each in slices:
            if each.counts:
                keys = each.identities
                for number, endpoint in enumerate(each.slice.endpoints or ()):
                    if each.group is not None or endpoint.hints is not None:
                        placed = self._known.of_endpoint(endpoint, each.group)
                        if placed is not None:
                            found[keys[number] if keys else identity(endpoint)] = placed
        return found

    def put(self, slice_: EndpointSlice, rank: int) -> list[EndpointIdentity]:
        """Take a slice in, in place of one of the same name; the endpoints of which it may tell something new."""
        name = slice_.metadata.name
        manager = (slice_.metadata.labels or {}).get(names.MANAGED_BY_LABEL)
        kind = self.own if manager == self._manager else self.others
        if manager in _REPLACED and kind is self.others:
            kind = self.replaced
        each = kind.get(name)
        dropped: list[EndpointIdentity] = []
        if each is None:
            dropped = self.drop(name)
            each = kind[name] = KeptSlice(rank, slice_)
        counts = kind is self.own or (kind is self.replaced and self._replaces)
        told = self._renew(each, slice_, own=kind is self.own, counts=counts and is_owned(slice_, self._service))
        return dropped + told

    def drop(self, name: str) -> list[EndpointIdentity]:
        """Forget a slice; the endpoints that it listed."""
        for kind in (self.own, self.replaced, self.others):
            each = kind.pop(name, None)
            if each is not None:
                if each.counts:
                    self._unlist(each)
                if each.says:
                    self._say(each.slice, -1)
                return each.identities
        return []

    def _renew(self, each: KeptSlice, slice_: EndpointSlice, *, own: bool, counts: bool) -> list[EndpointIdentity]:
        was, before, group = each.slice, each.identities, each.group
        counted = each.counts
        if each.says:
            self._say(was, -1)
        each.says = counts and (own or said_of(slice_) is not None)
        if each.says:
            self._say(slice_, 1)
        each.slice = slice_
        each.counts = counts
        each.group = self._known.of_slice(slice_) if each.says else None
        if self._once:
            return []
        each.identities = [identity(endpoint) for endpoint in slice_.endpoints or ()] if counts else []
        if counted and counts and each.identities == before:
            # The same keys serve the index.
            each.identities = before
            if each.group is group:
                pairs = zip(was.endpoints or (), slice_.endpoints or (), before, strict=True)
                return [key for one, other, key in pairs if one.hints != other.hints]
            return before
        if counted:
            new, each.identities = each.identities, before
            self._unlist(each)
            each.identities = new
        if each.counts:
            self._list(each)
        return [*before, *each.identities]

    def _say(self, slice_: EndpointSlice, number: int) -> None:
        if slice_.endpoints:
            said = said_of(slice_)
            self.said[said] += number
            if not self.said[said]:
                del self.said[said]

    def _list(self, each: KeptSlice) -> None:
        for key in each.identities:
            there = self._listed.get(key)
            if there is None:
                self._listed[key] = each
                continue
            if isinstance(there, list):
                there.append(each)
            else:
                self._listed[key] = [there, each]
            self.doubled.add(key)

    def _unlist(self, each: KeptSlice) -> None:
        for key in each.identities:
            there = self._listed[key]
            if not isinstance(there, list):
                del self._listed[key]
                continue
            there.remove(each)
            if len(there) == 1:
                self._listed[key] = there[0]
                self.doubled.discard(key)


def in_order(slices: dict[str, KeptSlice]) -> list[KeptSlice]:
    """By rank: as they would be given to `zoneward.slices.plan.plan_service`."""
    return sorted(slices.values(), key=attrgetter("rank"))
