"""A write that fails was sent once, and its outcome is classified."""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from msgspec.structs import replace
from tests.client.a_writer import NAMESPACE, SLICE, SLICE_JSON, SLICES_KEPT, a_writer, kept
from tests.client.calling import hang, in_turn, leaping, said, status, transport
from tests.client.serving import HOST, access_to, served, speaking

from zoneward.client import api_errors as errors
from zoneward.client.resources import SERVICES, SLICES
from zoneward.client.writer import WriteOutcome, Writer, write_outcome
from zoneward.kube.input_error import InputError

WRITES: dict[str, Callable[[Writer], Awaitable[object]]] = {
    "POST": lambda writer: writer.create(SLICES, SLICE),
    "PUT": lambda writer: writer.update(SLICES, replace(SLICE, metadata=replace(SLICE.metadata, resource_version="5"))),
    "PATCH": lambda writer: writer.patch(SERVICES, {}, namespace=NAMESPACE, name="cart"),
    "DELETE": lambda writer: writer.delete(SLICES, replace(SLICE, metadata=replace(SLICE.metadata, uid="u"))),
}


@pytest.mark.parametrize("method", WRITES)
async def test_only_a_deletion_is_sent_again_when_nobody_knows_whether_it_was_done(method: str) -> None:
    answers = in_turn(status(503), lambda: web.json_response(SLICE_JSON | {"metadata": {"resourceVersion": "7"}}))
    async with served(answers) as server, transport(access_to(server.url), retries=None) as connection:
        call = WRITES[method](Writer(connection))
        if method == "DELETE":
            await call
            assert len(server.seen) == 2
        else:
            assert (write_outcome(await said(call)), len(server.seen)) == (WriteOutcome.UNKNOWN, 1)


@pytest.mark.parametrize("lacking", ["uid", "resourceVersion"])
async def test_an_object_that_could_not_be_written_again_is_no_answer_to_a_read(lacking: str) -> None:
    metadata = {"name": "cart-1", "namespace": NAMESPACE, "uid": "u", "resourceVersion": "7"}
    del metadata[lacking]
    answer = in_turn(lambda: web.json_response(SLICE_JSON | {"metadata": metadata}))
    async with served(answer) as server, transport(access_to(server.url), retries=None) as connection:
        error = await said(Writer(connection).read(SLICES, namespace=NAMESPACE, name="cart-1"))
    assert type(error) is errors.UnexpectedResponse


async def test_a_suspended_writer_sends_nothing_and_checks_before_each_write() -> None:
    answers = [True, False, False]
    asked: list[float] = []

    def may_write(seconds: float) -> bool:
        asked.append(seconds)
        return answers.pop(0)

    async with a_writer(may_write=may_write, limit=3.5) as (writer, registry):
        metadata = await writer.create(SLICES, SLICE)
        assert len(asked) == 1
        await writer.read(SLICES, namespace=NAMESPACE, name="cart-1")
        assert len(asked) == 1, "reading is free"
        for call in (
            writer.delete(SLICES, replace(SLICE, metadata=metadata)),
            writer.patch(SERVICES, {}, namespace=NAMESPACE, name="kubernetes"),
        ):
            error = await said(call)
            assert (type(error), write_outcome(error)) == (errors.WritesSuspended, WriteOutcome.NOT_DONE)
        assert kept(registry, SLICES_KEPT, "cart-1")
        assert asked == [3.5] * 3, "with the time that a write may take"


async def test_who_may_not_write_any_more_when_the_bytes_are_to_leave_sends_none() -> None:
    leads = True
    async with served(in_turn(status(503))) as server, transport(access_to(server.url)) as connection:
        writing = asyncio.ensure_future(Writer(connection, may_write=lambda _: leads).create(SLICES, SLICE))
        # It begins, and there is no connection yet.
        await asyncio.sleep(0)
        leads = False
        error = await said(writing)
        assert (type(error), write_outcome(error)) == (errors.WritesSuspended, WriteOutcome.NOT_DONE)
        assert server.seen == []


