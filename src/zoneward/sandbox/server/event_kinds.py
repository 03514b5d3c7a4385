"""Events, in two versions of one kind: ``v1``, in which they are stored, and ``events.k8s.io/v1``.

The latter, which Zoneward writes, is validated as in ``pkg/apis/core/validation/events.go`` (v1.37). The checks get
Events in ``v1``'s form; messages of ``events.k8s.io`` name most fields as ``v1`` does, as those of kube-apiserver do.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from zoneward.kube import formats
from zoneward.kube.validation import FieldError, error, immutable, invalid
from zoneward.sandbox.server.kinds import Kind, Object

_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


class EventKind(Kind):
    """Of ``v1``, in which Zoneward writes none: Events are stored as they come."""

    kind, plural, short_names = "Event", "events", ("ev",)
    selectable = {f"involvedObject.{name}": f"involvedObject.{name}" for name in _REFERENCE} | {
        "reason": "reason",
        "reportingComponent": "reportingComponent",
        "source": "source.component",
        "type": "type",
    }
    is_created_by_update = True

    @staticmethod
    def name_problems(name: str) -> Iterable[str]:
        return [f"may not contain '{character}'" for character in "/%" if character in name]


class NewerEventKind(Kind):
    """Of ``events.k8s.io/v1``, stored as ``v1``: nothing but the series of an Event changes."""

    kind, plural, short_names = "Event", "events", ("ev",)
    group = "events.k8s.io"
    struct = "NewerEvent"
    selectable = {f"regarding.{name}": f"involvedObject.{name}" for name in _REFERENCE} | {
        "reason": "reason",
        "reportingController": "reportingComponent",
        "type": "type",
    }
    is_created_by_update = True

    def __init__(self, stored: EventKind) -> None:
        self.stored_as = stored

    def to_stored(self, obj: Object) -> Object:
        """Shares its parts with ``obj``."""
        named = {_STORED_NAMES.get(name, name): value for name, value in obj.items()}
        return _SHOWN_EMPTY | dict.fromkeys(_REPORTERS, "") | named | {"apiVersion": "v1"}

    def from_stored(self, obj: Object) -> Object:
        """Shares its parts with ``obj``."""
        shown = _SHOWN_EMPTY | {name: value for name, value in obj.items() if value or name not in _REPORTERS}
        return {_NEWER_NAMES.get(name, name): value for name, value in shown.items()} | {"apiVersion": self.api}

    def validate_create(self, new: Object) -> Iterator[FieldError]:
        yield from _content_errors(new)
        if not new.get("eventTime"):
            yield error("FieldValueRequired", "eventTime")
        if new.get("type") not in ("Normal", "Warning"):
            yield from invalid("type", "", [f"has invalid value: {new.get('type') or ''}"])
        for name in ("firstTimestamp", "lastTimestamp", "count", "source"):
            if new.get(name):
                yield from invalid(name, "", ["needs to be unset"])

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        yield from _content_errors(new)
        for name in _UNCHANGED:
            value, before = (obj.get(name) or None for obj in (new, old))
            yield from immutable("reportingController" if name == "reportingComponent" else name, value, before)


_UNCHANGED: Final = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type"),
    *("eventTime", "action", "related", "reportingComponent", "reportingInstance"),
)


def _content_errors(event: Object) -> Iterator[FieldError]:
    namespace, own = event["involvedObject"].get("namespace") or "", event["metadata"].get("namespace")
    if not event.get("eventTime"):
        return
    if not namespace and own not in ("default", "kube-system"):
        yield from invalid("involvedObject.namespace", namespace, ["does not match event.namespace"])
    component, series = event.get("reportingComponent") or "", event.get("series")
    if not component:
        yield error("FieldValueRequired", "reportingController")
    yield from invalid("reportingController", component, formats.qualified_name_problems(component))
    for name, limit in (("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024)):
        if not event.get(name) and name != "message":
            yield error("FieldValueRequired", name)
        # Upstream shows no value here, nor in other places.
        if formats.size(event.get(name) or "") > limit:
            yield from invalid(name, "", [f"can have at most {limit} characters"])
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
_REPORTERS: Final = ("reportingComponent", "reportingInstance")
_SHOWN_EMPTY: Final[Object] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
}
"""Fields that both versions write even when they are empty."""
