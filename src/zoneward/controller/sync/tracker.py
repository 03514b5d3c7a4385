"""Whether the cache has seen our own writes: a decision from an older one would undo or repeat them.

As upstream's tracker of EndpointSlices, but by resourceVersion where both are numbers, as they compare then (KEP-5504):
a generation does not grow when nothing but an annotation changes, and what slices remember is an annotation. Where a
server's versions are no numbers the generation serves, and one that has not grown says nothing.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from zoneward.client.resources import object_key_of, owning_service_key
from zoneward.kube.objects import EndpointSlice, ObjectKey, parse_resource_version

_Change = tuple[EndpointSlice | None, EndpointSlice | None]


@dataclass(frozen=True, slots=True)
class Expected:
    """What the cache should show of one slice, or something later. ``replaced`` is the version that the write was made
    on, and ``is_deleted`` says that the slice should be gone."""

    name: str
    version: str | None = None
    generation: int | None = None
    replaced: str | None = None
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What a change of the cache tells: the Services of the slice, and whether it was anything but our own write."""

    services: frozenset[ObjectKey]
    is_news: bool


class Tracker:
    """What we wrote, by Service and by the slices' UIDs. Memory is freed with slices and Services.

    In order: write, `written` or `deletion_expected` with the answer, and `observe` with every change of the cache.
    """

    def __init__(self) -> None:
        self._expected: dict[ObjectKey, dict[str, Expected]] = {}
        self._begun: dict[ObjectKey, list[_Change]] = {}
        """What the cache told of slices, by their own keys, while they were written."""

    # --- what was written ---------------------------------------------------------------------------------------------

    def begins(self, slice_: EndpointSlice) -> None:
        """A write of a slice is on its way. Its event may come before its answer, and nothing tells whose it is."""
        self._begun[object_key_of(slice_)] = []

    def answered(self, slice_: EndpointSlice) -> frozenset[ObjectKey]:
        """The write is answered, or failed, and `written` or `deletion_expected` was told. The Services of news that
        came meanwhile."""
        begun = self._begun.pop(object_key_of(slice_), ())
        seen = [self.observe(old, new) for old, new in begun]
        return frozenset(service for each in seen if each.is_news for service in each.services)

    def written(self, answer: EndpointSlice, *, replaced: str | None = None) -> None:
        """A slice was created or updated, and the server says it is like this now."""
        service, metadata = owning_service_key(answer), answer.metadata
        if service is not None:
            expected = Expected(metadata.name, metadata.resource_version, metadata.generation, replaced)
            self._expected.setdefault(service, {})[metadata.uid] = expected

    def deletion_expected(self, slice_: EndpointSlice) -> None:
        """A slice was deleted, or the server had it no more."""
        service, metadata = owning_service_key(slice_), slice_.metadata
        if service is not None:
            expected = Expected(metadata.name, metadata.resource_version, metadata.generation, is_deleted=True)
            self._expected.setdefault(service, {})[metadata.uid] = expected

    def read(self, service: ObjectKey, fresh: Iterable[EndpointSlice], cached: Iterable[EndpointSlice]) -> None:
        """The server was asked for our slices of a Service and has these: the cache has to come to the same.

        What was expected before counts no more: what somebody else deleted before the cache ever saw it would be waited
        for without end.
        """
        there = {each.metadata.uid: each for each in fresh}
        self._expected.pop(service, None)
        for each in there.values():
            # One that is being deleted counts as gone for the cache too, however long its finalizers take.
            if each.metadata.deletion_timestamp is None:
                self.written(each)
        for each in cached:
            if each.metadata.uid not in there:
                self.deletion_expected(each)

    def forget(self, service: ObjectKey) -> None:
        """A Service is gone, and all that was expected of its slices."""
        self._expected.pop(service, None)

    # --- what the cache shows -----------------------------------------------------------------------------------------

    def observe(self, old: EndpointSlice | None, new: EndpointSlice | None) -> Seen:
        """A slice in the cache changed, as a store tells its handlers: ``None`` for what was not, or is no more.

        Not news are our own writes and what is older; whoever changed a slice after us, or deleted it, is. What cannot
        be told yet, for a write is on its way, is news when `answered` says so.
        """
        thing = new if new is not None else old
        assert thing is not None
        begun = self._begun.get(object_key_of(thing))
        if begun is not None:
            begun.append((old, new))
            return Seen(_owners(old, new), is_news=False)
        owners = _owners(old, new)
        # A slice that comes back under its name, or says that it is another Service's, is gone where it was.
        is_gone = old is not None and (
            new is None or new.metadata.uid != old.metadata.uid or owning_service_key(new) != owning_service_key(old)
        )
        # Of what another process wrote, as before a restart, nothing is expected: whoever deleted it, it was not us.
        is_news = is_gone and old is not None and not (self.has(old) and self.deleted(old))
        return Seen(owners, is_news or (new is not None and self.is_news(new)))

    def is_news(self, slice_: EndpointSlice) -> bool:
        """Whether a slice is anything but what we wrote, or older (upstream's ``ShouldSync``)."""
        expected = self._find(slice_)
        return expected is None or expected.is_deleted or _is_later(slice_, expected)

    def has(self, slice_: EndpointSlice) -> bool:
        """Whether anything is expected of a slice."""
        return self._find(slice_) is not None

    def deleted(self, slice_: EndpointSlice) -> bool:
        """A slice is gone: nothing is expected of it any more. False: it was not us."""
        expected = self._find(slice_)
        if expected is None:
            return True
        service = owning_service_key(slice_)
        assert service is not None
        slices = self._expected[service]
        del slices[slice_.metadata.uid]
        if not slices:
            del self._expected[service]
        return expected.is_deleted

    def is_stale(self, service: ObjectKey, cached: Collection[EndpointSlice]) -> bool:
        """Whether the cache, with these slices of a Service, lags behind what was written.

        ``cached`` are all of them, whoever manages them: one whose manager somebody changed is not missing.
        """
        slices = self._expected.get(service)
        return slices is not None and any(True for _ in _behind(slices, cached))

    def awaited(self, service: ObjectKey, cached: Collection[EndpointSlice]) -> list[str]:
        """The names of slices that the cache lags behind with; empty where it does not."""
        return sorted(each.name for each in _behind(self._expected.get(service, {}), cached))

    def tidy(self, service: ObjectKey, cached: Collection[EndpointSlice]) -> None:
        """Forget deletions that the cache saw before the server's answer told of them."""
        slices = self._expected.get(service, {})
        there = {each.metadata.uid for each in cached}
        for uid in [uid for uid, each in slices.items() if each.is_deleted and uid not in there]:
            del slices[uid]
        if not slices:
            self._expected.pop(service, None)

    def __len__(self) -> int:
        """Slices of which something is expected."""
        return sum(map(len, self._expected.values()))

    def _find(self, slice_: EndpointSlice) -> Expected | None:
        service = owning_service_key(slice_)
        return self._expected.get(service, {}).get(slice_.metadata.uid) if service is not None else None


