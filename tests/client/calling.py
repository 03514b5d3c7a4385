"""What the tests of the transport share: a clock that only sleeping moves, and servers that answer in turn."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from tests.client.serving import Talk, json_status

from zoneward.client.api_errors import CallFailed
from zoneward.client.auth.client_config import ClientConfig
from zoneward.client.transport import RetryPolicy, Transport

PODS = "/api/v1/pods"
IDLE = 60.0  # seconds of silence that no test waits for
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds


def transport(access: ClientConfig, *, time: Time | None = None, **options: Any) -> Transport:
    """Without retries, unless ``time`` is given."""
    if time is None:
        options.setdefault("retries", RetryPolicy(attempts=1))
    else:
        options |= {"clock": time, "sleep": time.sleep, "chance": lambda: 0.0, "now": lambda: NOON}
    return Transport(access, is_terminal=False, **options)


async def said(call: Awaitable[object]) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        await call
    return caught.value


async def ok(request: web.BaseRequest) -> web.Response:
    await request.read()
    return web.json_response({"path": request.path_qs})


def in_turn(*answers: Callable[[], web.Response]) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Each answer once, the last one for ever."""
    left = list(answers)

    async def answer(request: web.BaseRequest) -> web.Response:
        await request.read()
        return (left.pop(0) if len(left) > 1 else left[0])()

    return answer


def good() -> web.Response:
    return web.json_response({})


def status(code: int, **headers: str) -> Callable[[], web.Response]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda: json_status(code, "", f"it is {code}", headers=named)


async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    while await reader.read(1 << 16):
        pass


async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with a byte now and then."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


def leaping(talk: Talk, *, seconds: float) -> Talk:
    """``talk``, but first the clock of the event loop leaps ahead, as soon as a request arrives."""

    async def leap_and_talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        loop = asyncio.get_running_loop()
        now = loop.time
        setattr(loop, "time", lambda: now() + seconds)  # noqa: B010 -- each test has a separate loop
        await talk(reader, writer)

    return leap_and_talk
