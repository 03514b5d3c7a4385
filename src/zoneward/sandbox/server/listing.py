"""Lists: which objects, of which state of the server, in pages with tokens that expire."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec

from zoneward.kube.formats import quoted
from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.numerals import parse_int, parse_uint
from zoneward.sandbox.server.refusals import Refusal, bad_request, expired, internal, options_invalid
from zoneward.sandbox.server.selecting import Selection, selection
from zoneward.sandbox.server.store import Forgotten, Key, Record, Store

Object = dict[str, Any]

_EXACT: Final = "Exact"
_NOT_OLDER: Final = "NotOlderThan"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """What a list or a watch asks for, as upstream's ``ListOptions``."""

    namespace: str
    """Empty: of all namespaces."""
    selection: Selection
    limit: int = 0
    token: str = ""
    version: int | None = None
    match: str = ""
    timeout: float | None = None
    """Seconds."""
    is_watch: bool = False
    wants_bookmarks: bool = False
    wants_initial_events: bool | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """Some objects of a state; ``token`` and ``left`` tell of those that did not fit."""

    records: list[tuple[Key, Record]]
    version: int
    token: str = ""
    left: int | None = None

    def metadata(self) -> Object:
        metadata: Object = {"resourceVersion": str(self.version)}
        if self.token:
            metadata["continue"] = self.token
            if self.left is not None:
                metadata["remainingItemCount"] = self.left
        return metadata


def list_options(kind: Kind, query: Mapping[str, str], *, namespace: str = "", name: str = "") -> ListOptions:
    """Of the query of a request; ``name`` where it is about one object. Raises Refusal."""
    fields = query.get("fieldSelector", "")
    if name:
        fields = f"metadata.name={name}" + (f",{fields}" if fields else "")
    options = ListOptions(
        namespace=namespace if kind.is_namespaced else "",
        selection=selection(kind, labels=query.get("labelSelector", ""), fields=fields),
        limit=whole(query["limit"]) if query.get("limit") else 0,
        token=query.get("continue", ""),
        version=_version(query.get("resourceVersion", ""), is_watch=is_true(query.get("watch"))),
        match=query.get("resourceVersionMatch", ""),
        timeout=whole(query["timeoutSeconds"]) if query.get("timeoutSeconds") else None,
        is_watch=is_true(query.get("watch")),
        wants_bookmarks=is_true(query.get("allowWatchBookmarks")),
        wants_initial_events=is_true(query["sendInitialEvents"]) if "sendInitialEvents" in query else None,
    )
    if errors := _unexpected(options, query):
        raise options_invalid("ListOptions", errors)
    if options.token and options.version:
        raise bad_request("specifying resource version is not allowed when using continue")
    return options


def listed(store: Store, kind: Kind, options: ListOptions) -> Listed:
    """Raises Refusal."""
    version, after, is_going_on = store.version, None, bool(options.token)
    if options.token:
        version, after = _parse_token(options.token)
        if version < 0:
            version = store.version
    elif options.version and (options.match == _EXACT or (options.limit > 0 and not options.match)):
        version = options.version
    if (version if options.token else options.version or 0) > store.version:
        raise too_large(options.version or version, store.version)
    try:
        states = store.page(kind, version=version, namespace=options.namespace, after=after)
    except Forgotten:
        if is_going_on and after is not None:
            raise expired(token=_token(-1, after)) from None
        raise Refusal(410, "Expired", "The resourceVersion for the provided list is too old.") from None
    found = states if options.selection.is_all else (each for each in states if options.selection.matches(*each))
    if options.limit <= 0 or options.version == 0:
        return Listed(list(found), version)
    records = list(islice(found, options.limit))
    if next(found, None) is None:
        return Listed(records, version)
    last, left = records[-1][0], None
    if options.selection.is_all:
        left = store.count_behind(kind, version=version, namespace=options.namespace, after=last)
    return Listed(records, version, _token(version, last), left)


def too_large(asked: int, version: int) -> Refusal:
    """For a version that has not been yet; a real server waits three seconds for it first."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {asked}, current: {version}"
    return Refusal(504, "Timeout", message, details=details)


def is_true(text: str | None) -> bool:
    """As Go's conversion of queries: anything but what clearly says no."""
    return text is not None and text.lower() not in ("false", "0")


def _unexpected(options: ListOptions, query: Mapping[str, str]) -> list[FieldError]:
    version, match = query.get("resourceVersion", ""), options.match
    errors: list[FieldError] = []

    def forbid(field: str, words: str) -> None:
        errors.append(FieldError("FieldValueForbidden", field, f"Forbidden: {words}"))

    if options.is_watch:
        if options.wants_initial_events is None:
            if match:
                words = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                forbid("resourceVersionMatch", words)
                if match != _NOT_OLDER:
                    words = f'Unsupported value: "{match}": supported values: "{_NOT_OLDER}"'
                    errors.append(FieldError("FieldValueNotSupported", "resourceVersionMatch", words))
        elif match != _NOT_OLDER:
            forbid("resourceVersionMatch", f"sendInitialEvents requires setting resourceVersionMatch to {_NOT_OLDER}")
            if match:
                words = f'Unsupported value: "{match}": supported values: "{_NOT_OLDER}"'
                errors.append(FieldError("FieldValueNotSupported", "resourceVersionMatch", words))
        return errors
    if options.wants_initial_events is not None:
        forbid("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if not match:
        return errors
    if options.token:
        forbid("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
    if not version:
        forbid("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match not in (_EXACT, _NOT_OLDER):
        words = f'Unsupported value: "{match}": supported values: "{_EXACT}", "{_NOT_OLDER}", ""'
        errors.append(FieldError("FieldValueNotSupported", "resourceVersionMatch", words))
    if match == _EXACT and version == "0":
        forbid("resourceVersionMatch", f'resourceVersionMatch "{_EXACT.lower()}" is forbidden for resourceVersion "0"')
    return errors


def whole(text: str) -> int:
    """A number of a query. Raises Refusal."""
    try:
        return parse_int(text)
    except ValueError as error:
        raise bad_request(str(error)) from None


def _version(text: str, *, is_watch: bool) -> int | None:
    if not text:
        return None
    try:
        return parse_uint(text)
    except ValueError as error:
        problem = f"resourceVersion: Invalid value: {quoted(text)}: {error}"
        raise (internal(problem) if is_watch else bad_request(f"invalid resource version: {problem}")) from None


# --- tokens -----------------------------------------------------------------------------------------------------------


def _token(version: int, after: Key) -> str:
    value = {"v": "meta.k8s.io/v1", "rv": version, "start": f"{after[0]}/{after[1]}\0"}
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).rstrip(b"=").decode()


def _parse_token(text: str) -> tuple[int, Key]:
    try:
        value = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (ValueError, msgspec.MsgspecError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    namespace, _, name = value.start.removesuffix("\0").partition("/")
    return value.rv, (namespace, name)


class _Token(msgspec.Struct):
    rv: int
    start: str
