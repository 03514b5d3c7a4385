"""``metadata.managedFields``: who set which field, as Kubernetes keeps it (v1.36).

`track` is for everything but server-side apply. It comes after defaulting, and before what a kind's rules and admission
add: nobody owns a cluster IP. A write that changes no field changes no entry and no time, so that `is_same` holds and
there is nothing to store.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from zoneward.sandbox.server.comparing import compare
from zoneward.sandbox.server.field_sets import Fields, difference, union, without
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.schema import empty_of, type_of

Object = dict[str, Any]
"""JSON as a dictionary."""

MAX_UPDATERS: Final = 10
"""Entries of updates; the oldest are put together."""
_ANCIENT: Final = "ancient-changes"
_MAX_MANAGER: Final = 128
_STRIPPED: Final[Fields] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        "f:clusterName": {},
        "f:creationTimestamp": {},
        "f:generation": {},
        "f:managedFields": {},
        "f:name": {},
        "f:namespace": {},
        "f:resourceVersion": {},
        "f:selfLink": {},
        "f:uid": {},
    },
}
_RESET: Final[Mapping[tuple[str, str], Fields]] = {
    ("Pod", ""): {"f:status": {}},
    ("Pod", "status"): {"f:metadata": {"f:deletionTimestamp": {}, "f:ownerReferences": {}}, "f:spec": {}},
    ("Service", ""): {"f:status": {}},
    ("Service", "status"): {"f:spec": {}},
    ("Node", ""): {"f:status": {}},
    ("Node", "status"): {"f:spec": {}},
    ("Namespace", ""): {"f:status": {}},
    ("Namespace", "status"): {"f:spec": {}},
    ("Namespace", "finalize"): {"f:status": {}},
}
"""What a write by that way leaves as it was, whatever it says: nobody comes to own it. By kind and subresource."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one manager set in one way."""

    manager: str
    operation: Literal["Apply", "Update"]
    api: str
    """``v1``, ``discovery.k8s.io/v1``"""
    fields: Fields
    subresource: str = ""
    time: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Entries that agree in it are one. A manager that applies has one entry for all versions."""
        return (self.manager, self.operation, self.api if self.operation == "Update" else "", self.subresource)

    def having(self, fields: Fields) -> "Entry":
        return Entry(self.manager, self.operation, self.api, fields, self.subresource, self.time)

    def to_json(self) -> Object:
        told: Object = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api}
        if self.time:
            told["time"] = self.time
        told |= {"fieldsType": "FieldsV1", "fieldsV1": self.fields}
        return told | {"subresource": self.subresource} if self.subresource else told


def manager_of(*, field_manager: str, user_agent: str) -> str:
    """The name of who writes: what the request says, else the user agent's first word, cut to 128 characters."""
    if field_manager:
        return field_manager
    return "".join(filter(str.isprintable, user_agent.partition("/")[0]))[:_MAX_MANAGER]


def track(new: Object, old: Object | None, kind: Kind, *, manager: str, now: datetime, subresource: str = "") -> Object:
    """``new`` with its entries; ``old`` is what is stored, None for a new object. Neither is changed."""
    entries = starting_entries(new, old, is_subresource=bool(subresource))
    if not entries and old is not None:
        # Tracking was given up, or never begun; the next apply begins it.
        return with_entries(new, [])
    before = old if old is not None else empty_of(kind)
    found = compare(before, new, type_of(kind))
    ignored = _RESET.get((kind.kind, subresource), {})
    changed = without(found.changed, ignored) if ignored else found.changed
    removed = without(found.removed, ignored) if ignored else found.removed
    mine = Entry(manager or "unknown", "Update", kind.api, stripped(changed), subresource, as_time(now))
    kept = released(entries, changed, removed, keeping=mine.identity)
    if mine.fields:
        kept = _capped(_joined(kept, mine))
    return with_entries(new, kept, unless=old)


