"""Sees every write leave and be done, and notes what should not have been."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from tests.builders.objects import SERVICE_NAME
from tests.controller.model.cluster import NAMESPACE, SLICES, Cluster
from tests.controller.model.network import LEASES, Link, Sent, seconds

from zoneward.controller.controller_configuration import LeaseTiming
from zoneward.kube.objects import ObjectKey
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.requests import ResourcePath
from zoneward.sandbox.server.versioned_store import Record, StoredChange

Address = tuple[str, str]
"""Of an endpoint: the Service, and its address."""
TIMING: Final = LeaseTiming(lease_duration=9, renew_deadline=6, retry_period=2)
"""Of all replicas."""
_NOBODY: Final = "somebody"


@dataclass(frozen=True, slots=True)
class Planned:
    """What a replica knew when it planned a Service: the addresses that are ready, and the versions of slices."""

    service: str
    ready: frozenset[str]
    slices: Mapping[str, int]
    version: int
    """What the server was at."""


class Judge:
    """``faults`` has a line for each thing that should not have happened."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.current: Sent | None = None
        self.faults: list[str] = []
        self.plans: dict[asyncio.Task[Any] | None, Planned] = {}
        """By the worker that follows the plan."""
        self.deadlines: dict[str, Callable[[], float]] = {}
        """Until when a replica's writes have to be done at the latest, of replicas that need to lead."""
        self.renewed: dict[str, float] = {}
        """When the last write of the Lease left that was done, by who it made the holder."""
        self.holder = ""
        """Of the Lease, as the server has it."""
        self.log: list[tuple[str, str, str]] = []
        """All changes except those of the Lease: type, kind and name."""
        self.by: Counter[str] = Counter()
        self._listed: dict[str, tuple[str, frozenset[str]]] = {}
        """Of each slice, its Service and its ready addresses."""
        self._taken: defaultdict[Address, list[tuple[str, int, str]]] = defaultdict(list)
        """The slice from which an address was taken, at which version, and by whom."""
        self._written: dict[str, Planned | None] = {}
        """The plan by which a slice was last written, if any."""
        cluster.registry.store.listeners.append(self._note)

    def planned(self, service: ObjectKey, ready: frozenset[str], slices: Mapping[str, int]) -> None:
        """The worker that runs plans a Service from this."""
        self.plans[asyncio.current_task()] = Planned(service[1], ready, slices, self._cluster.registry.store.version)

    # --- writes -------------------------------------------------------------------------------------------------------

    def leaves(self, link: Link, method: str, route: ResourcePath) -> Sent:
        """Returns the write that leaves, and notes a fault if its replica does not lead."""
        plural, now = route.kind.plural, seconds()
        deadline = self.deadlines.get(link.name)
        if deadline is not None and plural != "leases" and now > deadline() + 1e-6:
            self.faults.append(
                f"{now:.3f} s: {link.name} sends a {method} of {plural}, and no longer leads for so long"
            )
        elif deadline is not None and plural != "leases" and self.holder != link.name:
            self.faults.append(f"{now:.3f} s: {link.name} sends a {method} of {plural}, and {self.holder} leads")
        planned = self.plans.get(asyncio.current_task()) if plural == "endpointslices" else None
        return Sent(link.name, method, plural, now, planned)

    def _note(self, kind: Kind, change: StoredChange) -> None:
        if kind.resource == LEASES:
            self.holder = "" if change.new is None else change.new.object()["spec"].get("holderIdentity") or ""
            if self.current is not None and self.holder == self.current.sender:
                self.renewed[self.holder] = self.current.at
            return
        self.log.append((change.type, kind.plural, change.key[1]))
        self.by[f"{kind.plural} by {'us' if self.current is not None else 'others'}"] += 1
        if kind.resource == SLICES:
            self._note_slice(change)

    def _note_slice(self, change: StoredChange) -> None:
        name, by = change.key[1], _author(self.current)
        self._check_version(change, name)
        before = self._listed.pop(name, None)
        if change.new is not None:
            self._listed[name] = _content(change.new)
        after = self._listed.get(name)
        if before is None:
            return
        service = before[0]
        taken = before[1] - after[1] if after is not None and after[0] == service else before[1]
        if not taken:
            return
        left = frozenset().union(*(ready for of, ready in self._listed.values() if of == service))
        lost = taken - left
        if lost and self.current is not None:
            self._judge(self.current, service, lost, name)
        for address in taken:
            self._taken[service, address].append((name, change.version, by))

    def _check_version(self, change: StoredChange, name: str) -> None:
        """Nobody replaces what it has not seen."""
        sent, old = self.current, change.old
        written, self._written[name] = self._written.get(name), None if sent is None else sent.planned
        if sent is None or old is None or sent.planned is None:
            return
        if sent.planned.slices.get(name) != old.version and written is not sent.planned:
            self.faults.append(f"{seconds():.3f} s: {sent.sender} replaces a version of {name} that it has not seen")

    def _judge(self, sent: Sent, service: str, lost: frozenset[str], name: str) -> None:
        planned: Planned | None = sent.planned
        if planned is None or planned.service != service or not (known := lost & planned.ready):
            return
        result = self._cluster.registry.find("services", NAMESPACE, service)
        if result is None or not result["spec"].get("selector"):
            return
        expected = self._cluster.expected(result)
        for address in sorted(known):
            if address not in expected or not expected[address].ready:
                continue
            # The plan used slices that another client, or a late write (docs/limits.md), had changed, or has changed
            # since: the writer could not know.
            if any(
                planned.slices.get(slice_, planned.version) < version and by != _author(sent)
                for slice_, version, by in self._taken[service, address]
            ):
                continue
            self.faults.append(
                f"{seconds():.3f} s: {sent.sender} takes {address} of {service} out of the last slice that lists it"
                f" ({sent.method} of {name}), and knew that it is ready"
            )


def _author(sent: Sent | None) -> str:
    """Who does a write. A late one, whose sender no longer waits for it, has a separate author."""
    if sent is None:
        return _NOBODY
    return sent.sender if seconds() - sent.at <= TIMING.write_timeout else f"{sent.sender}, late"


def _content(record: Record) -> tuple[str, frozenset[str]]:
    object_ = msgspec.json.decode(record.data)
    ready = [
        address
        for endpoint in object_.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
        for address in endpoint["addresses"]
    ]
    return (object_["metadata"].get("labels") or {}).get(SERVICE_NAME, ""), frozenset(ready)
