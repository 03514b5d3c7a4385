"""Serves the health of a node's proxy and of its Services for load balancers and probes, with kube-proxy's responses.

A proxy is healthy if it programs changes in time. A node that is about to be deleted accepts no new connections from
load balancers, so ``/healthz`` fails; ``/livez``, which decides about a restart, ignores the node (kube-proxy's
``ProxyHealthServer``; KEP-3836). ``/proxyMode`` is for scripts.

On ``spec.healthCheckNodePort`` load balancers check whether a node has endpoints of a Service (upstream's
``ServiceHealthServer``): the response has the number of ready endpoints on this node, with 200, or 503 where there is
none or the proxy itself is unhealthy.
"""

import asyncio
import resource
import time
from bisect import insort
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

import msgspec
from aiohttp import web

from zoneward.daemon.listen_address import ListenAddress
from zoneward.daemon.log import Log
from zoneward.kube.objects import Node
from zoneward.netlink.messages import ADDRESS_TYPES, FAMILIES, Family
from zoneward.proxy.machine import address_families
from zoneward.proxy.model.node_service import ServiceKey
from zoneward.proxy.proxy_configuration import HEALTHZ_PORT
from zoneward.proxy.reporter import Reporter

TO_BE_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
"""The taint of a Node that the cluster autoscaler is about to delete."""
HEADERS: Final = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
_NEVER: Final = "0001-01-01T00:00:00Z"
_LAST_MOMENT: Final = 0.5
_ALIVE: Final = 30.0
"""Seconds for which a connection waits for its next request."""
_AGAIN: Final = 5.0


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
            family: started_at is None or now - started_at < self._limit
            for family, started_at in since.items()
            if family in self.programmed_at or started_at is not None
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


_ALL: Final[dict[Family, str]] = {"ip": "0.0.0.0", "ip6": "::"}
_MOST_FILES: Final = 1 << 20


class ServiceHealthServer:
    """One HTTP server for each Service with a health check node port, opened and closed while this `run`s.

    ``hosts``: addresses to listen on; None: all. ``proxy_is_healthy``: the value of ``serviceProxyHealthy``.
    A port that cannot be opened is retried every ``again`` seconds. Of Services that request the same port, the first
    by name gets it.
    """

    def __init__(
        self,
        *,
        hosts: Sequence[str] | None = None,
        proxy_is_healthy: Callable[[], bool] = lambda: True,
        reporter: Reporter | None = None,
        again: float = _AGAIN,
    ) -> None:
        self._hosts = tuple(hosts if hosts is not None else (_ALL[family] for family in address_families()))
        self._proxy_is_healthy, self._reporter, self._again = proxy_is_healthy, reporter or Reporter(), again
        self._ports: dict[ServiceKey, int] = {}
        self._healthy: dict[ServiceKey, int] = {}
        self._claimants: dict[int, list[ServiceKey]] = {}
        """By port, the Services that request it, sorted: the first one gets it."""
        self._servers: dict[int, asyncio.Server] = {}
        self._reported: dict[tuple[ServiceKey, int], str] = {}
        self._to_check: dict[int, None] = {}
        self._retries: dict[int, asyncio.TimerHandle] = {}
        self._has_work = asyncio.Event()

    def set_service(self, service: ServiceKey, port: int | None, healthy: int = 0) -> None:
        """Record the port of a Service (None: it has none), and its number of ready endpoints on this node."""
        self._healthy[service] = healthy
        before = self._ports.get(service)
        if port is None:
            del self._healthy[service]
        if before == port:
            return
        if before is not None:
            del self._ports[service]
            self._reported.pop((service, before), None)
            self._claimants[before].remove(service)
            self._check_port(before)
        if port is not None:
            self._ports[service] = port
            insort(self._claimants.setdefault(port, []), service)
            self._check_port(port)

    @property
    def open_ports(self) -> frozenset[int]:
        return frozenset(self._servers)

    async def run(self) -> NoReturn:
        """Run until cancelled, then close all servers."""
        _allow_many_files()
        server = web.Server(self._answer, keepalive_timeout=_ALIVE, access_log=None)
        try:
            while True:
                await self._has_work.wait()
                self._has_work.clear()
                while self._to_check:
                    port = next(iter(self._to_check))
                    del self._to_check[port]
                    await self._open_or_close(port, server)
        finally:
            for retry in self._retries.values():
                retry.cancel()
            self._retries.clear()
            for port_server in self._servers.values():
                port_server.close()
            self._servers.clear()
            await server.shutdown(_LAST_MOMENT)

    # --- within -------------------------------------------------------------------------------------------------------

    def _check_port(self, port: int) -> None:
        self._to_check[port] = None
        self._has_work.set()

    async def _open_or_close(self, port: int, server: web.Server) -> None:
        if port in self._retries:
            self._retries.pop(port).cancel()
        claimants = self._claimants.get(port)
        if not claimants:
            self._claimants.pop(port, None)
            if port in self._servers:
                self._servers.pop(port).close()
            return
        for other in claimants[1:]:
            self._report(other, port, f"it is the port of {'/'.join(claimants[0])} too, which comes first by name")
        if port in self._servers:
            return
        loop = asyncio.get_running_loop()
        try:
            # Recorded before it serves: if cancelled in between, `run` still closes it.
            port_server = self._servers[port] = await loop.create_server(server, self._hosts, port, start_serving=False)
            await port_server.start_serving()
        except (OSError, OverflowError) as error:
            if port in self._servers:
                self._servers.pop(port).close()
            if claimants:  # All may be deleted meanwhile; then the port is checked again anyway.
                self._report(claimants[0], port, getattr(error, "strerror", None) or str(error))
                self._retries[port] = loop.call_later(self._again, self._check_port, port)
        else:
            if claimants:
                self._reported.pop((claimants[0], port), None)

    def _report(self, service: ServiceKey, port: int, why: str) -> None:
        if self._reported.get((service, port)) != why:
            self._reported[service, port] = why
            self._reporter.health_port_failed(service, port, why)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        # A connection may outlive its Service, and reach the next Service with this port.
        transport = request.transport
        address = None if transport is None else transport.get_extra_info("sockname")
        claimants = self._claimants.get(address[1]) if address else None
        if not claimants:
            response = web.Response(status=503)
            response.force_close()
            return response
        (namespace, name), is_healthy = claimants[0], self._proxy_is_healthy()
        healthy = self._healthy[claimants[0]]
        body = {
            "service": {"namespace": namespace, "name": name},
            "localEndpoints": healthy,
            "serviceProxyHealthy": is_healthy,
        }
        return web.Response(
            status=200 if healthy and is_healthy else 503,
            body=msgspec.json.encode(body),
            headers={**HEADERS, "X-Load-Balancing-Endpoint-Weight": str(healthy)},
        )


def _allow_many_files() -> None:
    """Raise the limit of open files: thousands of Services have two sockets each, and the default is about a
    thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