def is_same(new: Object, old: Object) -> bool:
    """Whether storing ``new`` would change nothing; resource versions and the times of entries do not count."""
    if new is old:
        return True
    return {**new, "metadata": _lasting(new)} == {**old, "metadata": _lasting(old)}


def _lasting(thing: Object) -> Object:
    metadata = thing["metadata"]
    entries = [{**each, "time": ""} for each in metadata.get("managedFields") or ()]
    return {**metadata, "resourceVersion": "", "managedFields": entries}


def reset_fields(kind: Kind, subresource: str) -> Fields:
    return _RESET.get((kind.kind, subresource), {})


def as_time(now: datetime) -> str:
    return f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def stripped(fields: Fields) -> Fields:
    """Without what managers never own: names, versions, times of the object."""
    return difference(fields, _STRIPPED)


# --- entries ----------------------------------------------------------------------------------------------------------


def starting_entries(new: Object, old: Object | None, *, is_subresource: bool) -> list[Entry]:
    """Those that a request brings with it, else those that are stored; none where it asks for none."""
    stored = read_entries(old) if old is not None else []
    told = new["metadata"].get("managedFields")
    if is_subresource or told is None:
        return stored or []
    if told in ([], [{}]):
        return []
    return read_entries(new) or stored or []


def read_entries(thing: Object) -> list[Entry] | None:
    """None where an entry is none that a server makes."""
    read = []
    for told in thing["metadata"].get("managedFields") or ():
        if told.get("operation") not in {"Apply", "Update"} or not told.get("apiVersion"):
            return None
        if told.get("fieldsType") != "FieldsV1":
            return None
        fields = told.get("fieldsV1") or {}
        names = (told.get("subresource", ""), told.get("time") or "")
        read.append(Entry(told.get("manager", ""), told["operation"], told["apiVersion"], fields, *names))
    return read


def with_entries(new: Object, entries: Iterable[Entry], *, unless: Object | None = None) -> Object:
    """``new`` with these entries. The list is that of ``unless`` where it would be the same."""
    listed = [each.to_json() for each in sorted(entries, key=_place) if each.fields]
    metadata = new["metadata"]
    if unless is not None and listed == (stored := unless["metadata"].get("managedFields")):
        listed = stored
    if metadata.get("managedFields") is listed or not (listed or "managedFields" in metadata):
        return new
    kept = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**new, "metadata": kept | {"managedFields": listed} if listed else kept}


def released(
    entries: Iterable[Entry], changed: Fields, removed: Fields, *, keeping: tuple[str, ...] = ()
) -> list[Entry]:
    """Without what is gone, and what somebody else has changed. ``keeping`` is the identity of who has changed it."""
    kept = []
    for entry in entries:
        fields = entry.fields
        if changed and entry.identity != keeping:
            fields = difference(fields, changed)
        if removed:
            fields = difference(fields, removed)
        if fields is entry.fields:
            kept.append(entry)
        elif fields:
            kept.append(entry.having(fields))
    return kept


def _joined(entries: list[Entry], mine: Entry) -> list[Entry]:
    for index, entry in enumerate(entries):
        if entry.identity == mine.identity:
            entries[index] = mine.having(union(entry.fields, mine.fields))
            return entries
    return [*entries, mine]


def _capped(entries: list[Entry]) -> list[Entry]:
    """With the oldest updates put together while there are too many."""
    updates = sorted((each for each in entries if each.operation == "Update"), key=lambda each: each.time)
    surplus = len(updates) - MAX_UPDATERS
    if surplus <= 0:
        return entries
    merged = Entry(_ANCIENT, "Update", updates[0].api, {})
    for each in updates[: surplus + 1]:
        merged = replace(merged, fields=union(merged.fields, each.fields), time=each.time)
    gone = {each.identity for each in updates[: surplus + 1]}
    return [*(each for each in entries if each.identity not in gone), merged]


def _place(entry: Entry) -> tuple[str, str, str, str, str]:
    return (entry.operation, entry.time, entry.manager, entry.api, entry.subresource)
