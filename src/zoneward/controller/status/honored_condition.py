"""The condition ``TrafficDistributionHonored`` (KEP-4444 § Status Reporting): all of its rules.

The condition says whether the nodes have in their kernels what a Service asks for. What the nodes have comes from
`node_proxies`, which reads one Lease per node.

Services have no ``metadata.generation``. So the request of a Service has a *revision*: a digest of the
Service's fields that decide it, and of whether it is in force. It is in the message, and as a number in the condition's
``observedGeneration``, where the next leader reads which revision was honored.

A revision is honored once every live proxy has programmed two versions: the version of the Service that first had the
revision, and the newest version of its slices when the cache has all writes of its first sync. Later writes of its
status and later changes of endpoints need no more. An honored revision stays honored until the request changes: new
nodes list everything before they report anything.

The renewal of a Lease costs nothing here. Once a second, the lowest versions of all proxies are compared with the
versions that Services wait for, which takes milliseconds where 10,000 Services wait.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final, NoReturn

import msgspec
from msgspec.structs import replace

from zoneward.client.informer_cache import InformerCache
from zoneward.client.resources import object_key_of
from zoneward.controller.status.node_proxies import NO_PROXIES, UNKNOWN_PROXIES, NodeProxies, Presence, ProxyGroup
from zoneward.controller.status.status_writer import StatusWriter, own_conditions
from zoneward.controller.sync.endpointslice_tracker import EndpointSliceTracker
from zoneward.daemon.log import Log, SilentLog, UnexpectedErrorLog
from zoneward.kube import names
from zoneward.kube.objects import Condition, ObjectKey, Service, parse_resource_version
from zoneward.routing.phrases import counted
from zoneward.routing.selection.endpoint_selection import is_proxied
from zoneward.routing.service_events import find_condition

BEHIND_AFTER: Final = 90.0
"""Seconds after which the condition names the nodes that are behind: a Lease may be renewed 11 s after the last time,
and a bookmark, from which a proxy learns of versions that are not its own, comes once a minute."""
BEHIND_PERIOD: Final = 600.0
"""Seconds until the condition names them again."""
UPDATE_PERIOD: Final = 1.0
_MOST_REPORTS: Final = 10
"""Services in one update for which to search the nodes that are behind: each search visits all nodes."""
_BATCH: Final = 100
"""Services to report before yielding to other tasks."""
_MOST_MEASURED: Final = 1_000
"""Services in one update whose slices are read, to find out which versions they need."""
_DECIDING_ANNOTATIONS: Final = (
    names.TOPOLOGY_AWARE_HINTS_ANNOTATION,
    names.TOPOLOGY_MODE_ANNOTATION,
    names.SUBSETTING_ANNOTATION,
    names.SUBSETTING_ALGORITHM_ANNOTATION,
    names.STARTING_THRESHOLD_ANNOTATION,
    names.HINTS_THRESHOLD_ANNOTATION,
    names.MAX_OVERLOAD_ANNOTATION,
    names.DEMAND_ANNOTATION,
)
_DIGITS: Final = 8
_MOST_NAMED_NODES: Final = 3


class HonoredReason(StrEnum):
    """The reason of the condition."""

    PROGRAMMED = "Programmed"
    """Every node with a live Zoneward proxy has programmed it, or had: this never changes back."""
    PROGRAMMING = "Programming"
    NODES_BEHIND = "NodesBehind"
    """As `PROGRAMMING`, for too long."""
    NOT_ACCEPTED = "NotAccepted"
    NOT_PROGRAMMED = "NotProgrammed"
    """There are no hints and no slice groups that could be honored."""


_STATUS: Final = {HonoredReason.PROGRAMMED: "True", HonoredReason.PROGRAMMING: "Unknown"}


def revision_of(service: Service, planned: Iterable[Condition], requested: str | None) -> str:
    """The revision of what a Service asks for, as eight hexadecimal digits.

    ``planned`` are the plan's other conditions, ``requested`` is ``<approach>/<heuristic>``.
    """
    spec, annotations = service.spec, service.metadata.annotations or {}
    accepted = _planned_condition(planned, names.ACCEPTED_CONDITION)
    programmed = _planned_condition(planned, names.PROGRAMMED_CONDITION)
    digested = (
        service.metadata.uid,
        (service.metadata.labels or {}).get(names.PROXY_NAME_LABEL),
        [annotations.get(name) for name in _DECIDING_ANNOTATIONS],
        (spec.selector, spec.ports, spec.ip_families, spec.publish_not_ready_addresses),
        (spec.internal_traffic_policy, spec.external_traffic_policy, spec.traffic_distribution, spec.topology_keys),
        (accepted.status, programmed.status, requested or ""),
    )
    return hashlib.sha256(msgspec.json.encode(digested, order="sorted")).hexdigest()[:_DIGITS]


def planned_reason(planned: Iterable[Condition]) -> HonoredReason:
    """The reason that follows from the plan alone; PROGRAMMING if it depends on the nodes."""
    if _planned_condition(planned, names.ACCEPTED_CONDITION).status != "True":
        return HonoredReason.NOT_ACCEPTED
    if _planned_condition(planned, names.PROGRAMMED_CONDITION).status != "True":
        return HonoredReason.NOT_PROGRAMMED
    return HonoredReason.PROGRAMMING


def honored_condition(
    reason: HonoredReason,
    planned: Iterable[Condition],
    revision: str,
    requested: str | None,
    *,
    nodes: int = 0,
    behind: Sequence[str] = (),
) -> Condition:
    """The condition with its message. ``nodes`` is the number of live Zoneward proxies; the message names the first
    nodes that are ``behind``."""
    message = f"revision {revision}"
    match reason:
        case HonoredReason.PROGRAMMED:
            message += f" is programmed on {counted(nodes, 'node')}"
        case HonoredReason.PROGRAMMING:
            message += " is being programmed on the nodes"
        case HonoredReason.NODES_BEHIND:
            first = ", ".join(behind[:_MOST_NAMED_NODES]) + (", ..." if len(behind) > _MOST_NAMED_NODES else "")
            message += f" is programmed on {nodes - len(behind)} of {counted(nodes, 'node')}; waiting for {first}"
        case HonoredReason.NOT_ACCEPTED | HonoredReason.NOT_PROGRAMMED:
            type_ = names.ACCEPTED_CONDITION if reason is HonoredReason.NOT_ACCEPTED else names.PROGRAMMED_CONDITION
            message += f": {_planned_condition(planned, type_).reason}"
    return Condition(
        type=names.HONORED_CONDITION,
        status=_STATUS.get(reason, "False"),
        reason=reason,
        message=f"{requested}: {message}" if requested else message,
        observed_generation=int(revision, 16),
    )


def _planned_condition(conditions: Iterable[Condition], type_: str) -> Condition:
    return find_condition(conditions, type_) or Condition(type=type_)


@dataclass(slots=True, eq=False)
class _HonoredState:
    """The current revision of one Service. ``needed``: the versions of Services and slices that all proxies must have
    programmed; None: not known yet, or not needed. ``overdue_at``: when to name the nodes that are behind.
    ``presence``: of the proxies, when the conditions were last reported."""

    service: Service
    planned: tuple[Condition, ...]
    revision: str
    requested: str | None
    proxy_name: str
    condition: Condition
    version: int
    needed: tuple[int, int] | None = None
    has_deleted: bool = False
    overdue_at: float = 0.0
    presence: Presence = Presence.UNKNOWN

    @property
    def key(self) -> ObjectKey:
        return object_key_of(self.service)

    def is_same(self, service: Service, planned: Iterable[Condition], requested: str | None) -> bool:
        """Whether nothing that the revision depends on can have changed."""
        statuses = [condition.status for condition in planned]
        is_planned_same = statuses == [condition.status for condition in self.planned]
        return service is self.service and requested == self.requested and is_planned_same

    def decide(self, reason: HonoredReason, *, nodes: int = 0, behind: Sequence[str] = ()) -> None:
        self.condition = honored_condition(
            reason, self.planned, self.revision, self.requested, nodes=nodes, behind=behind
        )


class HonoredCondition:
    """Decides the condition of every Service. `run` it beside the StatusWriter. `conditions` adds the condition to
    those of a plan.

    ``slices_version`` is the version up to which the cache has all slices: the informer sets it.
    ``clock`` counts seconds.
    """

    def __init__(
        self,
        proxies: NodeProxies,
        *,
        cache: InformerCache,
        tracker: EndpointSliceTracker,
        status_writer: StatusWriter,
        leading: asyncio.Event,
        log: Log | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.proxies: Final = proxies
        self._cache, self._tracker = cache, tracker
        self._status_writer, self._leading = status_writer, leading
        self._unexpected = UnexpectedErrorLog(log or SilentLog())
        self._clock = clock or asyncio.get_running_loop().time
        self.slices_version = 0
        self._groups: Mapping[str, ProxyGroup] = {}
        self._has_all_leases = False
        """Whether the groups were made of all Leases."""
        self._states: dict[ObjectKey, _HonoredState] = {}
        self._waiting: dict[ObjectKey, _HonoredState] = {}
        """Those of Services that wait for proxies."""
        self._changed: dict[ObjectKey, None] = {}
        """Services whose condition has to be reported."""

    # --- what Services ask for ----------------------------------------------------------------------------------------

    def conditions(
        self,
        service: Service,
        planned: Iterable[Condition],
        *,
        requested: str | None,
        has_deleted: bool = False,
    ) -> tuple[Condition, ...]:
        """The conditions to report of a Service whose plan is written. ``service`` is as in the cache, ``planned`` are
        the plan's conditions and ``requested`` its ``<approach>/<heuristic>``; ``has_deleted``: it deleted slices."""
        key, planned = object_key_of(service), tuple(planned)
        version = parse_resource_version(service.metadata.resource_version)
        if not planned or version is None or not is_proxied(service):
            self.forget(key)
            return planned
        state = self._states.get(key)
        if state is None or not state.is_same(service, planned, requested):
            revision = revision_of(service, planned, requested)
            # A lower version means that the data was restored from a backup.
            if state is None or state.revision != revision or version < state.version:
                state = self._begin(service, planned, revision, requested, version)
        has_other_reasons = planned != state.planned
        state.service, state.planned, state.requested = service, planned, requested
        if has_other_reasons and (reason := planned_reason(planned)) is not HonoredReason.PROGRAMMING:
            # The revision is the same, and the message names the reason of the plan.
            state.decide(reason)
        state.has_deleted = state.needed is None and (state.has_deleted or has_deleted)
        return self._with_honored(state)

    def forget(self, key: ObjectKey) -> None:
        """A Service was deleted, requests nothing, or is not managed."""
        for by_service in (self._states, self._waiting, self._changed):
            by_service.pop(key, None)

    def clear(self) -> None:
        """Another replica leads from now on."""
        for by_service in (self._states, self._waiting, self._changed):
            by_service.clear()

    def _begin(
        self, service: Service, planned: tuple[Condition, ...], revision: str, requested: str | None, version: int
    ) -> _HonoredState:
        key, reason = object_key_of(service), planned_reason(planned)
        self.forget(key)
        state = self._states[key] = _HonoredState(
            service=service,
            planned=planned,
            revision=revision,
            requested=requested,
            proxy_name=(service.metadata.labels or {}).get(names.PROXY_NAME_LABEL, ""),
            condition=honored_condition(reason, planned, revision, requested),
            version=version,
        )
        reported = self._reported(service)
        if reason is not HonoredReason.PROGRAMMING:
            return state
        if (
            reported is not None
            and reported.status == "True"
            and reported.observed_generation == state.condition.observed_generation
        ):
            # An earlier leader saw that this revision is honored.
            state.condition = replace(reported, last_transition_time=None)
        else:
            self._wait_for_nodes(state)
        return state

    def _wait_for_nodes(self, state: _HonoredState) -> None:
        state.decide(HonoredReason.PROGRAMMING)
        state.needed, state.overdue_at = None, self._clock() + BEHIND_AFTER
        self._waiting[state.key] = state

    def _reported(self, service: Service) -> Condition | None:
        return find_condition(own_conditions(self._status_writer.as_reported(service)), names.HONORED_CONDITION)

    def _with_honored(self, state: _HonoredState) -> tuple[Condition, ...]:
        presence = state.presence = self._group(state.proxy_name).presence
        if presence is Presence.ABSENT or (presence is Presence.UNKNOWN and self._reported(state.service) is None):
            return state.planned
        return (*state.planned, state.condition)

    def _group(self, proxy_name: str) -> ProxyGroup:
        return self._groups.get(proxy_name, NO_PROXIES if self._has_all_leases else UNKNOWN_PROXIES)

    # --- what nodes have ----------------------------------------------------------------------------------------------

    @property
    def slice_groups_seen(self) -> bool | None:
        """Whether Zoneward's proxies serve the Services without a proxy name, None while that is not known."""
        presence = self._group("").presence
        return None if presence is Presence.UNKNOWN else presence is Presence.PRESENT

    async def run(self) -> NoReturn:
        """Run until cancelled."""
        await self._cache.synced.wait()
        while True:
            try:
                self.update()
                while self.report(_BATCH):
                    await asyncio.sleep(0)
            except Exception as error:
                # Slices are still written.
                self._unexpected.error("internal error while deciding a condition", ("", ""), error)
            await asyncio.sleep(UPDATE_PERIOD)

    def update(self) -> None:
        """Decide again for the Services that wait for proxies, from what the proxies have now."""
        self._groups, self._has_all_leases = self.proxies.groups(), self.proxies.are_listed
        if not self._leading.is_set():
            return
        self._update_presence()
        unmeasured = (state for state in self._waiting.values() if state.needed is None)
        for state in islice(unmeasured, _MOST_MEASURED):
            self._measure(state)
        now, searches = self._clock(), 0
        for key, state in [*self._waiting.items()]:
            proxies = self._group(state.proxy_name)
            if self._is_programmed(state, proxies):
                del self._waiting[key]
                state.decide(HonoredReason.PROGRAMMED, nodes=len(proxies.nodes))
                self._changed[key] = None
            elif state.overdue_at <= now and searches < _MOST_REPORTS:
                state.overdue_at = now + BEHIND_PERIOD
                if state.needed is not None and proxies.presence is Presence.PRESENT:
                    searches += 1
                    self._name_nodes_behind(state, proxies)

    def _update_presence(self) -> None:
        for key, state in self._states.items():
            presence = self._group(state.proxy_name).presence
            if presence is state.presence:
                continue
            self._changed[key] = None
            if presence is Presence.ABSENT and state.condition.status == "True":
                # The condition is removed. Nothing is known about proxies that are added later.
                self._wait_for_nodes(state)

    def _measure(self, state: _HonoredState) -> None:
        slices = self._cache.slices_of(*state.key)
        if self._tracker.is_stale(state.key, slices):
            return
        newest = max((parse_resource_version(slice_.metadata.resource_version) or 0 for slice_ in slices), default=0)
        if state.has_deleted:
            # No object has the version of a deletion.
            newest = max(newest, self.slices_version)
        state.needed = state.version, newest

    def _is_programmed(self, state: _HonoredState, proxies: ProxyGroup) -> bool:
        if state.needed is None or not proxies.nodes or state.key in proxies.unable:
            return False
        services, slices = state.needed
        return services <= proxies.services and slices <= proxies.slices

    def _name_nodes_behind(self, state: _HonoredState, proxies: ProxyGroup) -> None:
        assert state.needed is not None
        behind = proxies.behind(state.key, *state.needed)
        if behind:
            state.decide(HonoredReason.NODES_BEHIND, nodes=len(proxies.nodes), behind=behind)
            self._changed[state.key] = None

    def report(self, most: int) -> bool:
        """Report the decisions of `update` for ``most`` Services. Returns whether there are more."""
        for key in list(islice(self._changed, most)):
            del self._changed[key]
            state, service = self._states.get(key), self._cache.services.get(*key)
            if state is None or service is None or service.metadata.uid != state.service.metadata.uid:
                continue
            if self._leading.is_set():
                self._status_writer.report(service, conditions=self._with_honored(state))
        return bool(self._changed)
