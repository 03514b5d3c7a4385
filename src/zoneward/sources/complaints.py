"""A failed call in one line, for the person who asked: what is wrong, and what to do about it."""

import re
from datetime import datetime
from typing import Final

from zoneward.kube.input_error import InputError, show
from zoneward.sources.access import Access
from zoneward.sources.api_errors import (
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
from zoneward.sources.certificate_dates import not_after
from zoneward.sources.tls import PemSource

_DENIED: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_DENIED_PATH: Final = re.compile(r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) path "(?P<path>[^"]*)"')
_RESOURCE_PATH: Final = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/]+(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]+))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>.+))?)?"
)
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def complaint(error: CallFailed, access: Access, *, now: datetime) -> InputError:
    """The error as ``InputError``, which ends a command with exit status 2. ``now`` tells expired certificates."""
    if isinstance(error, NoCredentials):
        return error.error
    where = [access.cluster.server, f"context {access.context}"]
    return InputError(where[0], *where[1:], _said(error, access, now))


def _said(error: CallFailed, access: Access, now: datetime) -> str:
    expired = _expired_certificate(access, now)
    # API servers say 401; others end the connection, and whether the reason arrives is a matter of luck.
    if expired and (isinstance(error, Unauthorized) or (isinstance(error, TlsProblem | Unreachable) and error.sent)):
        return expired
    if isinstance(error, Unauthorized):
        who = f"user {show(access.user.name)}" if access.user.name else "a request without a user"
        return f"the server does not accept the credentials of {who} (401): log in again, or choose another --context"
    if isinstance(error, Forbidden):
        return _forbidden(error)
    if isinstance(error, TooManyRequests):
        return "the server has too much to do (429): try again later"
    if isinstance(error, ApiError):
        return f"the server answered {error.status}: {error.message}"
    if isinstance(error, TlsProblem):
        return f"expected a TLS connection, got none: {error.message}"
    if isinstance(error, TimedOut):
        return f"expected an answer, got none in time: {error.message}; is the cluster up, and the address right?"
    if isinstance(error, Unreachable):
        return f"expected an API server there, got none: {error.message}"
    return error.message


def _expired_certificate(access: Access, now: datetime) -> str:
    """The line about our own client certificate; an API server only says 401 to one that is too old. Empty if not."""
    pem = access.user.certificate
    if pem is None:
        return ""
    try:
        end = not_after(PemSource(pem, source=access.source).read())
    except InputError:
        return ""
    if end is None or end > now:
        return ""
    place = pem.path or f"{pem.place} in {access.source}"
    return f"the client certificate of user {show(access.user.name)} has expired, on {end:%Y-%m-%d %H:%M} UTC: {place}"


def _forbidden(error: Forbidden) -> str:
    """Verb and resource, and the rule that grants them. The server's words come first: it may be about ``--as``."""
    if match := _DENIED.search(error.message):
        return _denied(match["verb"], match["resource"], match["group"], match["namespace"], match["user"])
    if match := _DENIED_PATH.search(error.message):
        return _denied_path(match["verb"], match["path"], match["user"])
    match = _RESOURCE_PATH.fullmatch(error.path)
    if match is None:
        return _denied_path(error.method.lower(), error.path, "")
    verb = _VERBS.get(error.method, "get" if match["name"] else "list")
    if verb == "list" and error.query.get("watch") in ("1", "true"):
        verb = "watch"
    elif verb == "delete" and not match["name"]:
        verb = "deletecollection"
    resource = match["resource"] + (f"/{match['subresource']}" if match["subresource"] else "")
    return _denied(verb, resource, match["group"] or "", match["namespace"], "")


def _denied(verb: str, resource: str, group: str, namespace: str | None, user: str) -> str:
    kind, scope = ("Role", f"in namespace {namespace}") if namespace else ("ClusterRole", "in the whole cluster")
    plural = f"{resource}.{group}" if group else resource
    rule = f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}'
    return f"{_who(user)} may not {verb} {plural} {scope} (403); a {kind} with this rule grants it: {rule}"


def _denied_path(verb: str, path: str, user: str) -> str:
    rule = f'{{nonResourceURLs: ["{path}"], verbs: ["{verb}"]}}'
    return f"{_who(user)} may not {verb} {path} (403); a ClusterRole with this rule grants it: {rule}"


def _who(user: str) -> str:
    return f"user {show(user)}" if user else "you"
