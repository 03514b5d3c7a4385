"""Detects whether the built-in controller still writes slices of a Service that Zoneward manages. No clock, no waiting.

The built-in controller recreates a slice that was deleted; nothing else does. Its slices that exist when Zoneward takes
a Service over, starts, or begins to lead belong to the take-over. Once only Zoneward's slices exist, any slice with the
built-in label was created since. The first time, Zoneward deletes such slices: a last sync may have ended late, or
somebody applied an old manifest. The second time within `MEMORY` seconds the Service is *contested*.

Zoneward never deletes a slice that its controller created or changed less than `STILL` seconds ago. That controller may
still wait for the answer to its write; if the slice were gone before, it would wait forever and write nothing for this
Service until it is restarted. If such changes continue without a pause for `GRACE` seconds, the Service is contested.

Zoneward writes nothing for a contested Service, except that it deletes its own slices once those of the built-in
controller list every ready endpoint that Zoneward's list: no ready endpoint is ever without a slice. It takes the
Service over again

- at once, if the other slices are gone and there are endpoints to list;
- if the other slices have been wrong for `RETRY` seconds, in which the built-in controller changed none of them. Each
  further contest doubles this time, up to an hour;
- when it is restarted, or begins to lead.

While nothing changes in a cluster, there is no sign whether a controller is running.

A controller that writes under Zoneward's own label is not detected, such as the built-in controller where Zoneward's
slices have its label (``--compat=upstream``, ``--keep-built-in-label``). Slices of the mirroring controller belong to
Services without a selector.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from typing import Final

from zoneward.client.backoff import Backoff
from zoneward.kube.adoption_marks import manager_of
from zoneward.kube.names import BUILT_IN_MANAGER
from zoneward.kube.objects import EndpointSlice, ObjectKey, ServiceEvent, is_ready
from zoneward.routing.configuration import Configuration
from zoneward.slices.endpoints import port_key
from zoneward.slices.plan import ServicePlan

STILL: Final = 1.0
GRACE: Final = 3.0
MEMORY: Final = 600.0
RETRY: Final = 30.0
_LONGEST_RETRY: Final = 3600.0
"""Seconds, all of them."""
CONTESTED: Final = ServiceEvent(
    "Warning",
    "EndpointSlicesContested",
    "The built-in EndpointSlice controller writes slices of this Service too; Zoneward backs off until those writes"
    " stop",
)


class ConflictVerdict(Enum):
    """What to do with slices of the built-in controller of a Service that Zoneward manages."""

    DELETE = auto()
    WAIT = auto()
    """Do not modify them now: the Service is rechecked later."""
    YIELD = auto()
    """The Service is contested: leave it to the built-in controller."""


@dataclass(slots=True)
class _BuiltInWrites:
    """What is known of the built-in controller's writes of one Service, in seconds.

    ``changing_since``: when the changes without a pause began. ``recreations``: how often slices were recreated,
    the last time at ``recreated_at``.
    """

    changed_at: float = -inf
    changing_since: float | None = None
    recreations: int = 0
    recreated_at: float = -inf
    recheck_at: float = inf


class ConflictDetector:
    """The state of each Service: managed or contested. Every method takes ``now`` in seconds, which never decreases."""

    def __init__(self, *, still: float = STILL, grace: float = GRACE, retry: float = RETRY) -> None:
        self._still, self._grace = still, grace
        self._backoff = Backoff(initial=retry, cap=_LONGEST_RETRY)
        self.contested: Final[set[ObjectKey]] = set()
        """Never replaced; callers keep a reference."""
        self._taken_over: set[ObjectKey] = set()
        """Services that had only Zoneward's slices when they were last synced."""
        self._writes: dict[ObjectKey, _BuiltInWrites] = {}

    def __len__(self) -> int:
        """The number of Services that are remembered."""
        return len(self._taken_over | self._writes.keys() | self.contested)

    def taken_over(self, key: ObjectKey) -> None:
        """Zoneward's slices of a Service are written, and those of the built-in controller are deleted."""
        self._taken_over.add(key)
        if writes := self._writes.get(key):
            writes.changing_since, writes.recheck_at = None, inf

    def slice_changed(self, key: ObjectKey, *, now: float) -> None:
        """The built-in controller created or changed a slice: see `is_built_in_write`."""
        writes = self._writes.setdefault(key, _BuiltInWrites())
        writes.changed_at = now
        if key in self.contested:
            writes.recheck_at = inf

    def verdict(self, key: ObjectKey, *, now: float) -> ConflictVerdict:
        """What to do with slices of the built-in controller, which a managed Service has."""
        writes = self._writes.setdefault(key, _BuiltInWrites())
        if now - writes.changed_at < self._still:
            if writes.changing_since is None:
                writes.changing_since = writes.changed_at
            if writes.changed_at - writes.changing_since >= self._grace:
                return self._contest(key, writes, now)
            writes.recheck_at = writes.changed_at + self._still
            return ConflictVerdict.WAIT
        writes.changing_since, writes.recheck_at = None, inf
        if key in self._taken_over:
            if now - writes.recreated_at > MEMORY:
                writes.recreations = 0
            if writes.recreations:
                return self._contest(key, writes, now)
            writes.recreations, writes.recreated_at = 1, now
            # Slices whose deletion fails were not recreated.
            self._taken_over.discard(key)
        return ConflictVerdict.DELETE

    def _contest(self, key: ObjectKey, writes: _BuiltInWrites, now: float) -> ConflictVerdict:
        self._taken_over.discard(key)
        self.contested.add(key)
        writes.recreations += 1
        writes.recreated_at, writes.changing_since, writes.recheck_at = now, None, inf
        return ConflictVerdict.YIELD

    def retry(self, key: ObjectKey, slices: "ContestedSlices", *, now: float) -> bool:
        """Whether a contested Service, which has these slices, is managed again."""
        writes = self._writes[key]
        if slices.is_current:
            writes.recheck_at = inf
            return False
        if not slices.is_gone:
            if writes.recheck_at == inf:
                writes.recheck_at = now + self._backoff.delay(max(1, writes.recreations - 1))
            if now < writes.recheck_at:
                return False
        self.contested.discard(key)
        # Slices that are recreated soon after this are no first time.
        writes.recreated_at, writes.recheck_at = now, inf
        return True

    def due_rechecks(self, *, now: float) -> list[ObjectKey]:
        """Services to reconcile now though nothing changed. Forgets writes that no longer matter."""
        for key, writes in tuple(self._writes.items()):
            is_quiet = now - writes.changed_at > self._grace and now - writes.recreated_at > MEMORY
            if is_quiet and writes.recheck_at == inf and key not in self.contested:
                del self._writes[key]
        return [key for key, writes in self._writes.items() if writes.recheck_at <= now]

    def forget(self, key: ObjectKey) -> None:
        """A Service is gone, or Zoneward does not manage it."""
        self.contested.discard(key)
        self._taken_over.discard(key)
        self._writes.pop(key, None)

    def clear(self) -> None:
        """Another replica leads from now on."""
        self.contested.clear()
        self._taken_over.clear()
        self._writes.clear()


