"""The Lease of a node's proxy, kept current: what is programmed here, told at a cost that nodes and time alone decide.

However many Services change, and however often, it is written at most once in `LEAST` seconds, and where nothing
changes once in a minute, as the Leases of kubelets are.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final, NoReturn

from msgspec.structs import replace

from zoneward.client.api_errors import ApiError, CallFailed, Conflict, NotFound
from zoneward.client.resources import LEASES
from zoneward.client.transport_interface import WriteTransport
from zoneward.client.writer import Writer
from zoneward.kube.objects import ObjectMeta, OwnerReference, format_micro_time
from zoneward.kube.proxy_lease import RENEW_INTERVAL, ProgrammedReport, build_proxy_lease

LEAST: Final = 10.0
"""Seconds between two writes."""
_LOOK: Final = 0.5
"""Seconds between two looks for whether there is something to say for the first time."""
_SPREAD: Final = 0.1
"""Of each pause, by chance: nodes that began together do not write together."""


class NodeLease:
    """`run` it. ``programmed`` says what is; None: nothing can be said yet, and nothing is written.

    ``owner`` is the Node, where it is known, with which the Lease goes. Of the Lease in this namespace and under this
    name nobody else is expected to write anything. What fails is told to ``on_trouble`` and tried again. ``clock``
    counts seconds, ``now`` is the time of day, ``chance`` is from 0 to 1.
    """

    def __init__(
        self,
        connection: WriteTransport,
        *,
        namespace: str,
        node: str,
        proxy_name: str = "",
        programmed: Callable[[], ProgrammedReport | None],
        owner: Callable[[], OwnerReference | None] = lambda: None,
        on_trouble: Callable[[CallFailed], None] = lambda _trouble: None,
        clock: Callable[[], float] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._writer = Writer(connection)
        self._namespace, self._node, self._proxy_name = namespace, node, proxy_name
        self._programmed, self._owner, self._on_trouble = programmed, owner, on_trouble
        self._clock = clock or asyncio.get_running_loop().time
        self._now, self._sleep, self._chance = now, sleep, chance
        self._there: ObjectMeta | None = None
        """Of the Lease as we last wrote or read it; None: it has to be looked for."""
        self._told: ProgrammedReport | None = None
        self._renewed = 0.0

    async def run(self) -> NoReturn:
        """Until cancelled. The Lease stays: what is programmed does too."""
        while (programmed := self._programmed()) is None:
            await self._sleep(_LOOK)
        while True:
            due = self._clock() - self._renewed >= RENEW_INTERVAL - LEAST / 2
            pause = LEAST
            if programmed is not None and (due or programmed != self._told):
                pause = await self._renew(programmed)
            await self._sleep(pause * (1 + _SPREAD * self._chance()))
            programmed = self._programmed() or self._told

    async def _renew(self, programmed: ProgrammedReport) -> float:
        """Seconds, at least, until the next write."""
        started = self._clock()
        try:
            await self._write(programmed)
        except CallFailed as error:
            self._there = None
            self._on_trouble(error)
            asked = (error.retry_after if isinstance(error, ApiError) else None) or 0.0
            return max(LEAST, asked)
        self._told, self._renewed = programmed, started
        return LEAST

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
            if self._there is None:
                self._there = await self._found(lease.metadata.name)
            there = self._there
            try:
                if there is None:
                    self._there = await self._writer.create(LEASES, lease)
                else:
                    metadata = replace(lease.metadata, uid=there.uid, resource_version=there.resource_version)
                    self._there = await self._writer.update(LEASES, replace(lease, metadata=metadata))
            except (Conflict, NotFound):
                # Another proxy of this node wrote it, as one that is replaced may; or somebody deleted it.
                self._there = None
                if is_last:
                    raise
            else:
                return

    async def _found(self, name: str) -> ObjectMeta | None:
        try:
            return (await self._writer.read(LEASES, namespace=self._namespace, name=name)).metadata
        except NotFound:
            return None
