"""The Lease of a node's proxy: it reports up to which versions of Services and EndpointSlices this node is programmed.

Objects arrive in the order of their versions, and are programmed in any order. A Service that changed after a version,
and is not programmed since, holds the reported version back; everything else passes it (`ProgrammedVersion`).

However many Services change, and however often, the Lease is written at most once in `WRITE_PERIOD` seconds, and where
nothing changes once in a minute, as the Leases of kubelets are.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NoReturn

from msgspec.structs import replace

from zoneward.client.api_errors import ApiError, CallFailed, Conflict, NotFound
from zoneward.client.resources import LEASES, SERVICES, SLICES
from zoneward.client.transport_interface import WriteTransport
from zoneward.client.writer import Writer
from zoneward.kube.objects import ObjectMeta, OwnerReference, format_micro_time
from zoneward.kube.proxy_lease import MAX_NOT_PROGRAMMED, RENEW_INTERVAL, ProgrammedReport, build_proxy_lease
from zoneward.proxy.model.node_service import ServiceKey

KINDS: Final = (SERVICES.kind, SLICES.kind)


class ProgrammedVersion:
    """The versions up to which the kernel has everything.

    Report every change, in order: `mark_changed` when a Service or one of its slices changed, then `mark_received`.
    """

    def __init__(self) -> None:
        self._received: dict[str, int] = {}
        self._since: dict[ServiceKey, dict[str, int]] = {}
        """Of Services that changed: what had been received before they first did."""

    def mark_received(self, kind: str, version: int) -> None:
        """Everything that happened to a kind up to a version was received, and `mark_changed` was called for all
        Services of it."""
        if kind in KINDS:
            self._received[kind] = version

    def mark_changed(self, service: ServiceKey) -> None:
        """A Service, or a slice of it, changed or is gone: it has to be programmed again."""
        if service not in self._since:
            self._since[service] = dict(self._received)

    def current(
        self, *, is_pending: Callable[[ServiceKey], bool], refused: Set[ServiceKey] = frozenset()
    ) -> ProgrammedReport | None:
        """What the Lease may report now; None: nothing yet, as not everything was listed, and programmed once.

        ``is_pending`` says whether a Service that changed is on its way to the kernel, or may be. ``refused`` are those
        that the kernel refuses: they are named, and hold nothing back; but where they are more than
        `MAX_NOT_PROGRAMMED`, the
        others hold the version back, as if they were on their way. Services that were refused and are gone, or were
        accepted later, must not be among them.
        """
        unable = sorted(refused)
        named = tuple(unable[:MAX_NOT_PROGRAMMED])
        for service in unable[MAX_NOT_PROGRAMMED:]:
            self.mark_changed(service)
        for service in [service for service in self._since if service not in refused and not is_pending(service)]:
            del self._since[service]
        if any(kind not in self._received for kind in KINDS):
            return None
        exempt = frozenset(named)
        marks = dict(self._received)
        for service, before in self._since.items():
            if service in exempt:
                continue
            for kind in KINDS:
                if kind not in before:
                    return None
                marks[kind] = min(marks[kind], before[kind])
        return ProgrammedReport(marks[SERVICES.kind], marks[SLICES.kind], named)


WRITE_PERIOD: Final = 10.0
"""Seconds between two writes."""
_CHECK_PERIOD: Final = 0.5
"""Seconds between two looks for whether there is something to say for the first time."""
_SPREAD: Final = 0.1
"""Of each pause, by chance: nodes that began together do not write together."""


@dataclass(frozen=True, slots=True)
class LeaseIdentity:
    """Where a proxy's Lease is, and whose: ``proxy_name`` is empty but for one that serves labelled Services."""

    namespace: str
    node: str
    proxy_name: str = ""


class NodeLease:
    """Writes the Lease while it `run`s. ``programmed`` returns what the Lease reports; None: nothing yet, and nothing
    is written.

    ``owner`` returns the Node, where it is known, whose garbage collection removes the Lease. Nobody else is expected
    to write this Lease. ``on_trouble`` gets each failed write, which is tried again. ``clock`` counts seconds, ``now``
    is the time of day, ``chance`` returns a number from 0 to 1.
    """

    def __init__(
        self,
        connection: WriteTransport,
        identity: LeaseIdentity,
        *,
        programmed: Callable[[], ProgrammedReport | None],
        owner: Callable[[], OwnerReference | None] = lambda: None,
        on_trouble: Callable[[CallFailed], None] = lambda _trouble: None,
        clock: Callable[[], float] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._writer = Writer(connection)
        self._identity = identity
        self._programmed, self._owner, self._on_trouble = programmed, owner, on_trouble
        self._clock = clock or asyncio.get_running_loop().time
        self._now, self._sleep, self._chance = now, sleep, chance
        self._stored: ObjectMeta | None = None
        """Of the Lease as we last wrote or read it; None: it has to be looked for."""
        self._reported: ProgrammedReport | None = None
        self._renewed_at = 0.0

    async def run(self) -> NoReturn:
        """Until cancelled. The Lease stays: what is programmed does too."""
        while (programmed := self._programmed()) is None:
            await self._sleep(_CHECK_PERIOD)
        while True:
            due = self._clock() - self._renewed_at >= RENEW_INTERVAL - WRITE_PERIOD / 2
            pause = WRITE_PERIOD
            if programmed is not None and (due or programmed != self._reported):
                pause = await self._renew(programmed)
            await self._sleep(pause * (1 + _SPREAD * self._chance()))
            programmed = self._programmed() or self._reported

    async def _renew(self, programmed: ProgrammedReport) -> float:
        """Seconds, at least, until the next write."""
        started = self._clock()
        try:
            await self._write(programmed)
        except CallFailed as error:
            self._stored = None
            self._on_trouble(error)
            asked = (error.retry_after if isinstance(error, ApiError) else None) or 0.0
            return max(WRITE_PERIOD, asked)
        self._reported, self._renewed_at = programmed, started
        return WRITE_PERIOD

    async def _write(self, programmed: ProgrammedReport) -> None:
        lease = build_proxy_lease(
            self._identity.node,
            programmed,
            namespace=self._identity.namespace,
            proxy_name=self._identity.proxy_name,
            renewed=format_micro_time(self._now()),
            owner=self._owner(),
        )
        for is_last in (False, True):
            if self._stored is None:
                self._stored = await self._read_stored(lease.metadata.name)
            there = self._stored
            try:
                if there is None:
                    self._stored = await self._writer.create(LEASES, lease)
                else:
                    metadata = replace(lease.metadata, uid=there.uid, resource_version=there.resource_version)
                    self._stored = await self._writer.update(LEASES, replace(lease, metadata=metadata))
            except (Conflict, NotFound):
                # Another proxy of this node wrote it, as one that is replaced may; or somebody deleted it.
                self._stored = None
                if is_last:
                    raise
            else:
                return

    async def _read_stored(self, name: str) -> ObjectMeta | None:
        try:
            return (await self._writer.read(LEASES, namespace=self._identity.namespace, name=name)).metadata
        except NotFound:
            return None
