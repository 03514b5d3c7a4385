"""Objects as bytes, with versions and a history: what etcd and the watch cache are to a real API server.

Every change gets the next version, of all kinds together. The history goes back a number of changes and a while; what
came before is forgotten. Old states of a kind are found by undoing changes. Everything happens in one thread.
"""

import asyncio
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter
from random import Random
from typing import Final, Literal, NamedTuple
from uuid import UUID

import msgspec

from zoneward.sandbox.server.kinds import Kind, Object, get_field

Key = tuple[str, str]
"""Namespace (empty where the kind has none) and name."""

HISTORY: Final = 10_000
"""Changes of one kind that are remembered."""
MEMORY: Final = 300.0
"""Seconds for which a change is remembered at most, as etcd's is."""
_SPARE: Final = 1_000
"""Changes beyond the history that may wait to be forgotten together."""
_VERSION: Final = attrgetter("version")


@dataclass(frozen=True, slots=True)
class Record:
    """One object at one version. ``data`` is its JSON, which begins with `head_of` its kind."""

    data: bytes
    version: int
    uid: str
    labels: Mapping[str, str]
    fields: Mapping[str, str]
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
    """``new`` is None when the object is gone; ``last`` then is its last state, at the version of its end."""

    version: int
    key: Key
    old: Record | None
    new: Record | None
    last: Record | None
    time: float

    @property
    def type(self) -> Literal["ADDED", "MODIFIED", "DELETED"]:
        if self.new is None:
            return "DELETED"
        return "ADDED" if self.old is None else "MODIFIED"


class Forgotten(Exception):  # noqa: N818
    """The history does not go back to a version; ``oldest`` is the first that it has."""

    def __init__(self, oldest: int) -> None:
        super().__init__(oldest)
        self.oldest = oldest


