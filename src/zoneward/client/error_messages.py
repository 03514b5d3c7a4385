"""Describes a failed call in one line: what is wrong, and what to do about it."""

import re
from datetime import datetime
from typing import Final

from zoneward.client.api_errors import (
    ApiError,
    CallFailed,
    Forbidden,
    NoCredentials,
    TimedOut,
    TlsProblem,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from zoneward.client.auth.client_config import ClientConfig
from zoneward.client.auth.tls import PemReader, certificate_expiry
from zoneward.kube.input_error import MAX_LENGTH, InputError, show
from zoneward.kube.safe_text import printable

_MIN_SECRET: Final = 16
"""A part of a path with this number of characters may be a token."""
_DENIED: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_DENIED_PATH: Final = re.compile(r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) path "(?P<path>[^"]*)"')
_RESOURCE_PATH: Final = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/]+(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]+))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>.+))?)?"
)
_MIN_WORDS: Final = 40
"""Shortest useful excerpt of the server's message, in characters, with its introduction."""
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def to_input_error(error: CallFailed, access: ClientConfig, *, now: datetime) -> InputError:
    """The error as ``InputError``, which ends a command with exit status 2. ``now`` is the time of day.

    The server's own message is shortened to fit into the line.
    """
    if isinstance(error, NoCredentials):
        return error.error
    where = [redacted_server(access), f"context {access.context}"]
    line, words = _word(error, access, now)
    room = MAX_LENGTH - len(": ".join((*where, line)))
    if len(words) > room:
        words = f"{words[: room - 1]}…" if room >= _MIN_WORDS else ""
    return InputError(where[0], *where[1:], line + words)


def log_message(error: CallFailed, access: ClientConfig, *, now: datetime) -> str:
    """The message as a line of a log: without the server and the context, with the server's complete message."""
    return printable("".join(_word(error, access, now)))


def redacted_server(access: ClientConfig) -> str:
    """The address, without path segments that may be secrets: the address of a sandbox contains its token."""
    scheme, separator, rest = access.cluster.server.partition("://")
    host, *path = rest.split("/")
    return scheme + separator + "/".join([host, *("..." if len(part) >= _MIN_SECRET else part for part in path)])


def _word(error: CallFailed, access: ClientConfig, now: datetime) -> tuple[str, str]:
    """What is wrong and what to do about it, and the server's own message that follows."""
    if not isinstance(error, ApiError):
        return _word_no_answer(error, access, now), ""
    words = " ".join(error.words.split())
    quoted, following = (f"; the server says: {words}", f": {words}") if words else ("", "")
    if isinstance(error, Unauthorized):
        # API servers answer 401; others end the connection, and the reason may not arrive.
        expired = _expired_certificate(access, now)
        if expired:
            return expired, quoted
        who = f"user {show(access.user.name)}" if access.user.name else "a request without a user"
        line = f"the server does not accept the credentials of {who} (401): log in again, or choose another --context"
        return line, quoted
    if isinstance(error, Forbidden):
        denied = _missing_permission(error)
        return (_refused(error), following) if denied is None else (denied, quoted)
    if isinstance(error, TooManyRequests):
        return "the server has too much to do (429): try again later", quoted
    return f"the server answered {error.status}", following


def _word_no_answer(error: CallFailed, access: ClientConfig, now: datetime) -> str:
    if isinstance(error, TlsProblem | Unreachable) and error.sent and (expired := _expired_certificate(access, now)):
        return expired
    if isinstance(error, TlsProblem):
        return f"there is no TLS connection to the API server: {error.message}"
    if isinstance(error, TimedOut):
        return f"the API server did not answer in time: {error.message}; is the cluster up, and the address right?"
    if isinstance(error, Unreachable):
        return f"the API server cannot be reached: {error.message}"
    return error.message


def _expired_certificate(access: ClientConfig, now: datetime) -> str:
    """The line about an expired client certificate, to which an API server only answers 401; empty if it is valid."""
    pem = access.user.certificate
    if pem is None:
        return ""
    try:
        end = certificate_expiry(PemReader(pem, source=access.source).read())
    except InputError:
        return ""
    if end is None or end > now:
        return ""
    file = pem.path or f"{pem.location} in {access.source}"
    return f"the client certificate of user {show(access.user.name)} has expired, on {end:%Y-%m-%d %H:%M} UTC: {file}"


def _missing_permission(error: Forbidden) -> str | None:
    """Verb and resource, and the rule that grants them; None if the request was refused otherwise, as by admission.

    The server's message takes precedence, since it may be about ``--as``. Without a message, a missing permission is
    the usual reason.
    """
    if match := _DENIED.search(error.words):
        return _word_denied(match["verb"], match["resource"], match["group"], match["namespace"], match["user"])
    if match := _DENIED_PATH.search(error.words):
        return _word_denied_path(match["verb"], match["path"], match["user"])
    if error.words not in ("", "Forbidden"):
        return None
    requested = _requested_permission(error)
    if requested is None:
        return _word_denied_path(error.method.lower(), error.path, "")
    return _word_denied(*requested, "")


def _refused(error: Forbidden) -> str:
    """The line about a refusal by admission: a policy, a quota, a webhook, or a namespace that is being deleted."""
    requested = _requested_permission(error)
    if requested is None:
        return f"the server refuses to {error.method.lower()} {error.path} (403)"
    verb, resource, group, namespace = requested
    where = f" in namespace {namespace}" if namespace else ""
    why = ", which is being deleted" if where and error.is_terminating else ""
    return f"the server refuses to {verb} {_plural(resource, group)}{where}{why} (403)"


def _requested_permission(error: Forbidden) -> tuple[str, str, str, str | None] | None:
    """Verb, resource, group and namespace of the permission that a request needs."""
    match = _RESOURCE_PATH.fullmatch(error.path)
    if match is None:
        return None
    verb = _VERBS.get(error.method, "get" if match["name"] else "list")
    if verb == "list" and error.query.get("watch") in ("1", "true"):
        verb = "watch"
    elif verb == "delete" and not match["name"]:
        verb = "deletecollection"
    resource = match["resource"] + (f"/{match['subresource']}" if match["subresource"] else "")
    return verb, resource, match["group"] or "", match["namespace"]


def _word_denied(verb: str, resource: str, group: str, namespace: str | None, user: str) -> str:
    kind, scope = ("Role", f"in namespace {namespace}") if namespace else ("ClusterRole", "in the whole cluster")
    rule = f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}'
    denied = f"{_word_user(user)} may not {verb} {_plural(resource, group)} {scope} (403)"
    return f"{denied}; a {kind} with this rule grants it: {rule}"


def _word_denied_path(verb: str, path: str, user: str) -> str:
    rule = f'{{nonResourceURLs: ["{path}"], verbs: ["{verb}"]}}'
    return f"{_word_user(user)} may not {verb} {path} (403); a ClusterRole with this rule grants it: {rule}"


def _plural(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def _word_user(user: str) -> str:
    return f"user {show(user)}" if user else "you"
