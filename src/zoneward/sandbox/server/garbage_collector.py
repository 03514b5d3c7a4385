"""Deletes objects whose owners are gone, and the content of namespaces that end.

The garbage collector and the namespace controller of a cluster do this. Owners of kinds that the server does not
have (a ReplicaSet) count as existing.
"""

from collections import OrderedDict, defaultdict
from itertools import islice
from typing import Final

from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.resource_registry import Deletion, Registry, Write
from zoneward.sandbox.server.status_errors import StatusError
from zoneward.sandbox.server.versioned_store import Key, StoredChange

Place = tuple[str, Key]
"""Of an object: the resource of its kind, and its key."""

_AT_ONCE: Final = 500
"""Objects of a kind that go with their namespace until others are served."""


class GarbageCollector:
    """Listens to the store of a registry; `collect` deletes what is due."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._namespaces = registry.kinds["namespaces"]
        self._by_owner: defaultdict[str, set[Place]] = defaultdict(set)
        """Dependents by the UID of each of their owners."""
        self._pending: OrderedDict[Place, None] = OrderedDict()
        """Objects that may have to go; each once, however often something about it changes."""
        for kind in registry.kinds.values():
            if kind.stored_as is None:
                for key, record in registry.store.records(kind):
                    self._note(kind, StoredChange(record.version, key, None, record, None, 0.0))
        registry.store.listeners.append(self._note)

    @property
    def is_idle(self) -> bool:
        return not self._pending

    def collect(self, *, most: int = 500) -> None:
        """Handle at most so many pending objects; more may follow."""
        for _ in range(min(most, len(self._pending))):
            (resource, key), _ = self._pending.popitem(last=False)
            kind = self._registry.kinds[resource]
            record = self._registry.store.get(kind, key)
            if record is None:
                continue
            try:
                self._collect(kind, key, record.object())
            except StatusError:
                # Another client deleted the object first, or it cannot be deleted.
                continue

    def _note(self, kind: Kind, change: StoredChange) -> None:
        place, old = (kind.resource, change.key), change.old
        before, owners = old.owners if old else (), change.new.owners if change.new else ()
        if before != owners:
            for owner in before:
                self._by_owner[owner].discard(place)
                if not self._by_owner[owner]:
                    del self._by_owner[owner]
            for owner in owners:
                self._by_owner[owner].add(place)
        if change.new is None:
            if old is not None:
                self._add(*sorted(self._by_owner.get(old.uid, ())))
            if change.key[0] and self._is_ending(change.key[0]):
                self._add((self._namespaces.resource, ("", change.key[0])))
        elif before != owners or (kind is self._namespaces and change.new.is_ending):
            self._add(place)

    def _add(self, *places: Place) -> None:
        self._pending |= dict.fromkeys(places)

    def _is_ending(self, namespace: str) -> bool:
        record = self._registry.store.get(self._namespaces, ("", namespace))
        return record is not None and record.is_ending

    def _collect(self, kind: Kind, key: Key, thing: Object) -> None:
        metadata = thing["metadata"]
        if "deletionTimestamp" in metadata:
            if kind is self._namespaces:
                self._empty(key[1])
            return
        owners = metadata.get("ownerReferences") or ()
        gone = {owner["uid"] for owner in owners if not self._exists(owner, key[0])}
        if gone and all(owner["uid"] in gone for owner in owners):
            self._registry.delete(kind, *key, Deletion(uid=metadata["uid"]))
        elif gone:
            self._registry.update(kind, *key, lambda old: _without_owners(old, gone), Write())

    def _exists(self, owner: Object, namespace: str) -> bool:
        kinds = self._registry.kinds.values()
        kind = next((each for each in kinds if (each.kind, each.api) == (owner["kind"], owner["apiVersion"])), None)
        if kind is None:
            return True
        record = self._registry.store.get(kind.stored, (namespace if kind.is_namespaced else "", owner["name"]))
        return record is not None and record.uid == owner["uid"]

    def _empty(self, namespace: str) -> None:
        left = False
        for kind in self._registry.kinds.values():
            if not kind.is_namespaced or kind.stored_as is not None:
                continue
            records = self._registry.store.records(kind, namespace=namespace)
            going = list(islice((key for key, record in records if not record.is_ending), _AT_ONCE))
            for key in going:
                self._registry.delete(kind, *key, Deletion())
            if len(going) == _AT_ONCE:
                self._add((self._namespaces.resource, ("", namespace)))
            left |= next(self._registry.store.records(kind, namespace=namespace), None) is not None
        if not left:
            self._registry.update(self._namespaces, "", namespace, _finalized, Write(subresource="finalize"))


def _without_owners(thing: Object, uids: set[str]) -> Object:
    left = [each for each in thing["metadata"]["ownerReferences"] if each["uid"] not in uids]
    return thing | {"metadata": thing["metadata"] | {"ownerReferences": left}}


def _finalized(thing: Object) -> Object:
    spec = dict(thing.get("spec") or {})
    spec["finalizers"] = [each for each in spec.get("finalizers") or () if each != "kubernetes"]
    return thing | {"spec": spec}
