"""Events, in two versions of one kind: ``v1``, in which they are stored, and ``events.k8s.io/v1``.

Both versions are validated as in ``pkg/apis/core/validation/events.go`` (v1.36). All checks get Events in ``v1``'s
form; messages of ``events.k8s.io`` name most fields as ``v1`` does, as those of kube-apiserver do.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from zoneward.kube import formats
from zoneward.kube.validation import FieldError, error, immutable, invalid
from zoneward.sandbox.server.kinds import Object, Strategy
from zoneward.sandbox.server.strategies import metadata

MAX_SHORT: Final = 128
"""Bytes of an action, a reason, a reporting instance."""
MAX_MESSAGE: Final = 1024
TYPES: Final = ("Normal", "Warning")
_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
SELECTABLE: Final = frozenset(
    {*(f"involvedObject.{name}" for name in _REFERENCE), "reason", "reportingComponent", "source", "type"}
)
NEWER_SELECTABLE: Final = frozenset(
    {*(f"regarding.{name}" for name in _REFERENCE), "reason", "reportingController", "type"}
)


def event_fields(event: Object) -> dict[str, str]:
    """The values that field selectors of ``v1`` compare."""
    source = (event.get("source") or {}).get("component")
    return {
        **_referred(event, "involvedObject"),
        "reason": event.get("reason") or "",
        "reportingComponent": event.get("reportingComponent") or "",
        "source": source or event.get("reportingComponent") or "",
        "type": event.get("type") or "",
    }


def newer_event_fields(event: Object) -> dict[str, str]:
    """The values that field selectors of ``events.k8s.io`` compare, of an Event in ``v1``'s form."""
    return {
        **_referred(event, "regarding"),
        "reason": event.get("reason") or "",
        "reportingController": event.get("reportingComponent") or "",
        "type": event.get("type") or "",
    }


def _referred(event: Object, called: str) -> dict[str, str]:
    involved = event.get("involvedObject") or {}
    return {f"{called}.{name}": involved.get(name) or "" for name in _REFERENCE}


class EventStrategy(Strategy):
    """Of ``v1``: an Event with ``eventTime`` is of the new sort and needs more fields."""

    name_problems = staticmethod(metadata.path_segment_problems)

    def metadata_errors(self, new: Object) -> Iterable[FieldError]:
        if any(_event(new)):
            return ()  # upstream reports these alone: see `validate_create`
        return metadata.metadata_errors(new, name_problems=self.name_problems, is_namespaced=True, any_finalizer=True)

    def metadata_update_errors(self, new: Object, old: Object) -> Iterable[FieldError]:
        return metadata.common_update_errors(new, old)

    def validate_create(self, new: Object) -> Iterable[FieldError]:
        return _event(new)

    def validate_update(self, new: Object, old: Object) -> Iterable[FieldError]:
        return _event(new)


class NewerEventStrategy(EventStrategy):
    """Of ``events.k8s.io/v1``: all Events are of the new sort, and nothing but their series changes."""

    name_problems = staticmethod(metadata.subdomain_name_problems)

    def metadata_errors(self, new: Object) -> Iterable[FieldError]:
        own = metadata.metadata_errors(new, name_problems=self.name_problems, is_namespaced=True)
        return (*_event(new, reporter="reportingController"), *own)

    def validate_create(self, new: Object) -> Iterator[FieldError]:
        yield from _series(new)
        if not new.get("eventTime"):
            yield error("FieldValueRequired", "eventTime")
        if new.get("type") not in TYPES:
            yield from invalid("type", "", [f"has invalid value: {new.get('type') or ''}"])
        for name in ("firstTimestamp", "lastTimestamp", "count", "source"):
            if new.get(name):
                yield from invalid(name, "", ["needs to be unset"])

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        yield from _event(new, reporter="reportingController")
        yield from metadata.changed_metadata_errors(new, old)
        yield from _series(new)
        yield from _fixed(new, old)


