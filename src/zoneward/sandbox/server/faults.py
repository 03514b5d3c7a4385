"""Injects faults: slow answers, errors, lost answers, watches that break or fall silent.

Each fault has a separate random stream from the seed: the same requests get the same faults, and one more ``--fault``
does not change the others.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Final

from zoneward.sandbox.durations import Span, parse_span
from zoneward.sandbox.server.status_errors import StatusError


class FaultKind(StrEnum):
    """In a watch, ``gone`` and the last three replace the next event, and no event follows."""

    LATENCY = "latency"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    TOO_MANY = "429"
    CONFLICT = "conflict"
    LOST_ANSWER = "lost-answer"
    """The server handles the request, and the connection breaks before the answer."""
    GONE = "gone"
    """An event of type ERROR with a Status 410, then the end."""
    DROP_WATCH = "drop-watch"
    """The connection breaks between two events."""
    CUT_WATCH = "cut-watch"
    """The connection breaks in the middle of an event."""
    SILENT_WATCH = "silent-watch"
    """The connection stays open without events and bookmarks."""


_WATCH_FAULTS: Final = (FaultKind.GONE, FaultKind.DROP_WATCH, FaultKind.CUT_WATCH, FaultKind.SILENT_WATCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    kind: FaultKind
    probability: float = 1
    """For each request, or for each event of a watch."""
    latency: Span = Span(0, 0)  # noqa: RUF009  (frozen)
    """Seconds."""
    retry_after: int = 1
    """Seconds of ``Retry-After`` of 429."""

    @property
    def refusal(self) -> StatusError | None:
        """The answer to a request that is not handled. Therefore its message names no object."""
        if self.kind not in _REFUSALS:
            return None
        details = {"retryAfterSeconds": self.retry_after} if self.kind is FaultKind.TOO_MANY else None
        return StatusError(*_REFUSALS[self.kind], details=details)


_REFUSALS: Final = {
    FaultKind.CONFLICT: (409, "Conflict", "Operation cannot be fulfilled: the object has been modified"),
    FaultKind.GONE: (410, "Expired", "The resourceVersion for the provided list or watch is too old."),
    FaultKind.TOO_MANY: (429, "TooManyRequests", "Too many requests, please try again later."),
    FaultKind.SERVER_ERROR: (500, "InternalError", "Internal error occurred: fault on purpose"),
    FaultKind.UNAVAILABLE: (503, "ServiceUnavailable", "the server is currently unable to handle the request"),
}
_METHODS: Final = {
    FaultKind.CONFLICT: ("PUT", "PATCH"),
    FaultKind.LOST_ANSWER: ("POST", "PUT", "PATCH", "DELETE"),
}
"""Methods that a fault applies to; all others apply to every method."""
_FORM: Final = re.compile(r"([a-z0-9-]+)(?:=([^@]*))?(?:@(.*))?", re.ASCII)
_PROBABILITY: Final = re.compile(r"[0-9]*\.?[0-9]+", re.ASCII)
_SECONDS: Final = re.compile(r"[0-9]{1,4}s", re.ASCII)
_MOST: Final = 3_600
"""Seconds."""


def parse_fault(text: str) -> Fault:
    """``KIND[=AMOUNT][@PROBABILITY]``, as ``latency=5ms-200ms@0.3``. Raises ValueError with what was expected."""
    match = _FORM.fullmatch(text)
    kinds = [str(kind) for kind in FaultKind]
    if match is None or match[1] not in kinds:
        raise ValueError(f"one of {', '.join(kinds)}, with @PROBABILITY")
    kind, amount, probability = FaultKind(match[1]), match[2], 1.0
    if match[3] is not None:
        probability = float(match[3]) if _PROBABILITY.fullmatch(match[3]) else 0
    if not 0 < probability <= 1:
        raise ValueError("a probability above 0 and up to 1 behind @, such as 0.01")
    fault = Fault(kind=kind, probability=probability)
    if kind is FaultKind.LATENCY:
        try:
            span = parse_span(amount or "")
        except ValueError as error:
            raise ValueError(f"latency= with {error}") from None
        if not 0 < span.most <= _MOST:
            raise ValueError("latency= with a time above 0, up to 1h")
        return replace(fault, latency=span)
    if kind is FaultKind.TOO_MANY and amount is not None:
        if not _SECONDS.fullmatch(amount) or not 1 <= int(amount[:-1]) <= _MOST:
            raise ValueError("429= with whole seconds for Retry-After, such as 429=2s")
        return replace(fault, retry_after=int(amount[:-1]))
    if amount is not None:
        raise ValueError(f"{kind} without an amount, such as {kind}@0.01")
    return fault


class FaultInjector:
    """Call ``on_request`` once per request, and ``on_event`` once before each event of a watch."""

    def __init__(self, faults: Iterable[Fault], seed: int) -> None:
        counts: dict[FaultKind, int] = {}
        self._requests: list[tuple[Fault, Random]] = []
        self._events: list[tuple[Fault, Random]] = []
        for fault in faults:
            fault_number = counts[fault.kind] = counts.get(fault.kind, 0) + 1
            if fault.kind not in _WATCH_FAULTS or fault.kind is FaultKind.GONE:
                self._requests.append((fault, Random(f"{seed} {fault.kind} {fault_number} requests")))
            if fault.kind in _WATCH_FAULTS:
                self._events.append((fault, Random(f"{seed} {fault.kind} {fault_number} events")))

    def on_request(
        self, method: str, *, is_watch: bool = False, is_continued: bool = False
    ) -> tuple[float, Fault | None]:
        """The delay of a request in seconds, and the fault that it meets then: a refusal or a lost answer.

        ``is_continued``: a list with a ``continue`` token. The first of several errors wins.
        """
        latency, hit = 0.0, None
        for fault, chance in self._requests:
            if method not in _METHODS.get(fault.kind, (method,)):
                continue
            if fault.kind is FaultKind.GONE and not (is_watch or is_continued):
                continue
            # Always draw two numbers, so that a hit does not change later ones.
            drawn, amount = chance.random(), chance.random()
            if drawn >= fault.probability:
                continue
            if fault.kind is FaultKind.LATENCY:
                latency += fault.latency.least + (fault.latency.most - fault.latency.least) * amount
            elif hit is None:
                hit = fault
        return latency, hit

    def on_event(self) -> FaultKind | None:
        """The first of several faults wins."""
        hits = [fault for fault, chance in self._events if chance.random() < fault.probability]
        return hits[0].kind if hits else None
