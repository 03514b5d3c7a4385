"""Injected faults: slow answers, errors, lost answers, watches that end or send nothing more.

Each fault draws from a random stream of its own, made from the seed: the same requests get the same faults, and one
more ``--fault`` does not change the others.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final, Literal

from zoneward.sandbox.durations import Span, parse_span
from zoneward.sandbox.server.status_errors import StatusError

Code = Literal[409, 410, 429, 500, 503]
RETRY_AFTER: Final = 1
"""Seconds, where the fault does not say how many."""
HEALTH: Final = ("/healthz", "/livez", "/readyz")
"""Paths without faults: programs that start the sandbox wait for them."""
_WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")
_UPDATES: Final = ("PUT", "PATCH")


class FaultKind(StrEnum):
    LATENCY = "latency"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    TOO_MANY = "429"
    CONFLICT = "conflict"
    LOST_ANSWER = "lost-answer"
    GONE = "gone"
    DROP_WATCH = "drop-watch"
    CUT_WATCH = "cut-watch"
    SILENT_WATCH = "silent-watch"


class WatchFault(StrEnum):
    """The fault that a watch gets instead of its next event; no event follows."""

    DROP = "drop-watch"
    """The connection breaks between two events."""
    CUT = "cut-watch"
    """It breaks in the middle of the event."""
    SILENCE = "silent-watch"
    """It stays open, and nothing comes any more, bookmarks neither."""
    GONE = "gone"
    """An event of type ERROR with a Status 410, then the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    kind: FaultKind
    probability: float = 1
    """For each request, or for each event of a watch."""
    latency: Span = Span(0, 0)  # noqa: RUF009  (frozen)
    """Seconds."""
    retry_after: int = RETRY_AFTER
    """Seconds; of 429."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFault:
    """What goes wrong with a request: first the wait, then a refusal, or what was done is not answered."""

    latency: float = 0
    """Seconds."""
    code: Code | None = None
    """Nothing is done, and this is answered."""
    retry_after: int | None = None
    """Seconds, for the header ``Retry-After``."""
    is_answer_lost: bool = False
    """The request is done, and the connection breaks before the answer."""

    def refusal(self) -> StatusError | None:
        """The answer. Its message names no object, because the request was not handled."""
        if self.code is None:
            return None
        reason, message = _WORDS[self.code]
        details = None if self.retry_after is None else {"retryAfterSeconds": self.retry_after}
        return StatusError(self.code, reason, message, details=details)


_WORDS: Final[dict[Code, tuple[str, str]]] = {
    409: (
        "Conflict",
        "Operation cannot be fulfilled: the object has been modified; please apply your changes and try again",
    ),
    410: ("Expired", "The resourceVersion for the provided list or watch is too old."),
    429: ("TooManyRequests", "Too many requests, please try again later."),
    500: ("InternalError", "Internal error occurred: fault on purpose"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
}
_FORM: Final = re.compile(r"([a-z0-9-]+)(?:=([^@]*))?(?:@(.*))?", re.ASCII)
_PROBABILITY: Final = re.compile(r"[0-9]*\.?[0-9]+", re.ASCII)
_MOST_LATENCY: Final = 3_600.0
_MOST_RETRY: Final = 3_600


def parse_fault(text: str) -> Fault:
    """``KIND[=AMOUNT][@PROBABILITY]``, as ``latency=5ms-200ms@0.3``. Raises ValueError, saying what was expected."""
    match = _FORM.fullmatch(text)
    kinds = [str(kind) for kind in FaultKind]
    if match is None or match[1] not in kinds:
        raise ValueError(f"one of {', '.join(kinds)}, with @PROBABILITY")
    kind, amount = FaultKind(match[1]), match[2]
    probability = _probability(match[3])
    if kind is FaultKind.LATENCY:
        return Fault(kind=kind, probability=probability, latency=_latency(amount))
    if kind is FaultKind.TOO_MANY and amount is not None:
        return Fault(kind=kind, probability=probability, retry_after=_retry_after(amount))
    if amount is not None:
        raise ValueError(f"{kind} without an amount, such as {kind}@0.01")
    return Fault(kind=kind, probability=probability)


class FaultInjector:
    """``on_request`` once for every request, ``on_event`` once for every event of a watch that is about to be sent."""

    def __init__(self, faults: Iterable[Fault], seed: int) -> None:
        counts: dict[FaultKind, int] = {}
        self._requests: list[tuple[Fault, Random]] = []
        self._events: list[tuple[Fault, Random]] = []
        for fault in faults:
            number = counts[fault.kind] = counts.get(fault.kind, 0) + 1
            if fault.kind not in _WATCH_FAULTS or fault.kind is FaultKind.GONE:
                self._requests.append((fault, Random(f"{seed} {fault.kind} {number} requests")))
            if fault.kind in _WATCH_FAULTS:
                self._events.append((fault, Random(f"{seed} {fault.kind} {number} events")))

    def on_request(
        self, method: str, path: str, *, is_watch: bool = False, is_continued: bool = False
    ) -> RequestFault | None:
        """``is_continued``: a list with a ``continue`` token. The first of several errors wins."""
        if path.startswith(HEALTH):
            return None
        latency, hit = 0.0, None
        for fault, chance in self._requests:
            if not _concerns(fault.kind, method, is_watch=is_watch, is_continued=is_continued):
                continue
            # Always two numbers, so that a hit shifts nothing.
            drawn, amount = chance.random(), chance.random()
            if drawn >= fault.probability:
                continue
            if fault.kind is FaultKind.LATENCY:
                latency += fault.latency.least + (fault.latency.most - fault.latency.least) * amount
            elif hit is None:
                hit = fault
        if hit is None:
            return RequestFault(latency=latency) if latency else None
        if hit.kind is FaultKind.LOST_ANSWER:
            return RequestFault(latency=latency, is_answer_lost=True)
        retry_after = hit.retry_after if hit.kind is FaultKind.TOO_MANY else None
        return RequestFault(latency=latency, code=_CODES[hit.kind], retry_after=retry_after)

    def on_event(self) -> WatchFault | None:
        """The first of several wins."""
        hits = [fault for fault, chance in self._events if chance.random() < fault.probability]
        return _WATCH_FAULTS[hits[0].kind] if hits else None


_WATCH_FAULTS: Final = {FaultKind(fault.value): fault for fault in WatchFault}
_CODES: Final[dict[FaultKind, Code]] = {
    FaultKind.SERVER_ERROR: 500,
    FaultKind.UNAVAILABLE: 503,
    FaultKind.TOO_MANY: 429,
    FaultKind.CONFLICT: 409,
    FaultKind.GONE: 410,
}


def _concerns(kind: FaultKind, method: str, *, is_watch: bool, is_continued: bool) -> bool:
    match kind:
        case FaultKind.CONFLICT:
            return method in _UPDATES
        case FaultKind.LOST_ANSWER:
            return method in _WRITES
        case FaultKind.GONE:
            return is_watch or is_continued
        case _:
            return True


def _probability(text: str | None) -> float:
    if text is None:
        return 1
    value = float(text) if _PROBABILITY.fullmatch(text) else 0
    if not 0 < value <= 1:
        raise ValueError("a probability above 0 and up to 1 behind @, such as 0.01")
    return value


def _latency(text: str | None) -> Span:
    try:
        span = parse_span(text or "")
    except ValueError as error:
        raise ValueError(f"latency= with {error}") from None
    if not 0 < span.most <= _MOST_LATENCY:
        raise ValueError("latency= with a time above 0, up to 1h")
    return span


def _retry_after(text: str) -> int:
    try:
        span = parse_span(text)
    except ValueError:
        span = Span(0, 0)
    if span.least != span.most or span.most != int(span.most) or not 1 <= span.most <= _MOST_RETRY:
        raise ValueError("429= with whole seconds for Retry-After, such as 429=2s")
    return int(span.most)
