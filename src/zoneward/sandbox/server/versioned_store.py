"""Objects as bytes, with versions and a history: what etcd and the watch cache are to a real API server.

Every change of any kind gets the next version. The history is limited. Old states of a kind are computed by undoing
changes. All calls come from one thread.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter
from typing import Final, Literal, NamedTuple

import msgspec

from zoneward.sandbox.server.kinds import Kind, Object, get_field

Key = tuple[str, str]
"""Namespace (empty where the kind has none) and name."""

HISTORY: Final = 10_000
"""Changes of one kind in the history."""
_SPARE: Final = 1_000
"""Additional changes, so that the history is trimmed in batches."""
_VERSION: Final = attrgetter("version")


@dataclass(frozen=True, slots=True)
class Record:
    """One object at one version. ``data`` is its JSON, which begins with `head_of` its kind."""

    data: bytes
    version: int
    uid: str
    labels: Mapping[str, str]
    fields: dict[str, str]
    """The values that field selectors compare, by their paths."""
    owners: tuple[str, ...]
    """UIDs of the objects that its owner references name."""
    is_ending: bool
    """Whether it has a deletion timestamp."""

    def object(self) -> Object:
        """A new dictionary each time: the caller may change it."""
        obj: Object = msgspec.json.decode(self.data)
        return obj


class StoredChange(NamedTuple):
    """``new`` is None for a deleted object; then ``last`` is its last state, at the version of the deletion."""

    version: int
    key: Key
    old: Record | None
    new: Record | None
    last: Record | None

    @property
    def type(self) -> Literal["ADDED", "MODIFIED", "DELETED"]:
        if self.new is None:
            return "DELETED"
        return "ADDED" if self.old is None else "MODIFIED"


class Forgotten(Exception):  # noqa: N818
    """The history does not reach back to a version; ``oldest`` is the first version that it has."""

    def __init__(self, oldest: int) -> None:
        super().__init__(oldest)
        self.oldest = oldest


@dataclass(slots=True)
class _KindStore:
    kind: Kind
    head: bytes
    records: dict[Key, Record] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    """Of all objects, in their order: that of upstream's paths, not that of the keys (``a-b/`` comes before ``a/``)."""
    history: list[StoredChange] = field(default_factory=list)
    forgotten: int = 0
    """The version of the last change that is not in the history any more."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)


def head_of(kind: Kind) -> bytes:
    """How the JSON of an object begins; in lists items go without."""
    return f'{{"kind":"{kind.kind}","apiVersion":"{kind.api}",'.encode()


class VersionedStore:
    """``listeners`` are called for each change, in the order of versions."""

    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        self.version = 1
        self.listeners: list[Callable[[Kind, StoredChange], None]] = []
        self._kinds = {kind.resource: _KindStore(kind, head_of(kind)) for kind in kinds}

    # --- objects ------------------------------------------------------------------------------------------------------

    def get(self, kind: Kind, key: Key) -> Record | None:
        return self._kinds[kind.resource].records.get(key)

    def records(self, kind: Kind, *, namespace: str = "") -> Iterator[tuple[Key, Record]]:
        """Those of one namespace or of all, in order, as they are now."""
        return self.page(kind, version=self.version, namespace=namespace)

    def put(self, kind: Kind, key: Key, obj: Object) -> Record:
        """Create or replace an object. ``obj`` gets its new version, and must not be modified afterwards."""
        kind_store = self._kinds[kind.resource]
        old = kind_store.records.get(key)
        record = self._record(kind_store, obj)
        if old is None:
            insort(kind_store.paths, _path_of(key))
        kind_store.records[key] = record
        self._publish(kind_store, StoredChange(record.version, key, old, record, None))
        return record

    def delete(self, kind: Kind, key: Key, obj: Object | None = None) -> Record:
        """Delete an object. Returns its last state: ``obj``, or else the stored one, at the version of the deletion."""
        kind_store = self._kinds[kind.resource]
        old = kind_store.records.pop(key)
        del kind_store.paths[bisect_left(kind_store.paths, _path_of(key))]
        last = self._record(kind_store, old.object() if obj is None else obj)
        self._publish(kind_store, StoredChange(last.version, key, old, None, last))
        return last

    # --- the past -----------------------------------------------------------------------------------------------------

    def page(
        self, kind: Kind, *, version: int, namespace: str = "", after: Key | None = None
    ) -> Iterator[tuple[Key, Record]]:
        """Objects at a version, after ``after``. Raises Forgotten at once."""
        kind_store = self._kinds[kind.resource]
        undone = {change.key: change.old for change in reversed(self.changes(kind, version))}
        paths = _span(kind_store.paths, namespace, after)
        if undone:
            gone = sorted(_path_of(key) for key in undone if key not in kind_store.records)
            paths = merge(paths, _span(gone, namespace, after))
        states = ((key, undone[key] if key in undone else kind_store.records[key]) for key in map(_key_of, paths))
        return ((key, record) for key, record in states if record is not None)

    def changes(self, kind: Kind, since: int) -> list[StoredChange]:
        """Changes after a version, the oldest first. Raises Forgotten."""
        kind_store = self._kinds[kind.resource]
        if since < kind_store.forgotten:
            raise Forgotten(kind_store.forgotten)
        history = kind_store.history
        if not history or history[-1].version <= since:
            return []
        return history[bisect_right(history, since, key=_VERSION) :]

    def changed(self, kind: Kind) -> asyncio.Event:
        """An event that is set at the next change of the kind, and replaced then."""
        return self._kinds[kind.resource].changed

    def compact(self, version: int | None = None) -> None:
        """Forget all changes up to a version, by default up to now."""
        limit = self.version if version is None else version
        for kind_store in self._kinds.values():
            del kind_store.history[: bisect_right(kind_store.history, limit, key=_VERSION)]
            kind_store.forgotten = max(kind_store.forgotten, limit)

    # --- within -------------------------------------------------------------------------------------------------------

    def _record(self, kind_store: _KindStore, obj: Object) -> Record:
        self.version += 1
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(self.version)
        rest = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
        return Record(
            kind_store.head + msgspec.json.encode(rest)[1:],
            self.version,
            metadata["uid"],
            metadata.get("labels") or {},
            {path: _selected(obj, path) for path in kind_store.kind.selectable.values()},
            tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
            "deletionTimestamp" in metadata,
        )

    def _publish(self, kind_store: _KindStore, change: StoredChange) -> None:
        history = kind_store.history
        history.append(change)
        if (count := len(history) - HISTORY) > _SPARE:
            kind_store.forgotten = history[count - 1].version
            del history[:count]
        changed, kind_store.changed = kind_store.changed, asyncio.Event()
        changed.set()
        for listener in self.listeners:
            listener(kind_store.kind, change)


def _selected(obj: Object, path: str) -> str:
    value = get_field(obj, path)
    return str(bool(value)).lower() if path == "spec.unschedulable" else value or ""


def _path_of(key: Key) -> str:
    return f"{key[0]}/{key[1]}"


def _key_of(path: str) -> Key:
    namespace, _, name = path.partition("/")
    return namespace, name


def _span(paths: list[str], namespace: str, after: Key | None) -> Iterator[str]:
    """Paths of a namespace or of all, after ``after``. The list must not change during iteration."""
    start = bisect_right(paths, _path_of(after)) if after is not None else 0
    end = len(paths)
    if namespace:
        start = max(start, bisect_left(paths, f"{namespace}/"))
        end = bisect_left(paths, f"{namespace}0")  # the character that follows the slash
    return (paths[index] for index in range(start, end))
