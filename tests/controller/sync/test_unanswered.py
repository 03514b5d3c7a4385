"""Whether a write may still be done though nobody waits for it."""

import asyncio
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from zoneward.client.api_errors import CallFailed, Conflict, ServerFault, TimedOut, Unreachable
from zoneward.controller.leader.leader_elector import UnansweredWrites

NO_QUERY: Mapping[str, str] = {}


class Connection:
    def __init__(self, failure: Exception | None, *, hangs: bool) -> None:
        self._failure, self._hangs = failure, hangs

    async def get(self, path: str, query: Mapping[str, str] = NO_QUERY, *, timeout: float | None = None) -> bytes:
        raise TimedOut(f"no answer from {path} {query} {timeout}")

    async def send(self, method: str, path: str, body: bytes, **options: Any) -> bytes:
        assert (method, path, body, options) == ("PUT", "/", b"", {"idempotent": True})
        if self._hangs:
            await asyncio.sleep(60)
        if self._failure is not None:
            raise self._failure
        return b""


def age_after(failure: Exception | None = None, *, hangs: bool = False) -> float:
    async def run() -> float:
        now = 5.0
        connection = UnansweredWrites(Connection(failure, hangs=hangs), clock=lambda: now)
        with suppress(CallFailed):
            await connection.get("/")
        sending = asyncio.create_task(connection.send("PUT", "/", b"", idempotent=True))
        await asyncio.sleep(0)
        now = 8.0
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return connection.age

    return asyncio.run(run())


@pytest.mark.parametrize(
    "failure",
    [None, Conflict(409, "Conflict", ""), ServerFault(503, "", ""), Unreachable("no connection", sent=False)],
    ids=["done", "conflict", "503", "not-sent"],
)
def test_a_write_that_was_answered_or_never_sent_is_over(failure: Exception | None) -> None:
    assert age_after(failure) == math.inf


@pytest.mark.parametrize(
    "failure",
    [TimedOut("no answer"), Unreachable("broke off"), ServerFault(504, "Timeout", ""), RuntimeError()],
    ids=["timed-out", "broke-off", "504", "bug"],
)
def test_one_whose_answer_was_lost_counts_from_when_it_was_begun(failure: Exception) -> None:
    assert age_after(failure) == 3.0


def test_so_does_one_that_was_cut_off() -> None:
    assert age_after(hangs=True) == 3.0