async def test_a_write_ends_after_its_limit_with_any_transport() -> None:
    late = leaping(hang, seconds=50.0)
    async with speaking(late) as port, transport(access_to(f"http://{HOST}:{port}")) as connection:
        error = await said(Writer(connection, limit=50.0).create(SLICES, SLICE))
        assert (type(error), write_outcome(error)) == (errors.TimedOut, WriteOutcome.UNKNOWN)
        assert str(error) == "no complete answer within 50 s"


@pytest.mark.parametrize("code", [429, 503])
async def test_once_means_that_nothing_is_sent_again(code: int) -> None:
    """A caller that decides again after a failure has a newer object to send."""
    answer = in_turn(status(code, Retry_After="1"))
    async with served(answer) as server, transport(access_to(server.url), retries=None) as connection:
        writer = Writer(connection).once()
        stored = replace(SLICE, metadata=replace(SLICE.metadata, uid="u-9", resource_version="1"))
        for write in (writer.create(SLICES, SLICE), writer.update(SLICES, stored), writer.delete(SLICES, stored)):
            assert isinstance(await said(write), errors.ApiError)
        assert [request.method for request in server.seen] == ["POST", "PUT", "DELETE"]


async def test_a_timeout_of_the_caller_is_not_taken_for_that_of_the_writer() -> None:
    async with speaking(hang) as port, transport(access_to(f"http://{HOST}:{port}")) as connection:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await Writer(connection, limit=math.inf).create(SLICES, SLICE)


@pytest.mark.parametrize(
    "answer", [b"<html>", b"[]", b"{}", b'{"metadata": {"name": "x"}}', b'{"metadata": 1}', b"\xff"]
)
async def test_an_answer_that_no_api_server_gives_leaves_the_outcome_unknown(answer: bytes) -> None:
    async def talk(_: web.BaseRequest) -> web.Response:
        return web.Response(body=answer)

    async with served(talk) as server, transport(access_to(server.url)) as connection:
        error = await said(Writer(connection).create(SLICES, SLICE))
        assert (type(error), write_outcome(error)) == (errors.UnexpectedResponse, WriteOutcome.UNKNOWN)


def refusal(code: int, reason: str = "") -> errors.ApiError:
    return errors.api_error(code, json.dumps({"kind": "Status", "reason": reason}).encode())


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (refusal(409, "Conflict"), WriteOutcome.STALE),
        (refusal(409), WriteOutcome.STALE),
        (refusal(409, "AlreadyExists"), WriteOutcome.EXISTS),
        (refusal(404), WriteOutcome.MISSING),
        (refusal(429), WriteOutcome.NOT_DONE),
        *((refusal(code), WriteOutcome.REFUSED) for code in (302, 400, 401, 403, 405, 410, 413, 415, 422)),
        *((refusal(code), WriteOutcome.UNKNOWN) for code in (500, 502, 503, 504)),
        (errors.Unreachable("", sent=False), WriteOutcome.NOT_DONE),
        (errors.Unreachable("", sent=True), WriteOutcome.UNKNOWN),
        (errors.TimedOut("", sent=False), WriteOutcome.NOT_DONE),
        (errors.TimedOut("", sent=True), WriteOutcome.UNKNOWN),
        (errors.TlsProblem("", sent=False), WriteOutcome.NOT_DONE),
        (errors.NoCredentials(InputError("file", "problem")), WriteOutcome.NOT_DONE),
        (errors.WritesSuspended(), WriteOutcome.NOT_DONE),
    ],
    ids=lambda value: str(value) if isinstance(value, WriteOutcome) else f"{type(value).__name__}",
)
def test_a_failure_says_what_is_known_of_the_write(error: errors.CallFailed, outcome: WriteOutcome) -> None:
    assert write_outcome(error) is outcome
