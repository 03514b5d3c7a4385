"""Connections that nobody is at the other end of any more are noticed by the system."""

import asyncio
import socket
import sys

import pytest
from tests.client.calling import PODS, ok, transport
from tests.client.serving import access_to, served

from zoneward.client import dialer
from zoneward.client import transport as transport_module


def test_a_connection_asks_whether_the_other_end_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []

    def noted(address: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
        made.append(dialer.open_socket(address))
        return made[-1]

    monkeypatch.setattr(transport_module, "open_socket", noted)

    async def run() -> None:
        async with served(ok) as server, transport(access_to(server.url)) as client:
            await client.get(PODS)
            (connected,) = made
            assert connected.getpeername()[1] == server.port
            assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if sys.platform == "linux":
                names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
                options = [connected.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names]
                assert options == [15, 5, 3, 30_000]

    asyncio.run(run())


def test_a_platform_without_an_option_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT", raising=False)
    with dialer.open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ())) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
