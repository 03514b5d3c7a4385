"""Pods that are asked to end, ended: what a kubelet would confirm. Those that end in a file stay as they are."""

from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Final

from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.registry import Deletion, Registry
from zoneward.sandbox.server.status_errors import StatusError
from zoneward.sandbox.server.store import Change, Key, Record

LASTING: Final = timedelta(seconds=2)
"""How long the program of a pod takes to end by itself, where its grace allows so much."""


class Ending:
    """Listens to the store of a registry; `end_pods` ends those whose time has come."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._pods = registry, registry.kinds["pods"]
        self._waiting: list[tuple[datetime, Key, str]] = []
        """When to look at a pod, and its UID; a heap."""
        registry.store.listeners.append(self._note)

    def end_pods(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._registry.now:
            _, (namespace, name), uid = heappop(self._waiting)
            try:
                self._registry.delete(self._pods, namespace, name, Deletion(grace=0, uid=uid))
            except StatusError as refusal:
                # It is gone, or another one has its name.
                if refusal.code not in (404, 409):
                    raise

    def _note(self, kind: Kind, change: Change) -> None:
        if kind is not self._pods or change.new is None or not change.new.is_ending:
            return
        grace = _grace(change.new)
        if change.old is None or not change.old.is_ending or grace < _grace(change.old):
            heappush(self._waiting, (self._registry.now + min(LASTING, grace), change.key, change.new.uid))


def _grace(record: Record) -> timedelta:
    return timedelta(seconds=record.object()["metadata"].get("deletionGracePeriodSeconds") or 0)
