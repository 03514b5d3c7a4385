"""Events, in two versions of one kind: ``v1``, in which they are stored, and ``events.k8s.io/v1``.

Both versions are validated as in ``pkg/apis/core/validation/events.go`` (v1.36). All checks get Events in ``v1``'s
form; messages of ``events.k8s.io`` name most fields as ``v1`` does, as those of kube-apiserver do.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from zoneward.kube import formats
from zoneward.kube.validation import FieldError, error, immutable, invalid
from zoneward.sandbox.server.kinds import Object, Strategy, changed_metadata_errors

_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
SELECTABLE: Final = {f"involvedObject.{name}": f"involvedObject.{name}" for name in _REFERENCE} | {
    "reason": "reason",
    "reportingComponent": "reportingComponent",
    "source": "source.component",
    "type": "type",
}
NEWER_SELECTABLE: Final = {f"regarding.{name}": f"involvedObject.{name}" for name in _REFERENCE} | {
    "reason": "reason",
    "reportingController": "reportingComponent",
    "type": "type",
}


def _path_segment_problems(text: str) -> Iterator[str]:
    if text in {".", ".."}:
        yield f"may not be '{text}'"
    for character in "/%":
        if character in text:
            yield f"may not contain '{character}'"


class EventStrategy(Strategy):
    """Of ``v1``: an Event with ``eventTime`` is of the new sort and needs more fields."""

    name_problems = staticmethod(_path_segment_problems)
    repeats_metadata_errors = False

    def metadata_errors(self, new: Object, *, old: Object | None = None) -> Iterable[FieldError]:
        # Upstream reports errors of the event alone: see `validate_create`.
        return () if any(_event(new)) else super().metadata_errors(new, old=old)

    def validate_create(self, new: Object) -> Iterable[FieldError]:
        return _event(new)


class NewerEventStrategy(Strategy):
    """Of ``events.k8s.io/v1``: all Events are of the new sort, and nothing but their series changes."""

    repeats_metadata_errors = False

    def metadata_errors(self, new: Object, *, old: Object | None = None) -> Iterable[FieldError]:
        return (*_event(new, reporter="reportingController"), *super().metadata_errors(new, old=old))

    def validate_create(self, new: Object) -> Iterator[FieldError]:
        yield from _series(new)
        if not new.get("eventTime"):
            yield error("FieldValueRequired", "eventTime")
        if new.get("type") not in ("Normal", "Warning"):
            yield from invalid("type", "", [f"has invalid value: {new.get('type') or ''}"])
        for name in ("firstTimestamp", "lastTimestamp", "count", "source"):
            if new.get(name):
                yield from invalid(name, "", ["needs to be unset"])

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        yield from _event(new, reporter="reportingController")
        yield from changed_metadata_errors(new, old)
        yield from _series(new)
        # The reason comes twice, as upstream.
        for name in _UNCHANGED:
            value, before = (_shown(name, each.get(name)) for each in (new, old))
            yield from immutable(_NEWER_ERRORS.get(name, name), value, before)


_NEWER_ERRORS: Final = {"reportingComponent": "reportingController"}
_UNCHANGED: Final = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "reason", "type"),
    *("eventTime", "action", "related", "reportingComponent", "reportingInstance"),
)
_GO_NAMES: Final = {"uid": "UID", "apiVersion": "APIVersion"}


def _shown(name: str, value: Any) -> Any:
    """As upstream shows it, and compares it."""
    if name in ("eventTime", "firstTimestamp", "lastTimestamp") or (name == "related" and value is None):
        return value
    if name in ("involvedObject", "related", "source"):
        fields = ("component", "host") if name == "source" else _REFERENCE
        return {_GO_NAMES.get(each, each[0].upper() + each[1:]): (value or {}).get(each) or "" for each in fields}
    return value or (0 if name == "count" else "")


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
    for name, limit in (("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024)):
        if not event.get(name) and name != "message":
            yield error("FieldValueRequired", name)
        # Upstream shows no value here, nor in other places.
        if formats.size(event.get(name) or "") > limit:
            yield from invalid(name, "", [f"can have at most {limit} characters"])


def _series(event: Object) -> Iterator[FieldError]:
    series = event.get("series")
    if series is not None and (series.get("count") or 0) < 2:
        yield from invalid("series.count", "", ["should be at least 2"])
    if series is not None and not series.get("lastObservedTime"):
        yield error("FieldValueRequired", "series.lastObservedTime")


# --- the two versions -------------------------------------------------------------------------------------------------

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
_STRUCTS: Final = ("involvedObject", "source")
_TIMES: Final = ("firstTimestamp", "lastTimestamp", "eventTime")
_REPORTERS: Final = ("reportingComponent", "reportingInstance")


def to_newer(event: Object) -> Object:
    """An Event of ``v1`` as one of ``events.k8s.io/v1``; shares its parts."""
    given = {name: value for name, value in event.items() if value or name not in _REPORTERS}
    return _renamed(_completed(given), _NEWER_NAMES) | {"apiVersion": "events.k8s.io/v1"}


def to_stored(event: Object) -> Object:
    """An Event of ``events.k8s.io/v1`` as one of ``v1``; shares its parts."""
    stored = _completed(_renamed(event, _STORED_NAMES) | {"apiVersion": "v1"})
    return dict.fromkeys(_REPORTERS, "") | stored


def _renamed(event: Object, names: Mapping[str, str]) -> Object:
    return {names.get(name, name): value for name, value in event.items()}


def _completed(event: Object) -> Object:
    """With the fields that both versions write even when they are empty."""
    return {name: {} for name in _STRUCTS} | dict.fromkeys(_TIMES) | event
