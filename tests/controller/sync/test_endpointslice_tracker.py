"""The tracker distinguishes a cache that has not seen its own writes from one that has.

Hints that an API server drops are written once, reported, and tried again by a dry run.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import structs
from tests.builders.structs import an_endpoint, hints
from tests.client.recording import until
from tests.controller.a_controller import KEPT, Place, a_place, addresses, at_work, fill, settle
from tests.controller.lines import Lines

from zoneward.client.object_store import ObjectStore
from zoneward.client.writer import Writer
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.controller.sync.endpointslice_tracker import EndpointSliceTracker, stored_hints
from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, Hints, ObjectKey
from zoneward.routing.configuration import Configuration

SERVICE: ObjectKey = ("shop", "cart")


def a_slice(name: str = "s1", *, version: str, uid: str = "", **options: Any) -> EndpointSlice:
    return structs.a_slice(name, version=version, uid=uid or f"uid-of-{name}", generation=1, **options)


def after_writing(*answers: EndpointSlice) -> EndpointSliceTracker:
    tracker = EndpointSliceTracker()
    for answer in answers:
        tracker.written(answer, replaced=None)
    return tracker


@pytest.mark.parametrize(
    ("version", "generation", "is_stale", "is_news"),
    [
        pytest.param("before", 3, True, False, id="what-the-write-replaced"),
        pytest.param("after", 3, False, False, id="our-own-write"),
        pytest.param("other", 3, False, True, id="something-else-of-the-same-generation"),
        pytest.param("older", 2, True, True, id="an-older-generation"),
        pytest.param("newer", 4, False, True, id="a-newer-generation"),
    ],
)
def test_generations_are_compared_if_versions_are_not_numbers(
    version: str, generation: int, is_stale: bool, is_news: bool
) -> None:
    tracker = EndpointSliceTracker()
    tracker.written(structs.a_slice("s1", uid="u", version="after", generation=3), replaced="before")
    cached = structs.a_slice("s1", uid="u", version=version, generation=generation)
    assert tracker.is_stale(SERVICE, [cached]) == is_stale
    assert tracker.is_news(cached) == is_news


def test_a_recreated_slice_counts_as_deleted() -> None:
    """A watch that was cut off, and a list after it, show it as a change of one object."""
    tracker = after_writing(a_slice(version="12"))
    again = a_slice(version="20", uid="another")
    assert tracker.observe(a_slice(version="12"), again).is_news
    assert not tracker.is_stale(SERVICE, [again])
    assert len(tracker) == 0


def test_only_an_unexpected_deletion_is_news() -> None:
    tracker = after_writing(a_slice("s1", version="12"), a_slice("s2", version="13"))
    tracker.deletion_expected(a_slice("s1", version="12"))
    assert tracker.is_stale(SERVICE, [a_slice("s1", version="12"), a_slice("s2", version="13")])
    assert not tracker.observe(a_slice("s1", version="12"), None).is_news
    assert tracker.observe(a_slice("s2", version="13"), None).is_news
    assert len(tracker) == 0
    # So is one of a slice that another process wrote, and any write of somebody else.
    assert tracker.observe(a_slice(version="12"), None).is_news
    assert tracker.observe(a_slice(version="12"), a_slice(version="13")).is_news


def test_after_a_read_from_the_server_the_cache_has_to_catch_up() -> None:
    tracker = after_writing(a_slice("s1", version="9"), a_slice("gone", version="7"))
    cached = [a_slice("s1", version="5"), a_slice("s2", version="6")]
    # Somebody deleted one before the watch was back: no event will come.
    tracker.read(SERVICE, fresh=[a_slice("s1", version="9")], cached=cached)
    assert tracker.awaited(SERVICE, cached) == ["s1", "s2"]
    assert not tracker.is_stale(SERVICE, [a_slice("s1", version="9")])
    # One with a finalizer is not waited for without end.
    tracker = after_writing(a_slice(version="12"))
    leaving = a_slice(version="13", deleting=True)
    assert tracker.is_stale(SERVICE, [leaving])
    tracker.read(SERVICE, fresh=[leaving], cached=[leaving])
    assert not tracker.is_stale(SERVICE, [leaving])


# --- a server, a cache that lags, and another writer ------------------------------------------------------------------


@dataclass
class Scene:
    """A server's history of slices, a cache that has read some of it, and the tracker of who writes as us."""

    tracker: EndpointSliceTracker = field(default_factory=EndpointSliceTracker)
    store: ObjectStore[EndpointSlice] = field(default_factory=ObjectStore)
    history: list[tuple[EndpointSlice | None, EndpointSlice | None]] = field(default_factory=list)
    stored: dict[str, EndpointSlice] = field(default_factory=dict)
    read: int = 0
    version: int = 0
    ours: int = 0
    """The length of the history at our last write."""
    news: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store.subscribe(lambda old, new: self.news.append(self.tracker.observe(old, new).is_news))

    def write(self, name: str, *, own: bool, deletes: bool) -> None:
        self.version += 1
        old = self.stored.pop(name, None)
        if deletes and old is None:
            return
        new = None
        if not deletes:
            uid = old.metadata.uid if old else f"{name}-{self.version}"
            new = self.stored[name] = a_slice(name, version=str(self.version), uid=uid)
        self.history.append((old, new))
        if own:
            self.ours = len(self.history)
            if new is not None:
                self.tracker.written(new, replaced=old.metadata.resource_version if old else None)
            elif old is not None:
                self.tracker.deletion_expected(old)

    def catch_up(self, index: int) -> None:
        for old, new in self.history[self.read : self.read + index]:
            if new is not None:
                self.store.put(new)
            elif old is not None:
                self.store.delete(old)
        self.read = min(len(self.history), self.read + index)

    def is_stale(self) -> bool:
        return self.tracker.is_stale(SERVICE, list(self.store))


