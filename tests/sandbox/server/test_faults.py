"""Faults happen with their probability, to their requests, and the same each time."""

from typing import Any

import pytest

from zoneward.sandbox.durations import Span
from zoneward.sandbox.server.faults import Fault, FaultInjector, FaultKind, parse_fault


def faults(*texts: str, seed: int = 1) -> FaultInjector:
    return FaultInjector([parse_fault(text) for text in texts], seed)


def reads(of: FaultInjector) -> list[tuple[float, Fault | None]]:
    """What many requests meet."""
    return [of.on_request("GET") for _ in range(2_000)]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("latency=20ms", Fault(kind=FaultKind.LATENCY, latency=Span(0.02, 0.02))),
        ("latency=5ms-200ms@0.3", Fault(kind=FaultKind.LATENCY, latency=Span(0.005, 0.2), probability=0.3)),
        ("500@0.01", Fault(kind=FaultKind.SERVER_ERROR, probability=0.01)),
        ("429@.5", Fault(kind=FaultKind.TOO_MANY, probability=0.5)),
        ("429=5s@1", Fault(kind=FaultKind.TOO_MANY, retry_after=5)),
        ("conflict@0.05", Fault(kind=FaultKind.CONFLICT, probability=0.05)),
        ("lost-answer@0.01", Fault(kind=FaultKind.LOST_ANSWER, probability=0.01)),
        ("silent-watch@0.005", Fault(kind=FaultKind.SILENT_WATCH, probability=0.005)),
    ],
)
def test_a_fault_is_read(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault


KINDS = "latency, 500, 503, 429, conflict, lost-answer, gone, drop-watch, cut-watch, silent-watch"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", f"one of {KINDS}, with @PROBABILITY"),
        ("404@0.1", f"one of {KINDS}, with @PROBABILITY"),
        ("latency", "latency= with a time such as 10s, or two such as 5s-15s"),
        ("latency=fast", "latency= with a time such as 10s, or two such as 5s-15s"),
        ("latency=2s-1s", "latency= with the shorter time first, such as 5s-15s"),
        ("latency=0", "latency= with a time above 0, up to 1h"),
        ("latency=2h", "latency= with a time above 0, up to 1h"),
        ("500=3", "500 without an amount, such as 500@0.01"),
        ("429=1.5s", "429= with whole seconds for Retry-After, such as 429=2s"),
        ("429=1s-2s", "429= with whole seconds for Retry-After, such as 429=2s"),
        ("500@", "a probability above 0 and up to 1 behind @, such as 0.01"),
        ("500@0", "a probability above 0 and up to 1 behind @, such as 0.01"),
        ("500@nan", "a probability above 0 and up to 1 behind @, such as 0.01"),
    ],
)
def test_invalid_fault_is_refused_with_what_was_expected(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_fault(text)
    assert str(caught.value) == expected


def call(text: str, **request: Any) -> str:
    latency, fault = faults(text).on_request(**request)
    if fault is None:
        return f"{latency:g}s" if latency else ""
    return str(fault.refusal.code) if fault.refusal is not None else "lost"


REQUESTS: tuple[dict[str, Any], ...] = (
    *({"method": method} for method in ("GET", "POST", "PUT", "PATCH", "DELETE")),
    *({"method": "GET", "is_watch": True}, {"method": "GET", "is_continued": True}),
)


@pytest.mark.parametrize(
    ("text", "answers", "is_of_watches"),
    [
        ("latency=2s", ["2s"] * 7, False),
        ("500", ["500"] * 7, False),
        ("503", ["503"] * 7, False),
        ("429", ["429"] * 7, False),
        ("conflict", ["", "", "409", "409", "", "", ""], False),
        ("lost-answer", ["", "lost", "lost", "lost", "lost", "", ""], False),
        ("gone", [""] * 5 + ["410", "410"], True),
        ("drop-watch", [""] * 7, True),
        ("cut-watch", [""] * 7, True),
        ("silent-watch", [""] * 7, True),
    ],
)
def test_faults_apply_to_their_requests_or_to_events(text: str, answers: list[str], is_of_watches: bool) -> None:
    assert [call(text, **request) for request in REQUESTS] == answers
    assert faults(text).on_event() == (text if is_of_watches else None)


def test_the_first_of_two_refusals_wins() -> None:
    _, fault = faults("429=7s", "500").on_request("GET")
    assert fault is not None
    assert fault.refusal is not None
    assert (fault.refusal.code, fault.refusal.reason) == (429, "TooManyRequests")
    assert fault.refusal.details == {"retryAfterSeconds": 7}


def test_a_fault_is_as_frequent_as_its_probability() -> None:
    assert 150 < len([1 for _, fault in reads(faults("500@0.1")) if fault]) < 250
    assert 150 < len([1 for of in [faults("drop-watch@0.1")] for _ in range(2_000) if of.on_event()]) < 250


def test_the_same_seed_gives_the_same_faults_and_another_one_others() -> None:
    assert reads(faults("500@0.1")) == reads(faults("500@0.1"))
    assert reads(faults("500@0.1")) != reads(faults("500@0.1", seed=2))


def test_one_more_fault_does_not_change_the_others() -> None:
    def unavailable(of: FaultInjector) -> list[bool]:
        return [fault is not None and fault.kind == "503" for _, fault in reads(of)]

    def events(of: FaultInjector) -> list[bool]:
        return [of.on_event() is FaultKind.CUT_WATCH for _ in range(2_000)]

    others = ("latency=1ms-2ms@0.5", "conflict@0.5", "gone@0.2")
    assert unavailable(faults(*others, "503@0.1")) == unavailable(faults("503@0.1"))
    assert unavailable(faults("503@0.1", "500@0.5")) == unavailable(faults("503@0.1"))
    assert events(faults("cut-watch@0.1", "drop-watch@0.9")) == events(faults("cut-watch@0.1"))
