"""Whether the built-in controller is at work on a Service that is ours, and whether it still is. No clock, no waiting.

It answers the deletion of a slice by making it again, and that tells it from everything else. Slices with its label
that are there when we take a Service over are the take-over, whatever still happens to them; so is what we find after a
restart, or when we begin to lead. From the moment at which our slices are all there is, any with its label was made
since. Found for the first time it is deleted at once: a last sync had begun before the built-in controller let go, or
somebody applied an old manifest. What is found again is left alone until `GRACE` seconds have passed since the first
time, for such a sync may write many slices, and is then deleted together. What comes back after that is made by
somebody who goes on: the Service is *contested*. What was deleted in vain, for a conflict say, has not come back. Two
finds that lie `MEMORY` seconds apart have nothing to do with each other. Where all Services are ours (``together``) one
that is contested is proof enough for others that have such slices, be they a take-over or not.

A slice that its controller made or changed less than `STILL` seconds ago is never deleted: it may still wait for the
answer to that write, and were the slice gone before, it would wait for it for ever, and write nothing for this Service
until it is restarted. Where such signs of life are `GRACE` seconds apart or more, they are proof enough.

Of a contested Service nothing is written but that our slices go, once the others list every ready endpoint that ours
list: a ready endpoint is never left in no slice. It is ours again

- at once, where the others are gone and there are endpoints to be listed;
- where it is not as it ought to be for `QUIET` seconds, and no slice of the built-in controller changed at it for as
  long. Where none changed at any contested Service, it is gone for all of them. A mistake costs one more contest, and
  twice that time at the next one;
- when we are restarted, or begin to lead: then it is looked at from the start.

As long as nothing changes in a cluster nobody can tell whether a controller is there: whoever has switched it off and
does not want to wait for a change restarts us.

Not seen is a rival that writes under our own label, as the built-in controller does where our slices carry its label
(``--compat=upstream``, ``--keep-built-in-label``): nothing is ever contested then. Slices of the mirroring controller
are of Services that nobody selects Pods for.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from typing import Final

from zoneward.client.backoff import Backoff
from zoneward.client.resources import Key
from zoneward.kube.names import BUILT_IN_MANAGER, MANAGED_BY_LABEL
from zoneward.kube.objects import EndpointSlice, is_ready
from zoneward.routing.configuration import Configuration
from zoneward.slices.plan import ServicePlan
from zoneward.slices.ports import port_key

STILL: Final = 1.0
GRACE: Final = 3.0
MEMORY: Final = 600.0
QUIET: Final = 30.0
_LONGEST_QUIET: Final = 3600.0
"""Seconds, all of them."""


class Verdict(Enum):
    """What to do about slices of the built-in controller at a Service that is ours."""

    DELETE = auto()
    WAIT = auto()
    """Leave them alone for now: it will be looked at again."""
    KEEP_OFF = auto()


@dataclass(slots=True)
class _Finds:
    """When slices were found that were made since, first and last, and how often they were deleted."""

    first: float
    last: float
    deletions: int = 0


class Rivals:
    """By Service what was found. Every method takes ``now`` in seconds, which never goes back."""

    def __init__(self, *, together: bool, still: float = STILL, grace: float = GRACE, quiet: float = QUIET) -> None:
        self._together, self._still, self._grace = together, still, grace
        self._backoff = Backoff(initial=quiet, cap=_LONGEST_QUIET)
        self.contested: Final[set[Key]] = set()
        """Always this very set."""
        self._held: set[Key] = set()
        self._finds: dict[Key, _Finds] = {}
        self._behind: dict[Key, float] = {}
        """Contested Services that are not as they ought to be, and since when."""
        self._changed: dict[Key, float] = {}
        """When its slices there last changed."""
        self._recent: dict[Key, float] = {}
        """The same of any Service, the oldest first and only since `GRACE` seconds."""
        self._stirs: dict[Key, float] = {}
        """Since when they have changed again and again while they were in our way."""
        self._looks: dict[Key, float] = {}
        self._trusted: set[Key] = set()
        """Services that were given back: others prove nothing about them."""
        self._alive = self._given_back = -inf
        self._returns = 0
        """How often Services were given back lately."""

    def __len__(self) -> int:
        """Services of which anything is remembered."""
        return len(self._held | self._finds.keys() | self._recent.keys() | self.contested | self._trusted)

    # --- Services that are ours ---------------------------------------------------------------------------------------

    def holds(self, key: Key) -> None:
        """Our slices are written, and those of the built-in controller are deleted."""
        self._held.add(key)

    def found(self, key: Key, *, now: float) -> Verdict:
        """A Service that is ours has slices of the built-in controller."""
        if self._together and self.contested and key not in self._trusted:
            return self._contest(key, now)
        changed = self._recent.get(key, -inf)
        if now - changed < self._still:
            if changed - self._stirs.setdefault(key, changed) >= self._grace:
                return self._contest(key, now)
            self._looks[key] = changed + self._still
            return Verdict.WAIT
        if now - changed > self._grace:
            self._stirs.pop(key, None)
        if key not in self._held:
            return Verdict.DELETE
        finds = self._finds.get(key)
        if finds is None or now - finds.last > MEMORY:
            finds = self._finds[key] = _Finds(now, now)
        finds.last = now
        if finds.deletions > 1:
            return self._contest(key, now)
        if finds.deletions and now - finds.first < self._grace:
            self._looks[key] = finds.first + self._grace
            return Verdict.WAIT
        finds.deletions += 1
        # Until it is known that they are deleted, those that are there have not come back.
        self._held.discard(key)
        return Verdict.DELETE

    def _contest(self, key: Key, now: float) -> Verdict:
        self._held.discard(key)
        self._trusted.discard(key)
        self._looks.pop(key, None)
        self._stirs.pop(key, None)
        self.contested.add(key)
        self.alive(key, now=now)
        return Verdict.KEEP_OFF

    # --- Services that are contested ----------------------------------------------------------------------------------

    def alive(self, key: Key, *, now: float) -> None:
        """A slice of the built-in controller was made, or changed: see `is_sign_of_life`."""
        self._recent.pop(key, None)
        self._recent[key] = now
        if key in self.contested:
            self._alive = self._changed[key] = now

    def looked(self, key: Key, *, is_current: bool, now: float) -> list[Key]:
        """Whether the slices at a contested Service are as they ought to be; which ones can be given back."""
        if is_current:
            self._behind.pop(key, None)
            self._looks.pop(key, None)
            return []
        over = max(self._behind.setdefault(key, now), self._changed[key]) + self._quiet
        if now < over:
            self._looks[key] = over
            return []
        return [key] if now < self._alive + self._quiet else sorted(self.contested)

    def give_back(self, keys: Iterable[Key], *, now: float) -> None:
        """These are ours again; the next find is not the first."""
        for key in keys:
            self.contested.discard(key)
            self._trusted.add(key)
            for each in (self._behind, self._changed, self._looks):
                each.pop(key, None)
            if key in self._finds:
                self._finds[key].last = now
        self._returns = self._returns + 1 if now - self._given_back < _LONGEST_QUIET else 1
        self._given_back = now

    @property
    def _quiet(self) -> float:
        """Seconds without a sign of life after which Services are given back."""
        return self._backoff.delay(self._returns + 1)

    # --- both ---------------------------------------------------------------------------------------------------------

    def due(self, *, now: float) -> list[Key]:
        """Services that have to be looked at again now."""
        while self._recent and now - next(iter(self._recent.values())) > self._grace:
            del self._recent[next(iter(self._recent))]
        keys = [key for key, at in self._looks.items() if at <= now]
        for key in keys:
            del self._looks[key]
        return keys

    def forget(self, key: Key) -> None:
        """A Service is gone, or none of ours."""
        for keys in (self._held, self.contested, self._trusted):
            keys.discard(key)
        self._finds.pop(key, None)
        for each in (self._behind, self._changed, self._recent, self._looks, self._stirs):
            each.pop(key, None)

    def clear(self) -> None:
        """Somebody else leads from now on."""
        for key in {*self._held, *self._finds, *self._recent, *self.contested, *self._trusted}:
            self.forget(key)
        self._alive = self._given_back = -inf
        self._returns = 0


# --- what slices say --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """The slices of the built-in controller at a contested Service.

    ``is_gone``: there are none, and there is something to list. ``is_current``: they list the ready endpoints that
    there are. ``doubles`` are ours, where nothing ready is in them alone.
    """

    is_gone: bool
    is_current: bool
    doubles: tuple[EndpointSlice, ...]


def look(plan: ServicePlan, slices: Iterable[EndpointSlice], *, configuration: Configuration) -> Look:
    """``plan`` is what we would write, ``slices`` all that name the Service."""
    own, theirs = [], []
    for each in slices:
        if _manager(each) == configuration.manager:
            own.append(each)
        elif is_built_in(each, configuration):
            theirs.append(each)
    has_ports = bool(plan.service.spec.ports)
    wanted = _ready((each for family in plan.families for each in family.changes.after), has_ports=has_ports)
    listed = _ready(theirs, has_ports=has_ports)
    only_ours = (_ready(own, has_ports=has_ports) & wanted) - listed
    return Look(
        is_gone=not theirs and bool(wanted),
        is_current=listed == wanted,
        doubles=() if only_ours else tuple(own),
    )


def is_built_in(slice_: EndpointSlice, configuration: Configuration) -> bool:
    """Whether a slice is the built-in controller's, and not about to go."""
    manager = _manager(slice_)
    return (
        manager == BUILT_IN_MANAGER and manager != configuration.manager and slice_.metadata.deletion_timestamp is None
    )


def is_sign_of_life(old: EndpointSlice | None, new: EndpointSlice | None) -> bool:
    """Whether a change of such a slice is one that its controller makes: none that deletes it, or adds a label."""
    if new is None or new.metadata.deletion_timestamp is not None:
        return False
    if old is None or old.metadata.uid != new.metadata.uid:
        return True
    return (old.endpoints, old.ports) != (new.endpoints, new.ports)


def _ready(slices: Iterable[EndpointSlice], *, has_ports: bool) -> set[tuple[str, str, object]]:
    """Family, address and port of all that is ready; a slice without ports lists nobody where the Service has some."""
    return {
        (each.address_type, address, port)
        for each in slices
        if each.metadata.deletion_timestamp is None
        for endpoint in each.endpoints or ()
        if is_ready(endpoint)
        for address in endpoint.addresses or ()
        for port in (port_key(each.ports) if has_ports else (None,))
    }


def _manager(slice_: EndpointSlice) -> str | None:
    return (slice_.metadata.labels or {}).get(MANAGED_BY_LABEL)
