"""What the controller counts. Plain numbers, and no library: `zoneward.controller.exposition` shows them.

Everything happens in the event loop's thread. What only has to be looked at when somebody asks (the queue, the lease,
the cache) is not counted here: it is a `Moment`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from zoneward.client.api_errors import CallFailed, Gone
from zoneward.client.writer import WriteOutcome, write_outcome
from zoneward.controller.accounting import Accounts, FamilyCount, family_count
from zoneward.controller.metric_labels import SyncLabels, hinted_by, sync_labels, traffic_distribution
from zoneward.controller.predictions import Predictions
from zoneward.controller.queue.schedule import Depth
from zoneward.daemon.histogram import PER_SYNC, SECONDS, SLICES_PER_SYNC, Histogram
from zoneward.kube.names import ZONE_LABEL, ZONES_ANNOTATION
from zoneward.kube.objects import EndpointSlice, ObjectKey
from zoneward.routing.placement.assignment import Assignment
from zoneward.slices.planned import FamilyPlan, ServicePlan

_EMPTY: Final = Depth()
_NO_PORTS: Final = object()
"""Unlike any tuple of ports, and unlike None, which stands for all ports."""


class Operation(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class SyncResult(StrEnum):
    """How a sync ended. The proposals have ``success`` and ``failure`` and count a stale cache among failures; upstream
    tells it apart, as ``stale``, and so does the label ``cause``."""

    SUCCESS = ""
    STALE = "stale"
    """The cache lagged behind our own writes, and nothing was done."""
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is looked at when metrics are asked for. ``oldest`` and ``watch_trouble`` are in seconds: since the first
    change that is not written, and for how long we have not heard of some kind (0: we hear of all)."""

    depth: Depth = _EMPTY
    oldest: float = 0.0
    leads: bool = False
    is_synced: bool = False
    watch_trouble: float = 0.0
    contested: int = 0
    """Services of ours at which the built-in controller was found at work."""
    unreadable: Mapping[str, int] = field(default_factory=dict)
    """Objects that cannot be read, by kind."""


