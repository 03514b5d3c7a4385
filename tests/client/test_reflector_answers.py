"""What a reflector makes of answers that are written down: what it believes, how long it waits, what it gives up."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from time import monotonic
from typing import Any

import pytest
from tests.client.recording import Recording

from zoneward.client.api_errors import CallFailed, Forbidden, Gone, TooManyRequests, UnexpectedResponse, Unreachable
from zoneward.client.backoff import Backoff
from zoneward.client.object_store import ObjectStore
from zoneward.client.reflector import Reflector, ReflectorRuntime, ReflectorSettings
from zoneward.client.resources import PODS, LivePod
from zoneward.client.transport_interface import ServerFeatures

Answer = bytes | Sequence[bytes] | Exception
HANG = b""
"""A line for which one waits in vain."""


class Scripted:
    """A connection whose answers are written down: bodies of lists, lines of watches, or errors."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Mapping[str, str]] = []

    def _next(self, query: Mapping[str, str]) -> bytes | Sequence[bytes]:
        self.asked.append(query)
        if not self.answers:
            raise asyncio.CancelledError
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def get(self, path: str, query: Mapping[str, str] = {}, *, timeout: float | None = None) -> bytes:  # noqa: ARG002
        answer = self._next(query)
        assert isinstance(answer, bytes)
        return answer

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], *, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:  # noqa: ARG002
        lines = self._next(query)
        assert not isinstance(lines, bytes)

        async def each() -> AsyncIterator[bytes]:
            for line in lines:
                if line == HANG:
                    await asyncio.sleep(60)
                yield line

        yield each()


def a_list(version: str, *, token: str = "", **pods: str) -> bytes:
    items = ",".join(f'{{"metadata":{{"name":"{name}","resourceVersion":"{at}"}}}}' for name, at in pods.items())
    more = f',"continue":"{token}"' if token else ""
    return f'{{"metadata":{{"resourceVersion":"{version}"{more}}},"items":[{items}]}}'.encode()


def an_event(kind: str, name: str, version: str) -> bytes:
    return f'{{"type":"{kind}","object":{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}}}'.encode()


def script(
    *answers: Answer, clock: Callable[[], float] = monotonic, **options: Any
) -> tuple[Recording[LivePod], Any, list[float]]:
    """Run to the end of the script: what was told, the connection, and the pauses."""
    connection, store, pauses = Scripted(*answers), ObjectStore[LivePod](), list[float]()
    seen = Recording(store, PODS)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def run() -> None:
        given = {"features": ServerFeatures(streams_lists=False)} | options
        runtime = ReflectorRuntime(random=Random(1), sleep=sleep, clock=clock)
        task = asyncio.create_task(Reflector(connection, PODS, store, runtime=runtime, **given).run())
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    asyncio.run(run())
    return seen, connection, pauses


def test_what_the_server_no_longer_remembers_is_listed_at_once_but_not_again_and_again() -> None:
    expired = Gone(410, "Expired", "")
    once: list[Answer] = [a_list("100"), [an_event("ADDED", "a", "101")], expired, a_list("101", a="101")]
    assert script(*once)[2] == []
    again: list[Answer] = [*once, [an_event("ADDED", "b", "102")], expired, a_list("102", a="101", b="102")]
    assert len(script(*again)[2]) == 1
    times = iter(range(0, 10_000, 30))
    assert script(*again, clock=lambda: float(next(times)))[2] == []


def test_a_list_from_a_replica_that_lags_behind_is_not_believed() -> None:
    seen, connection, _ = script(
        a_list("100", a="90"),
        [an_event("MODIFIED", "a", "101"), an_event("ADDED", "b", "102")],
        Gone(410, "Expired", ""),
        a_list("95", a="90"),
        a_list("102", a="101", b="102"),
        [an_event("DELETED", "a", "103")],
    )
    assert seen.told == [("added", "a", "90"), ("modified", "a", "101"), ("added", "b", "102"), ("deleted", "a", "101")]
    assert connection.asked[-1]["resourceVersion"] == "103"


def test_what_only_a_list_had_that_was_begun_anew_is_gone() -> None:
    seen, _, _ = script(
        a_list("100", token="t", a="90"),
        Gone(410, "Expired", ""),
        a_list("110", b="105"),
        [],
    )
    assert seen.told == [("added", "a", "90"), ("added", "b", "105"), ("deleted", "a", "90")]


def test_half_a_list_is_already_something_behind_which_the_next_may_not_fall() -> None:
    seen, _, _ = script(
        a_list("100", token="t", a="100"),
        Unreachable("broken"),
        a_list("95"),
        a_list("101", a="100"),
        [],
    )
    assert seen.told == [("added", "a", "100")]