def _behind(slices: dict[str, Expected], cached: Collection[EndpointSlice]) -> Iterable[Expected]:
    """A slice that is being deleted counts as gone."""
    there = {each.metadata.uid: each for each in cached if each.metadata.deletion_timestamp is None}
    for uid, expected in slices.items():
        slice_ = there.get(uid)
        if slice_ is None:
            is_behind = not expected.is_deleted
        else:
            is_behind = expected.is_deleted or _is_earlier(slice_, expected)
        if is_behind:
            yield expected


def _is_earlier(slice_: EndpointSlice, expected: Expected) -> bool:
    """Whether the cache has not seen a write. In doubt it has: waiting costs time, and a conflict shows the mistake."""
    version = slice_.metadata.resource_version
    number, other = parse_resource_version(version), parse_resource_version(expected.version)
    if number is not None and other is not None:
        return number < other
    if version is not None and version == expected.replaced:
        return True
    generation = slice_.metadata.generation
    return generation is not None and expected.generation is not None and generation < expected.generation


def _is_later(slice_: EndpointSlice, expected: Expected) -> bool:
    """Whether somebody changed a slice after us. In doubt somebody did: a look that finds nothing costs little."""
    version = slice_.metadata.resource_version
    number, other = parse_resource_version(version), parse_resource_version(expected.version)
    if number is not None and other is not None:
        return number > other
    if version is not None and expected.version is not None:
        return version not in (expected.version, expected.replaced)
    generation = slice_.metadata.generation
    return generation is None or expected.generation is None or generation > expected.generation


def _owners(old: EndpointSlice | None, new: EndpointSlice | None) -> frozenset[ObjectKey]:
    return frozenset(owner for each in (old, new) if each is not None and (owner := owning_service_key(each)))
