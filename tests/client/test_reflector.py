"""What a reflector makes of a server's answers: what it believes, how long it waits, what it gives up."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from time import monotonic
from typing import Any

import pytest
from tests.client.recording import Recording
from tests.controller.model.network import in_no_time, seconds

from zoneward.client import api_errors as errors
from zoneward.client.backoff import Backoff
from zoneward.client.list_pager import EVERYTHING, ListScope
from zoneward.client.object_store import ObjectStore
from zoneward.client.reflector import Reflector, ReflectorRuntime, ReflectorSettings, ServerFeatures
from zoneward.client.resources import PODS, LivePod

Answer = bytes | Sequence[bytes | float | Exception] | Exception
"""A float: seconds before the next line."""
HANG = b""
"""A line that never arrives."""


class Scripted:
    """A connection whose answers are written down: bodies of lists, lines of watches, or errors."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Mapping[str, str]] = []
        self.asked_at: list[float] = []
        self.paths = set[str]()

    def versions(self) -> list[str | None]:
        """From which each list and each watch was asked for."""
        return [query.get("resourceVersion") for query in self.asked]

    def _next(self, path: str, query: Mapping[str, str]) -> bytes | Sequence[bytes | float | Exception]:
        self.asked.append(query)
        self.asked_at.append(seconds())
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
        lines = self._next(path, query)
        assert not isinstance(lines, bytes)

        async def each() -> AsyncIterator[bytes]:
            for line in lines:
                if isinstance(line, Exception):
                    raise line
                if line == HANG:
                    await asyncio.sleep(idle)
                    raise errors.SilentConnection(f"nothing came for {idle} s")
                if isinstance(line, float):
                    await asyncio.sleep(line)
                else:
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


class Play(Scripted):
    """A script that a reflector has been through, and what came of it."""

    def __init__(
        self,
        *answers: Answer,
        streams_lists: bool = False,
        clock: Callable[[], float] = monotonic,
        settings: ReflectorSettings | None = None,
        options: ListScope = EVERYTHING,
        run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run,
    ) -> None:
        super().__init__(*answers)
        self.marked = list[str]()
        self.store = ObjectStore[LivePod](on_unreadable=lambda unreadable: self.marked.append(unreadable.version))
        self.features = ServerFeatures(streams_lists=streams_lists)
        self.changes = Recording(self.store, PODS).changes
        self.pauses, self.troubles, self.reported = list[float](), list[errors.CallFailed](), list[int]()

        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)

        reflector = Reflector(
            self,
            PODS,
            self.store,
            options=options,
            features=self.features,
            settings=settings,
            runtime=ReflectorRuntime(random=Random(1), sleep=sleep, clock=clock),
            on_error=self.troubles.append,
            on_version=self.reported.append,
        )
        # A script ends where nothing is left to answer.
        with suppress(asyncio.CancelledError):
            run(reflector.run())


UNREADABLE_B = an_event("MODIFIED", "b", "53").replace(b"}}}", b'},"spec":7}}')
EXPIRED = errors.Gone(410, "Expired", "too old")
EXPIRED_EVENT = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}'
BOTH_LISTS = pytest.mark.parametrize("streams_lists", [True, False], ids=["streaming list", "pages"])


def listed(version: str, *, as_stream: bool, **pods: str) -> Answer:
    return a_streamed_list(version, **pods) if as_stream else a_list(version, **pods)


def test_what_the_server_no_longer_remembers_is_listed_at_once_but_not_again_and_again() -> None:
    once: list[Answer] = [a_list("100"), [an_event("ADDED", "a", "101")], EXPIRED, a_list("101", a="101")]
    assert Play(*once).pauses == []
    again: list[Answer] = [*once, [an_event("ADDED", "b", "102")], EXPIRED, a_list("102", a="101", b="102")]
    assert len(Play(*again).pauses) == 1
    times = iter(range(0, 10_000, 30))
    assert Play(*again, clock=lambda: float(next(times))).pauses == []


def test_a_list_from_a_replica_that_lags_behind_is_not_believed() -> None:
    play = Play(a_list("100", a="90"), [an_event("MODIFIED", "a", "101")], EXPIRED, a_list("95", a="90"), a_list("102"))
    assert play.changes == [("added", "a", "90"), ("modified", "a", "101"), ("deleted", "a", "101")]
    assert play.versions() == [None, "100", "101", None, None, "102"]


def test_what_only_a_list_had_that_was_begun_anew_is_gone() -> None:
    play = Play(a_list("100", token="t", a="90"), EXPIRED, a_list("110", b="105"))
    assert play.changes == [("added", "a", "90"), ("added", "b", "105"), ("deleted", "a", "90")]