def test_an_event_that_is_not_newer_than_what_was_seen_is_dropped() -> None:
    seen, _, _ = script(
        a_list("100", a="90"),
        [
            an_event("MODIFIED", "a", "105"),
            an_event("MODIFIED", "a", "103"),
            an_event("DELETED", "a", "106"),
            an_event("MODIFIED", "a", "105"),
            an_event("DELETED", "a", "106"),
        ],
    )
    assert seen.told == [("added", "a", "90"), ("modified", "a", "105"), ("deleted", "a", "105")]


def test_a_bookmark_never_takes_a_watch_back() -> None:
    mark = b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"%d"}}}'
    _, connection, _ = script(a_list("100"), [mark % 120, mark % 110], [])
    assert [query.get("resourceVersion") for query in connection.asked] == [None, "100", "120", "120"]


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    seen, connection, _ = script(a_list("x"), [an_event("ADDED", "a", "y"), an_event("MODIFIED", "a", "b")], [])
    assert seen.told == [("added", "a", "y"), ("modified", "a", "b")]
    assert [query.get("resourceVersion") for query in connection.asked] == [None, "x", "b", "b"]


def test_a_version_that_the_server_cannot_serve_again_and_again_is_given_up() -> None:
    wrong = [b"nonsense"]
    seen, connection, _ = script(a_list("100"), *[wrong] * 5, a_list("101", a="101"), [])
    assert seen.told == [("added", "a", "101")]
    assert ["watch" in query for query in connection.asked] == [False, *[True] * 5, False, True, True]


def test_pauses_double_up_to_a_limit_and_chance_spreads_them() -> None:
    _, _, pauses = script(
        a_list("1"),
        *[Unreachable("refused")] * 12,
        settings=ReflectorSettings(backoff=Backoff(initial=0.5, cap=30.0, jitter=0.5)),
    )
    longest = [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30]
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, longest, strict=True))
    assert len({pause / most for pause, most in zip(pauses, longest, strict=True)}) > 6


def test_a_pause_is_as_long_as_the_server_asks() -> None:
    _, _, pauses = script(a_list("1"), TooManyRequests(429, "TooManyRequests", "", retry_after=7.0), [])
    assert pauses[0] == 7.0


@pytest.mark.parametrize("lasts", [0.0, 60.0])
def test_only_a_watch_that_ends_at_once_without_news_is_followed_by_a_pause(lasts: float) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += lasts
        return now

    _, _, pauses = script(a_list("1"), [], [], [], clock=clock)
    assert len(pauses) == (0 if lasts else 3)


def test_a_list_that_a_stream_does_not_end_in_time_is_asked_for_in_pages() -> None:
    features, troubles = ServerFeatures(), list[CallFailed]()
    seen, connection, _ = script(
        [an_event("ADDED", "a", "90"), HANG],
        a_list("100", b="95"),
        [],
        features=features,
        settings=ReflectorSettings(listing=0.02),
        on_error=troubles.append,
    )
    assert not features.streams_lists
    assert "expected all pods within 0.02 s" in str(troubles[0])
    assert seen.told == [("added", "a", "90"), ("added", "b", "95"), ("deleted", "a", "90")]
    assert connection.asked[1] == {"limit": "500"}


def test_the_right_to_list_without_the_right_to_watch_is_told() -> None:
    with pytest.raises(Forbidden):
        script(a_list("1"), Forbidden(403, "Forbidden", "cannot watch"))


def test_an_impatient_reflector_raises_what_a_patient_one_waits_for() -> None:
    answers: tuple[Answer, ...] = (Unreachable("refused"), a_list("1", a="1"), [])
    seen, _, _ = script(*answers)
    assert seen.told == [("added", "a", "1")]
    with pytest.raises(Unreachable):
        script(*answers, settings=ReflectorSettings(fail_fast=True))
    busy = TooManyRequests(429, "TooManyRequests", "", retry_after=3.0)
    seen, _, pauses = script(busy, *answers[1:], settings=ReflectorSettings(fail_fast=True))
    assert seen.told == [("added", "a", "1")]
    assert pauses[0] == 3.0


def test_what_a_handler_raises_comes_through() -> None:
    store = ObjectStore[LivePod]()

    def handler(_old: LivePod | None, _new: LivePod | None) -> None:
        raise ZeroDivisionError

    store.subscribe(handler)
    reflector = Reflector(Scripted(a_list("1", a="1")), PODS, store, features=ServerFeatures(streams_lists=False))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(reflector.run())
    assert len(store) == 1


def test_an_event_without_a_version_is_no_event() -> None:
    troubles: list[CallFailed] = []
    script(a_list("1"), [b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}'], on_error=troubles.append)
    assert [type(trouble) for trouble in troubles] == [UnexpectedResponse]
