"""Serves ``spec.healthCheckNodePort``, where load balancers check whether a node has endpoints of a Service.

The responses are kube-proxy's (upstream's ``ServiceHealthServer``), with the number of ready endpoints on this node:
200, or 503 where there is none or the proxy itself is unhealthy.
"""

import asyncio
import resource
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NoReturn

import msgspec
from aiohttp import web

from zoneward.netlink.messages import Family
from zoneward.proxy.health.proxy_health import HEADERS
from zoneward.proxy.machine import address_families
from zoneward.proxy.model.node_service import ServiceKey
from zoneward.proxy.reporter import Reporter

_ALL: Final[dict[Family, str]] = {"ip": "0.0.0.0", "ip6": "::"}
_AGAIN: Final = 5.0
_ALIVE: Final = 30.0
"""Seconds for which a connection waits for its next request."""
_LAST_MOMENT: Final = 0.5
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
            claimants = self._claimants.setdefault(port, [])
            claimants.append(service)
            claimants.sort()
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
        claimants = self._claimants.get(_port_of(request))
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


def _port_of(request: web.BaseRequest) -> int:
    """The local port of a connection; 0 if it has ended."""
    transport = request.transport
    address = None if transport is None else transport.get_extra_info("sockname")
    return int(address[1]) if address else 0


def _allow_many_files() -> None:
    """Raise the limit of open files: thousands of Services have two sockets each, and the default is about a
    thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