class Metrics:
    """``max_endpoints`` of a slice; ``predictions`` None: no series for single Services."""

    def __init__(self, *, max_endpoints: int = 100, predictions: Predictions | None = None) -> None:
        self._max_endpoints = max_endpoints
        self.predictions: Final = predictions
        self.accounts: Final = Accounts()
        self.added: Final = Histogram(PER_SYNC)
        self.removed: Final = Histogram(PER_SYNC)
        self.reallocated: Final = Histogram(PER_SYNC)
        self.changed_slices: Final[dict[SyncLabels, Histogram]] = {}
        self.changes: Final = Counter[Operation](dict.fromkeys(Operation, 0))
        self.syncs: Final = Counter[SyncResult](dict.fromkeys(SyncResult, 0))
        self.latency: Final = Histogram(SECONDS)
        self.api_errors: Final[Counter[tuple[str, WriteOutcome]]] = Counter()
        """By the plural of the kind and what is known of the call."""
        self.watch_troubles: Final[Counter[str]] = Counter()
        self.retries = 0

    # --- syncs --------------------------------------------------------------------------------------------------------

    def synced(self, plan: ServicePlan) -> None:
        """A Service was planned, and all that its plan asks for is written."""
        service = plan.service
        key = service.metadata.namespace, service.metadata.name
        self.syncs[SyncResult.SUCCESS] += 1
        families = {}
        asked = None
        for family in plan.families:
            changes = family.changes
            asked = asked or traffic_distribution(service, family.decision)
            self.added.observe(changes.added)
            self.removed.observe(changes.removed)
            self.reallocated.observe(family.decision.moved)
            labels = sync_labels(service, family.decision)
            changed = self.changed_slices.get(labels)
            if changed is None:
                changed = self.changed_slices[labels] = Histogram(SLICES_PER_SYNC)
            changed.observe(len(changes.create) + len(changes.update) + len(changes.delete))
            families[family.address_type] = self._count(family)
        self.accounts.put(key, families, traffic_distribution=asked)
        if self.predictions is not None:
            self.predictions.touch(key)

    def not_synced(self, result: SyncResult = SyncResult.ERROR) -> None:
        """A sync ended otherwise. What its Service counted before stands."""
        self.syncs[result] += 1

    def forget(self, service: ObjectKey) -> None:
        """A Service is gone, or no longer ours."""
        self.accounts.drop(service)
        if self.predictions is not None:
            self.predictions.drop(service)

    def stepped_down(self) -> None:
        """We no longer lead. Whoever does counts all Services; ours would count them twice."""
        for service in list(self.accounts):
            self.forget(service)

    def retried(self) -> None:
        """A sync that failed will be tried again."""
        self.retries += 1

    def wrote(self, operation: Operation) -> None:
        """One slice was written."""
        self.changes[operation] += 1

    def waited(self, seconds: float) -> None:
        """From the first change of a Service until all that it led to was written: what `Queue.done` says, where
        something was written."""
        self.latency.observe(seconds)

    # --- the API ------------------------------------------------------------------------------------------------------

    def call_failed(self, error: CallFailed, *, kind: str) -> None:
        """A call failed. ``kind`` is the plural: ``endpointslices``."""
        self.api_errors[kind, write_outcome(error)] += 1

    def watch_failed(self, error: CallFailed, *, kind: str) -> None:
        """A list or watch broke off. That the server's memory is short is no trouble."""
        if not isinstance(error, Gone):
            self.watch_troubles[kind] += 1

    def _count(self, family: FamilyPlan) -> FamilyCount:
        changes, decision = family.changes, family.decision
        slices = (*changes.create, *changes.update, *changes.unchanged)
        by, hinted = hinted_by(decision), 0
        if by is not None and decision.assignment is not None:
            # Upstream's way hints endpoints where they lie in slices, and the decision knows nothing of it.
            by_cells = decision.assignment.kind == "hints"
            hinted = _hinted(decision.assignment) if by_cells else _hinted_in(slices)
        return family_count(_groups(slices), max_endpoints=self._max_endpoints, hinted=hinted, hinted_by=by)


def _hinted(assignment: Assignment) -> int:
    """How many endpoints have hints, told by cells: to ask for each would take too long."""
    number, alone = 0, False
    for cell in assignment.crowd.ready():
        if assignment.whole.get(cell) is not None:
            number += len(cell)
        elif assignment.node_hints:
            number += len(cell) - cell.nodeless
        else:
            alone = True
    if alone and assignment.apart:
        number += sum(
            member.cell is not None and assignment.whole.get(member.cell) is None for member in assignment.apart
        )
    return number + sum(assignment.hints_of(member) is not None for member in assignment.crowd.twins)


def _hinted_in(slices: Iterable[EndpointSlice]) -> int:
    return sum(endpoint.hints is not None for each in slices for endpoint in each.endpoints or ())


def _groups(slices: Iterable[EndpointSlice]) -> Iterable[tuple[int, int]]:
    """(endpoints, slices) by ports and consuming zones."""
    found: dict[object, list[int]] = {}
    ports: object = _NO_PORTS
    group: list[int] | None = None
    for each in slices:
        metadata = each.metadata
        zones = (metadata.labels or {}).get(ZONE_LABEL)
        if zones is not None:
            zones += " " + (metadata.annotations or {}).get(ZONES_ANNOTATION, "")
        # Nearly all slices of a Service share one tuple of ports, which need not be hashed again for each of them.
        if group is None or zones is not None or each.ports is not ports:
            group = found.setdefault((each.ports, zones), [0, 0])
            ports = each.ports if zones is None else _NO_PORTS
        group[0] += len(each.endpoints or ())
        group[1] += 1
    return ((endpoints, number) for endpoints, number in found.values())
