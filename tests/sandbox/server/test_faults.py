"""Faults happen with their probability, to their requests, and the same each time."""

import pytest

from zoneward.sandbox.durations import Span
from zoneward.sandbox.server.faults import Fault, FaultInjector, parse_fault


def faults(*texts: str, seed: int = 1) -> FaultInjector:
    return FaultInjector([parse_fault(text) for text in texts], seed)


def reads(of: FaultInjector) -> list[tuple[float, Fault | None]]:
    """What many requests meet."""
    return [of.on_request("GET") for _ in range(2_000)]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("latency=20ms", Fault(kind="latency", latency=Span(0.02, 0.02))),
        ("latency=5ms-200ms@0.3", Fault(kind="latency", latency=Span(0.005, 0.2), probability=0.3)),
        ("500@0.01", Fault(kind="500", probability=0.01)),
        ("503@.5", Fault(kind="503", probability=0.5)),
        ("conflict@0.05", Fault(kind="conflict", probability=0.05)),
        ("lost-answer@0.01", Fault(kind="lost-answer", probability=0.01)),
    ],
)
def test_a_fault_is_read(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault


KINDS = "latency, 500, 503, conflict, lost-answer"


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
        ("500@", "a probability above 0 and up to 1 behind @, such as 0.01"),
        ("500@0", "a probability above 0 and up to 1 behind @, such as 0.01"),
        ("500@nan", "a probability above 0 and up to 1 behind @, such as 0.01"),
    ],
)
def test_invalid_fault_is_refused_with_what_was_expected(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_fault(text)
    assert str(caught.value) == expected


def call(text: str, method: str) -> str:
    latency, fault = faults(text).on_request(method)
    if fault is None:
        return f"{latency:g}s" if latency else ""
    return f"{fault.refusal.code} {fault.refusal.reason}" if fault.refusal is not None else "lost"


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("latency=2s", ["2s"] * 5),
        ("500", ["500 InternalError"] * 5),
        ("503", ["503 ServiceUnavailable"] * 5),
        ("conflict", ["", "", "409 Conflict", "409 Conflict", ""]),
        ("lost-answer", ["", "lost", "lost", "lost", "lost"]),
    ],
)
def test_faults_apply_to_their_requests(text: str, answers: list[str]) -> None:
    assert [call(text, method) for method in ("GET", "POST", "PUT", "PATCH", "DELETE")] == answers


def test_a_fault_is_as_frequent_as_its_probability() -> None:
    assert 150 < len([1 for _, fault in reads(faults("500@0.1")) if fault]) < 250


def test_the_same_seed_gives_the_same_faults_and_another_one_others() -> None:
    assert reads(faults("500@0.1")) == reads(faults("500@0.1"))
    assert reads(faults("500@0.1")) != reads(faults("500@0.1", seed=2))


def test_one_more_fault_does_not_change_the_others() -> None:
    def unavailable(of: FaultInjector) -> list[bool]:
        return [fault is not None and fault.kind == "503" for _, fault in reads(of)]

    others = ("latency=1ms-2ms@0.5", "conflict@0.5", "lost-answer@0.2")
    assert unavailable(faults(*others, "503@0.1")) == unavailable(faults("503@0.1"))
    assert unavailable(faults("503@0.1", "500@0.5")) == unavailable(faults("503@0.1"))
