"""Serves ``/healthz`` and ``/livez`` of a node's proxy for load balancers and probes, with kube-proxy's responses, and
``/proxyMode`` for scripts.

A proxy is healthy if it programs changes in time. A node that is about to be deleted accepts no new connections from
load balancers, so ``/healthz`` fails; ``/livez``, which decides about a restart, ignores the node (kube-proxy's
``ProxyHealthServer``; KEP-3836).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

import msgspec
from aiohttp import web

from zoneward.daemon.listen_address import ListenAddress
from zoneward.daemon.log import Log
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


class ProxyHealth:
    """Whether the proxy programs changes in time, in each family. ``limit`` in seconds.

    ``waiting`` returns since when a change has waited for the kernel; None: no change waits. Times are seconds of one
    monotonic clock. Unlike kube-proxy, a proxy that has never programmed anything becomes unhealthy.
    """

    def __init__(self, *, limit: float, waiting: Callable[[Family], float | None] = lambda _family: None) -> None:
        self._limit, self._waiting = limit, waiting
        self.programmed_at: Final[dict[Family, float]] = {}
        """When the kernel accepted the last transaction of a family, if it accepted any."""
        self.is_eligible = False
        """The result of `is_node_eligible`."""

    def families(self, now: float) -> dict[Family, bool]:
        """Whether each family is healthy in which a change was programmed or waits."""
        since = {family: self._waiting(family) for family in FAMILIES}
        return {
            family: begun is None or now - begun < self._limit
            for family, begun in since.items()
            if family in self.programmed_at or begun is not None
        }

    def is_healthy(self, now: float) -> bool:
        return all(self.families(now).values())


def health_document(health: ProxyHealth, *, now: float, today: datetime, of_node: bool) -> tuple[int, dict[str, Any]]:
    """Status and body of a response; ``of_node`` for ``/healthz``. ``today`` is the time of day at ``now``."""
    families = health.families(now)
    healthy = all(families.values())
    well = healthy and (health.is_eligible or not of_node)

    def time_of(moment: float | None) -> str:
        return _NEVER if moment is None else _written(today - timedelta(seconds=now - moment))

    document: dict[str, Any] = {
        # A healthy proxy reports the current time, as in kube-proxy, which used to program periodically.
        "lastUpdated": _written(today) if well else time_of(max(health.programmed_at.values(), default=None)),
        "currentTime": _written(today),
    }
    if of_node:
        document["nodeEligible"] = health.is_eligible
    document["healthy"] = healthy
    if families:
        document["status"] = {
            ADDRESS_TYPES[family]: {"lastUpdated": time_of(health.programmed_at.get(family)), "healthy": is_healthy}
            for family, is_healthy in families.items()
        }
    return 200 if well else 503, document


@asynccontextmanager
async def serve_health(
    health: ProxyHealth,
    *,
    host: str | None = None,
    port: int = HEALTHZ_PORT,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[int]:
    """Serve ``/healthz`` and ``/livez`` inside the block, which gets the port. ``host`` None: all addresses; ``port``
    0: any free port. Raises OSError if the port cannot be opened."""

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path not in ("/healthz", "/livez"):
            return web.Response(status=404, text="expected /healthz or /livez\n")
        status, body = health_document(health, now=clock(), today=datetime.now(UTC), of_node=request.path == "/healthz")
        return web.Response(status=status, body=msgspec.json.encode(body), headers=HEADERS)

    server = web.Server(answer, keepalive_timeout=_ALIVE, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=_LAST_MOMENT)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


PROXY_MODE: Final = "nftables"
"""kube-proxy's name for this kind of proxy, which scripts and tests request from it on ``localhost:10249``."""
PROXY_MODE_PATH: Final = "/proxyMode"
_AGAIN: Final = 5.0


async def serve_proxy_mode(
    listen: ListenAddress,
    *,
    log: Log,
    again: float = _AGAIN,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> NoReturn:
    """Serve ``/proxyMode`` until cancelled.

    If the address cannot be opened, because kube-proxy may still use it, this retries every ``again`` seconds, and logs
    each reason once.
    """
    runner = web.ServerRunner(
        web.Server(_answer_mode, keepalive_timeout=_ALIVE, access_log=None), shutdown_timeout=_LAST_MOMENT
    )
    await runner.setup()
    reported = ""
    try:
        while not runner.addresses:
            site = web.TCPSite(runner, listen.host, listen.port)
            try:
                await site.start()
            except OSError as error:
                await site.stop()
                why = error.strerror or str(error)
                if why != reported:
                    reported = why
                    log.warning("failed to serve /proxyMode; retrying", listen=str(listen), error=why)
                await sleep(again)
        log.info("proxy mode server listens", port=runner.addresses[0][1])
        while True:
            await asyncio.Event().wait()
    finally:
        await runner.cleanup()


async def _answer_mode(request: web.BaseRequest) -> web.Response:
    if request.path != PROXY_MODE_PATH:
        return web.Response(status=404, text=f"expected {PROXY_MODE_PATH}\n")
    return web.Response(text=PROXY_MODE, headers={"X-Content-Type-Options": "nosniff"})