@dataclass(frozen=True, slots=True)
class ContestedSlices:
    """The slices of a contested Service.

    ``is_gone``: the built-in controller has none, though there are endpoints to list. ``is_current``: its slices list
    exactly the ready endpoints. ``duplicates``: Zoneward's slices, if they list no ready endpoint that the others lack.
    """

    is_gone: bool
    is_current: bool
    duplicates: tuple[EndpointSlice, ...]


def slices_of_contested(
    plan: ServicePlan, slices: Iterable[EndpointSlice], *, configuration: Configuration
) -> ContestedSlices:
    """``plan`` is what Zoneward would write, ``slices`` are all slices of the Service."""
    slices = tuple(slices)
    own = tuple(slice_ for slice_ in slices if manager_of(slice_) == configuration.manager)
    built_in = tuple(slice_ for slice_ in slices if is_built_in(slice_, configuration))
    has_ports = bool(plan.service.spec.ports)
    planned = (slice_ for family in plan.families for slice_ in family.changes.after)
    ready = _ready_endpoints(planned, has_ports=has_ports)
    listed = _ready_endpoints(built_in, has_ports=has_ports)
    only_own = (_ready_endpoints(own, has_ports=has_ports) & ready) - listed
    return ContestedSlices(
        is_gone=not built_in and bool(ready), is_current=listed == ready, duplicates=() if only_own else own
    )


def is_built_in(slice_: EndpointSlice, configuration: Configuration) -> bool:
    """Whether a slice has the built-in controller's label, and is not being deleted."""
    manager = manager_of(slice_)
    return (
        manager == BUILT_IN_MANAGER and manager != configuration.manager and slice_.metadata.deletion_timestamp is None
    )


def is_built_in_write(old: EndpointSlice | None, new: EndpointSlice | None) -> bool:
    """Whether its controller made this change of such a slice: not a deletion, nor a new label."""
    if new is None or new.metadata.deletion_timestamp is not None:
        return False
    if old is None or old.metadata.uid != new.metadata.uid:
        return True
    return (old.endpoints, old.ports) != (new.endpoints, new.ports)


def _ready_endpoints(slices: Iterable[EndpointSlice], *, has_ports: bool) -> set[tuple[str, str, object]]:
    """Family, address and port of the ready endpoints. A slice without ports lists none if the Service has ports."""
    return {
        (slice_.address_type, address, port)
        for slice_ in slices
        if slice_.metadata.deletion_timestamp is None
        for endpoint in slice_.endpoints or ()
        if is_ready(endpoint)
        for address in endpoint.addresses or ()
        for port in (port_key(slice_.ports) if has_ports else (None,))
    }