STEPS = st.one_of(
    st.tuples(st.just("own"), st.sampled_from("abc"), st.booleans()),
    st.tuples(st.just("other"), st.sampled_from("abc"), st.booleans()),
    st.tuples(st.just("read"), st.sampled_from((1, 1, 2, 9)), st.just(False)),
)


@settings(max_examples=75)
@given(st.lists(STEPS, max_size=30))
def test_a_cache_is_stale_until_it_has_the_last_own_write(
    steps: Sequence[tuple[str, str | int, bool]],
) -> None:
    scene = Scene()
    for what, which, deletes in steps:
        if isinstance(which, int):
            scene.catch_up(which)
        elif what == "other":
            scene.write(which, own=False, deletes=deletes)
        # We write when the cache is not stale, and what was changed by another meanwhile the server refuses.
        elif not scene.is_stale() and scene.store.get("shop", which) is scene.stored.get(which):
            scene.write(which, own=True, deletes=deletes)
        if scene.read < scene.ours:
            assert scene.is_stale()
        if scene.read == len(scene.history):
            assert not scene.is_stale()
    scene.catch_up(len(scene.history))
    assert not scene.is_stale()
    assert len(scene.tracker) <= len(scene.stored)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=20))
def test_own_writes_are_not_news(writes: Sequence[tuple[str, bool]]) -> None:
    scene = Scene()
    for name, deletes in writes:
        scene.write(name, own=True, deletes=deletes)
        scene.catch_up(1)
    assert not any(scene.news)


@pytest.mark.parametrize("later", [None, "13"], ids=["our-own-write-alone", "somebody-elses-after-it"])
def test_an_event_before_the_answer_is_news_only_for_another_writer(later: str | None) -> None:
    tracker, before, own = EndpointSliceTracker(), a_slice(version="11"), a_slice(version="12")
    tracker.write_started(before)
    assert not tracker.observe(before, own).is_news
    if later is not None:
        assert not tracker.observe(own, a_slice(version=later)).is_news, "not known yet"
    tracker.written(own, replaced="11")
    assert tracker.write_answered(before) == ({SERVICE} if later else set())
    assert tracker.observe(own, a_slice(version="14")).is_news


def test_a_slice_that_moves_while_both_services_write_it_is_news_for_both() -> None:
    tracker, before, own = EndpointSliceTracker(), a_slice(version="11"), a_slice(version="12")
    moved, of_other = (a_slice(version=version, service="web") for version in ("13", "14"))
    tracker.write_started(before)
    tracker.observe(before, own)
    tracker.observe(own, moved)
    # The other Service has it now, and the answer to the first write is late.
    tracker.write_started(moved)
    tracker.written(own, replaced="11")
    assert tracker.write_answered(before) == {SERVICE, ("shop", "web")}
    tracker.written(of_other, replaced="13")
    assert tracker.write_answered(moved) == set()
    assert not tracker.observe(moved, of_other).is_news


Object = dict[str, Any]


@pytest.mark.parametrize(
    ("sent", "stored", "expected"),
    [
        (hints("a"), hints("a"), "all"),
        (hints("a"), hints("b"), "all"),
        (None, None, "all"),
        (None, hints("a"), "all"),
        (hints("a"), None, "none"),
        (hints("a", nodes=["n"]), hints("a", nodes=["n"]), "all"),
        (hints("a", nodes=["n"]), hints("a"), "zones"),
        (hints("a", nodes=["n"]), hints(nodes=["n"]), "none"),
        (hints(nodes=["n"]), None, "zones"),
    ],
)
def test_stored_hints_are_compared_with_sent_hints(sent: Hints | None, stored: Hints | None, expected: str) -> None:
    one, other = (
        structs.a_slice("s", an_endpoint(hinted=endpoint_hints), an_endpoint("10.0.0.2"))
        for endpoint_hints in (sent, stored)
    )
    assert stored_hints(one, other) == expected


