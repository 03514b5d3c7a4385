"""Reconciles one Service in the overlay: its entries in the ConfigMap of its namespace, and the hints of its slices.

A namespace with Services in the overlay has one ConfigMap, from which the API server takes the hints. Only what changed
is written, as a merge patch, so that two Services of a namespace never overwrite each other's entries, and a write is
small however large the ConfigMap is. The watch shows what somebody else writes into it, and the Service of such an
entry is synced again: at once the first time, which may be a person, and after growing pauses when it happens again and
again. Two controllers with different configurations would write in turn forever.

Entries reach a slice when it is written next. So the controller *touches* the slices whose hints differ: it sends an
empty patch, which runs the admission policy and changes nothing else. Several API servers learn of a new ConfigMap at
different times, so a touch may come too early: it is repeated, with growing pauses, until the response has the hints.

A Service leaves the overlay in two steps: its entries say ``remove``, and the touches take all hints out; then its
entries go. The built-in controller notices that its slices changed, and writes its own hints if it is asked to.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from zoneward.client.api_errors import CallFailed, NotFound, WritesSuspended
from zoneward.client.backoff import Backoff
from zoneward.client.informer_cache import InformerCache
from zoneward.client.informers import WatchedStores
from zoneward.client.list_pager import ListScope
from zoneward.client.list_watch_decoder import UnreadableHandler
from zoneward.client.resources import CONFIG_MAPS, NAMESPACES, SLICES, LiveConfigMap, LiveConfigMapMeta, service_key_of
from zoneward.client.writer import WriteOutcome, Writer, write_outcome
from zoneward.controller.context import ControllerContext
from zoneward.controller.demand_follower import DemandFollower
from zoneward.controller.queue.work_queue import WorkItem, WorkQueue
from zoneward.controller.status.status_writer import own_conditions, with_requested
from zoneward.controller.sync.service_states import ServiceStates
from zoneward.controller.sync.slice_writer import NOTHING_TO_WRITE, ReconcileResult, SyncOutcome
from zoneward.kube import names
from zoneward.kube.adoption_marks import AdoptionAction
from zoneward.kube.objects import (
    Condition,
    EndpointSlice,
    Namespace,
    ObjectKey,
    Service,
    ServiceEvent,
    parse_resource_version,
)
from zoneward.routing.service_events import last_reported
from zoneward.slices.overlay import (
    REMOVED,
    FamilyOverlay,
    TooManyZones,
    approach_of_entries,
    encode_entries,
    is_in_overlay,
    is_selected,
    read_entries,
    service_of_entry,
    service_overlays,
    with_approach,
    with_overlay_hints,
)
from zoneward.slices.plan import ServicePlan

MAX_BYTES: Final = 512 * 1024
"""Of all entries of a namespace. An API server refuses a ConfigMap above 1 MiB, and etcd one above 1.5 MiB together
with its ``managedFields``, which repeat every key."""
SETTLE_TIME: Final = 0.3
"""Seconds after a write of entries in which the API servers learn of it, as a rule."""
_TOUCH_BACKOFF: Final = Backoff(initial=0.5, cap=60.0)
_REPORTED_AFTER: Final = 4
"""Touches without effect after which the Service is reported: that is after about four seconds."""
NOT_APPLIED: Final = "OverlayNotApplied"
"""The reason of the condition and of the Event: the API server does not set the hints that the entries ask for."""
REFUSED: Final = "OverlayRefused"
"""The reason of the condition and of the Event: the Service cannot be in the overlay."""
_CONTEST_BACKOFF: Final = Backoff(initial=2.0, cap=60.0)
_CONTEST_MEMORY: Final = 600.0
"""Seconds after which a change by another writer is the first one again."""
_NO_ENTRIES: Final[Mapping[str, str]] = MappingProxyType({})


class OverlayStores(WatchedStores):
    """What an overlay watches besides the cache: its ConfigMaps, and the labels of namespaces."""

    def __init__(self, *, on_unreadable: UnreadableHandler) -> None:
        super().__init__((CONFIG_MAPS, NAMESPACES), on_unreadable=on_unreadable)
        self.config_maps: Final = self.add_store(CONFIG_MAPS)
        self.namespaces: Final = self.add_store(NAMESPACES)
        self.list_options: Final = {
            CONFIG_MAPS.kind: ListScope(field_selector=f"metadata.name={names.OVERLAY_CONFIG_MAP}"),
            NAMESPACES.kind: ListScope(),
        }

    def labels_of(self, namespace: str) -> Mapping[str, str] | None:
        known: Namespace | None = self.namespaces.get("", namespace)
        return None if known is None else known.metadata.labels


@dataclass(slots=True)
class _NamespaceParameters:
    """The ConfigMap of a namespace, as the API server last showed it. ``uid`` None: there is none."""

    entries: dict[str, dict[str, str]] = field(default_factory=dict)
    """By the name of their Service."""
    uid: str | None = None
    version: int | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class _Contest:
    """How often another writer replaced the entries that this replica had written of a Service, and when this replica
    may write them again."""

    changes: int = 0
    changed_at: float = 0.0
    not_before: float = 0.0


class OverlayParameters:
    """The ConfigMaps of the overlay, one for each namespace with Services in it.

    ``on_change`` gets the Services whose entries another writer changed, ``on_approach`` those whose approach in force
    is another one now.
    """

    def __init__(
        self,
        stores: OverlayStores,
        writer: Writer,
        *,
        on_change: Callable[[Iterable[ObjectKey]], None],
        on_approach: Callable[[ObjectKey], None],
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.stores: Final = stores
        self._clock = clock or asyncio.get_running_loop().time
        self._writer, self._on_change, self._on_approach = writer.once(), on_change, on_approach
        self._namespaces: dict[str, _NamespaceParameters] = {}
        self._written: set[ObjectKey] = set()
        """Services whose entries are those that this replica wrote."""
        self._contests: dict[ObjectKey, _Contest] = {}
        stores.config_maps.subscribe(self._config_map_changed)
        stores.namespaces.subscribe(self._namespace_changed)

    def entries_of(self, key: ObjectKey) -> Mapping[str, str]:
        parameters = self._namespaces.get(key[0])
        return _NO_ENTRIES if parameters is None else parameters.entries.get(key[1], _NO_ENTRIES)

    def approach_of(self, key: ObjectKey, address_type: str) -> str | None:
        """The approach in force for a Service and address family."""
        return approach_of_entries(self.entries_of(key), key[1], address_type)

    def as_planned(self, slice_: EndpointSlice) -> EndpointSlice:
        """A slice with the approach that is in force for it."""
        key = service_key_of(slice_)
        return with_approach(slice_, self.approach_of(key, slice_.address_type))

    def fits(self, key: ObjectKey, entries: Mapping[str, str]) -> bool:
        """Whether the entries of a Service have room beside those of the other Services of its namespace."""
        parameters = self._namespaces.get(key[0])
        others = () if parameters is None else (own for name, own in parameters.entries.items() if name != key[1])
        return _size(entries) + sum(map(_size, others)) <= MAX_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether no Service has entries."""
        return not any(parameters.entries for parameters in self._namespaces.values())

    # --- writes -------------------------------------------------------------------------------------------------------

    async def write(self, key: ObjectKey, entries: Mapping[str, str]) -> bool:
        """Replace the entries of a Service. Returns whether anything was written. Raises CallFailed, also while another
        writer keeps replacing them."""
        contest = self._contests.get(key)
        if contest is not None and self._clock() < contest.not_before and self.entries_of(key) != entries:
            raise CallFailed(
                f"another program replaces its entries in the ConfigMap {names.OVERLAY_CONFIG_MAP}", sent=False
            )
        is_written = await self._write(key[0], {key[1]: entries})
        if is_written:
            self._written.add(key)
        return is_written

    def forget(self, key: ObjectKey) -> None:
        """A Service was deleted."""
        self._written.discard(key)
        self._contests.pop(key, None)

    def clear(self) -> None:
        """Another replica leads from now on."""
        self._written.clear()
        self._contests.clear()

    async def remove(self, namespace: str, is_gone: Callable[[ObjectKey], bool]) -> bool:
        """Remove the entries of all Services of a namespace that are gone, in one write, however many there are.

        Returns whether anything was written. Raises CallFailed.
        """
        parameters = self._namespaces.get(namespace)
        if parameters is None:
            return False
        gone = [name for name in parameters.entries if is_gone((namespace, name))]
        return await self._write(namespace, dict.fromkeys(gone, _NO_ENTRIES))

    async def _write(self, namespace: str, services: Mapping[str, Mapping[str, str]]) -> bool:
        parameters = self._namespaces.setdefault(namespace, _NamespaceParameters())
        async with parameters.lock:
            changes: dict[str, str | None] = {}
            for name, entries in services.items():
                present = parameters.entries.get(name, _NO_ENTRIES)
                changes |= {entry: value for entry, value in entries.items() if present.get(entry) != value}
                changes |= {entry: None for entry in present if entry not in entries}
            if not changes:
                return False
            wanted = {name: entries for name, entries in {**parameters.entries, **services}.items() if entries}
            if wanted:
                is_latest = await self._change(namespace, parameters, changes, wanted)
            else:
                is_latest = await self._delete(namespace, parameters)
            if is_latest:
                for name, entries in services.items():
                    self._set(namespace, parameters, name, entries)
            return True

    async def _change(
        self,
        namespace: str,
        parameters: _NamespaceParameters,
        changes: Mapping[str, str | None],
        wanted: Mapping[str, Mapping[str, str]],
    ) -> bool:
        """Write the changes, or all wanted entries of the namespace where there is no ConfigMap.

        Returns whether the watch has shown neither this state nor a later one.
        """
        metadata = None
        config_map = self.stores.config_maps.get(namespace, names.OVERLAY_CONFIG_MAP)
        if config_map is not None and config_map.immutable and config_map.metadata.uid == parameters.uid:
            await self._replace_immutable(namespace, parameters)
        if parameters.uid is not None:
            # Binary data of another writer may have keys or the size that keep the entries out.
            patch = {"data": changes, "binaryData": None}
            try:
                metadata = await self._writer.patch(
                    CONFIG_MAPS, patch, namespace=namespace, name=names.OVERLAY_CONFIG_MAP
                )
            except NotFound:
                parameters.uid = None
        if metadata is None:
            data = {entry: value for entries in wanted.values() for entry, value in entries.items()}
            metadata = await self._writer.apply(CONFIG_MAPS, _config_map(namespace, data))
        version = parse_resource_version(metadata.resource_version)
        if version is not None and parameters.version is not None and version <= parameters.version:
            return False
        parameters.uid, parameters.version = metadata.uid, version
        return True

    async def _replace_immutable(self, namespace: str, parameters: _NamespaceParameters) -> None:
        """Somebody made it before there was a policy that denies it, maybe with a finalizer so that it stays."""
        await self._writer.patch(
            CONFIG_MAPS, {"metadata": {"finalizers": None}}, namespace=namespace, name=names.OVERLAY_CONFIG_MAP
        )
        await self._delete(namespace, parameters)

    async def _delete(self, namespace: str, parameters: _NamespaceParameters) -> bool:
        """The last Service of the namespace leaves the overlay: nothing remains.

        Returns whether the watch has shown neither the deletion nor a new ConfigMap.
        """
        uid = parameters.uid
        if uid is not None:
            config_map = _config_map(namespace, {})
            await self._writer.delete(CONFIG_MAPS, replace(config_map, metadata=replace(config_map.metadata, uid=uid)))
        if parameters.uid != uid:
            return False
        parameters.uid = parameters.version = None
        return True

    def _set(self, namespace: str, parameters: _NamespaceParameters, name: str, entries: Mapping[str, str]) -> None:
        before = parameters.entries.pop(name, _NO_ENTRIES)
        if entries:
            parameters.entries[name] = dict(entries)
        if any(
            approach_of_entries(before, name, address_type) != approach_of_entries(entries, name, address_type)
            for address_type in ("IPv4", "IPv6")
        ):
            self._on_approach((namespace, name))

    # --- the watch ----------------------------------------------------------------------------------------------------

    def _config_map_changed(self, old: LiveConfigMap | None, new: LiveConfigMap | None) -> None:
        changed = new if new is not None else old
        assert changed is not None
        namespace = changed.metadata.namespace
        if new is None and namespace not in self._namespaces:
            return
        parameters = self._namespaces.setdefault(namespace, _NamespaceParameters())
        if new is None and parameters.uid not in (None, changed.metadata.uid):
            # It is an earlier one that was deleted.
            return
        version = None if new is None else parse_resource_version(new.metadata.resource_version)
        shown = None if old is None else parse_resource_version(old.metadata.resource_version)
        # Versions fall only where the server's data were restored.
        if version is not None and (shown or 0) <= version < (parameters.version or 0):
            # A state before this replica's own write; that of the write may have another writer's changes, too.
            return
        parameters.uid, parameters.version = (None, None) if new is None else (new.metadata.uid, version)
        self._set_all(namespace, parameters, (new.data if new is not None else None) or {})

    def seen(self, version: int) -> None:
        """The watch has shown all changes up to this version: a ConfigMap that is not newer and that the store does not
        have was deleted, maybe before the watch showed it."""
        store = self.stores.config_maps
        for namespace, parameters in self._namespaces.items():
            key = namespace, names.OVERLAY_CONFIG_MAP
            is_newer = parameters.version is None or parameters.version > version
            if is_newer or store.get(*key) is not None or key in store.unreadable:
                continue
            parameters.uid = parameters.version = None
            self._set_all(namespace, parameters, _NO_ENTRIES)

    def _set_all(self, namespace: str, parameters: _NamespaceParameters, data: Mapping[str, str]) -> None:
        """The ConfigMap has this data now."""
        entries: dict[str, dict[str, str]] = {}
        for entry, value in data.items():
            entries.setdefault(service_of_entry(entry), {})[entry] = value
        services = sorted(
            name
            for name in parameters.entries.keys() | entries.keys()
            if parameters.entries.get(name) != entries.get(name)
        )
        for name in services:
            self._set(namespace, parameters, name, entries.get(name, _NO_ENTRIES))
            self._note_contest((namespace, name))
        if services:
            self._on_change([(namespace, name) for name in services])

    def _note_contest(self, key: ObjectKey) -> None:
        """Another writer changed the entries of a Service."""
        if key not in self._written:
            return
        self._written.discard(key)
        now, contest = self._clock(), self._contests.setdefault(key, _Contest())
        if now > contest.changed_at + _CONTEST_MEMORY:
            contest.changes = 0
        contest.changes, contest.changed_at = contest.changes + 1, now
        contest.not_before = now + (_CONTEST_BACKOFF.delay(contest.changes - 1) if contest.changes > 1 else 0.0)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is not None and new is None:
            self._namespaces.pop(old.metadata.name, None)


