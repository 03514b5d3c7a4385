"""Lists: label and field selectors, states of the past, pages with tokens that expire."""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec

from zoneward.kube.formats import quoted
from zoneward.kube.label_selector import LabelSelector, SelectorError, parse_selector
from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.status_errors import StatusError, bad_request, expired, internal, options_invalid
from zoneward.sandbox.server.versioned_store import Forgotten, Key, Record, VersionedStore

# --- selectors --------------------------------------------------------------------------------------------------------

_TERM: Final = re.compile(r"(?P<name>[^=!]+?)\s*(?P<operator>==|!=|=)\s*(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ObjectSelector:
    """Selects objects by labels, and by fields: name, value, and whether they must be equal."""

    labels: LabelSelector
    fields: tuple[tuple[str, str, bool], ...]

    @property
    def is_all(self) -> bool:
        return not self.labels.requirements and not self.fields

    def matches(self, key: Key, record: Record) -> bool:
        for field, value, wanted in self.fields:
            if field == "metadata.name":
                has = key[1]
            elif field == "metadata.namespace":
                has = key[0]
            else:
                has = record.fields.get(field, "")
            if (has == value) is not wanted:
                return False
        return not self.labels.requirements or self.labels.matches(record.labels)


def selection(kind: Kind, *, labels: str, fields: str) -> ObjectSelector:
    """From the texts of a request; empty ones select all. Raises StatusError."""
    try:
        wanted = parse_selector(labels)
    except SelectorError as error:
        raise bad_request(error.problem) from None
    return ObjectSelector(wanted, tuple(_term(kind, term) for term in fields.split(",") if term.strip()))


def _term(kind: Kind, text: str) -> tuple[str, str, bool]:
    found = _TERM.fullmatch(text.strip())
    if found is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    name = found["name"].strip()
    known = name == "metadata.name" or (name == "metadata.namespace" and kind.is_namespaced) or name in kind.selectable
    if not known and not kind.selectable:
        raise bad_request(f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"')
    if not known:
        raise bad_request(f"field label not supported: {name}")
    return name, found["value"], found["operator"] != "!="


# --- lists ------------------------------------------------------------------------------------------------------------

_EXACT: Final = "Exact"
_NOT_OLDER: Final = "NotOlderThan"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The options of a list or a watch, as upstream's ``ListOptions``."""

    namespace: str
    """Empty: of all namespaces."""
    selection: ObjectSelector
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
class ListResult:
    """A page of objects; ``token`` and ``left`` are about those that follow."""

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
    """Of the query of a request; ``name`` where it is about one object. Raises StatusError."""
    fields = query.get("fieldSelector", "")
    if name:
        fields = f"metadata.name={name}" + (f",{fields}" if fields else "")
    options = ListOptions(
        namespace=namespace if kind.is_namespaced else "",
        selection=selection(kind, labels=query.get("labelSelector", ""), fields=fields),
        limit=parse_whole(query["limit"]) if query.get("limit") else 0,
        token=query.get("continue", ""),
        version=_version(query.get("resourceVersion", ""), is_watch=is_true(query.get("watch"))),
        match=query.get("resourceVersionMatch", ""),
        timeout=parse_whole(query["timeoutSeconds"]) if query.get("timeoutSeconds") else None,
        is_watch=is_true(query.get("watch")),
        wants_bookmarks=is_true(query.get("allowWatchBookmarks")),
        wants_initial_events=is_true(query["sendInitialEvents"]) if "sendInitialEvents" in query else None,
    )
    if errors := _option_errors(options, query):
        raise options_invalid("ListOptions", errors)
    if options.token and options.version:
        raise bad_request("specifying resource version is not allowed when using continue")
    return options


def list_objects(store: VersionedStore, kind: Kind, options: ListOptions) -> ListResult:
    """Raises StatusError."""
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
        raise StatusError(410, "Expired", "The resourceVersion for the provided list is too old.") from None
    found = states if options.selection.is_all else (each for each in states if options.selection.matches(*each))
    if options.limit <= 0 or options.version == 0:
        return ListResult(list(found), version)
    records = list(islice(found, options.limit))
    if next(found, None) is None:
        return ListResult(records, version)
    last, left = records[-1][0], None
    if options.selection.is_all:
        left = store.count_behind(kind, version=version, namespace=options.namespace, after=last)
    return ListResult(records, version, _token(version, last), left)


def too_large(wanted: int, version: int) -> StatusError:
    """For a version in the future; a real server waits three seconds for it first."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {wanted}, current: {version}"
    return StatusError(504, "Timeout", message, details=details)


def is_true(text: str | None) -> bool:
    """As Go's conversion of queries: anything but what clearly says no."""
    return text is not None and text.lower() not in ("false", "0")


def _option_errors(options: ListOptions, query: Mapping[str, str]) -> list[FieldError]:
    """What upstream refuses about ``resourceVersionMatch`` and ``sendInitialEvents``."""
    match, field = options.match, "resourceVersionMatch"
    found: list[tuple[str, str, bool]] = []
    known: tuple[str, ...]
    if options.is_watch:
        initial, known = options.wants_initial_events is not None, (_NOT_OLDER,)
        words = f"{field} is forbidden for watch unless sendInitialEvents is provided"
        found.append((field, words, bool(match) and not initial))
        words = f"sendInitialEvents requires setting {field} to {_NOT_OLDER}"
        found.append((field, words, initial and match != _NOT_OLDER))
    else:
        version, known = query.get("resourceVersion"), (_EXACT, _NOT_OLDER, "")
        initial = options.wants_initial_events is not None
        found.append(("sendInitialEvents", "sendInitialEvents is forbidden for list", initial))
        words = f"{field} is forbidden when continue is provided"
        found.append((field, words, bool(match and options.token)))
        words = f"{field} is forbidden unless resourceVersion is provided"
        found.append((field, words, bool(match) and not version))
        words = f'{field} "{_EXACT.lower()}" is forbidden for resourceVersion "0"'
        found.append((field, words, match == _EXACT and version == "0"))
    errors = [
        FieldError("FieldValueForbidden", name, f"Forbidden: {words}") for name, words, is_wrong in found if is_wrong
    ]
    if match and match not in known:
        listed = ", ".join(f'"{each}"' for each in known)
        problem = f'Unsupported value: "{match}": supported values: {listed}'
        errors.append(FieldError("FieldValueNotSupported", field, problem))
    return errors


def parse_whole(text: str) -> int:
    """A number of a query. Raises StatusError."""
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


# --- numbers ----------------------------------------------------------------------------------------------------------

_SIGNED: Final = re.compile(r"[+-]?[0-9]+")
_UNSIGNED: Final = re.compile(r"[0-9]+")


def parse_int(text: str) -> int:
    """64 bits. Raises ValueError, as upstream words it."""
    return _parsed(text, _SIGNED, "ParseInt", 1 << 63)


def parse_uint(text: str) -> int:
    """64 bits, without a sign. Raises ValueError, as upstream words it."""
    return _parsed(text, _UNSIGNED, "ParseUint", 1 << 64)


def _parsed(text: str, form: re.Pattern[str], function: str, limit: int) -> int:
    if form.fullmatch(text) is None:
        raise ValueError(f"strconv.{function}: parsing {quoted(text)}: invalid syntax")
    # Python refuses to read thousands of digits.
    if len(text.lstrip("+-0")) > 20 or not -limit <= (number := int(text)) < limit:
        raise ValueError(f"strconv.{function}: parsing {quoted(text)}: value out of range")
    return number
