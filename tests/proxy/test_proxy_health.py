"""Load balancers and kubelets get the answers of kube-proxy from a node's proxy.

A load balancer that asks at a Service's health check node port gets the answer that kube-proxy would give.
"""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.controller.lines import Lines
from tests.patience import PATIENCE
from tests.proxy.background import in_background

from zoneward.daemon.listen_address import ListenAddress
from zoneward.kube.input_error import ConfigurationError
from zoneward.kube.objects import Node
from zoneward.kube.settings import read_settings
from zoneward.netlink.messages import Family
from zoneward.proxy.model.node_service import ServiceKey
from zoneward.proxy.proxy_configuration import ProxyConfiguration
from zoneward.proxy.proxy_health import (
    ProxyHealth,
    ServiceHealthServer,
    is_node_eligible,
    serve_health,
    serve_proxy_mode,
)
from zoneward.proxy.reporter import Reporter


def a_health(*, eligible: bool = True, waiting: Mapping[Family, float] | None = None) -> ProxyHealth:
    """``waiting``: since when a change is pending, by family."""
    health = ProxyHealth(limit=60.0, waiting=(waiting or {}).get)
    health.is_eligible = eligible
    return health


async def ask(port: int, host: str = "127.0.0.1", *, path: str = "/anything") -> aiohttp.ClientResponse:
    async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}{path}") as answer:
        await answer.read()
        return answer


async def refused(port: int) -> bool:
    try:
        await ask(port)
    except aiohttp.ClientConnectorError:
        return True
    return False


# --- the state --------------------------------------------------------------------------------------------------------


def test_a_change_that_waits_too_long_makes_the_proxy_unhealthy_until_it_is_programmed() -> None:
    waiting: dict[Family, float] = {"ip": 100.0}
    health = a_health(waiting=waiting)
    assert health.is_healthy(159.0)
    assert not health.is_healthy(160.0)
    waiting.clear()
    health.programmed_at["ip"] = 200.0
    assert health.is_healthy(1000.0)


# --- the Node ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "eligible"),
    [
        (None, False),
        ({"metadata": {"name": "n"}}, True),
        ({"metadata": {"name": "n"}, "spec": {"taints": None}}, True),
        ({"metadata": {"name": "n", "deletionTimestamp": "2026-03-01T12:00:00Z"}}, False),
        ({"spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]}}, True),
        ({"spec": {"taints": [{"key": "other"}, {"key": "ToBeDeletedByClusterAutoscaler", "value": "1"}]}}, False),
    ],
    ids=["unknown", "plain", "no-taints", "deleted", "other-taint", "to-be-deleted"],
)
def test_a_node_that_is_being_removed_is_not_eligible(node: dict[str, Any] | None, eligible: bool) -> None:
    assert is_node_eligible(None if node is None else msgspec.convert(node, Node)) == eligible


# --- the server -------------------------------------------------------------------------------------------------------


async def test_healthz_and_livez_are_served_and_nothing_else() -> None:
    health = a_health(eligible=False)
    async with asyncio.timeout(PATIENCE), serve_health(health, host="127.0.0.1", port=0) as port:
        for path, eligible, status in (("/healthz", False, 503), ("/livez", False, 200), ("/healthz", True, 200)):
            health.is_eligible = eligible
            answer = await ask(port, path=path)
            assert answer.status == status
            assert answer.headers["Content-Type"] == "application/json"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert (await ask(port, path="/metrics")).status == 404


# --- /proxyMode -------------------------------------------------------------------------------------------------------


async def listening_port(log: Lines) -> int:
    """The port that the server logs, once it listens."""
    async with asyncio.timeout(PATIENCE):
        while not (lines := log.about("listens")):
            await asyncio.sleep(0.002)
    port = lines[0]["port"]
    assert isinstance(port, int)
    return port


async def test_the_mode_is_nftables_as_plain_text_and_nothing_else_is_there() -> None:
    log = Lines()
    async with in_background(serve_proxy_mode(ListenAddress("127.0.0.1", 0), log=log)):
        port = await listening_port(log)
        answer = await ask(port, path="/proxyMode")
        assert (answer.status, await answer.text()) == (200, "nftables")
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert (await ask(port, path="/metrics")).status == 404
    assert await refused(port)


async def test_a_taken_port_is_reported_once_and_tried_until_it_is_free() -> None:
    log = Lines()
    pauses: list[float] = []
    with socket.socket() as other:
        taken_port = free_port()
        other.bind(("127.0.0.1", taken_port))
        other.listen()

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                other.close()

        listen = ListenAddress("127.0.0.1", taken_port)
        async with in_background(serve_proxy_mode(listen, log=log, again=7.0, sleep=sleep)):
            assert await listening_port(log) == taken_port
            assert (await ask(taken_port, path="/proxyMode")).status == 200
    assert pauses == [7.0] * 3
    (trouble,) = log.about("failed to serve /proxyMode")
    assert "address already in use" in str(trouble["error"]).lower()


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({}, ListenAddress("127.0.0.1", 10249)),
        ({"serviceProxyName": "zoneward"}, None),
        ({"serviceProxyName": "zoneward", "proxyModeListen": ":10249"}, ListenAddress(None, 10249)),
        ({"proxyModeListen": "[::1]:1"}, ListenAddress("::1", 1)),
        ({"proxyModeListen": ""}, None),
        ({"proxyModeListen": None}, ListenAddress("127.0.0.1", 10249)),
    ],
)
def test_the_default_address_is_that_of_kube_proxy_only_where_it_is_replaced(
    section: dict[str, Any], expected: ListenAddress | None
) -> None:
    assert read_settings(section, ProxyConfiguration).proxy_mode_address == expected
    assert ProxyConfiguration().proxy_mode_address == ListenAddress("127.0.0.1", 10249)


def test_an_invalid_address_is_reported_with_its_key() -> None:
    with pytest.raises(ConfigurationError, match=r"proxy\.proxyModeListen: expected \[HOST\]:PORT"):
        read_settings({"proxyModeListen": "10249"}, ProxyConfiguration, within="proxy")


CART = ("shop", "cart")


class Troubles(Reporter):
    def __init__(self) -> None:
        self.reported: list[tuple[ServiceKey, int, str]] = []

    def health_port_failed(self, service: ServiceKey, port: int, why: str) -> None:
        self.reported.append((service, port, why))


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
    port = free_port()
    async with served(ServiceHealthServer(reporter=troubles, again=0.01)) as ports:
        with socket.create_server(("", port)):
            ports.set_service(CART, port, 1)
            while not troubles.reported:
                await asyncio.sleep(0.002)
            await asyncio.sleep(0.05)
            ((*where, why),) = troubles.reported
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
