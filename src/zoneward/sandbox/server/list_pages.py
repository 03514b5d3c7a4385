"""Lists: label and field selectors, pages with tokens that expire."""

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
from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.status_errors import StatusError, bad_request, expired, unsupported
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The options of a list or a watch, as upstream's ``ListOptions``."""

    namespace: str
    """Empty: of all namespaces."""
    selection: ObjectSelector
    limit: int = 0
    token: str = ""
    version: int | None = None
    timeout: float | None = None
    """Seconds."""
    wants_bookmarks: bool = False
    wants_initial_events: bool | None = None


@dataclass(frozen=True, slots=True)
class ListResult:
    """A page of objects; ``token`` continues with those that follow."""

    records: list[tuple[Key, Record]]
    version: int
    token: str = ""

    def metadata(self) -> Object:
        return {"resourceVersion": str(self.version)} | ({"continue": self.token} if self.token else {})


def list_options(kind: Kind, query: Mapping[str, str], *, namespace: str = "") -> ListOptions:
    """Of the query of a request. Raises StatusError."""
    if query.get("resourceVersionMatch", "NotOlderThan") != "NotOlderThan":
        instead = "leave out resourceVersionMatch"
        raise unsupported(400, "BadRequest", "lists of one exact version", instead)
    options = ListOptions(
        namespace=namespace if kind.is_namespaced else "",
        selection=selection(kind, labels=query.get("labelSelector", ""), fields=query.get("fieldSelector", "")),
        limit=parse_number(query["limit"]) if query.get("limit") else 0,
        token=query.get("continue", ""),
        version=parse_number(query["resourceVersion"]) if query.get("resourceVersion") else None,
        timeout=parse_number(query["timeoutSeconds"]) if query.get("timeoutSeconds") else None,
        wants_bookmarks=is_true(query.get("allowWatchBookmarks")),
        wants_initial_events=is_true(query["sendInitialEvents"]) if "sendInitialEvents" in query else None,
    )
    if options.token and options.version:
        raise bad_request("specifying resource version is not allowed when using continue")
    return options


def list_objects(store: VersionedStore, kind: Kind, options: ListOptions) -> ListResult:
    """As they are now; with a token, as they were when the list began. Raises StatusError."""
    version, after = _parse_token(options.token) if options.token else (-1, None)
    version = store.version if version < 0 else version
    check_version(store, version if options.token else options.version or 0)
    try:
        states = store.page(kind, version=version, namespace=options.namespace, after=after)
    except Forgotten:
        assert after is not None, "the version of now is never forgotten"
        raise expired(token=_token(-1, after)) from None
    found = states if options.selection.is_all else (each for each in states if options.selection.matches(*each))
    if options.limit <= 0 or options.version == 0:
        return ListResult(list(found), version)
    records = list(islice(found, options.limit))
    if next(found, None) is None:
        return ListResult(records, version)
    return ListResult(records, version, _token(version, records[-1][0]))


def check_version(store: VersionedStore, wanted: int) -> None:
    """Raises StatusError for a version in the future; a real server waits three seconds for it first."""
    if wanted > store.version:
        causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        message = f"Timeout: Too large resource version: {wanted}, current: {store.version}"
        raise StatusError(504, "Timeout", message, details={"causes": causes, "retryAfterSeconds": 1})


def is_true(text: str | None) -> bool:
    """As Go's conversion of queries: anything but what clearly says no."""
    return text is not None and text.lower() not in ("false", "0")


_NUMBER: Final = re.compile(r"[0-9]{1,19}", re.ASCII)


def parse_number(text: str) -> int:
    """A number of a query. Raises StatusError."""
    if _NUMBER.fullmatch(text) is None:
        raise bad_request(f"expected a number of at most 64 bits, got {quoted(text)}")
    return int(text)


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
