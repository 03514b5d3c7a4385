"""A store of all objects of one kind by namespace and name, as client-go's ``cache.Store``, and indexes of keys."""

from collections.abc import Callable, Collection, Hashable, Iterator, Set
from typing import Final, Generic, TypeVar

from zoneward.client.list_watch_decoder import UnreadableHandler, UnreadableObject
from zoneward.client.resources import WatchedT, object_key_of
from zoneward.kube.objects import ObjectKey, parse_resource_version

EventHandler = Callable[[WatchedT | None, WatchedT | None], None]
"""Called with (old, new): (None, new) when an object is added, (old, None) when it is deleted."""
IndexUpdater = Callable[[ObjectKey, WatchedT | None, WatchedT | None], None]
G = TypeVar("G", bound=Hashable)


class KeyIndex(Generic[WatchedT, G]):
    """Keys of objects by the value that ``value_of`` returns for them, in the order in which they got that value."""

    def __init__(self, value_of: Callable[[WatchedT], G]) -> None:
        self._value_of = value_of
        self._keys: dict[G, dict[ObjectKey, None]] = {}

    def __iter__(self) -> Iterator[G]:
        return iter(self._keys)

    def keys(self, value: G) -> Collection[ObjectKey]:
        return self._keys.get(value, ())

    def update(self, key: ObjectKey, old: WatchedT | None, new: WatchedT | None) -> None:
        if old is not None:
            group = self._value_of(old)
            if new is not None and self._value_of(new) == group:
                return
            keys = self._keys[group]
            del keys[key]
            if not keys:
                del self._keys[group]
        if new is not None:
            self._keys.setdefault(self._value_of(new), {})[key] = None


class ObjectStore(Generic[WatchedT]):
    """The objects of one kind. Only `put`, `delete` and `retain_only` change it, and they call the handlers.

    ``update_indexes`` is called before the handlers, so that they see updated indexes. A handler that raises is a bug
    in the program: the error propagates to the caller that fills the store.

    An object that cannot be decoded is in ``unreadable``, by its key, and passed to ``on_unreadable``; the store keeps
    its last decoded state until a newer one can be decoded or the object is deleted.
    """

    def __init__(
        self,
        update_indexes: IndexUpdater[WatchedT] | None = None,
        *,
        on_listed: Callable[[], None] | None = None,
        on_unreadable: UnreadableHandler = lambda _unreadable: None,
    ) -> None:
        self._objects: dict[ObjectKey, WatchedT] = {}
        self._update_indexes, self._on_listed, self._on_unreadable = update_indexes, on_listed, on_unreadable
        self.unreadable: Final[dict[ObjectKey, UnreadableObject]] = {}
        self._handlers: list[EventHandler[WatchedT]] = []

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[WatchedT]:
        return iter(self._objects.values())

    def get(self, namespace: str, name: str) -> WatchedT | None:
        return self._objects.get((namespace, name))

    def each(self, keys: Collection[ObjectKey]) -> tuple[WatchedT, ...]:
        """The objects with these keys, in this order. Raises KeyError if one is not in the store."""
        objects = self._objects
        return tuple([objects[key] for key in keys])

    def subscribe(self, handler: EventHandler[WatchedT]) -> Callable[[], None]:
        """Call the handler with every change from now on. Returns a function that unsubscribes it."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def put(self, obj: WatchedT, *, allow_older: bool = False) -> None:
        """Add or replace an object. An object that is not newer than the state in the store is ignored.

        ``allow_older``: accept older versions, as after the server's data were restored.
        """
        key, version = object_key_of(obj), obj.metadata.resource_version
        old = self._objects.get(key)
        is_same = old is not None and version is not None and version == old.metadata.resource_version
        if (is_same and key not in self.unreadable) or (not allow_older and self._has_later(key, version)):
            return
        self.unreadable.pop(key, None)
        if self._update_indexes is not None:
            self._update_indexes(key, old, obj)
        self._objects[key] = obj
        self._call_handlers(old, obj)

    def delete(self, obj: WatchedT) -> None:
        """Remove an object; ``obj`` is its last state. Does nothing if the store has a newer one."""
        key = object_key_of(obj)
        if not self._has_later(key, obj.metadata.resource_version):
            self._remove(key)

    def mark_unreadable(
        self, unreadable: UnreadableObject, *, is_gone: bool = False, allow_older: bool = False
    ) -> None:
        """Record that a new version of an object cannot be decoded, or that the object is deleted (``is_gone``).

        ``on_unreadable`` is called once for each version. ``allow_older`` as for `put`.
        """
        key = unreadable.key
        if not allow_older and self._has_later(key, unreadable.version):
            return
        if is_gone:
            self._remove(key)
            return
        before, self.unreadable[key] = self.unreadable.get(key), unreadable
        if before is None or before.version != unreadable.version:
            self._on_unreadable(unreadable)

    def retain_only(self, keys: Set[ObjectKey]) -> None:
        """Remove all objects except these: a list of the kind is complete."""
        for key in [key for key in (*self._objects, *self.unreadable) if key not in keys]:
            self._remove(key)
        if self._on_listed is not None:
            self._on_listed()

    def _has_later(self, key: ObjectKey, version: str | None) -> bool:
        """Whether the last state of an object, which may be unreadable, is later than this version."""
        unreadable, old = self.unreadable.get(key), self._objects.get(key)
        if unreadable is not None:
            return _is_later(unreadable.version, version)
        return old is not None and _is_later(old.metadata.resource_version, version)

    def _remove(self, key: ObjectKey) -> None:
        self.unreadable.pop(key, None)
        old = self._objects.get(key)
        if old is None:
            return
        if self._update_indexes is not None:
            self._update_indexes(key, old, None)
        del self._objects[key]
        self._call_handlers(old, None)

    def _call_handlers(self, old: WatchedT | None, new: WatchedT | None) -> None:
        for handler in tuple(self._handlers):
            handler(old, new)


def _is_later(one: str | None, other: str | None) -> bool:
    """Whether ``one`` is later than ``other``; False if the versions cannot be compared."""
    version, other_version = parse_resource_version(one), parse_resource_version(other)
    return version is not None and other_version is not None and version > other_version
