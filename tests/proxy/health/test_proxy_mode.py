"""Scripts that query kube-proxy on ``localhost:10249`` get the same answers."""

import asyncio
import socket
from typing import Any

import aiohttp
import pytest
from tests.proxy.background import in_background

from zoneward.daemon.listen_address import ListenAddress
from zoneward.kube.input_error import ConfigurationError
from zoneward.kube.settings import read_settings
from zoneward.proxy.health.proxy_mode import ProxyModeServer
from zoneward.proxy.proxy_configuration import ProxyConfiguration


async def asked(port: int, path: str = "/proxyMode") -> tuple[int, str | None, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, answer.headers.get("Content-Type"), await answer.text()


async def test_the_mode_is_nftables_as_plain_text_and_nothing_else_is_there() -> None:
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    server = ProxyModeServer(ListenAddress("127.0.0.1", 0), on_listening=port.set_result)
    async with in_background(server.run()):
        bound_port = await port
        assert await asked(bound_port) == (200, "text/plain; charset=utf-8", "nftables")
        assert (await asked(bound_port, "/metrics"))[0] == 404
    with pytest.raises(aiohttp.ClientConnectionError):
        await asked(bound_port)


async def test_a_taken_port_is_reported_once_and_tried_until_it_is_free() -> None:
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    troubles: list[str] = []
    pauses: list[float] = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken_port = other.getsockname()[1]

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                other.close()

        server = ProxyModeServer(
            ListenAddress("127.0.0.1", taken_port),
            on_trouble=troubles.append,
            on_listening=port.set_result,
            again=7.0,
            sleep=sleep,
        )
        async with in_background(server.run()):
            assert await port == taken_port
            assert (await asked(taken_port))[2] == "nftables"
    assert (pauses, len(troubles)) == ([7.0] * 3, 1)
    assert "address already in use" in troubles[0].lower()


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
