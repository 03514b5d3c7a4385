"""Faults of a sandbox, for tests of its clients: late answers, errors and lost answers."""

import asyncio
from random import Random
from typing import Final

import msgspec
from aiohttp import web

from zoneward.sandbox.durations import parse_span
from zoneward.sandbox.server.sandbox_server import SandboxServer
from zoneward.sandbox.server.status_errors import StatusError

_REFUSALS: Final = {
    "500": StatusError(500, "InternalError", "Internal error occurred: fault on purpose"),
    "503": StatusError(503, "ServiceUnavailable", "the server is currently unable to handle the request"),
    "conflict": StatusError(409, "Conflict", "Operation cannot be fulfilled: the object has been modified"),
}
"""Answers to requests that are not handled."""
_METHODS: Final = {"conflict": ("PUT", "PATCH"), "lost-answer": ("POST", "PUT", "PATCH", "DELETE")}
"""Methods that a fault applies to; all others apply to every method."""


def add_faults(serving: SandboxServer, *faults: str) -> SandboxServer:
    """Make answers late, errors or lost, before the server starts. A fault is ``KIND@PROBABILITY`` or
    ``latency=5ms-200ms``; of several errors the first one wins.

    Each kind has a separate random stream: one more fault does not change the others.
    """
    parsed = [fault.partition("@")[::2] for fault in faults]
    chances = {kind: Random(f"1 {kind.partition('=')[0]} 1 requests") for kind, _ in parsed}
    answer = serving.handler.answer

    async def answer_with_faults(request: web.BaseRequest) -> web.StreamResponse:
        latency, error = 0.0, ""
        for kind, probability in parsed:
            if request.method not in _METHODS.get(kind, (request.method,)):
                continue
            # Always draw two numbers, so that a hit does not change later ones.
            drawn, amount = chances[kind].random(), chances[kind].random()
            if drawn >= float(probability or 1):
                continue
            if kind.startswith("latency="):
                span = parse_span(kind.removeprefix("latency="))
                latency += span.least + (span.most - span.least) * amount
            else:
                error = error or kind
        await asyncio.sleep(latency)
        if error in _REFUSALS:
            refusal = _REFUSALS[error]
            body = msgspec.json.encode(refusal.status())
            return web.Response(body=body, status=refusal.code, content_type="application/json")
        response = await answer(request)
        if error and request.transport is not None:
            # Its answer is lost.
            request.transport.abort()
        return response

    serving.handler.answer = answer_with_faults  # type: ignore[method-assign]
    return serving
