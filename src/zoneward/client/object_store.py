"""All objects of one kind by namespace and name, with what is found by something else than their name."""

from collections.abc import Callable, Collection, Hashable, Iterator, Set
from typing import Final, Generic, TypeVar

from zoneward.client.list_watch_decoder import UnreadableHandler, UnreadableObject
from zoneward.client.resources import WatchedT, object_key_of
from zoneward.kube.objects import ObjectKey, parse_resource_version

EventHandler = Callable[[WatchedT | None, WatchedT | None], None]
"""Told of (old, new): (None, new) when one is added, (old, None) when one is deleted."""


IndexUpdater = Callable[[ObjectKey, WatchedT | None, WatchedT | None], None]
G = TypeVar("G", bound=Hashable)


class KeyIndex(Generic[WatchedT, G]):
    """Keys of objects by one thing that each of them says, in the order in which they began to say it."""

    def __init__(self, of: Callable[[WatchedT], G]) -> None:
        self._of = of
        self._keys: dict[G, dict[ObjectKey, None]] = {}

    def __iter__(self) -> Iterator[G]:
        return iter(self._keys)

    def get(self, group: G) -> Collection[ObjectKey]:
        return self._keys.get(group, ())

    def change(self, key: ObjectKey, old: WatchedT | None, new: WatchedT | None) -> None:
        if old is not None:
            group = self._of(old)
            if new is not None and self._of(new) == group:
                return
            keys = self._keys[group]
            del keys[key]
            if not keys:
                del self._keys[group]
        if new is not None:
            self._keys.setdefault(self._of(new), {})[key] = None


class ObjectStore(Generic[WatchedT]):
    """What is known of one kind. Only `put`, `delete` and `retain_only` change it, and they tell the handlers.

    ``keeper`` sees every change first and keeps the indexes, so that handlers find cache and indexes as they are now.
    A handler that raises is a mistake in the program: the error goes through to whoever feeds the cache.

    An object that cannot be read is in ``unreadable``, by its key, and told to ``on_unreadable``; what is held of it
    from before stays in force until it can be read again, or is gone.
    """

    def __init__(
        self,
        keeper: IndexUpdater[WatchedT] | None = None,
        *,
        listed: Callable[[], None] | None = None,
        on_unreadable: UnreadableHandler = lambda _found: None,
    ) -> None:
        self._things: dict[ObjectKey, WatchedT] = {}
        self._keeper, self._listed, self._on_unreadable = keeper, listed, on_unreadable
        self.unreadable: Final[dict[ObjectKey, UnreadableObject]] = {}
        self._handlers: list[EventHandler[WatchedT]] = []

    def __len__(self) -> int:
        return len(self._things)

    def __iter__(self) -> Iterator[WatchedT]:
        return iter(self._things.values())

    def get(self, namespace: str, name: str) -> WatchedT | None:
        return self._things.get((namespace, name))

    def each(self, keys: Collection[ObjectKey]) -> tuple[WatchedT, ...]:
        """The objects with these keys, in this order. Raises KeyError where one is not there."""
        things = self._things
        return tuple([things[key] for key in keys])

    def subscribe(self, handler: EventHandler[WatchedT]) -> Callable[[], None]:
        """From now on tell the handler of every change. Returns what ends that."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def put(self, thing: WatchedT, *, allow_older: bool = False) -> None:
        """An object is new, or is now like this. One that is not newer than what is held changes nothing.

        ``allow_older``: the server itself went back in time, as when its data were restored.
        """
        key = object_key_of(thing)
        old = self._things.get(key)
        if old is not None and not _is_newer(thing, old, allow_older=allow_older):
            return
        if not allow_older and self._is_set_aside_since(thing.metadata.resource_version, key):
            return
        self.unreadable.pop(key, None)
        if self._keeper is not None:
            self._keeper(key, old, thing)
        self._things[key] = thing
        self._tell(old, thing)

    def delete(self, thing: WatchedT) -> None:
        """An object is gone; ``thing`` is its last state, and if it is older than what is held, nothing changes."""
        key = object_key_of(thing)
        if self._is_set_aside_since(thing.metadata.resource_version, key):
            return
        self.unreadable.pop(key, None)
        old = self._things.get(key)
        if old is None or _is_newer(old, thing, allow_older=False):
            return
        self._remove(key, old)

    def mark_unreadable(self, found: UnreadableObject, *, is_gone: bool = False) -> None:
        """An object is new or another one, or is gone, and cannot be read. It is told once for each of its versions."""
        key = found.key
        before, old = self.unreadable.get(key), self._things.get(key)
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
        """These are all there are, for a list of the kind is complete."""
        for key in [key for key in self._things if key not in keys]:
            self._remove(key, self._things[key])
        for key in [key for key in self.unreadable if key not in keys]:
            del self.unreadable[key]
        if self._listed is not None:
            self._listed()

    def _is_set_aside_since(self, version: str | None, key: ObjectKey) -> bool:
        """Whether a later version than this one cannot be read."""
        found = self.unreadable.get(key)
        return found is not None and _is_later(found.version, version)

    def _remove(self, key: ObjectKey, old: WatchedT) -> None:
        if self._keeper is not None:
            self._keeper(key, old, None)
        del self._things[key]
        self._tell(old, None)

    def _tell(self, old: WatchedT | None, new: WatchedT | None) -> None:
        for handler in tuple(self._handlers):
            handler(old, new)


def _is_newer(thing: WatchedT, than: WatchedT, *, allow_older: bool) -> bool:
    """Versions that are no numbers only say whether two are the same."""
    one, other = thing.metadata.resource_version, than.metadata.resource_version
    if one == other:
        return one is None
    if allow_older:
        return True
    number, other_number = parse_resource_version(one), parse_resource_version(other)
    return number is None or other_number is None or number > other_number


def _is_later(one: str | None, other: str | None) -> bool:
    """False where it cannot be known."""
    number, other_number = parse_resource_version(one), parse_resource_version(other)
    return number is not None and other_number is not None and number > other_number