def test_half_a_list_is_already_something_behind_which_the_next_may_not_fall() -> None:
    half = a_list("100", token="t", a="100")
    play = Play(half, errors.Unreachable("broken"), a_list("95"), a_list("101", a="100"))
    assert play.changes == [("added", "a", "100")]


@pytest.mark.parametrize("far", [an_event("MODIFIED", "a", str(10**18)), a_bookmark(str(10**18))])
@BOTH_LISTS
def test_version_far_above_all_others_hides_no_later_change(far: bytes, streams_lists: bool) -> None:
    later = [an_event("ADDED", f"b{version}", str(version)) for version in (102, 103)]
    play = Play(
        listed("100", as_stream=streams_lists, a="90"),
        [far, *later, a_bookmark("104"), HANG],
        a_list("104", a="101", b102="102", b103="103"),
        [an_event("DELETED", "a", "105")],
        streams_lists=streams_lists,
    )
    assert play.changes[-4:] == [
        ("modified", "a", "101"),
        ("added", "b102", "102"),
        ("added", "b103", "103"),
        ("deleted", "a", "101"),
    ]
    assert str(play.troubles[0]) == f"expected events newer than version {10**18}, got several up to 104"
    assert play.versions()[-2:] == ["104", "105"]
    assert play.reported[-2:] == [104, 105]
    assert max(play.pauses) < 1


def test_events_that_come_twice_or_out_of_order_need_no_list() -> None:
    old = [an_event("MODIFIED", "a", version) for version in ("103", "103", "101", "102", "104", "104", "101", "102")]
    play = Play(a_list("100", a="90"), [an_event("MODIFIED", "a", "104"), *old, an_event("MODIFIED", "a", "105")])
    assert play.changes == [("added", "a", "90"), ("modified", "a", "104"), ("modified", "a", "105")]
    assert play.troubles == []
    assert ["watch" in query for query in play.asked] == [False, True, True]


def test_a_bookmark_never_takes_a_watch_back() -> None:
    assert Play(a_list("100"), [a_bookmark("120"), a_bookmark("110")]).versions() == [None, "100", "120"]


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    play = Play(
        a_list("x"), [an_event("ADDED", "a", "y"), an_event("MODIFIED", "a", "b"), an_event("DELETED", "a", "c")]
    )
    assert play.changes == [("added", "a", "y"), ("modified", "a", "b"), ("deleted", "a", "b")]
    assert play.versions() == [None, "x", "c"]


def test_a_version_that_the_server_cannot_serve_again_and_again_is_given_up() -> None:
    play = Play(a_list("100"), *[[b"nonsense"]] * 5, a_list("101", a="101"))
    assert play.changes == [("added", "a", "101")]
    assert ["watch" in query for query in play.asked] == [False, *[True] * 5, False, True]


def test_pauses_grow_and_are_as_long_as_the_server_asks() -> None:
    refused, busy = errors.Unreachable("refused"), errors.TooManyRequests(429, "", "", retry_after=7.0)
    settings = ReflectorSettings(backoff=Backoff(initial=0.5, cap=30.0, jitter=0.5))
    first, second, third, last, *_ = Play(a_list("1"), *[refused] * 3, busy, settings=settings).pauses
    assert 0.25 <= first <= 0.5 <= second <= 1.0 <= third <= 2.0
    assert last == 7.0


BOOKMARK = a_bookmark("110")


@BOTH_LISTS
def test_watch_is_broken_after_90_s_of_silence_once_a_bookmark_has_come(streams_lists: bool) -> None:
    play = Play(
        *([a_streamed_list("100")] if streams_lists else [a_list("100")]),
        [55.0, BOOKMARK, 70.0, an_event("ADDED", "a", "111"), HANG],
        a_list("111"),
        [an_event("ADDED", "b", "112")],
        streams_lists=streams_lists,
        run=in_no_time,
    )
    assert [type(trouble) for trouble in play.troubles] == [errors.SilentConnection]
    assert play.asked_at[2:4] == pytest.approx([55.0 + 70.0 + 90.0] * 2)
    assert play.asked[2] == {"limit": "1"}
    assert play.versions()[3] == "111"
    assert play.changes == [("added", "a", "111"), ("added", "b", "112")]


def test_next_watch_is_broken_after_90_s_without_a_first_line() -> None:
    play = Play(a_list("100"), [BOOKMARK], [HANG], a_list("110"), [], run=in_no_time)
    assert play.asked_at == [0.0, 0.0, 0.0, 90.0, 90.0, 90.0]
    assert len(play.troubles) == 1


def test_watch_without_bookmarks_may_be_silent_for_longer_than_it_lasts() -> None:
    play = Play(a_list("100"), [an_event("ADDED", "a", "101"), HANG], [], run=in_no_time)
    assert play.asked_at[2] >= 240.0 + 30.0


