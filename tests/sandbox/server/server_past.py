"""All that a sandbox had, change by change, and what a cache that follows it was told of that."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, Final, Generic

from zoneward.client.object_store import ObjectStore
from zoneward.client.resources import WatchedResource, WatchedT, object_key_of
from zoneward.kube.objects import ObjectKey, parse_resource_version
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.registry import Registry
from zoneward.sandbox.server.store import Change

WRITER: Final = "writer-"
"""How the names of annotations begin in which writers number what they do."""


@dataclass(frozen=True, slots=True)
class State:
    """Of one object, from one change to the next."""

    version: int
    uid: str
    is_gone: bool


class Past:
    """Listens to the store of a registry; what is there already counts as the first change."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.states: defaultdict[str, defaultdict[ObjectKey, list[State]]] = defaultdict(lambda: defaultdict(list))
        """By the plural of the kind."""
        self.done: Counter[tuple[str, str, str]] = Counter()
        """How often an object, by its UID, got the number of a writer: writer, number, UID."""
        self.count = 0
        for kind in registry.kinds.values():
            if kind.stored_as is None:
                for key, record in registry.store.records(kind):
                    self.states[kind.plural][key].append(State(record.version, record.uid, is_gone=False))
        registry.store.listeners.append(self._note)

    def __getitem__(self, plural: str) -> dict[ObjectKey, list[State]]:
        return self.states[plural]

    def now(self, plural: str) -> dict[ObjectKey, int]:
        """Versions of the objects that are there."""
        records = self._registry.store.records(self._registry.kinds[_resource(plural)])
        return {key: record.version for key, record in records}

    def _note(self, kind: Kind, change: Change) -> None:
        self.count += 1
        record = change.new or change.last
        assert record is not None
        self.states[kind.plural][change.key].append(State(change.version, record.uid, is_gone=change.new is None))
        if change.new is not None:
            before = {} if change.old is None else _numbers(change.old.object())
            for writer, number in _numbers(change.new.object()).items():
                if before.get(writer) != number:
                    self.done[writer, number, record.uid] += 1


def _numbers(thing: dict[str, Any]) -> dict[str, str]:
    annotations = thing["metadata"].get("annotations") or {}
    return {name: value for name, value in annotations.items() if name.startswith(WRITER)}


def _resource(plural: str) -> str:
    return "endpointslices.discovery.k8s.io" if plural == "endpointslices" else plural


class Told(Generic[WatchedT]):
    """What one store of a cache told, judged at once as far as it can be, by `check` in all."""

    def __init__(self, store: ObjectStore[WatchedT], resource: WatchedResource[WatchedT]) -> None:
        self.store, self.resource = store, resource
        self._states: defaultdict[ObjectKey, list[WatchedT | None]] = defaultdict(list)
        store.subscribe(self._take)

    def _take(self, old: WatchedT | None, new: WatchedT | None) -> None:
        thing = new or old
        assert thing is not None
        key = object_key_of(thing)
        assert self.store.get(*key) is new, "told before the cache has it"
        states = self._states[key]
        assert old is (states[-1] if states else None), "what is told as old is not what was told last"
        states.append(new)

    def is_equal_to(self, past: Past) -> bool:
        """Same objects in the same versions."""
        return {object_key_of(thing): parse_resource_version(_version(thing)) for thing in self.store} == past.now(
            self.resource.plural
        )

    def check(self, past: Past, *, is_complete: bool) -> None:
        """Of each object only states that it had, each once and in their order; and all, if that is complete."""
        had = past[self.resource.plural]
        assert self._states.keys() <= had.keys()
        for key, told in self._states.items():
            position = -1
            for state in told:
                version = None if state is None else parse_resource_version(_version(state))
                position = _next(had[key], position, version)
                assert position is not None, f"{self.resource.kind} {key}: told {version} after {told}, had {had[key]}"
            assert (told[-1] is None) == had[key][-1].is_gone, f"{self.resource.kind} {key}: its end"
            if is_complete:
                assert len(told) == len(had[key]), f"{self.resource.kind} {key}: told {told}, had {had[key]}"
        if is_complete:
            assert self._states.keys() == had.keys()


def _next(states: list[State], position: int, version: int | None) -> int:
    """Where, behind a position, an object came to this version (None: to its end)."""
    for index in range(position + 1, len(states)):
        state = states[index]
        if state.is_gone if version is None else (state.version == version and not state.is_gone):
            return index
    raise AssertionError(f"version {version} was not, or not after {position}, in {states}")


def _version(thing: Any) -> str | None:
    version: str | None = thing.metadata.resource_version
    return version