@contextmanager
def dropping(sandbox: Place, kind: Literal["hints", "forNodes"]) -> Iterator[set[str]]:
    """The server's feature gate is off: it drops the field of endpoints, or hints for nodes; until the set is empty."""
    dropped_kinds: set[str] = {kind}
    slices = sandbox.registry.kinds[KEPT]
    create, update = slices.prepare_create, slices.prepare_update

    def dropped(new: Object) -> None:
        for endpoint in new.get("endpoints") or ():
            if "hints" in dropped_kinds:
                endpoint.pop("hints", None)
            elif dropped_kinds and endpoint.get("hints"):
                endpoint["hints"] = {name: value for name, value in endpoint["hints"].items() if name != kind}

    def prepare_create(new: Object, objects: Any) -> None:
        create(new, objects)
        dropped(new)

    def prepare_update(new: Object, old: Object, objects: Any) -> None:
        update(new, old, objects)
        dropped(new)

    with (
        patch.object(type(slices), "prepare_create", staticmethod(prepare_create)),
        patch.object(type(slices), "prepare_update", staticmethod(prepare_update)),
    ):
        yield dropped_kinds


def programmed(sandbox: Place) -> tuple[str, str] | None:
    result = sandbox.condition(names.PROGRAMMED_CONDITION)
    return (result["status"], result["reason"]) if result else None


def events(sandbox: Place) -> list[tuple[str, str]]:
    return [(object_["reason"], object_["message"]) for object_ in sandbox.objects("events")]


def hinted(sandbox: Place) -> list[Hints | None]:
    return [endpoint.hints for slice_ in sandbox.slices() for endpoint in slice_.endpoints or ()]


@pytest.mark.parametrize(
    ("service", "event"),
    [
        ({"distribution": "PreferSameZone"}, "TrafficDistributionNotStored"),
        ({"annotations": {names.TOPOLOGY_MODE_ANNOTATION: "Auto"}}, "TopologyAwareRoutingDisabled"),
    ],
    ids=["PreferSameZone", "Auto"],
)
async def test_hints_that_are_dropped_are_reported_and_not_written_again(service: Object, event: str) -> None:
    lines = Lines()
    async with a_place() as sandbox:
        with dropping(sandbox, "hints") as dropped_kinds:
            fill(sandbox, **service)
            reporter = StatusWriter(Writer(sandbox.link), instance="test")
            async with at_work(sandbox, status_writer=reporter, log=lines) as controller:
                await settle(sandbox, controller)
                await until(lambda: programmed(sandbox) == ("False", "HintsNotStored"))
                await until(lambda: event in [reason for reason, _ in events(sandbox)])
                assert any("he API server does not store hints" in message for _, message in events(sandbox))
                assert controller.services_without_stored_hints == 1
                assert len(lines.about("the API server dropped hints")) == 1
                await settle(sandbox, controller)
                version = sandbox.registry.store.version
                controller.queue.add(("default", "cart"))
                await settle(sandbox, controller)
                assert sandbox.registry.store.version == version
                # What changes is still written.
                sandbox.make_ready(3, False)
                await settle(sandbox, controller)
                assert sandbox.listed() == addresses(0, 1, 2, 4, 5, 6, 7, 8)
                await controller._hints_probe.probe()
                assert controller.services_without_stored_hints == 1
                assert [reason for reason, _ in events(sandbox)].count(event) == 1
                dropped_kinds.clear()
                sandbox.make_ready(3, True)
                await controller._hints_probe.probe()
                await settle(sandbox, controller)
                await until(lambda: programmed(sandbox) == ("True", "Enabled"))
                assert controller.services_without_stored_hints == 0
                assert all(hinted(sandbox))


async def test_hints_for_zones_stay_where_those_for_nodes_are_dropped() -> None:
    async with a_place() as sandbox:
        with dropping(sandbox, "forNodes"):
            fill(sandbox, distribution="PreferSameNode")
            async with at_work(
                sandbox, status_writer=StatusWriter(Writer(sandbox.link), instance="test")
            ) as controller:
                await settle(sandbox, controller)
                await until(lambda: programmed(sandbox) == ("False", "HintsNotStored"))
                await settle(sandbox, controller)
                assert all(
                    endpoint_hints and endpoint_hints.for_zones and not endpoint_hints.for_nodes
                    for endpoint_hints in hinted(sandbox)
                )
                version = sandbox.registry.store.version
                controller.queue.add(("default", "cart"))
                await settle(sandbox, controller)
                assert sandbox.registry.store.version == version


async def test_a_service_that_requests_no_hints_any_more_does_not_count() -> None:
    async with a_place() as sandbox:
        with dropping(sandbox, "hints"):
            fill(sandbox, annotations={names.TOPOLOGY_MODE_ANNOTATION: "Auto"})
            async with at_work(sandbox) as controller:
                await until(lambda: controller.services_without_stored_hints == 1)
                sandbox.annotate("cart", {})
                await until(lambda: controller.services_without_stored_hints == 0)


async def test_as_upstream_nothing_is_compared() -> None:
    async with a_place() as sandbox:
        with dropping(sandbox, "hints"):
            fill(sandbox, distribution="PreferSameZone")
            async with at_work(sandbox, configuration=Configuration().as_upstream()) as controller:
                await settle(sandbox, controller)
                assert controller.services_without_stored_hints == 0