def test_server_that_sent_one_bookmark_only_is_not_asked_every_90_s() -> None:
    play = Play(a_list("100"), [BOOKMARK, HANG], a_list("110"), [HANG], [], run=in_no_time)
    assert play.asked_at[2:4] == [90.0, 90.0]
    assert play.asked_at[4] >= 90.0 + 240.0 + 30.0


def test_a_version_that_restored_data_do_not_have_leads_to_a_list() -> None:
    # An API server sends nothing to a watch from a later version than its own.
    restored = a_list("50", b="45")
    play = Play(
        *(a_list("100", a="90", b="95"), [BOOKMARK, HANG]),
        *(errors.TimedOut("no answer"), restored, restored, [an_event("ADDED", "c", "51")]),
        run=in_no_time,
    )
    assert play.versions() == [None, "100", None, None, None, "50", "51"]
    assert play.changes[-3:] == [("modified", "b", "45"), ("deleted", "a", "90"), ("added", "c", "51")]


def test_many_lines_a_second_postpone_the_timeout_once_a_second() -> None:
    lines: list[bytes | float] = [BOOKMARK]
    for version in range(111, 411):
        lines += [0.5, an_event("MODIFIED", "a", str(version))]
    play = Play(a_list("100"), [*lines, HANG], a_list("410"), [], run=in_no_time)
    assert 150.0 + 89.0 <= play.asked_at[2] <= 150.0 + 90.0
    assert play.versions()[3] == "410"


@pytest.mark.parametrize(("lasts", "pauses"), [(0.0, 3), (60.0, 0)])
def test_only_a_watch_that_ends_at_once_without_news_is_followed_by_a_pause(lasts: float, pauses: int) -> None:
    times = (lasts * tick for tick in range(1000))
    assert len(Play(a_list("1"), [], [], [], clock=lambda: next(times)).pauses) == pauses


def test_a_list_that_a_stream_does_not_end_in_time_is_asked_for_in_pages() -> None:
    settings = ReflectorSettings(listing=0.02)
    play = Play([an_event("ADDED", "a", "90"), HANG], a_list("100", b="95"), streams_lists=True, settings=settings)
    assert not play.features.streams_lists
    assert "expected all pods within 0.02 s" in str(play.troubles[0])
    assert play.changes == [("added", "a", "90"), ("added", "b", "95"), ("deleted", "a", "90")]
    assert play.asked[1] == {"limit": "500"}


def test_what_may_not_be_listed_or_watched_is_told() -> None:
    refused = errors.Forbidden(403, "Forbidden", "cannot")
    for answers, streams_lists in (([refused], False), ([a_list("1"), refused], False), ([refused], True)):
        with pytest.raises(errors.Forbidden):
            Play(*answers, streams_lists=streams_lists)


def test_a_right_that_is_lost_later_is_waited_for() -> None:
    refused = errors.Forbidden(403, "Forbidden", "cannot watch")
    play = Play(a_list("100"), [], *[refused] * 7, [an_event("ADDED", "a", "101")])
    assert play.changes == [("added", "a", "101")]
    assert len(play.pauses) >= 7


