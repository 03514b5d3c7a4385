"""The errors of calls to an API server. Retries and watches decide by type; `error_messages` has the texts."""

# Named by what happened: ten names that end in "Error" would not help the reader of an except clause.
# ruff: noqa: N818

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from zoneward.kube.input_error import InputError
from zoneward.kube.json_documents import DECODE_ERRORS, decode_json

_LONGEST_MESSAGE: Final = 500
MAX_RETRY_AFTER: Final = 60.0
"""Seconds: no ``Retry-After`` of an answer may stop a watch, a queue or a Lease for longer."""
_TERMINATING: Final = "NamespaceTerminating"
"""The reason of a cause: ``k8s.io/api/core/v1.NamespaceTerminatingCause``."""


class CallFailed(Exception):
    """Any failed call. ``sent`` False: the request never left, so a write certainly did not happen."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.message, self.sent = message, sent


class Unreachable(CallFailed):
    """No connection, or one that broke off before the answer was complete."""


class TlsProblem(CallFailed):
    """One of the two sides refuses the other's certificate, or there is no TLS at the other end."""


class TimedOut(CallFailed):
    """No connection, or no complete answer, within the time limit of the call."""


class SilentConnection(CallFailed):
    """A stream that received nothing for longer than its limit: the other end may be gone."""


class NoCredentials(CallFailed):
    """There are no credentials: a plugin failed, or a file is unreadable. ``error`` says where and why."""

    def __init__(self, error: InputError) -> None:
        super().__init__(str(error), sent=False)
        self.error = error


class WritesSuspended(CallFailed):
    """The write was not sent: this replica has no time left in which it may write."""

    def __init__(self) -> None:
        super().__init__("writes are suspended", sent=False)


class AnswerTooLarge(CallFailed):
    """An answer larger than an API server should send; it is discarded."""


class UnexpectedResponse(CallFailed):
    """A response that no API server sends: truncated, or in another format."""


class ListTooLarge(UnexpectedResponse):
    """A list that is larger than that of any cluster, or whose continue tokens repeat."""


class ApiError(CallFailed):
    """An answer that is not a success. ``words`` is the server's message, empty if there is none.

    ``reason`` is the API's name for it (``Forbidden``, ``AlreadyExists``, ``Expired``; may be empty), ``retry_after``
    the seconds that the server asks clients to wait (at most `MAX_RETRY_AFTER`), ``details`` the details of the Status
    object. ``method`` and ``path`` are those of the request (without the prefix of the server's address); empty for an
    error that came in a watch.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
        method: str = "",
        path: str = "",
        query: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message or f"the server answered {status}")
        self.words = message
        self.status, self.reason = status, reason
        self.retry_after = None if retry_after is None else min(retry_after, MAX_RETRY_AFTER)
        self.details: Mapping[str, Any] = details or {}
        self.method, self.path, self.query = method, path, query or {}


class Unauthorized(ApiError):
    """401: the server does not accept the credentials."""


class Forbidden(ApiError):
    """403: a permission is missing, or admission refuses the request."""

    @property
    def is_terminating(self) -> bool:
        """Whether the namespace is being deleted, so that nothing can be created in it."""
        causes = self.details.get("causes")
        listed = causes if isinstance(causes, list) else ()
        return any(isinstance(cause, dict) and cause.get("reason") == _TERMINATING for cause in listed)


class NotFound(ApiError):
    """404: no such object, or no such kind."""


class Conflict(ApiError):
    """409: another client wrote the object (reason ``Conflict``), or the name is taken (``AlreadyExists``)."""


class Gone(ApiError):
    """410: the resourceVersion or continue token is too old (reason ``Expired`` or ``Gone``).

    `zoneward.client.reflector` then lists again, and `zoneward.client.list_pager` restarts its list.
    """


class Invalid(ApiError):
    """422: the object is not valid; ``details["causes"]`` names the fields."""


class TooManyRequests(ApiError):
    """429: refused before anything was done."""


class ServerFault(ApiError):
    """5xx: the outcome of a write is unknown."""


_CLASSES: Final[dict[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class _StatusObject(msgspec.Struct, gc=False):
    """A ``v1.Status``."""

    kind: str = ""
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = None


def api_error(
    status: int,
    body: bytes | msgspec.Raw,
    *,
    retry_after: float | None = None,
    method: str = "",
    path: str = "",
    query: Mapping[str, str] | None = None,
) -> ApiError:
    """The error for an answer with this HTTP status and body, which is a Status or anything that a proxy writes.

    The header ``Retry-After`` (``retry_after``) wins over ``details.retryAfterSeconds``.
    """
    try:
        answer = decode_json(body, _StatusObject)
    except DECODE_ERRORS:
        answer = _StatusObject()
    if answer.kind != "Status":
        answer = _StatusObject(message=" ".join(bytes(body).decode("utf-8", "replace").split())[:_LONGEST_MESSAGE])
    details = answer.details or {}
    seconds = details.get("retryAfterSeconds")
    if retry_after is None and isinstance(seconds, int | float) and seconds > 0:
        retry_after = float(seconds)
    kind = _CLASSES.get(status, ServerFault if status >= 500 else ApiError)
    return kind(
        status,
        answer.reason or "",
        answer.message or "",
        retry_after=retry_after,
        details=details,
        method=method,
        path=path,
        query=query,
    )


def watch_error(status: bytes | msgspec.Raw) -> ApiError:
    """The error for the Status object in a watch's ``ERROR`` event. Anything else counts as a server fault, 500."""
    try:
        code = decode_json(status, _StatusObject).code
    except DECODE_ERRORS:
        code = None
    return api_error(code or 500, status)
