"""Deletes objects without owners, the content of deleted namespaces, and pods after their grace period.

In a cluster the garbage collector, the namespace controller and the kubelets do this. Owners of kinds that the server
does not have (a ReplicaSet) count as existing.
"""

from collections import OrderedDict, defaultdict
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Final

from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.resource_registry import DeleteOptions, Preconditions, Registry, Write
from zoneward.sandbox.server.status_errors import StatusError
from zoneward.sandbox.server.versioned_store import Key, Record, StoredChange

Reference = tuple[str, Key]
"""The resource and the key of an object."""


class GarbageCollector:
    """Listens to the store of a registry; `collect` deletes what is due."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._namespaces = registry.kinds["namespaces"]
        self._by_owner: defaultdict[str, set[Reference]] = defaultdict(set)
        """Dependents by the UID of each of their owners."""
        self._pending: OrderedDict[Reference, None] = OrderedDict()
        """Objects that may have to be deleted, without duplicates."""
        for kind in registry.kinds.values():
            if kind.stored_as is None:
                for key, record in registry.store.records(kind):
                    self._note(kind, StoredChange(record.version, key, None, record, None))
        registry.store.listeners.append(self._note)

    @property
    def is_idle(self) -> bool:
        return not self._pending

    def collect(self) -> None:
        """Handle all objects that are pending now; this may add more."""
        for _ in range(len(self._pending)):
            (resource, key), _ = self._pending.popitem(last=False)
            kind = self._registry.kinds[resource]
            record = self._registry.store.get(kind, key)
            if record is None:
                continue
            try:
                if not record.is_ending:
                    self._collect(kind, key, record.object()["metadata"])
                elif kind is self._namespaces:
                    self._empty(key[1])
            except StatusError:
                # Another client deleted the object first, or it cannot be deleted.
                continue

    def _note(self, kind: Kind, change: StoredChange) -> None:
        reference, old = (kind.resource, change.key), change.old
        before, owners = old.owners if old else (), change.new.owners if change.new else ()
        if before != owners:
            for owner in before:
                self._by_owner[owner].discard(reference)
                if not self._by_owner[owner]:
                    del self._by_owner[owner]
            for owner in owners:
                self._by_owner[owner].add(reference)
        if change.new is None:
            if old is not None:
                self._pending |= dict.fromkeys(sorted(self._by_owner.get(old.uid, ())))
            namespace = self._registry.store.get(self._namespaces, ("", change.key[0])) if change.key[0] else None
            if namespace is not None and namespace.is_ending:
                self._pending[self._namespaces.resource, ("", change.key[0])] = None
        elif before != owners or (kind is self._namespaces and change.new.is_ending):
            self._pending[reference] = None

    def _collect(self, kind: Kind, key: Key, metadata: Object) -> None:
        owners = metadata.get("ownerReferences") or ()
        left = [owner for owner in owners if self._exists(owner, key[0])]
        if owners and not left:
            self._registry.delete(kind, *key, DeleteOptions(preconditions=Preconditions(uid=metadata["uid"])))
        elif len(left) < len(owners):
            changed = metadata | {"ownerReferences": left}
            self._registry.update(kind, *key, lambda old: old | {"metadata": changed})

    def _exists(self, owner: Object, namespace: str) -> bool:
        kinds = self._registry.kinds.values()
        kind = next((kind for kind in kinds if (kind.kind, kind.api) == (owner["kind"], owner["apiVersion"])), None)
        if kind is None:
            return True
        record = self._registry.store.get(kind.stored, (namespace if kind.is_namespaced else "", owner["name"]))
        return record is not None and record.uid == owner["uid"]

    def _empty(self, namespace: str) -> None:
        left = False
        for kind in self._registry.kinds.values():
            if not kind.is_namespaced or kind.stored_as is not None:
                continue
            for key, record in list(self._registry.store.records(kind, namespace=namespace)):
                if not record.is_ending:
                    self._registry.delete(kind, *key)
            left |= next(self._registry.store.records(kind, namespace=namespace), None) is not None
        if not left:
            finalize = Write(subresource="finalize")
            self._registry.update(self._namespaces, "", namespace, lambda old: old | {"spec": {}}, finalize)


TERMINATION_SECONDS: Final = timedelta(seconds=2)
"""How long the program of a pod takes to end by itself, where its grace allows so much."""


class PodTerminator:
    """Listens to the store of a registry; `end_pods` ends those whose time has come."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._pods = registry, registry.kinds["pods"]
        self._waiting: list[tuple[datetime, Key, str]] = []
        """When to look at a pod, and its UID; a heap."""
        registry.store.listeners.append(self._note)

    def end_pods(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._registry.now:
            _, (namespace, name), uid = heappop(self._waiting)
            options = DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(uid=uid))
            try:
                self._registry.delete(self._pods, namespace, name, options)
            except StatusError as refusal:
                # It is gone, or another one has its name.
                if refusal.code not in (404, 409):
                    raise

    def _note(self, kind: Kind, change: StoredChange) -> None:
        if kind is not self._pods or change.new is None or not change.new.is_ending:
            return
        grace = _grace(change.new)
        if change.old is None or not change.old.is_ending or grace < _grace(change.old):
            heappush(self._waiting, (self._registry.now + min(TERMINATION_SECONDS, grace), change.key, change.new.uid))


def _grace(record: Record) -> timedelta:
    return timedelta(seconds=record.object()["metadata"].get("deletionGracePeriodSeconds") or 0)
