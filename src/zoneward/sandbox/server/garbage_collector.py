"""What goes by itself: objects whose owners are gone, and what is in a namespace that ends.

What the garbage collector and the namespace controller of a cluster do. Owners of kinds that the server does not have
(a ReplicaSet) count as there.
"""

from collections import OrderedDict, defaultdict
from itertools import islice
from typing import Any, Final

from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.registry import FOREGROUND, ORPHAN, Deletion, Registry, Write
from zoneward.sandbox.server.status_errors import StatusError
from zoneward.sandbox.server.store import Change, Key

Place = tuple[str, Key]
"""Of an object: the resource of its kind, and its key."""

_AT_ONCE: Final = 500
"""Objects of a kind that go with their namespace until others are served."""
_UPDATE: Final = Write()


class GarbageCollector:
    """Listens to the store of a registry; `collect` does what there is to do."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._namespaces = registry.kinds["namespaces"]
        self._by_owner: defaultdict[str, set[Place]] = defaultdict(set)
        """Dependents by the UID of each of their owners."""
        self._uids: dict[str, Place] = {}
        self._blocked: set[str] = set()
        """UIDs of owners that go in the foreground and wait for a dependent."""
        self._asked: OrderedDict[Place, None] = OrderedDict()
        """Objects that may have to go, or that wait for others; each once, however often it is asked for."""
        for kind in registry.kinds.values():
            if kind.stored_as is None:
                for key, record in registry.store.records(kind):
                    self._note(kind, Change(record.version, key, None, record, None, 0.0))
        registry.store.listeners.append(self._note)

    @property
    def is_idle(self) -> bool:
        return not self._asked

    def collect(self, *, most: int = 500) -> None:
        """Some of what there is to do; more may follow from it."""
        for _ in range(min(most, len(self._asked))):
            (resource, key), _ = self._asked.popitem(last=False)
            kind = self._registry.kinds[resource]
            record = self._registry.store.get(kind, key)
            if record is None:
                continue
            try:
                self._look_at(kind, key, record.object())
            except StatusError:
                # Somebody was faster (it is gone), it waits for somebody else, or it may not go at all.
                continue

    # --- what happened ------------------------------------------------------------------------------------------------

    def _note(self, kind: Kind, change: Change) -> None:
        place, owners = (kind.resource, change.key), () if change.old is None else change.old.owners
        if self._blocked:
            # What this one blocked it may block no more, whether it is gone or not.
            self._ask(*(self._uids[owner] for owner in owners if owner in self._blocked and owner in self._uids))
        if change.new is not None and change.new.owners == owners:
            # Most changes are of this sort.
            self._uids[change.new.uid] = place
            if change.new.is_ending:
                self._ask(place)
            return
        if change.old is not None:
            for owner in change.old.owners:
                self._by_owner[owner].discard(place)
                if not self._by_owner[owner]:
                    del self._by_owner[owner]
        if change.new is None:
            if change.old is not None:
                self._uids.pop(change.old.uid, None)
                self._blocked.discard(change.old.uid)
                self._ask(*sorted(self._by_owner.get(change.old.uid, ())))
                self._ask(*(self._uids[owner] for owner in change.old.owners if owner in self._uids))
            if change.key[0] and self._is_ending(change.key[0]):
                self._ask((self._namespaces.resource, ("", change.key[0])))
            return
        self._uids[change.new.uid] = place
        for owner in change.new.owners:
            self._by_owner[owner].add(place)
        if change.new.owners or change.new.is_ending:
            self._ask(place)

    def _ask(self, *places: Place) -> None:
        self._asked |= dict.fromkeys(places)

    def _is_ending(self, namespace: str) -> bool:
        record = self._registry.store.get(self._namespaces, ("", namespace))
        return record is not None and record.is_ending

    # --- what is done -------------------------------------------------------------------------------------------------

    def _look_at(self, kind: Kind, key: Key, thing: Object) -> None:
        metadata = thing["metadata"]
        finalizers = metadata.get("finalizers") or ()
        if "deletionTimestamp" in metadata:
            if ORPHAN in finalizers:
                self._orphan(kind, key, metadata["uid"])
            elif FOREGROUND in finalizers:
                self._end_dependents(kind, key, metadata["uid"])
            elif kind is self._namespaces:
                self._empty(key[1])
            return
        owners = metadata.get("ownerReferences") or ()
        gone = [owner["uid"] for owner in owners if not self._is_there(owner, key[0])]
        if gone and len(gone) == len(owners):
            self._registry.delete(kind, *key, Deletion(propagation="Background", uid=metadata["uid"]))
        elif gone:
            self._registry.update(kind, *key, lambda old: _disowned(old, *gone), _UPDATE)

    def _is_there(self, owner: Object, namespace: str) -> bool:
        kind = next(
            (
                each
                for each in self._registry.kinds.values()
                if (each.kind, each.api) == (owner["kind"], owner["apiVersion"])
            ),
            None,
        )
        if kind is None:
            return True
        record = self._registry.store.get(kind, (namespace if kind.is_namespaced else "", owner["name"]))
        return record is not None and record.uid == owner["uid"]

    def _orphan(self, kind: Kind, key: Key, uid: str) -> None:
        for resource, dependent in sorted(self._by_owner.get(uid, ())):
            self._registry.update(self._registry.kinds[resource], *dependent, lambda old: _disowned(old, uid), _UPDATE)
        self._registry.update(kind, *key, lambda old: _without_finalizer(old, ORPHAN), _UPDATE)

    def _end_dependents(self, kind: Kind, key: Key, uid: str) -> None:
        """Those that somebody else owns as well are only given up."""
        is_blocked = False
        for resource, dependent in sorted(self._by_owner.get(uid, ())):
            of = self._registry.kinds[resource]
            thing = self._registry.get(of, *dependent)
            metadata = thing["metadata"]
            owners = metadata["ownerReferences"]
            if "deletionTimestamp" not in metadata:
                if any(owner["uid"] != uid and self._is_staying(owner, dependent[0]) for owner in owners):
                    self._registry.update(of, *dependent, lambda old: _disowned(old, uid), _UPDATE)
                    continue
                below = self._by_owner.get(metadata["uid"], ())
                if any(self._waits_for_dependents(self._registry.kinds[each], place) for each, place in below):
                    # A circle, in which each would wait for the next one. Upstream breaks it like this, too.
                    self._registry.update(of, *dependent, _unblocking, _UPDATE)
                    owners = ()
                self._registry.delete(of, *dependent, Deletion(propagation="Foreground" if below else None))
            is_blocked |= any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)
        if is_blocked and self._by_owner.get(uid):
            self._blocked.add(uid)
        else:
            self._registry.update(kind, *key, lambda old: _without_finalizer(old, FOREGROUND), _UPDATE)

    def _is_staying(self, owner: Object, namespace: str) -> bool:
        """There, and not about to take its dependents along."""
        if not self._is_there(owner, namespace):
            return False
        place = self._uids.get(owner["uid"])
        return place is None or not self._waits_for_dependents(self._registry.kinds[place[0]], place[1])

    def _waits_for_dependents(self, kind: Kind, key: Key) -> bool:
        record = self._registry.store.get(kind, key)
        if record is None or not record.is_ending:
            return False
        return FOREGROUND in (record.object()["metadata"].get("finalizers") or ())

    def _empty(self, namespace: str) -> None:
        left = False
        for kind in self._registry.kinds.values():
            if not kind.is_namespaced or kind.stored_as is not None:
                continue
            records = self._registry.store.records(kind, namespace=namespace)
            going = list(islice((key for key, record in records if not record.is_ending), _AT_ONCE))
            for key in going:
                self._registry.delete(kind, *key, Deletion(propagation="Background"))
            if len(going) == _AT_ONCE:
                self._ask((self._namespaces.resource, ("", namespace)))
            left |= next(self._registry.store.records(kind, namespace=namespace), None) is not None
        if not left:
            self._registry.update(self._namespaces, "", namespace, _finalized, Write(subresource="finalize"))


def _disowned(thing: Object, *uids: str) -> Object:
    left = [each for each in thing["metadata"].get("ownerReferences") or () if each["uid"] not in uids]
    return _with(thing, "ownerReferences", left)


def _unblocking(thing: Object) -> Object:
    owners = [each | {"blockOwnerDeletion": False} for each in thing["metadata"]["ownerReferences"]]
    return _with(thing, "ownerReferences", owners)


def _without_finalizer(thing: Object, finalizer: str) -> Object:
    left = [each for each in thing["metadata"].get("finalizers") or () if each != finalizer]
    return _with(thing, "finalizers", left)


def _with(thing: Object, field: str, list_objects: list[Any]) -> Object:
    """An empty list is none."""
    metadata = {name: value for name, value in thing["metadata"].items() if name != field}
    return thing | {"metadata": metadata | {field: list_objects} if list_objects else metadata}


def _finalized(thing: Object) -> Object:
    spec = dict(thing.get("spec") or {})
    spec["finalizers"] = [each for each in spec.get("finalizers") or () if each != "kubernetes"]
    return thing | {"spec": spec}