@dataclass(slots=True)
class _KindStore:
    """All of one kind."""

    kind: Kind
    head: bytes
    records: dict[Key, Record] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    """Of all objects, in their order: that of upstream's paths, not that of the keys (``a-b/`` comes before ``a/``)."""
    history: list[StoredChange] = field(default_factory=list)
    forgotten: int = 0
    """The version of the last change that is not in the history any more."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def forget(self, number: int) -> None:
        if number > 0:
            self.forgotten = self.history[number - 1].version
            del self.history[:number]


def head_of(kind: Kind) -> bytes:
    """How the JSON of an object begins; in lists items go without."""
    return f'{{"kind":"{kind.kind}","apiVersion":"{kind.api}",'.encode()


class VersionedStore:
    """``listeners`` are called for each change, in the order of versions."""

    def __init__(
        self, kinds: tuple[Kind, ...], *, version: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.version = version
        self.listeners: list[Callable[[Kind, StoredChange], None]] = []
        self._clock = clock
        self._kinds = {kind.resource: _KindStore(kind, head_of(kind)) for kind in kinds}

    # --- objects ------------------------------------------------------------------------------------------------------

    def get(self, kind: Kind, key: Key) -> Record | None:
        return self._kinds[kind.resource].records.get(key)

    def records(self, kind: Kind, *, namespace: str = "") -> Iterator[tuple[Key, Record]]:
        """Those of one namespace or of all, in order, as they are now."""
        return self.page(kind, version=self.version, namespace=namespace)

    def put(self, kind: Kind, key: Key, obj: Object) -> Record:
        """Create or replace. ``obj`` gets its new version, and must not change afterwards."""
        kept = self._kinds[kind.resource]
        old = kept.records.get(key)
        record = self._record(kept, obj)
        if old is None:
            insort(kept.paths, _path_of(key))
        kept.records[key] = record
        self._publish(kept, StoredChange(record.version, key, old, record, None, self._clock()))
        return record

    def delete(self, kind: Kind, key: Key, obj: Object | None = None) -> Record:
        """Its last state, at the version of its end; ``obj`` where that is not what is held."""
        kept = self._kinds[kind.resource]
        old = kept.records.pop(key)
        del kept.paths[bisect_left(kept.paths, _path_of(key))]
        last = self._record(kept, old.object() if obj is None else obj)
        self._publish(kept, StoredChange(last.version, key, old, None, last, self._clock()))
        return last

    # --- the past -----------------------------------------------------------------------------------------------------

    def page(
        self, kind: Kind, *, version: int, namespace: str = "", after: Key | None = None
    ) -> Iterator[tuple[Key, Record]]:
        """As they were at a version, those behind ``after``. Raises Forgotten at once."""
        kept = self._kinds[kind.resource]
        undone = {change.key: change.old for change in reversed(self.changes(kind, version))}
        paths = _span(kept.paths, namespace, after)
        if undone:
            gone = sorted(_path_of(key) for key in undone if key not in kept.records)
            paths = merge(paths, _span(gone, namespace, after))
        found = ((key, undone[key] if key in undone else kept.records[key]) for key in map(_key_of, paths))
        return ((key, record) for key, record in found if record is not None)

    def changes(self, kind: Kind, since: int) -> list[StoredChange]:
        """All that came after a version, the oldest first. Raises Forgotten."""
        kept = self._kinds[kind.resource]
        if since < kept.forgotten:
            raise Forgotten(kept.forgotten)
        history = kept.history
        if not history or history[-1].version <= since:
            return []
        return history[bisect_right(history, since, key=_VERSION) :]

    def changed(self, kind: Kind) -> asyncio.Event:
        """Set at the next change of the kind; a new one follows then."""
        return self._kinds[kind.resource].changed

    def compact(self, version: int | None = None) -> None:
        """Forget all changes up to a version, by default up to now."""
        limit = self.version if version is None else version
        for kept in self._kinds.values():
            kept.forget(bisect_right(kept.history, limit, key=_VERSION))
            kept.forgotten = max(kept.forgotten, limit)

    def forget_old(self, memory: float = MEMORY) -> None:
        """Forget changes that are older than so many seconds; to be called now and then."""
        limit = self._clock() - memory
        for kept in self._kinds.values():
            kept.forget(bisect_left(kept.history, limit, key=attrgetter("time")))

    # --- within -------------------------------------------------------------------------------------------------------

    def _record(self, kept: _KindStore, obj: Object) -> Record:
        self.version += 1
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(self.version)
        rest = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
        return Record(
            kept.head + msgspec.json.encode(rest)[1:],
            self.version,
            metadata["uid"],
            metadata.get("labels") or _NO_LABELS,
            {path: _selected(obj, path) for path in kept.kind.selectable.values()},
            tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
            "deletionTimestamp" in metadata,
        )

    def _publish(self, kept: _KindStore, change: StoredChange) -> None:
        kept.history.append(change)
        if len(kept.history) > HISTORY + _SPARE:
            kept.forget(len(kept.history) - HISTORY)
        changed, kept.changed = kept.changed, asyncio.Event()
        changed.set()
        for listener in self.listeners:
            listener(kept.kind, change)


def _selected(obj: Object, path: str) -> str:
    value = get_field(obj, path)
    return str(bool(value)).lower() if path == "spec.unschedulable" else value or ""


_NO_LABELS: Final[Mapping[str, str]] = {}


def new_uid(chance: Random) -> str:
    return str(UUID(int=chance.getrandbits(128), version=4))


def _path_of(key: Key) -> str:
    return f"{key[0]}/{key[1]}"


def _key_of(path: str) -> Key:
    namespace, _, name = path.partition("/")
    return namespace, name


def _span(paths: list[str], namespace: str, after: Key | None) -> Iterator[str]:
    """Those of a namespace or of all, behind ``after``. The list must not change while this goes on."""
    start = bisect_right(paths, _path_of(after)) if after is not None else 0
    end = len(paths)
    if namespace:
        start = max(start, bisect_left(paths, f"{namespace}/"))
        end = bisect_left(paths, f"{namespace}0")  # the character that follows the slash
    return (paths[index] for index in range(start, end))
