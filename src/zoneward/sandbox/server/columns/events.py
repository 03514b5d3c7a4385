"""Of Events, of the core group or of ``events.k8s.io``: the same thing with other names of some fields."""

from datetime import datetime
from typing import Any, Final

from zoneward.sandbox.server.durations import since
from zoneward.sandbox.server.kinds import Column, Object

COLUMNS: Final = (
    Column("Last Seen", description="When this was last so."),
    Column("Type", description="Type of this event (Normal, Warning)"),
    Column("Reason", description="Why, as machines read it."),
    Column("Object", description="The object that this event is about."),
    Column("Subobject", description="The part of the object that this event is about.", priority=1),
    Column("Source", description="The component reporting this event.", priority=1),
    Column("Message", description="What happened, as humans read it."),
    Column("First Seen", description="When this was first so.", priority=1),
    Column("Count", description="The number of times this event has occurred.", priority=1),
    Column("Name", format="name", description="Name must be unique within a namespace.", priority=1),
)


def cells(thing: Object, now: datetime) -> list[object]:
    about = _either(thing, "involvedObject", "regarding") or {}
    kind, name = str(about.get("kind", "")).lower(), about.get("name")
    first = since(_either(thing, "firstTimestamp", "deprecatedFirstTimestamp") or thing.get("eventTime"), now)
    if series := thing.get("series"):
        last, count = since(series.get("lastObservedTime"), now), series.get("count", 0)
    else:
        latest = _either(thing, "lastTimestamp", "deprecatedLastTimestamp")
        last = since(latest, now) if latest else first
        # Upstream's new recorders leave it out: it happened once.
        count = _either(thing, "count", "deprecatedCount") or 1
    return [
        last,
        thing.get("type", ""),
        thing.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        _source(thing),
        str(_either(thing, "message", "note") or "").strip(),
        first,
        count,
        thing["metadata"].get("name", ""),
    ]


def _source(thing: Object) -> str:
    source = _either(thing, "source", "deprecatedSource") or {}
    component = source.get("component") or _either(thing, "reportingComponent", "reportingController") or ""
    instance = source.get("host") or thing.get("reportingInstance")
    return f"{component}, {instance}" if instance else str(component)


def _either(thing: Object, core: str, newer: str) -> Any:
    return thing.get(core) or thing.get(newer)
