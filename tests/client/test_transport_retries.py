"""What a transport sends again, and what it never does, over real connections that break."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from tests.client.calling import NOON, PODS, Time, good, in_turn, said, status, transport
from tests.client.serving import HOST, access_to, json_status, served, speaking

from zoneward.client import api_errors as errors
from zoneward.client.transport import RetryPolicy, Transport
from zoneward.kube.input_error import InputError


async def run_in_turn(
    call: Callable[[Transport], Awaitable[object]], *answers: Callable[[], web.Response]
) -> tuple[object, int, list[float]]:
    """What came of a call, how many requests it took, and the pauses between them."""
    time = Time()
    async with served(in_turn(*answers)) as server, transport(access_to(server.url), time=time) as client:
        try:
            result: object = await call(client)
        except errors.ApiError as error:
            result = error.status
    return result, len(server.seen), time.pauses


def get(client: Transport) -> Awaitable[bytes]:
    return client.get(PODS)


def post(client: Transport) -> Awaitable[bytes]:
    return client.send("POST", PODS, b"{}")


def put_idempotent(client: Transport) -> Awaitable[bytes]:
    return client.send("PUT", PODS, b"{}", idempotent=True)


def in_body() -> web.Response:
    return json_status(429, "", "", details={"retryAfterSeconds": 4})


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ((status(500), status(503), good), (b"{}", 3, [0.125, 0.25])),
        ((status(502),), (502, 5, [0.125, 0.25, 0.5, 1.0])),
        ((status(404),), (404, 1, [])),
        ((status(429, Retry_After="7"), good), (b"{}", 2, [7.0])),
        ((status(503, Retry_After="Thu, 01 Jan 2026 12:00:20 GMT"), good), (b"{}", 2, [20.0])),
        ((in_body, good), (b"{}", 2, [4.0])),
        ((status(503, Retry_After="later"), good), (b"{}", 2, [0.125])),
        # It would end after the limit of the call, which is one for all attempts.
        ((status(503, Retry_After="60"), good), (503, 1, [])),
        ((status(503, Retry_After="20"),), (503, 3, [20.0, 20.0])),
    ],
)
async def test_a_read_is_tried_again_with_growing_pauses_or_when_the_server_asks_for_it(
    answers: tuple[Callable[[], web.Response], ...], outcome: tuple[object, int, list[float]]
) -> None:
    assert await run_in_turn(get, *answers) == outcome


async def test_a_write_that_was_not_done_is_tried_again() -> None:
    assert await run_in_turn(post, status(429), good) == (b"{}", 2, [0.125])


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (status(429, Retry_After="60"), 60.0),
        (status(429, Retry_After="3600"), 60.0),
        (status(503, Retry_After="9" * 400), 60.0),
        (status(503, Retry_After="Fri, 01 Jan 2027 12:00:00 GMT"), 60.0),
        (status(503, Retry_After="Thu, 01 Jan 2026 12:00:20 +99999999999999999999"), None),
        (lambda: json_status(429, "", "", details={"retryAfterSeconds": 1e300}), 60.0),
    ],
)
async def test_no_answer_asks_for_more_than_a_minute_of_patience(
    answer: Callable[[], web.Response], seconds: float | None
) -> None:
    async with served(in_turn(answer)) as server, transport(access_to(server.url), now=lambda: NOON) as client:
        for call in (get, post):
            error = await said(call(client))
            assert isinstance(error, errors.ApiError)
            assert error.retry_after == seconds


@asynccontextmanager
async def breaking_off(*, after: int) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that answers ``after`` requests of a connection and closes it after the next; and all requests."""
    heads: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(after):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        heads.append(await reader.readuntil(b"\r\n\r\n"))

    async with speaking(talk) as port:
        yield f"http://{HOST}:{port}", heads


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_write_whose_answer_is_lost_is_sent_once_also_over_a_connection_that_was_used(method: str) -> None:
    for after in (0, 1):
        time = Time()
        async with breaking_off(after=after) as (url, heads), transport(access_to(url), time=time) as client:
            for _ in range(after):
                await client.get(PODS)
            error = await said(client.send(method, PODS, b""))
            assert isinstance(error, errors.Unreachable)
            assert error.sent
            assert len([head for head in heads if head.startswith(method.encode())]) == 1
            assert time.pauses == []


async def test_a_read_and_an_idempotent_write_whose_answers_are_lost_are_tried_again() -> None:
    time = Time()
    async with breaking_off(after=0) as (url, heads), transport(access_to(url), time=time) as client:
        for call in (get(client), put_idempotent(client)):
            assert isinstance(await said(call), errors.Unreachable)
        assert len(heads) == 10
        assert time.pauses == [0.125, 0.25, 0.5, 1.0] * 2


REPEATED_ALWAYS: list[errors.CallFailed] = [errors.api_error(429, b""), errors.Unreachable("", sent=False)]
REPEATED_IF_HARMLESS: list[errors.CallFailed] = [
    errors.Unreachable("", sent=True),
    *(errors.api_error(status, b"") for status in (500, 502, 503, 504)),
]
NEVER_REPEATED: list[errors.CallFailed] = [
    *(errors.api_error(status, b"") for status in (301, 400, 401, 403, 404, 405, 409, 410, 422, 501, 505)),
    *(
        kind("")
        for kind in (errors.AnswerTooLarge, errors.UnexpectedResponse, errors.ListTooLarge, errors.SilentConnection)
    ),
    errors.NoCredentials(InputError("f")),
    *(kind("", sent=sent) for kind in (errors.TimedOut, errors.TlsProblem) for sent in (True, False)),
]


@pytest.mark.parametrize("is_repeatable", [True, False])
def test_what_may_not_have_been_done_is_only_tried_again_where_that_is_harmless(is_repeatable: bool) -> None:
    for failures, expected in ((REPEATED_ALWAYS, True), (REPEATED_IF_HARMLESS, is_repeatable), (NEVER_REPEATED, False)):
        for error in failures:
            pause = RetryPolicy().pause(error, failed=1, is_repeatable=is_repeatable, chance=0.5)
            assert (pause is not None) == expected, repr(error)