def _event(event: Object, *, reporter: str = "reportingComponent") -> Iterator[FieldError]:
    """``reporter``: what the version calls it."""
    namespace, own = (event.get("involvedObject") or {}).get("namespace") or "", event["metadata"].get("namespace")
    is_new = bool(event.get("eventTime"))
    if namespace:
        is_amiss = namespace != own and not is_new
    else:
        is_amiss = own != "default" and not (is_new and own == "kube-system")
    if is_amiss:
        yield from invalid("involvedObject.namespace", namespace, ["does not match event.namespace"])
    if not is_new:
        return
    component = event.get("reportingComponent") or ""
    if not component:
        yield error("FieldValueRequired", reporter)
    yield from invalid(reporter, component, formats.qualified_name_problems(component))
    for name in ("reportingInstance", "action", "reason"):
        if not event.get(name):
            yield error("FieldValueRequired", name)
        yield from _too_long(event, name, MAX_SHORT)
    yield from _too_long(event, "message", MAX_MESSAGE)


def _too_long(event: Object, name: str, limit: int) -> Iterator[FieldError]:
    # Upstream shows no value here, nor in other places below.
    if formats.size(event.get(name) or "") > limit:
        yield from invalid(name, "", [f"can have at most {limit} characters"])


def _series(event: Object) -> Iterator[FieldError]:
    series = event.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield from invalid("series.count", "", ["should be at least 2"])
    if not series.get("lastObservedTime"):
        yield error("FieldValueRequired", "series.lastObservedTime")


def _fixed(new: Object, old: Object) -> Iterator[FieldError]:
    yield from immutable("involvedObject", *(_reference(each.get("involvedObject") or {}) for each in (new, old)))
    yield from _fixed_text(new, old, "reason", "message")
    yield from immutable("source", _source(new), _source(old))
    for name in ("firstTimestamp", "lastTimestamp"):
        yield from immutable(name, new.get(name), old.get(name))
    yield from immutable("count", new.get("count") or 0, old.get("count") or 0)
    yield from _fixed_text(new, old, "reason", "type")  # the reason again, as upstream
    yield from immutable("eventTime", new.get("eventTime"), old.get("eventTime"))
    yield from _fixed_text(new, old, "action")
    yield from immutable("related", *(_reference(each.get("related")) for each in (new, old)))
    yield from immutable("reportingController", *(each.get("reportingComponent") or "" for each in (new, old)))
    yield from _fixed_text(new, old, "reportingInstance")


def _fixed_text(new: Object, old: Object, *names: str) -> Iterator[FieldError]:
    for name in names:
        yield from immutable(name, new.get(name) or "", old.get(name) or "")


_GO_NAMES: Final = {"uid": "UID", "apiVersion": "APIVersion"}


def _reference(reference: Mapping[str, Any] | None) -> dict[str, str] | None:
    """As upstream shows it, and compares it."""
    if reference is None:
        return None
    return {_GO_NAMES.get(name, f"{name[0].upper()}{name[1:]}"): reference.get(name) or "" for name in _REFERENCE}


def _source(event: Object) -> dict[str, str]:
    source = event.get("source") or {}
    return {"Component": source.get("component") or "", "Host": source.get("host") or ""}


# --- the two versions -------------------------------------------------------------------------------------------------

_STORED: Final = "v1"
_NEWER: Final = "events.k8s.io/v1"

_NEWER_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
"""Fields that ``v1`` calls otherwise; all others have one name."""
_STORED_NAMES: Final = {newer: stored for stored, newer in _NEWER_NAMES.items()}
_OMITTED: Final = ("reportingController", "reportingInstance")
"""Written by ``v1`` even when they are empty."""
_REQUIRED: Final[Object] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_NEWER_REQUIRED: Final[Object] = {
    "eventTime": None,
    "regarding": {},
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}


def to_newer(event: Object) -> Object:
    """An Event of ``v1`` as one of ``events.k8s.io/v1``; shares its parts."""
    newer = {_NEWER_NAMES.get(name, name): value for name, value in event.items()}
    for name in _OMITTED:
        if not newer.get(name):
            newer.pop(name, None)
    return _completed(newer | {"apiVersion": _NEWER}, _NEWER_REQUIRED)


def to_stored(event: Object) -> Object:
    """An Event of ``events.k8s.io/v1`` as one of ``v1``; shares its parts."""
    stored = {_STORED_NAMES.get(name, name): value for name, value in event.items()}
    return _completed(stored | {"apiVersion": _STORED}, _REQUIRED)


def _completed(event: Object, required: Object) -> Object:
    for name, empty in required.items():
        if event.get(name) is None:
            event[name] = dict(empty) if isinstance(empty, dict) else empty
    return event