def test_an_impatient_reflector_raises_what_a_patient_one_waits_for() -> None:
    answers: tuple[Answer, ...] = (errors.Unreachable("refused"), a_list("1", a="1"), [])
    assert Play(*answers).changes == [("added", "a", "1")]
    with pytest.raises(errors.Unreachable):
        Play(*answers, settings=ReflectorSettings(fail_fast=True))
    busy = errors.TooManyRequests(429, "TooManyRequests", "", retry_after=3.0)
    play = Play(busy, *answers[1:], settings=ReflectorSettings(fail_fast=True))
    assert (play.changes, play.pauses[0]) == ([("added", "a", "1")], 3.0)


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
    play = Play(a_list("1"), [b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}'])
    assert [type(trouble) for trouble in play.troubles] == [errors.UnexpectedResponse]


@BOTH_LISTS
@pytest.mark.parametrize("gone", [EXPIRED, [EXPIRED_EVENT]], ids=["answer", "event"])
def test_410_leads_to_a_list_whose_difference_is_told(gone: Answer, streams_lists: bool) -> None:
    play = Play(
        listed("100", as_stream=streams_lists, a="90", b="91", c="92"),
        gone,
        listed("110", as_stream=streams_lists, c="92", a="105", d="106"),
        streams_lists=streams_lists,
    )
    assert play.changes[3:] == [("modified", "a", "105"), ("added", "d", "106"), ("deleted", "b", "91")]
    assert [type(trouble) for trouble in play.troubles] == [errors.Gone]
    assert play.versions()[-1] == "110"


ERROR_500, ERROR_503 = (errors.ServerFault(status, "", "") for status in (500, 503))


@pytest.mark.parametrize(
    "failure", [errors.Unreachable("cut"), ERROR_500, ERROR_503, errors.SilentConnection("nothing"), b"no"], ids=repr
)
def test_a_watch_that_breaks_goes_on_where_it_was(failure: Exception | bytes) -> None:
    again = [an_event("ADDED", "a", "101"), an_event("ADDED", "b", "102")]
    play = Play(a_list("100"), [an_event("ADDED", "a", "101"), failure], again)
    assert play.changes == [("added", "a", "101"), ("added", "b", "102")]
    assert play.versions() == [None, "100", "101", "102"]
    assert len(play.troubles) == 1


@pytest.mark.parametrize("end", [[], [errors.Unreachable("cut")], [b"no"]], ids=["ends", "breaks", "no event"])
def test_a_streaming_list_that_breaks_is_begun_again_and_at_last_given_up(end: list[bytes | Exception]) -> None:
    play = Play(*[[an_event("ADDED", "a", "90"), *end]] * 3, a_list("100", a="90", b="95"), streams_lists=True)
    assert not play.features.streams_lists
    assert len(play.troubles) == 3
    assert play.changes == [("added", "a", "90"), ("added", "b", "95")]
    assert ["sendInitialEvents" in query for query in play.asked] == [True, True, True, False, False]


def test_a_streaming_list_asks_for_all_and_for_its_end() -> None:
    play = Play(a_streamed_list("100"), streams_lists=True)
    query = play.asked[0]
    assert query["sendInitialEvents"] == query["allowWatchBookmarks"] == "true"
    assert query["resourceVersionMatch"] == "NotOlderThan"
    assert play.versions() == [None, "100"]


@BOTH_LISTS
def test_a_server_whose_data_were_restored_is_believed_in_the_end(streams_lists: bool) -> None:
    ahead = errors.ServerFault(504, "Timeout", "too large resource version")
    play = Play(
        listed("110", as_stream=streams_lists, a="105", b="108"),
        *[ahead] * 5,
        ahead if streams_lists else a_list("103", a="101"),
        *[a_list("103", a="101")] * 3,
        [an_event("ADDED", "c", "104")],
        streams_lists=streams_lists,
    )
    assert play.changes[2:] == [("modified", "a", "101"), ("deleted", "b", "108"), ("added", "c", "104")]


@pytest.mark.parametrize("failure", [errors.Unreachable("cut"), EXPIRED], ids=["next list", "same list"])
def test_restored_data_replace_newer_states_when_the_accepted_list_restarts(failure: Exception) -> None:
    play = Play(
        a_list("110", a="105"),
        EXPIRED,
        *[a_list("50", a="40", b="30")] * 3,
        a_list("50", token="t", b="30"),
        failure,
        a_list("60", a="40", b="30"),
        [an_event("MODIFIED", "a", "61")],
    )
    assert play.changes[1:] == [("added", "b", "30"), ("modified", "a", "40"), ("modified", "a", "61")]
    assert play.versions()[-2:] == ["60", "61"]


def test_restored_data_are_read_as_soon_as_they_can_be() -> None:
    play = Play(
        a_list("110", a="105", b="108"),
        EXPIRED,
        *[a_list("50", a="40").replace(b"]}", b',{"metadata":{"name":"b","resourceVersion":"30"},"spec":7}]}')] * 4,
        [an_event("MODIFIED", "b", "51"), an_event("DELETED", "a", "52")],
        [UNREADABLE_B, an_event("DELETED", "b", "54")],
    )
    assert play.marked == ["30", "53"]
    assert play.changes[2:] == [
        ("modified", "a", "40"),
        ("modified", "b", "51"),
        ("deleted", "a", "40"),
        ("deleted", "b", "51"),
    ]
    assert play.store.unreadable == {}


def test_lists_and_watches_are_of_what_is_selected() -> None:
    play = Play(a_list("100"), [], options=ListScope(namespace="shop", label_selector="app=a"))
    assert play.paths == {"/api/v1/namespaces/shop/pods"}
    assert [query["labelSelector"] for query in play.asked] == ["app=a"] * 3


@BOTH_LISTS
def test_a_version_is_told_when_the_store_has_seen_all_that_came_up_to_it(streams_lists: bool) -> None:
    play = Play(
        listed("100", as_stream=streams_lists, a="90", b="91"),
        [an_event("ADDED", "c", "101"), a_bookmark("110"), a_bookmark("109"), an_event("DELETED", "a", "111")],
        streams_lists=streams_lists,
    )
    assert play.reported == [100, 101, 110, 111]
    assert len(play.store) == 2
