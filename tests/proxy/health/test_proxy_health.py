"""Load balancers and kubelets get the answers of kube-proxy from a node's proxy."""

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.controller.lines import Lines
from tests.proxy.background import in_background

from zoneward.daemon.listen_address import ListenAddress
from zoneward.kube.input_error import ConfigurationError
from zoneward.kube.objects import Node
from zoneward.kube.settings import read_settings
from zoneward.netlink.messages import Family
from zoneward.proxy.health.proxy_health import ProxyHealth, is_node_eligible, serve_health, serve_proxy_mode
from zoneward.proxy.proxy_configuration import ProxyConfiguration


def a_health(*, eligible: bool = True, waiting: Mapping[Family, float] | None = None) -> ProxyHealth:
    """``waiting``: since when a change is pending, by family."""
    health = ProxyHealth(limit=60.0, waiting=(waiting or {}).get)
    health.is_eligible = eligible
    return health


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
    async def ask(session: aiohttp.ClientSession, path: str) -> tuple[int, str, bool]:
        async with session.get(path) as response:
            is_json = response.headers["Content-Type"] == "application/json"
            return response.status, response.headers.get("X-Content-Type-Options", ""), is_json

    health = a_health(eligible=False)
    server = serve_health(health, host="127.0.0.1", port=0)
    async with asyncio.timeout(20), server as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        assert await ask(session, "/healthz") == (503, "nosniff", True)
        assert await ask(session, "/livez") == (200, "nosniff", True)
        assert (await ask(session, "/metrics"))[0] == 404
        health.is_eligible = True
        assert await ask(session, "/healthz") == (200, "nosniff", True)


# --- /proxyMode -------------------------------------------------------------------------------------------------------


async def asked(port: int, path: str = "/proxyMode") -> tuple[int, str | None, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, answer.headers.get("Content-Type"), await answer.text()


async def listening_port(log: Lines) -> int:
    """The port that the server logs, once it listens."""
    async with asyncio.timeout(20):
        while not (lines := log.about("listens")):
            await asyncio.sleep(0.002)
    port = lines[0]["port"]
    assert isinstance(port, int)
    return port


async def test_the_mode_is_nftables_as_plain_text_and_nothing_else_is_there() -> None:
    log = Lines()
    async with in_background(serve_proxy_mode(ListenAddress("127.0.0.1", 0), log=log)):
        port = await listening_port(log)
        assert await asked(port) == (200, "text/plain; charset=utf-8", "nftables")
        assert (await asked(port, "/metrics"))[0] == 404
    with pytest.raises(aiohttp.ClientConnectionError):
        await asked(port)


async def test_a_taken_port_is_reported_once_and_tried_until_it_is_free() -> None:
    log = Lines()
    pauses: list[float] = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken_port = other.getsockname()[1]

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                other.close()

        listen = ListenAddress("127.0.0.1", taken_port)
        async with in_background(serve_proxy_mode(listen, log=log, again=7.0, sleep=sleep)):
            assert await listening_port(log) == taken_port
            assert (await asked(taken_port))[2] == "nftables"
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
