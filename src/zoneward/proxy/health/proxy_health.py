"""Serves ``/healthz`` and ``/livez`` of a node's proxy for load balancers and probes, with kube-proxy's responses.

A proxy is healthy if it programs changes in time. A node that is about to be deleted accepts no new connections from
load balancers, so ``/healthz`` fails; ``/livez``, which decides about a restart, ignores the node (kube-proxy's
``ProxyHealthServer``; KEP-3836).
"""

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from aiohttp import web

from zoneward.kube.objects import Node
from zoneward.netlink.messages import ADDRESS_TYPES, FAMILIES, Family
from zoneward.proxy.proxy_configuration import HEALTHZ_PORT

TO_BE_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
"""The taint of a Node that the cluster autoscaler is about to delete."""
HEADERS: Final = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
_NEVER: Final = "0001-01-01T00:00:00Z"
_LAST_MOMENT: Final = 0.5
_ALIVE: Final = 30.0


def is_node_eligible(node: Node | None) -> bool:
    """Whether load balancers may send to a Node: it exists, and is not being deleted or about to be."""
    if node is None or node.metadata.deletion_timestamp:
        return False
    return all(taint.key != TO_BE_DELETED for taint in (node.spec.taints if node.spec else None) or ())


@dataclass(frozen=True, slots=True)
class FamilyHealth:
    """``updated``: the time of the last programmed transaction, on the clock of `ProxyHealth`; None: there was none."""

    updated: float | None
    healthy: bool


class ProxyHealth:
    """Whether the proxy programs changes in time, in each family. ``limit`` in seconds.

    ``waiting`` returns since when a change has waited for the kernel; None: no change waits. Times are seconds of one
    monotonic clock. Unlike kube-proxy, a proxy that has never programmed anything becomes unhealthy.
    """

    def __init__(self, *, limit: float, waiting: Callable[[Family], float | None] = lambda _family: None) -> None:
        self._limit, self._waiting = limit, waiting
        self._updated: dict[Family, float] = {}
        self._eligible = False

    def mark_programmed(self, now: float, family: Family) -> None:
        """Record that the kernel accepted a transaction."""
        self._updated[family] = now

    def last_programmed(self, family: Family) -> float | None:
        """When the kernel accepted the last transaction of a family; None: it accepted none."""
        return self._updated.get(family)

    def set_node_eligible(self, eligible: bool) -> None:
        """Record the result of `is_node_eligible`. Until then the Node is not eligible."""
        self._eligible = eligible

    @property
    def is_eligible(self) -> bool:
        return self._eligible

    def families(self, now: float) -> dict[Family, FamilyHealth]:
        """The health of each family in which a change was programmed or waits."""
        since = {family: self._waiting(family) for family in FAMILIES}
        return {
            family: FamilyHealth(self._updated.get(family), begun is None or now - begun < self._limit)
            for family, begun in since.items()
            if family in self._updated or begun is not None
        }

    def is_healthy(self, now: float) -> bool:
        return all(family.healthy for family in self.families(now).values())


def health_document(health: ProxyHealth, *, now: float, today: datetime, of_node: bool) -> tuple[int, dict[str, Any]]:
    """Status and body of a response; ``of_node`` for ``/healthz``. ``today`` is the time of day at ``now``."""
    families = health.families(now)
    healthy = health.is_healthy(now)
    well = healthy and (health.is_eligible or not of_node)

    def time_of(moment: float | None) -> str:
        return _NEVER if moment is None else _written(today - timedelta(seconds=now - moment))

    last = max((family.updated for family in families.values() if family.updated is not None), default=None)
    document: dict[str, Any] = {
        # A healthy proxy reports the current time, as in kube-proxy, which used to program periodically.
        "lastUpdated": _written(today) if well else time_of(last),
        "currentTime": _written(today),
    }
    if of_node:
        document["nodeEligible"] = health.is_eligible
    document["healthy"] = healthy
    if families:
        document["status"] = {
            ADDRESS_TYPES[family]: {"lastUpdated": time_of(family_health.updated), "healthy": family_health.healthy}
            for family, family_health in families.items()
        }
    return 200 if well else 503, document


class ProxyHealthServer:
    """Serves ``/healthz`` and ``/livez`` inside the block. ``host`` None: all addresses; ``port`` 0: any free port."""

    def __init__(
        self,
        health: ProxyHealth,
        *,
        host: str | None = None,
        port: int = HEALTHZ_PORT,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._health, self._host, self._port = health, host, port
        self._clock, self._today = clock, today
        self._stack = AsyncExitStack()

    @property
    def port(self) -> int:
        """The port, inside the block the one that the server listens on."""
        return self._port

    async def __aenter__(self) -> Self:
        """Raises OSError if the port cannot be opened."""
        server = web.Server(self._answer, keepalive_timeout=_ALIVE, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=_LAST_MOMENT)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except BaseException:
            await self._stack.aclose()
            raise
        self._port = runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if request.path not in ("/healthz", "/livez"):
            return web.Response(status=404, text="expected /healthz or /livez\n")
        status, body = health_document(
            self._health, now=self._clock(), today=self._today(), of_node=request.path == "/healthz"
        )
        return web.Response(status=status, body=msgspec.json.encode(body), headers=HEADERS)


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
