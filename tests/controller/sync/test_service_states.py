"""The moment that slices give is the first change that they do not have yet, and never one long ago; and which Services
another demand affects."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.structs import a_service, nodes_in, pods_in

from zoneward.client.informer_cache import InformerCache
from zoneward.client.resources import LiveNode, LivePod, object_key_of
from zoneward.controller.sync.service_states import ServiceStates, TriggerTimeTracker
from zoneward.kube.objects import ObjectKey
from zoneward.routing.configuration import Configuration

SERVICE: ObjectKey = ("ns", "svc")


def at(second: int) -> str:
    return f"2026-11-21T08:00:{second:02}Z"


def known(*, created: str = at(0), has_slices: bool = True, **pods: str | None) -> TriggerTimeTracker:
    times = TriggerTimeTracker()
    times.observe(SERVICE, created=created, pods=pods, has_slices=has_slices)
    return times


def test_a_new_service_has_its_creation_as_trigger_time_and_a_restart_has_none() -> None:
    assert known(created=at(3), has_slices=False, p1=at(5)).time(SERVICE) == at(3)
    times = known(p1=at(5), p2=at(6))
    assert times.time(SERVICE) is None
    # The deletion of a Pod is no change with a time.
    times.changed(SERVICE, created=at(0), pods={"p2": None})
    assert times.time(SERVICE) is None
    times.changed(SERVICE, created=at(0), pods={"p1": at(9)})
    assert times.time(SERVICE) == at(9)
    times.forget(SERVICE)
    assert (len(times), times.time(SERVICE)) == (0, None)
    times = known()
    times.changed(SERVICE, created=at(30), pods={})
    assert times.time(SERVICE) == at(30), "it was created again"


def test_a_trigger_time_stays_until_it_is_written() -> None:
    times = known(p1=at(1), p2=at(1))
    times.changed(SERVICE, created=at(0), pods={"p1": at(7)})
    # The write failed; meanwhile the other one changes.
    times.changed(SERVICE, created=at(0), pods={"p2": at(8)})
    assert times.time(SERVICE) == at(7)
    times.written(SERVICE)
    assert times.time(SERVICE) is None


def test_invalid_times_are_ignored() -> None:
    times = known(created="yesterday", has_slices=False, p1=at(1))
    assert times.time(SERVICE) is None
    times.changed(SERVICE, created="yesterday", pods={"p1": "9999", "p2": "2026-11-21T08:00:00.5Z"})
    assert times.time(SERVICE) is None


TIMES = st.none() | st.integers(0, 59).map(at)


@given(st.lists(st.tuples(st.dictionaries(st.sampled_from("abcd"), TIMES), TIMES, st.booleans()), max_size=12))
def test_changed_pods_give_the_same_time_as_all_pods(
    steps: list[tuple[dict[str, str | None], str | None, bool]],
) -> None:
    whole, parts = TriggerTimeTracker(), TriggerTimeTracker()
    now: dict[str, str | None] = {}
    for pods, created, is_written in steps:
        whole.observe(SERVICE, created=created, pods=pods)
        if len(parts):
            different = {name: pods.get(name) for name in {*now, *pods} if now.get(name) != pods.get(name)}
            parts.changed(SERVICE, created=created, pods=different)
        else:
            parts.observe(SERVICE, created=created, pods=pods)
        now = pods
        assert whole.time(SERVICE) == parts.time(SERVICE)
        if is_written:
            whole.written(SERVICE)
            parts.written(SERVICE)


def test_another_demand_affects_services_that_will_be_planned_afresh() -> None:
    cache = InformerCache()
    states = ServiceStates(cache, configuration=Configuration())
    for pod in pods_in({"a": 2, "b": 2}):
        cache.pods.put(msgspec.convert(msgspec.to_builtins(pod), LivePod))
    node_a, node_b = (msgspec.convert(msgspec.to_builtins(node), LiveNode) for node in nodes_in({"a": 4, "b": 4}))
    service = a_service("Auto")
    key = object_key_of(service)
    cache.services.put(service)
    cache.nodes.put(node_a)
    states.node_changed(None, node_a)
    states.refresh_nodes()
    states.plan(key, service, taken=())
    states.plan_afresh(key)
    cache.nodes.put(node_b)
    states.node_changed(None, node_b)
    states.refresh_nodes()
    assert states.check_next() == key
    assert states.check_next() is None