def _config_map(namespace: str, data: Mapping[str, str]) -> LiveConfigMap:
    labels = {"app.kubernetes.io/name": names.OVERLAY_CONFIG_MAP, "app.kubernetes.io/managed-by": "zoneward"}
    metadata = LiveConfigMapMeta(name=names.OVERLAY_CONFIG_MAP, namespace=namespace, labels=labels)
    return LiveConfigMap(metadata=metadata, data=dict(data))


def _size(entries: Mapping[str, str]) -> int:
    return sum(len(entry) + len(value) for entry, value in entries.items())


@dataclass(slots=True)
class _Touch:
    """A slice that has to be touched: at ``due``, after ``attempts`` touches without effect."""

    due: float
    attempts: int = 0


class OverlayReconciler:
    """Reconciles one Service per call. ``is_releasing``: no Service is selected, so that all leave the overlay."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        cache: InformerCache,
        queue: WorkQueue[ObjectKey],
        states: ServiceStates,
        parameters: OverlayParameters,
        demand: DemandFollower | None = None,
    ) -> None:
        self._configuration, self._is_releasing = context.configuration, context.is_releasing
        self._leading, self._status_writer, self._metrics = context.leading, context.status_writer, context.metrics
        self._writer, self._log = context.writer.once(), context.log
        self._cache, self._stores, self._queue, self._states = cache, parameters.stores, queue, states
        self._parameters, self._demand = parameters, demand
        self._encoded: dict[ObjectKey, tuple[Mapping[str, FamilyOverlay], Mapping[str, str]]] = {}
        """The overlay of the last sync of each Service, and the same as entries."""
        self._touches: dict[ObjectKey, dict[str, _Touch]] = {}
        """By slice name, of the Services whose slices do not have their hints yet."""
        self._removals: dict[ObjectKey, dict[str, _Touch]] = {}
        """The same of the Services that leave the overlay."""
        self._refused: set[ObjectKey] = set()
        self._unreported_events: dict[ObjectKey, tuple[ServiceEvent, ...]] = {}
        """Of Services whose slices do not have their hints yet."""
        self._clock = asyncio.get_running_loop().time
        self._metrics.declare_overlay(
            services=lambda: len(self._encoded),
            refused=lambda: len(self._refused),
            pending_slices=lambda: sum(map(len, (*self._touches.values(), *self._removals.values()))),
        )

    def course(self, service: Service, slices: Iterable[EndpointSlice]) -> AdoptionAction:  # noqa: ARG002 -- as in the other modes
        """SERVE for a Service that is in the overlay if it asks for anything."""
        is_served = not self._is_releasing and is_selected(
            service, self._stores.labels_of(service.metadata.namespace), self._configuration
        )
        return AdoptionAction.SERVE if is_served else AdoptionAction.LEAVE

    def clear(self) -> None:
        """Another replica leads from now on."""
        for pending in (self._encoded, self._touches, self._removals, self._unreported_events):
            pending.clear()
        self._refused.clear()
        self._parameters.clear()

    async def reconcile(self, item: WorkItem[ObjectKey]) -> ReconcileResult:
        """Write the entries of a Service, and touch its slices. Raises nothing for any response of an API server."""
        key = item.key
        await self._stores.synced.wait()
        service = self._cache.services.get(*key)
        try:
            if self._is_gone(key):
                return await self._remove(key)
            if service is None:
                # What it asks for is unknown: its hints stay as they are.
                self._forget(key)
                return NOTHING_TO_WRITE
            if self.course(service, ()) is not AdoptionAction.SERVE:
                self._refused.discard(key)
                return await self._leave(key, service)
            return await self._serve(key, service)
        except WritesSuspended as error:
            return ReconcileResult(SyncOutcome.WITHHELD, 0, error)
        except CallFailed as error:
            self._metrics.record_api_error(error, kind=CONFIG_MAPS.plural)
            if write_outcome(error) is WriteOutcome.TERMINATING:
                return ReconcileResult(SyncOutcome.NAMESPACE_TERMINATING, 0, error)
            return ReconcileResult(SyncOutcome.FAILED, 0, error)

    # --- a Service in the overlay -------------------------------------------------------------------------------------

    async def _serve(self, key: ObjectKey, service: Service) -> ReconcileResult:
        reported = service if self._status_writer is None else self._status_writer.as_reported(service)
        plan = self._states.plan(key, reported, taken=())
        try:
            overlays = service_overlays(plan.decisions)
        except TooManyZones as refusal:
            return await self._refuse(key, service, plan, str(refusal))
        if not overlays:
            self._refused.discard(key)
            return await self._leave(
                key, service, conditions=with_requested(plan.conditions, plan.requested), events=plan.events
            )
        entries = self._entries(key, overlays)
        if self._parameters.entries_of(key) != entries and not self._parameters.fits(key, entries):
            return await self._refuse(
                key, service, plan, f"the entries of its namespace would be larger than {MAX_BYTES // 1024} KiB"
            )
        self._refused.discard(key)
        self._removals.pop(key, None)
        is_written = await self._parameters.write(key, entries)
        if is_written:
            self._metrics.overlay_writes.inc()
        touched = await self._touch_slices(key, plan, overlays, is_written=is_written)
        self._states.trigger_times.written(key)
        if self._leading.is_set():
            self._report(key, service, plan, is_known=last_reported(reported) is not None)
            self._metrics.record_plan(plan)
        return ReconcileResult(SyncOutcome.WRITTEN, is_written + touched)

    def _entries(self, key: ObjectKey, overlays: Mapping[str, FamilyOverlay]) -> Mapping[str, str]:
        before = self._encoded.get(key)
        if before is None or before[0] != overlays:
            before = self._encoded[key] = overlays, encode_entries(key[1], overlays)
        return before[1]

    async def _touch_slices(
        self, key: ObjectKey, plan: ServicePlan, overlays: Mapping[str, FamilyOverlay], *, is_written: bool
    ) -> int:
        """Touch the slices with other hints than the API server should set. Returns the number of touches."""

        def needs_touch(slice_: EndpointSlice) -> bool:
            overlay = overlays.get(slice_.address_type)
            return overlay is not None and has_other_hints(slice_, overlay)

        pending = self._touches.get(key, {})
        changed = {slice_.metadata.name for family in plan.families for slice_ in family.changes.update}
        slices = (self._cache.slices.get(key[0], name) for name in changed | pending.keys())
        due = self._clock() + (SETTLE_TIME if is_written else 0)
        touches = self._touches[key] = {
            slice_.metadata.name: pending.get(slice_.metadata.name) or _Touch(due)
            for slice_ in slices
            if slice_ is not None and needs_touch(slice_)
        }
        touched = await self._touch_due(key, touches, needs_touch)
        if not touches:
            self._touches.pop(key, None)
        return touched

    async def _touch_due(
        self, key: ObjectKey, touches: dict[str, _Touch], needs_touch: Callable[[EndpointSlice], bool]
    ) -> int:
        """Touch the slices that are due, and come back for the others. Returns the number of touches.

        Raises CallFailed; if the API server refuses some slices, after the others were touched.
        """
        now = self._clock()
        touched = 0
        refusal: CallFailed | None = None
        for name in sorted(name for name, touch in touches.items() if touch.due <= now):
            touched += 1
            stored = None
            try:
                stored = await self._writer.touch(SLICES, namespace=key[0], name=name)
                self._metrics.overlay_touches.inc()
            except NotFound:
                pass
            except CallFailed as error:
                if write_outcome(error) is not WriteOutcome.REFUSED:
                    raise
                refusal = error
                continue
            if stored is None or not needs_touch(stored):
                del touches[name]
            else:
                touch = touches[name]
                touch.attempts += 1
                touch.due = self._clock() + _TOUCH_BACKOFF.delay(touch.attempts)
        if refusal is not None:
            raise refusal
        if touches:
            due = min(touch.due for touch in touches.values())
            asyncio.get_running_loop().call_at(due, self._queue.add, key)
        return touched

    def _report(self, key: ObjectKey, service: Service, plan: ServicePlan, *, is_known: bool) -> None:
        """Conditions and Events, once the hints are in the slices, or will not be. ``is_known``: the plan knew what was
        reported last."""
        if self._status_writer is None:
            return
        touches = self._touches.get(key, {})
        is_late = any(touch.attempts >= _REPORTED_AFTER for touch in touches.values())
        unreported = self._unreported_events.pop(key, ())
        # Otherwise its Events are about changes of what is in force, which are gone with the next plan.
        events = plan.events if is_known else (*unreported, *plan.events)
        if touches and not is_late:
            self._unreported_events[key] = tuple(dict.fromkeys(events))
            return
        measured = None if self._demand is None else self._demand.condition(service)
        own = () if measured is None else (measured,)
        conditions = with_requested(plan.conditions, plan.requested)
        if is_late:
            message = (
                f"the API server does not set the hints of {len(touches)} EndpointSlices: check the policy"
                f" {names.OVERLAY_CONFIG_MAP} (zoneward check)"
            )
            events = ()
            if not any(condition.reason == NOT_APPLIED for condition in own_conditions(service)):
                events = (ServiceEvent("Warning", NOT_APPLIED, _sentence(message)),)
                self._log.warning("the API server does not apply the overlay", service="/".join(key))
            conditions = _not_programmed(conditions, NOT_APPLIED, message)
        self._status_writer.report(service, conditions=(*conditions, *own), events=dict.fromkeys(events))

    # --- a Service that is not in the overlay -------------------------------------------------------------------------

    async def _refuse(self, key: ObjectKey, service: Service, plan: ServicePlan, why: str) -> ReconcileResult:
        message = f"the overlay cannot take this Service: {why}"
        events: tuple[ServiceEvent, ...] = ()
        if key not in self._refused and not any(condition.reason == REFUSED for condition in own_conditions(service)):
            events = (ServiceEvent("Warning", REFUSED, _sentence(message)),)
            self._log.warning("a Service is refused for the overlay", service="/".join(key), reason=why)
        self._refused.add(key)
        conditions = _not_programmed(with_requested(plan.conditions, plan.requested), REFUSED, message)
        return await self._leave(key, service, conditions=conditions, events=events)

    async def _leave(
        self,
        key: ObjectKey,
        service: Service,
        *,
        conditions: Iterable[Condition] = (),
        events: Iterable[ServiceEvent] = (),
    ) -> ReconcileResult:
        """Take the hints out of the slices, and then the entries out of the ConfigMap."""
        writes = 0
        entries = self._parameters.entries_of(key)
        if entries or self._removals.get(key):
            writes, is_done = await self._take_out_hints(key, entries)
            if not is_done:
                return ReconcileResult(SyncOutcome.WRITTEN, writes)
            await self._parameters.write(key, {})
            writes += 1
            self._metrics.overlay_writes.inc()
            self._log.info("a Service left the overlay", service="/".join(key))
        self._forget(key)
        if self._status_writer is not None and self._leading.is_set():
            self._status_writer.report(service, conditions=conditions, events=events)
        return ReconcileResult(SyncOutcome.WRITTEN, writes)

    async def _take_out_hints(self, key: ObjectKey, entries: Mapping[str, str]) -> tuple[int, bool]:
        """Returns the number of writes, and whether all slices are without the overlay's hints."""
        removals = self._removals.get(key)
        pending = (self._cache.slices.get(key[0], name) for name in removals or ())
        address_types = {address_type for _, address_type in read_entries(entries)}
        address_types |= {slice_.address_type for slice_ in pending if slice_ is not None}
        removed = encode_entries(key[1], dict.fromkeys(sorted(address_types), REMOVED))
        # Any of them: the cache may not show yet that a touch has set hints.
        slices = {
            slice_.metadata.name
            for slice_ in self._cache.slices_of(*key)
            if slice_.address_type in address_types and is_in_overlay(slice_)
        }
        # Another writer may have replaced or removed the entries that say so.
        is_written = bool(removed) and await self._parameters.write(key, removed)
        if is_written or removals is None:
            due = self._clock() + (SETTLE_TIME if is_written else 0)
            removals = self._removals[key] = {name: _Touch(due) for name in slices}
        for name in [name for name in removals if self._cache.slices.get(key[0], name) is None]:
            del removals[name]
        touched = await self._touch_due(key, removals, _has_hints)
        return is_written + touched, not removals

    async def _remove(self, key: ObjectKey) -> ReconcileResult:
        """A Service was deleted, or never was: its entries go, and Kubernetes deletes its slices.

        So do those of all other Services of its namespace that are gone: somebody may have added thousands of entries.
        """
        self._forget(key)
        self._parameters.forget(key)
        self._refused.discard(key)
        if self._status_writer is not None:
            self._status_writer.forget(key)
        is_written = await self._parameters.remove(key[0], self._is_gone)
        if is_written:
            self._metrics.overlay_writes.inc()
        return ReconcileResult(SyncOutcome.WRITTEN, int(is_written))

    def _is_gone(self, key: ObjectKey) -> bool:
        services = self._cache.services
        return services.get(*key) is None and key not in services.unreadable

    def _forget(self, key: ObjectKey) -> None:
        self._states.forget(key)
        self._metrics.forget_service(key)
        for pending in (self._encoded, self._touches, self._removals, self._unreported_events):
            pending.pop(key, None)


def has_other_hints(slice_: EndpointSlice, overlay: FamilyOverlay) -> bool:
    """Whether a touch would change a slice."""
    return with_overlay_hints(slice_, overlay).endpoints != slice_.endpoints


def _has_hints(slice_: EndpointSlice) -> bool:
    return any(endpoint.hints is not None for endpoint in slice_.endpoints or ())


def _sentence(message: str) -> str:
    """The message of a condition as that of an Event."""
    return message[0].upper() + message[1:]


def _not_programmed(conditions: Iterable[Condition], reason: str, message: str) -> tuple[Condition, ...]:
    return tuple(
        replace(condition, status="False", reason=reason, message=message)
        if condition.type == names.PROGRAMMED_CONDITION
        else condition
        for condition in conditions
    )
