"""What a reflector makes of a server's answers: what it believes, how long it waits, what it gives up."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from time import monotonic
from typing import Any

import pytest
from tests.client.recording import Recording

from zoneward.client import api_errors as errors
from zoneward.client.backoff import Backoff
from zoneward.client.list_pager import ListScope
from zoneward.client.object_store import ObjectStore
from zoneward.client.reflector import Reflector, ReflectorRuntime, ReflectorSettings
from zoneward.client.resources import PODS, LivePod
from zoneward.client.transport_interface import ServerFeatures

Answer = bytes | Sequence[bytes | Exception] | Exception
HANG = b""
"""A line for which one waits in vain."""


class Scripted:
    """A connection whose answers are written down: bodies of lists, lines of watches, or errors."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Mapping[str, str]] = []
        self.paths = set[str]()
        self.patience: list[float] = []
        """How many seconds longer than a watch lasts nothing may come."""

    def _next(self, path: str, query: Mapping[str, str]) -> bytes | Sequence[bytes | Exception]:
        self.asked.append(query)
        self.paths.add(path)
        if not self.answers:
            raise asyncio.CancelledError
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def get(self, path: str, query: Mapping[str, str] = {}, *, timeout: float | None = None) -> bytes:  # noqa: ARG002
        answer = self._next(path, query)
        assert isinstance(answer, bytes)
        return answer

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], *, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        self.patience.append(idle - float(query["timeoutSeconds"]))
        lines = self._next(path, query)
        assert not isinstance(lines, bytes)

        async def each() -> AsyncIterator[bytes]:
            for line in lines:
                if isinstance(line, Exception):
                    raise line
                if line == HANG:
                    await asyncio.Event().wait()
                yield line

        yield each()


def a_list(version: str, *, token: str = "", **pods: str) -> bytes:
    items = ",".join(f'{{"metadata":{{"name":"{name}","resourceVersion":"{at}"}}}}' for name, at in pods.items())
    more = f',"continue":"{token}"' if token else ""
    return f'{{"metadata":{{"resourceVersion":"{version}"{more}}},"items":[{items}]}}'.encode()


def an_event(kind: str, name: str, version: str) -> bytes:
    return f'{{"type":"{kind}","object":{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}}}'.encode()


def a_bookmark(version: str, *, ends_list: bool = False) -> bytes:
    end = ',"annotations":{"k8s.io/initial-events-end":"true"}' if ends_list else ""
    metadata = f'{{"resourceVersion":"{version}"{end}}}'
    return f'{{"type":"BOOKMARK","object":{{"kind":"Pod","metadata":{metadata}}}}}'.encode()


def a_streamed_list(version: str, **pods: str) -> list[bytes]:
    return [*(an_event("ADDED", name, at) for name, at in pods.items()), a_bookmark(version, ends_list=True)]


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
    once: list[Answer] = [a_list("100"), [an_event("ADDED", "a", "101")], EXPIRED, a_list("101", a="101")]
    assert script(*once)[2] == []
    again: list[Answer] = [*once, [an_event("ADDED", "b", "102")], EXPIRED, a_list("102", a="101", b="102")]
    assert len(script(*again)[2]) == 1
    times = iter(range(0, 10_000, 30))
    assert script(*again, clock=lambda: float(next(times)))[2] == []


EXPIRED = errors.Gone(410, "Expired", "too old")
EXPIRED_EVENT = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}'


