"""Detects whether the built-in controller still writes slices of a Service that is ours. No clock, no waiting.

The built-in controller answers the deletion of a slice by creating it again: that tells it from everything else. Slices
with its label that exist when we take a Service over belong to the take-over, whatever still happens to them; so do
those that we find after a restart, or when we begin to lead. From the moment at which only our slices exist, any slice
with its label was created since. The first time such slices are found, they are deleted at once: a last sync had begun
before the built-in controller let go, or somebody applied an old manifest. Slices that are found again are left alone
until `GRACE` seconds have passed since the first time, because such a sync may write many slices, and are then deleted
together. If slices come back after that, a controller keeps writing them: the Service is *contested*. Slices whose
deletion failed, by a conflict for example, have not come back. Two finds that lie `MEMORY` seconds apart are unrelated.
Where all Services are ours (``together``), contested Services are proof for others that have such slices, whether or
not they belong to a take-over: one in the same namespace, or some in two namespaces. One namespace proves nothing about
others, because who may write slices there may give them any label.

A slice that its controller created or changed less than `STILL` seconds ago is never deleted. The controller may still
wait for the answer to that write; if the slice were gone before, it would wait for ever, and write nothing for this
Service until it is restarted. Where such changes go on for `GRACE` seconds without a pause, they are proof enough.

We write nothing for a contested Service, except that we delete our slices once those of the built-in controller list
every ready endpoint that ours list: no ready endpoint is ever left without a slice. The Service is ours again

- at once, where the other slices are gone and there are endpoints to list;
- where its slices have been wrong for `QUIET` seconds, and the built-in controller has changed none of them for as
  long. Then it is gone for all of them, except for those of a namespace in which such slices changed; where they
  changed in two namespaces, it still runs. A mistake costs one more contest, and twice that time at the next one in
  this namespace;
- when we are restarted, or begin to lead: then the Service is judged afresh.

As long as nothing changes in a cluster, nobody can tell whether a controller is running. An operator who has switched
it off and does not want to wait for a change restarts us.

A controller that writes with our own label is not detected, such as the built-in controller where our slices carry its
label (``--compat=upstream``, ``--keep-built-in-label``): nothing is contested then. Slices of the mirroring controller
belong to Services without a selector.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from typing import Final

from zoneward.client.backoff import Backoff
from zoneward.kube.names import BUILT_IN_MANAGER, MANAGED_BY_LABEL
from zoneward.kube.objects import EndpointSlice, ObjectKey, is_ready
from zoneward.routing.configuration import Configuration
from zoneward.slices.plan import ServicePlan
from zoneward.slices.ports import port_key

STILL: Final = 1.0
GRACE: Final = 3.0
MEMORY: Final = 600.0
QUIET: Final = 30.0
_LONGEST_QUIET: Final = 3600.0
"""Seconds, all of them."""


class ConflictVerdict(Enum):
    """What to do about slices of the built-in controller of a Service that is ours."""

    DELETE = auto()
    WAIT = auto()
    """Leave them alone for now: the Service is rechecked later."""
    YIELD = auto()
    """The Service is contested: leave it to the built-in controller."""


@dataclass(slots=True)
class _ReappearedSlices:
    """When slices were found that were created since, first and last, and how often they were deleted."""

    first: float
    last: float
    deletions: int = 0


class ConflictDetector:
    """What was found of each Service. Every method takes ``now`` in seconds, which never goes back."""

    def __init__(self, *, together: bool, still: float = STILL, grace: float = GRACE, quiet: float = QUIET) -> None:
        self._together, self._still, self._grace = together, still, grace
        self._backoff = Backoff(initial=quiet, cap=_LONGEST_QUIET)
        self.contested: Final[set[ObjectKey]] = set()
        """Never replaced; callers keep a reference."""
        self._contested_in: Counter[str] = Counter()
        """The number of contested Services by namespace."""
        self._taken_over: set[ObjectKey] = set()
        self._reappeared: dict[ObjectKey, _ReappearedSlices] = {}
        self._wrong_since: dict[ObjectKey, float] = {}
        """Contested Services whose slices are wrong, and since when."""
        self._last_change: dict[ObjectKey, float] = {}
        """When the built-in controller last changed slices of a contested Service."""
        self._recent_changes: dict[ObjectKey, float] = {}
        """The same for every Service, the oldest first, in the last `GRACE` seconds."""
        self._changing_since: dict[ObjectKey, float] = {}
        """Since when its slices have kept changing while we wanted to delete them."""
        self._recheck_at: dict[ObjectKey, float] = {}
        self._reclaimed: set[ObjectKey] = set()
        """Services that are ours again: other contested Services prove nothing about them."""
        self._last_sign_of_life: dict[str, float] = {}
        """By namespace, of its contested Services."""
        self._reclaims: dict[str, tuple[int, float]] = {}
        """By namespace, how often Services were reclaimed lately, and when last."""

    def __len__(self) -> int:
        """The number of Services of which anything is kept."""
        return len(
            self._taken_over | self._reappeared.keys() | self._recent_changes.keys() | self.contested | self._reclaimed
        )

    # --- Services that are ours ---------------------------------------------------------------------------------------

    def taken_over(self, key: ObjectKey) -> None:
        """Our slices of a Service are written, and those of the built-in controller are deleted."""
        self._taken_over.add(key)

    def found_slices(self, key: ObjectKey, *, now: float) -> ConflictVerdict:
        """A Service that is ours has slices of the built-in controller."""
        if self._together and key not in self._reclaimed and self._is_proven(key[0]):
            return self._contest(key, now)
        changed = self._recent_changes.get(key, -inf)
        if now - changed < self._still:
            if changed - self._changing_since.setdefault(key, changed) >= self._grace:
                return self._contest(key, now)
            self._recheck_at[key] = changed + self._still
            return ConflictVerdict.WAIT
        # It was quiet for long enough, and what follows is another series of changes.
        self._changing_since.pop(key, None)
        if key not in self._taken_over:
            return ConflictVerdict.DELETE
        finds = self._reappeared.get(key)
        if finds is None or now - finds.last > MEMORY:
            finds = self._reappeared[key] = _ReappearedSlices(now, now)
        finds.last = now
        if finds.deletions > 1:
            return self._contest(key, now)
        if finds.deletions and now - finds.first < self._grace:
            self._recheck_at[key] = finds.first + self._grace
            return ConflictVerdict.WAIT
        finds.deletions += 1
        # Until their deletion is known, slices that exist have not come back.
        self._taken_over.discard(key)
        return ConflictVerdict.DELETE

    def _is_proven(self, namespace: str) -> bool:
        """Whether contested Services prove that the built-in controller writes slices of this namespace."""
        return namespace in self._contested_in or len(self._contested_in) > 1

    def _contest(self, key: ObjectKey, now: float) -> ConflictVerdict:
        self._taken_over.discard(key)
        self._reclaimed.discard(key)
        self._recheck_at.pop(key, None)
        self._changing_since.pop(key, None)
        if key not in self.contested:
            self.contested.add(key)
            self._contested_in[key[0]] += 1
        self.sign_of_life(key, now=now)
        return ConflictVerdict.YIELD

    # --- Services that are contested ----------------------------------------------------------------------------------

    def sign_of_life(self, key: ObjectKey, *, now: float) -> None:
        """The built-in controller created or changed a slice: see `is_sign_of_life`."""
        self._recent_changes.pop(key, None)
        self._recent_changes[key] = now
        if key in self.contested:
            self._last_sign_of_life[key[0]] = self._last_change[key] = now

    def check_recovery(self, key: ObjectKey, *, is_current: bool, now: float) -> list[ObjectKey]:
        """``is_current``: the slices of a contested Service are right. Returns the Services that can be ours again."""
        if is_current:
            self._wrong_since.pop(key, None)
            self._recheck_at.pop(key, None)
            return []
        over = max(self._wrong_since.setdefault(key, now), self._last_change[key]) + self._quiet(key[0])
        if now < over:
            self._recheck_at[key] = over
            return []
        alive = {
            namespace for namespace, last in self._last_sign_of_life.items() if now < last + self._quiet(namespace)
        }
        if len(alive) > 1:
            return [key]
        return sorted(each for each in self.contested if each == key or each[0] not in alive)

    def reclaim(self, keys: Collection[ObjectKey], *, now: float) -> None:
        """These Services are ours again; slices that are found next are not the first."""
        for key in keys:
            self._uncontest(key)
            self._reclaimed.add(key)
            for each in (self._wrong_since, self._last_change, self._recheck_at):
                each.pop(key, None)
            if key in self._reappeared:
                self._reappeared[key].last = now
        for namespace in {each[0] for each in keys}:
            reclaims, last = self._reclaims.get(namespace, (0, -inf))
            self._reclaims[namespace] = reclaims + 1 if now - last < _LONGEST_QUIET else 1, now

    def _uncontest(self, key: ObjectKey) -> None:
        if key in self.contested:
            self.contested.discard(key)
            self._contested_in[key[0]] -= 1
            if not self._contested_in[key[0]]:
                del self._contested_in[key[0]]
                self._last_sign_of_life.pop(key[0], None)

    def _quiet(self, namespace: str) -> float:
        """Seconds without a sign of life after which Services are reclaimed."""
        reclaims, _ = self._reclaims.get(namespace, (0, -inf))
        return self._backoff.delay(reclaims + 1)

    # --- both ---------------------------------------------------------------------------------------------------------

    def due_rechecks(self, *, now: float) -> list[ObjectKey]:
        """Services that have to be reconciled again now."""
        while self._recent_changes and now - next(iter(self._recent_changes.values())) > self._grace:
            del self._recent_changes[next(iter(self._recent_changes))]
        keys = [key for key, at in self._recheck_at.items() if at <= now]
        for key in keys:
            del self._recheck_at[key]
        return keys

    def forget(self, key: ObjectKey) -> None:
        """A Service is gone, or is not ours."""
        self._uncontest(key)
        for keys in (self._taken_over, self._reclaimed):
            keys.discard(key)
        self._reappeared.pop(key, None)
        for each in (
            self._wrong_since,
            self._last_change,
            self._recent_changes,
            self._recheck_at,
            self._changing_since,
        ):
            each.pop(key, None)

    def clear(self) -> None:
        """Another replica leads from now on."""
        for key in {*self._taken_over, *self._reappeared, *self._recent_changes, *self.contested, *self._reclaimed}:
            self.forget(key)
        self._reclaims.clear()


# --- what slices say --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ContestedSlices:
    """The slices of the built-in controller of a contested Service.

    ``is_gone``: there are none, though there are endpoints to list. ``is_current``: they list exactly the ready
    endpoints. ``doubles`` are our slices, where they list no ready endpoint that the others lack.
    """

    is_gone: bool
    is_current: bool
    doubles: tuple[EndpointSlice, ...]


def slices_of_contested(
    plan: ServicePlan, slices: Iterable[EndpointSlice], *, configuration: Configuration
) -> ContestedSlices:
    """``plan`` is what we would write, ``slices`` are all slices of the Service."""
    own, built_in = [], []
    for each in slices:
        if _manager(each) == configuration.manager:
            own.append(each)
        elif is_built_in(each, configuration):
            built_in.append(each)
    has_ports = bool(plan.service.spec.ports)
    wanted = _ready((each for family in plan.families for each in family.changes.after), has_ports=has_ports)
    listed = _ready(built_in, has_ports=has_ports)
    only_ours = (_ready(own, has_ports=has_ports) & wanted) - listed
    return ContestedSlices(
        is_gone=not built_in and bool(wanted),
        is_current=listed == wanted,
        doubles=() if only_ours else tuple(own),
    )


def is_built_in(slice_: EndpointSlice, configuration: Configuration) -> bool:
    """Whether a slice has the built-in controller's label, and is not being deleted."""
    manager = _manager(slice_)
    return (
        manager == BUILT_IN_MANAGER and manager != configuration.manager and slice_.metadata.deletion_timestamp is None
    )


def is_sign_of_life(old: EndpointSlice | None, new: EndpointSlice | None) -> bool:
    """Whether a change of such a slice is its controller's: not a deletion, nor a new label."""
    if new is None or new.metadata.deletion_timestamp is not None:
        return False
    if old is None or old.metadata.uid != new.metadata.uid:
        return True
    return (old.endpoints, old.ports) != (new.endpoints, new.ports)


def _ready(slices: Iterable[EndpointSlice], *, has_ports: bool) -> set[tuple[str, str, object]]:
    """Family, address and port of the ready endpoints. Where the Service has ports, a slice without ports lists
    none."""
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
