"""Injects faults: slow answers, errors, lost answers.

Each fault has a separate random stream from the seed: the same requests get the same faults, and one more ``--fault``
does not change the others.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from zoneward.sandbox.durations import Span, parse_span
from zoneward.sandbox.server.status_errors import StatusError

_LATENCY: Final = "latency"
_LOST_ANSWER: Final = "lost-answer"
"""The server handles the request, and the connection breaks before the answer."""
_REFUSALS: Final = {
    "500": (500, "InternalError", "Internal error occurred: fault on purpose"),
    "503": (503, "ServiceUnavailable", "the server is currently unable to handle the request"),
    "conflict": (409, "Conflict", "Operation cannot be fulfilled: the object has been modified"),
}
"""Answers to requests that are not handled. Therefore the messages name no object."""
KINDS: Final = (_LATENCY, *_REFUSALS, _LOST_ANSWER)
_METHODS: Final = {"conflict": ("PUT", "PATCH"), _LOST_ANSWER: ("POST", "PUT", "PATCH", "DELETE")}
"""Methods that a fault applies to; all others apply to every method."""
_FORM: Final = re.compile(r"([a-z0-9-]+)(?:=([^@]*))?(?:@(.*))?", re.ASCII)
_PROBABILITY: Final = re.compile(r"[0-9]*\.?[0-9]+", re.ASCII)
_MOST: Final = 3_600
"""Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    kind: str
    probability: float = 1
    """For each request."""
    latency: Span = Span(0, 0)  # noqa: RUF009  (frozen)
    """Seconds."""

    @property
    def refusal(self) -> StatusError | None:
        return StatusError(*_REFUSALS[self.kind]) if self.kind in _REFUSALS else None


def parse_fault(text: str) -> Fault:
    """``KIND[@PROBABILITY]``, or ``latency=5ms-200ms[@PROBABILITY]``. Raises ValueError with what was expected."""
    match = _FORM.fullmatch(text)
    if match is None or match[1] not in KINDS:
        raise ValueError(f"one of {', '.join(KINDS)}, with @PROBABILITY")
    kind, amount, probability = match[1], match[2], 1.0
    if match[3] is not None:
        probability = float(match[3]) if _PROBABILITY.fullmatch(match[3]) else 0
    if not 0 < probability <= 1:
        raise ValueError("a probability above 0 and up to 1 behind @, such as 0.01")
    if kind != _LATENCY:
        if amount is not None:
            raise ValueError(f"{kind} without an amount, such as {kind}@0.01")
        return Fault(kind=kind, probability=probability)
    try:
        latency = parse_span(amount or "")
    except ValueError as error:
        raise ValueError(f"latency= with {error}") from None
    if not 0 < latency.most <= _MOST:
        raise ValueError("latency= with a time above 0, up to 1h")
    return Fault(kind=kind, probability=probability, latency=latency)


class FaultInjector:
    """Call ``on_request`` once per request."""

    def __init__(self, faults: Iterable[Fault], seed: int) -> None:
        counts: Counter[str] = Counter()
        self._faults: list[tuple[Fault, Random]] = []
        for fault in faults:
            counts[fault.kind] += 1
            self._faults.append((fault, Random(f"{seed} {fault.kind} {counts[fault.kind]} requests")))

    def on_request(self, method: str) -> tuple[float, Fault | None]:
        """The delay of a request in seconds, and the fault that it meets then: a refusal or a lost answer.

        The first of several errors wins.
        """
        latency, hit = 0.0, None
        for fault, chance in self._faults:
            if method not in _METHODS.get(fault.kind, (method,)):
                continue
            # Always draw two numbers, so that a hit does not change later ones.
            drawn, amount = chance.random(), chance.random()
            if drawn >= fault.probability:
                continue
            if fault.kind == _LATENCY:
                latency += fault.latency.least + (fault.latency.most - fault.latency.least) * amount
            elif hit is None:
                hit = fault
        return latency, hit