@pytest.mark.parametrize(
    ("answers", "told", "versions"),
    [
        pytest.param(
            [a_list("100", a="90"), [an_event("MODIFIED", "a", "101")], EXPIRED, a_list("95", a="90"), a_list("102")],
            [("added", "a", "90"), ("modified", "a", "101"), ("deleted", "a", "101")],
            [None, "100", "101", None, None, "102"],
            id="a list from a replica that lags behind is not believed",
        ),
        pytest.param(
            [a_list("100", token="t", a="90"), EXPIRED, a_list("110", b="105")],
            [("added", "a", "90"), ("added", "b", "105"), ("deleted", "a", "90")],
            [None, None, None, "110"],
            id="what only a list had that was begun anew is gone",
        ),
        pytest.param(
            [a_list("100", token="t", a="100"), errors.Unreachable("no"), a_list("95"), a_list("101", a="100")],
            [("added", "a", "100")],
            [None, None, None, None, "101"],
            id="half a list is something behind which the next may not fall",
        ),
        pytest.param(
            [
                a_list("100", a="90"),
                [an_event("MODIFIED", "a", version) for version in ("105", "103", "105")],
                [an_event("DELETED", "a", "106"), an_event("MODIFIED", "a", "105"), an_event("DELETED", "a", "106")],
            ],
            [("added", "a", "90"), ("modified", "a", "105"), ("deleted", "a", "105")],
            [None, "100", "105", "106"],
            id="an event that is not newer than what was seen is dropped",
        ),
        pytest.param(
            [a_list("100"), [a_bookmark("120"), a_bookmark("110")]],
            [],
            [None, "100", "120"],
            id="a bookmark never takes a watch back",
        ),
        pytest.param(
            [a_list("x"), [an_event("ADDED", "a", "y"), an_event("MODIFIED", "a", "b")]],
            [("added", "a", "y"), ("modified", "a", "b")],
            [None, "x", "b"],
            id="versions that are no numbers are taken as they come",
        ),
    ],
)
def test_what_is_told_and_where_the_next_watch_begins(
    answers: list[Answer], told: list[tuple[str, str, str]], versions: list[str | None]
) -> None:
    seen, connection, _ = script(*answers)
    assert seen.told == told
    assert [query.get("resourceVersion") for query in connection.asked] == versions


def test_a_version_that_the_server_cannot_serve_again_and_again_is_given_up() -> None:
    wrong = [b"nonsense"]
    seen, connection, _ = script(a_list("100"), *[wrong] * 5, a_list("101", a="101"), [])
    assert seen.told == [("added", "a", "101")]
    assert ["watch" in query for query in connection.asked] == [False, *[True] * 5, False, True, True]


def test_pauses_grow_and_are_as_long_as_the_server_asks() -> None:
    refused, busy = errors.Unreachable("refused"), errors.TooManyRequests(429, "", "", retry_after=7.0)
    _, _, pauses = script(
        a_list("1"),
        *[refused] * 3,
        busy,
        settings=ReflectorSettings(backoff=Backoff(initial=0.5, cap=30.0, jitter=0.5)),
    )
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses[:3], [0.5, 1, 2], strict=True))
    assert pauses[3] == 7.0


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
    features, troubles = ServerFeatures(), list[errors.CallFailed]()
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


def test_what_may_not_be_listed_or_watched_is_told() -> None:
    refused = errors.Forbidden(403, "Forbidden", "cannot")
    for answers in ([refused], [a_list("1"), refused]):
        with pytest.raises(errors.Forbidden):
            script(*answers)
    with pytest.raises(errors.Forbidden):
        script(refused, features=ServerFeatures())


