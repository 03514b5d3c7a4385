"""A load balancer that asks at a Service's health check node port gets the answer that kube-proxy would give."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from tests.proxy.background import in_background

from zoneward.proxy.health.service_health import ServiceHealthServer
from zoneward.proxy.model.node_service import ServiceKey
from zoneward.proxy.reporter import Reporter

CART = ("shop", "cart")


class Troubles(Reporter):
    def __init__(self) -> None:
        self.told: list[tuple[ServiceKey, int, str]] = []

    def health_port_failed(self, service: ServiceKey, port: int, why: str) -> None:
        self.told.append((service, port, why))


@asynccontextmanager
async def served(ports: ServiceHealthServer) -> AsyncIterator[ServiceHealthServer]:
    async with in_background(ports.run()):
        yield ports
    assert not ports.open_ports


# Below the ephemeral ports of the kernel; each process starts at a different port.
_PORTS = iter(range(11_000 + os.getpid() % 200 * 40, 30_000))


def free_port() -> int:
    """A port that is free in both families."""
    for port in _PORTS:
        with suppress(OSError), socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True):
            return port
    raise AssertionError("no port is free")


async def opened(ports: ServiceHealthServer, *expected: int) -> None:
    while ports.open_ports != frozenset(expected):
        await asyncio.sleep(0.002)


async def ask(port: int, host: str = "127.0.0.1") -> aiohttp.ClientResponse:
    async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}/anything") as response:
        await response.read()
        return response


async def refused(port: int) -> bool:
    try:
        await ask(port)
    except aiohttp.ClientConnectorError:
        return True
    return False


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
@pytest.mark.parametrize(
    ("healthy", "proxy", "status"), [(2, True, 200), (0, True, 503), (2, False, 503)], ids=["some", "none", "unwell"]
)
async def test_the_answer_has_the_number_of_local_endpoints_as_that_of_kube_proxy(
    host: str, healthy: int, proxy: bool, status: int
) -> None:
    port = free_port()
    async with served(ServiceHealthServer(proxy_is_healthy=lambda: proxy)) as ports:
        ports.set_service(CART, port, healthy)
        await opened(ports, port)
        answer = await ask(port, host)
        assert answer.status == status
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Load-Balancing-Endpoint-Weight"] == str(healthy)
        assert json.loads(await answer.text()) == {
            "service": {"namespace": "shop", "name": "cart"},
            "localEndpoints": healthy,
            "serviceProxyHealthy": proxy,
        }


async def test_a_server_closes_with_its_service_and_moves_with_its_port() -> None:
    first, second = free_port(), free_port()
    async with served(ServiceHealthServer()) as ports:
        ports.set_service(CART, first, 1)
        await opened(ports, first)
        ports.set_service(CART, second, 1)
        await opened(ports, second)
        assert await refused(first)
        assert (await ask(second)).status == 200
        ports.set_service(CART, second, 0)
        assert (await ask(second)).status == 503
        ports.set_service(CART, None)
        await opened(ports)
        assert await refused(second)
        ports.set_service(CART, None)


async def test_a_taken_port_is_reported_once_and_opened_when_it_is_free() -> None:
    troubles = Troubles()
    async with served(ServiceHealthServer(reporter=troubles, again=0.01)) as ports:
        with socket.create_server(("", 0)) as other:
            port = other.getsockname()[1]
            ports.set_service(CART, port, 1)
            while not troubles.told:
                await asyncio.sleep(0.002)
            await asyncio.sleep(0.05)
            ((*where, why),) = troubles.told
            assert where == [CART, port]
            assert "in use" in why
            assert not ports.open_ports
        await opened(ports, port)
        assert (await ask(port)).status == 200


async def test_a_connection_that_outlives_its_service_is_ended() -> None:
    port = free_port()
    async with served(ServiceHealthServer()) as ports:
        ports.set_service(CART, port, 1)
        await opened(ports, port)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session:
            async with session.get(f"http://127.0.0.1:{port}/") as answer:
                assert answer.status == 200
            ports.set_service(CART, None)
            await opened(ports)
            async with session.get(f"http://127.0.0.1:{port}/") as answer:
                assert (answer.status, answer.headers["Connection"]) == (503, "close")
