"""The Lease of a node's proxy: it reports up to which versions of Services and EndpointSlices this node is programmed.

Objects arrive in the order of their versions, and are programmed in any order. A Service that changed after a version
and has not been programmed since holds the reported version back (`ProgrammedVersion`).

The Lease is written at most once in `WRITE_PERIOD` seconds, and without changes once a minute, like the Lease of a
kubelet.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Set
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NoReturn

from msgspec.structs import replace

from zoneward.client.api_errors import ApiError, CallFailed, Conflict, NotFound
from zoneward.client.resources import LEASES, SERVICES, SLICES
from zoneward.client.writer import Writer
from zoneward.kube.leases import MAX_NOT_PROGRAMMED, RENEW_INTERVAL, ProgrammedReport, build_proxy_lease
from zoneward.kube.objects import ObjectMeta, OwnerReference, format_micro_time
from zoneward.proxy.model.node_service import ServiceKey
from zoneward.proxy.reporter import Reporter

KINDS: Final = (SERVICES.kind, SLICES.kind)


class ProgrammedVersion:
    """Computes the versions up to which the kernel has every change.

    Report every change, in order: `mark_changed` when a Service or one of its slices changed, then `mark_received`.
    """

    def __init__(self) -> None:
        self._received: dict[str, int] = {}
        self._since: dict[ServiceKey, dict[str, int]] = {}
        """By changed Service: the versions that had been received before its first change."""

    def mark_received(self, kind: str, version: int) -> None:
        """Record that all changes of a kind up to a version were received. `mark_changed` was called for each of
        them."""
        if kind in KINDS:
            self._received[kind] = version

    def mark_changed(self, service: ServiceKey) -> None:
        """Record that a Service or one of its slices changed or was deleted, and has to be programmed again."""
        if service not in self._since:
            self._since[service] = dict(self._received)

    def current(
        self, *, is_pending: Callable[[ServiceKey], bool], refused: Set[ServiceKey] = frozenset()
    ) -> ProgrammedReport | None:
        """The report for the Lease; None: not everything was listed and programmed yet.

        ``is_pending`` returns whether a changed Service may still have to be programmed. ``refused`` are the Services
        that the kernel refuses: the report names up to `MAX_NOT_PROGRAMMED` of them, which do not hold the version
        back; the others do, as if they were pending. ``refused`` must not contain Services that were deleted, or
        accepted later.
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
"""Seconds between two checks for the first report."""
_SPREAD: Final = 0.1
"""The maximum random share that is added to each pause: nodes that started together do not write together."""


class NodeLease:
    """Writes the Lease while it `run`s. ``programmed`` returns the report; None: there is none yet, and nothing is
    written. ``proxy_name`` is empty unless the proxy serves labeled Services.

    ``owner`` returns a reference to the Node, if it is known, so that garbage collection deletes the Lease with it. No
    other program writes this Lease. A failed write is retried. ``clock`` counts seconds, ``now`` is the time of day,
    ``chance`` returns a random number from 0 to 1.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        namespace: str,
        node: str,
        proxy_name: str = "",
        programmed: Callable[[], ProgrammedReport | None],
        owner: Callable[[], OwnerReference | None] = lambda: None,
        reporter: Reporter | None = None,
        clock: Callable[[], float] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._writer = writer
        self._namespace, self._node, self._proxy_name = namespace, node, proxy_name
        self._programmed, self._owner, self._reporter = programmed, owner, reporter or Reporter()
        self._clock = clock or asyncio.get_running_loop().time
        self._now, self._sleep, self._chance = now, sleep, chance
        self._stored: ObjectMeta | None = None
        """The metadata of the Lease as last written or read; None: it has to be read."""
        self._reported: ProgrammedReport | None = None
        self._renewed_at = 0.0

    async def run(self) -> NoReturn:
        """Run until cancelled. The Lease stays, like the rules in the kernel."""
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
        """Write the Lease. Returns the minimum number of seconds until the next write."""
        started = self._clock()
        try:
            await self._write(programmed)
        except CallFailed as error:
            self._stored = None
            self._reporter.lease_failed(error)
            asked = (error.retry_after if isinstance(error, ApiError) else None) or 0.0
            return max(WRITE_PERIOD, asked)
        self._reported, self._renewed_at = programmed, started
        return WRITE_PERIOD

    async def _write(self, programmed: ProgrammedReport) -> None:
        lease = build_proxy_lease(
            self._node,
            programmed,
            namespace=self._namespace,
            proxy_name=self._proxy_name,
            renewed=format_micro_time(self._now()),
            owner=self._owner(),
        )
        for is_last in (False, True):
            if self._stored is None:
                with suppress(NotFound):
                    name = lease.metadata.name
                    self._stored = (await self._writer.read(LEASES, namespace=self._namespace, name=name)).metadata
            stored = self._stored
            try:
                if stored is None:
                    self._stored = await self._writer.create(LEASES, lease)
                else:
                    metadata = replace(lease.metadata, uid=stored.uid, resource_version=stored.resource_version)
                    self._stored = await self._writer.update(LEASES, replace(lease, metadata=metadata))
            except (Conflict, NotFound):
                # Another proxy of this node wrote it, for example one that is being replaced; or it was deleted.
                self._stored = None
                if is_last:
                    raise
            else:
                return
