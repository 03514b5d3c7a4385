"""Streams: lines as they arrive, silence, and connections that break off."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from tests.client.calling import IDLE, PODS, Time, hang, in_turn, leaping, status, transport
from tests.client.serving import HOST, access_to, served, speaking
from tests.controller.model.network import in_virtual_time, seconds

from zoneward.client.api_errors import AnswerTooLarge, SilentConnection, TooManyRequests, Unreachable
from zoneward.client.http_connection import iter_lines

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def _chunks(*blocks: bytes) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for block in blocks:
            await response.write(block)
            await asyncio.sleep(0.002)
        return response

    return answer


@asynccontextmanager
async def streaming(answer: Answer) -> AsyncIterator[AsyncIterator[bytes]]:
    async with (
        served(answer) as server,
        transport(access_to(server.url)) as client,
        client.stream(PODS, {"watch": "1"}, idle=IDLE) as lines,
    ):
        yield lines


async def test_lines_come_one_by_one_however_they_were_cut_and_however_long_they_are() -> None:
    long = b"x" * 3_000_000
    answer = _chunks(b"a\nb", b"b\n\nc\n", long, long + b"\nd", b"\n")
    async with streaming(answer) as lines:
        assert [line async for line in lines] == [b"a", b"bb", b"c", long + long, b"d"]


async def test_a_server_that_does_not_begin_to_answer_a_watch_gets_no_longer_than_any_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zoneward.client.transport.TIME_LIMIT", 50.0)
    async with speaking(leaping(hang, seconds=50.0)) as port, transport(access_to(f"http://{HOST}:{port}")) as client:
        with pytest.raises(SilentConnection, match="no answer within 50 s"):
            async with client.stream(PODS, {}, idle=360.0):
                pytest.fail("it never answered")


@in_virtual_time
async def test_a_stream_is_alive_while_bytes_come_and_silent_when_none_came_for_its_limit() -> None:
    loop, start = asyncio.get_running_loop(), seconds()
    protocol = BaseProtocol(loop)
    protocol.connection_made(asyncio.Transport())
    content = aiohttp.StreamReader(protocol, 1 << 16, loop=loop)
    for second in range(40):
        loop.call_later(second, content.feed_data, b"x\n")
    lines = iter_lines(content, idle=5.0)
    assert [await anext(lines) for _ in range(40)] == [b"x"] * 40
    with pytest.raises(SilentConnection):
        await anext(lines)
    assert seconds() - start == pytest.approx(39.0 + 5.0)


@pytest.mark.parametrize(
    "body", [b"Transfer-Encoding: chunked\r\n\r\n5\r\none\nt\r\n", b"Content-Length: 99\r\n\r\none\nt", b"\r\none\nt"]
)
async def test_a_stream_that_breaks_off_gives_its_whole_lines_and_then_says_so(body: bytes) -> None:
    read = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + body)
        await read.wait()

    async with (
        speaking(talk) as port,
        transport(access_to(f"http://{HOST}:{port}")) as client,
        client.stream(PODS, {}, idle=IDLE) as lines,
    ):
        # A line is there before the server sends the next one.
        assert await anext(lines) == b"one"
        read.set()
        with pytest.raises(Unreachable):
            await anext(lines)


async def test_a_stream_that_is_refused_says_why_and_is_not_tried_again() -> None:
    time = Time()
    answer = in_turn(status(429, Retry_After="5"))
    async with served(answer) as server, transport(access_to(server.url), time=time) as client:
        with pytest.raises(TooManyRequests) as caught:
            async with client.stream(PODS, {}, idle=IDLE):
                pytest.fail("it was refused")
        assert caught.value.retry_after == 5.0
        assert (len(server.seen), time.pauses) == (1, [])


async def test_a_stream_that_is_left_ends_its_connection() -> None:
    ended = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\na\nb\n")
        await reader.read()
        ended.set()

    async with speaking(talk) as port, transport(access_to(f"http://{HOST}:{port}")) as client:
        with suppress(KeyError):
            async with client.stream(PODS, {}, idle=IDLE) as lines:
                assert await anext(lines) == b"a"
                raise KeyError
        await ended.wait()


async def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneward.client.http_connection.MAX_LINE", 1 << 20)
    answer = _chunks(b"first\n", *[b"x" * (1 << 19)] * 4)
    async with streaming(answer) as lines:
        assert await anext(lines) == b"first"
        with pytest.raises(AnswerTooLarge, match=r"^expected lines of at most 1 MiB, got a longer one$"):
            await anext(lines)
