"""The proxy that the environment asks for, by the rules of Go's httpproxy."""

import asyncio
import socket
import sys

import pytest
from tests.client.calling import PODS, ok, transport
from tests.client.serving import access_to, served

from zoneward.client import http_connection
from zoneward.client import transport as transport_module
from zoneward.client.http_connection import proxy_for

SERVER = "https://api.example:6443"
PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        (SERVER, {}, None),
        (SERVER, {"HTTPS_PROXY": PROXY}, PROXY),
        (SERVER, {"https_proxy": "proxy:3128"}, PROXY),
        (SERVER, {"HTTP_PROXY": PROXY}, None),
        (SERVER, {"HTTPS_PROXY": "socks5://proxy"}, None),
        ("http://api.example", {"HTTP_PROXY": PROXY}, PROXY),
        ("http://api.example", {"HTTPS_PROXY": PROXY}, None),
        ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, None),
        ("https://127.0.0.2:6443", {"HTTPS_PROXY": PROXY}, None),
        ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, None),
    ],
)
def test_the_variable_of_the_scheme_counts_and_nothing_on_this_machine_is_asked_for_elsewhere(
    server: str, environment: dict[str, str], proxy: str | None
) -> None:
    assert proxy_for(server, environment) == proxy


@pytest.mark.parametrize(
    ("server", "exceptions", "is_excepted"),
    [
        (SERVER, "*", True),
        (SERVER, "other, API.example", True),
        (SERVER, "example", True),
        (SERVER, ".example", True),
        (SERVER, "*.example", True),
        (SERVER, "ample", False),
        (SERVER, ".api.example", False),
        (SERVER, "api.example:6443", True),
        (SERVER, "api.example:443", False),
        (SERVER, ",", False),
        ("https://api.example", "api.example:443", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "11.0.0.0/8", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
    ],
)
def test_what_no_proxy_names_is_reached_directly(server: str, exceptions: str, is_excepted: bool) -> None:
    assert proxy_for(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}) == (None if is_excepted else PROXY)


async def test_a_connection_asks_whether_the_other_end_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []

    def noted(address: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
        made.append(http_connection.open_socket(address))
        return made[-1]

    monkeypatch.setattr(transport_module, "open_socket", noted)
    async with served(ok) as server, transport(access_to(server.url)) as client:
        await client.get(PODS)
        (connected,) = made
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if sys.platform == "linux":
            names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
            options = [connected.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names]
            assert options == [15, 5, 3, 30_000]
        # An option that the platform lacks is not set.
        monkeypatch.delattr(socket, "TCP_USER_TIMEOUT", raising=False)
        await asyncio.gather(client.get(PODS), client.get(PODS))
        assert made[-1].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert len(made) == 2
