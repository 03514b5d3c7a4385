"""All objects of one kind by namespace and name, as client-go's ``cache.Store``, and indexes of their keys."""

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
    """Keys of objects by one value that ``value_of`` finds in each; in the order in which objects got that value."""

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

    ``update_indexes`` sees every change first, so that handlers find the indexes up to date. A handler that raises is a
    mistake in the program: the error goes through to whoever fills the store.

    An object that cannot be decoded is in ``unreadable``, by its key, and passed to ``on_unreadable``; its last state
    that could be decoded stays in force until a newer one can be, or the object is gone.
    """

    def __init__(
        self,
        update_indexes: IndexUpdater[WatchedT] | None = None,
        *,
        on_listed: Callable[[], None] | None = None,
        on_unreadable: UnreadableHandler = lambda _found: None,
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
        """The objects with these keys, in this order. Raises KeyError where one is not there."""
        objects = self._objects
        return tuple([objects[key] for key in keys])

    def subscribe(self, handler: EventHandler[WatchedT]) -> Callable[[], None]:
        """Call the handler with every change from now on. Returns a function that ends this."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def put(self, obj: WatchedT, *, allow_older: bool = False) -> None:
        """Add or replace an object. One that is not newer than the state in the store changes nothing.

        ``allow_older``: the server itself went back in time, as when its data were restored.
        """
        key = object_key_of(obj)
        old = self._objects.get(key)
        if old is not None and not _is_newer(obj, old, allow_older=allow_older):
            return
        if not allow_older and self._is_unreadable_since(obj.metadata.resource_version, key):
            return
        self.unreadable.pop(key, None)
        if self._update_indexes is not None:
            self._update_indexes(key, old, obj)
        self._objects[key] = obj
        self._call_handlers(old, obj)

    def delete(self, obj: WatchedT) -> None:
        """Remove an object; ``obj`` is its last state. If the store has a newer one, nothing changes."""
        key = object_key_of(obj)
        if self._is_unreadable_since(obj.metadata.resource_version, key):
            return
        self.unreadable.pop(key, None)
        old = self._objects.get(key)
        if old is None or _is_newer(old, obj, allow_older=False):
            return
        self._remove(key, old)

    def mark_unreadable(self, found: UnreadableObject, *, is_gone: bool = False) -> None:
        """Note that a new version of an object cannot be decoded, or that the object is gone.

        ``on_unreadable`` is called once for each version.
        """
        key = found.key
        before, old = self.unreadable.get(key), self._objects.get(key)
        if old is not None and _is_later(old.metadata.resource_version, found.version):
            return
        if is_gone:
            self.unreadable.pop(key, None)
            if old is not None:
                self._remove(key, old)
            return
        self.unreadable[key] = found
        if before is None or before.version != found.version:
            self._on_unreadable(found)

    def retain_only(self, keys: Set[ObjectKey]) -> None:
        """Remove all objects but these: a list of the kind is complete."""
        for key in [key for key in self._objects if key not in keys]:
            self._remove(key, self._objects[key])
        for key in [key for key in self.unreadable if key not in keys]:
            del self.unreadable[key]
        if self._on_listed is not None:
            self._on_listed()

    def _is_unreadable_since(self, version: str | None, key: ObjectKey) -> bool:
        """Whether a later version than this one could not be decoded."""
        found = self.unreadable.get(key)
        return found is not None and _is_later(found.version, version)

    def _remove(self, key: ObjectKey, old: WatchedT) -> None:
        if self._update_indexes is not None:
            self._update_indexes(key, old, None)
        del self._objects[key]
        self._call_handlers(old, None)

    def _call_handlers(self, old: WatchedT | None, new: WatchedT | None) -> None:
        for handler in tuple(self._handlers):
            handler(old, new)


def _is_newer(obj: WatchedT, than: WatchedT, *, allow_older: bool) -> bool:
    """Versions that are not numbers can only be equal or different."""
    one, other = obj.metadata.resource_version, than.metadata.resource_version
    if one == other:
        return one is None
    if allow_older:
        return True
    number, other_number = parse_resource_version(one), parse_resource_version(other)
    return number is None or other_number is None or number > other_number


def _is_later(one: str | None, other: str | None) -> bool:
    """False where the versions cannot be compared."""
    number, other_number = parse_resource_version(one), parse_resource_version(other)
    return number is not None and other_number is not None and number > other_number