def test_an_impatient_reflector_raises_what_a_patient_one_waits_for() -> None:
    answers: tuple[Answer, ...] = (errors.Unreachable("refused"), a_list("1", a="1"), [])
    seen, _, _ = script(*answers)
    assert seen.told == [("added", "a", "1")]
    with pytest.raises(errors.Unreachable):
        script(*answers, settings=ReflectorSettings(fail_fast=True))
    busy = errors.TooManyRequests(429, "TooManyRequests", "", retry_after=3.0)
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
    troubles: list[errors.CallFailed] = []
    script(a_list("1"), [b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}'], on_error=troubles.append)
    assert [type(trouble) for trouble in troubles] == [errors.UnexpectedResponse]


BOTH_LISTS = pytest.mark.parametrize("streams_lists", [True, False], ids=["streaming list", "pages"])


def listed(version: str, *, as_stream: bool, **pods: str) -> Answer:
    return a_streamed_list(version, **pods) if as_stream else a_list(version, **pods)


@BOTH_LISTS
@pytest.mark.parametrize("gone", [EXPIRED, [EXPIRED_EVENT]], ids=["answer", "event"])
def test_410_leads_to_a_list_whose_difference_is_told(gone: Answer, streams_lists: bool) -> None:
    troubles: list[errors.CallFailed] = []
    seen, connection, _ = script(
        listed("100", as_stream=streams_lists, a="90", b="91", c="92"),
        gone,
        listed("110", as_stream=streams_lists, c="92", a="105", d="106"),
        [an_event("MODIFIED", "c", "111")],
        features=ServerFeatures(streams_lists=streams_lists),
        on_error=troubles.append,
    )
    assert seen.told[3:] == [
        ("modified", "a", "105"),
        ("added", "d", "106"),
        ("deleted", "b", "91"),
        ("modified", "c", "111"),
    ]
    assert [type(trouble) for trouble in troubles] == [errors.Gone]
    assert connection.asked[-1]["resourceVersion"] == "111"


ERROR_500, ERROR_503 = (errors.ServerFault(status, "", "") for status in (500, 503))


@pytest.mark.parametrize(
    "failure", [errors.Unreachable("cut"), ERROR_500, ERROR_503, errors.SilentConnection("nothing"), b"no"], ids=repr
)
def test_a_watch_that_breaks_goes_on_where_it_was(failure: Exception | bytes) -> None:
    troubles: list[errors.CallFailed] = []
    seen, connection, _ = script(
        a_list("100"),
        [an_event("ADDED", "a", "101"), failure],
        [an_event("ADDED", "a", "101"), an_event("ADDED", "b", "102")],
        on_error=troubles.append,
    )
    assert seen.told == [("added", "a", "101"), ("added", "b", "102")]
    assert [query.get("resourceVersion") for query in connection.asked] == [None, "100", "101", "102"]
    assert len(troubles) == 1


@pytest.mark.parametrize("end", [[], [errors.Unreachable("cut")], [b"no"]], ids=["ends", "breaks", "no event"])
def test_a_streaming_list_that_breaks_is_begun_again_and_at_last_given_up(end: list[bytes | Exception]) -> None:
    features, troubles = ServerFeatures(), list[errors.CallFailed]()
    seen, connection, _ = script(
        *[[an_event("ADDED", "a", "90"), *end]] * 3,
        a_list("100", a="90", b="95"),
        features=features,
        on_error=troubles.append,
    )
    assert not features.streams_lists
    assert len(troubles) == 3
    assert seen.told == [("added", "a", "90"), ("added", "b", "95")]
    assert ["sendInitialEvents" in query for query in connection.asked] == [True, True, True, False, False]


def test_a_streaming_list_asks_for_all_and_for_its_end() -> None:
    _, connection, _ = script(a_streamed_list("100"), features=ServerFeatures())
    query = connection.asked[0]
    assert query["sendInitialEvents"] == query["allowWatchBookmarks"] == "true"
    assert query["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in query
    assert connection.asked[1]["resourceVersion"] == "100"


@BOTH_LISTS
def test_a_server_whose_data_were_restored_is_believed_in_the_end(streams_lists: bool) -> None:
    ahead = errors.ServerFault(504, "Timeout", "too large resource version")
    seen, _, _ = script(
        listed("110", as_stream=streams_lists, a="105", b="108"),
        *[ahead] * 5,
        ahead if streams_lists else a_list("103", a="101"),
        *[a_list("103", a="101")] * 3,
        [an_event("ADDED", "c", "104")],
        features=ServerFeatures(streams_lists=streams_lists),
    )
    assert seen.told[2:] == [("modified", "a", "101"), ("deleted", "b", "108"), ("added", "c", "104")]


def test_a_right_that_is_lost_later_is_waited_for() -> None:
    refused = errors.Forbidden(403, "Forbidden", "cannot watch")
    seen, _, pauses = script(a_list("100"), [], *[refused] * 7, [an_event("ADDED", "a", "101")])
    assert seen.told == [("added", "a", "101")]
    assert len(pauses) >= 7


def test_lists_and_watches_are_of_what_is_selected() -> None:
    _, connection, _ = script(a_list("100"), [], options=ListScope(namespace="shop", label_selector="app=a"))
    assert connection.paths == {"/api/v1/namespaces/shop/pods"}
    assert [query["labelSelector"] for query in connection.asked] == ["app=a"] * 3


def test_silence_is_only_what_lasts_longer_than_the_watch() -> None:
    _, connection, _ = script(a_list("100"), *[[]] * 20, settings=ReflectorSettings())
    assert min(connection.patience) >= 10


@BOTH_LISTS
def test_a_version_is_told_when_the_store_has_seen_all_that_came_up_to_it(streams_lists: bool) -> None:
    versions: list[int] = []
    seen, _, _ = script(
        listed("100", as_stream=streams_lists, a="90", b="91"),
        [an_event("ADDED", "c", "101"), a_bookmark("110"), a_bookmark("109"), an_event("DELETED", "a", "111")],
        features=ServerFeatures(streams_lists=streams_lists),
        on_version=versions.append,
    )
    assert versions == [100, 101, 110, 111]
    assert len(seen.store) == 2
