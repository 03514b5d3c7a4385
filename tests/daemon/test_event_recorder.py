"""Events: complete, named apart, counted where they repeat, and never too many."""

import re
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from zoneward.daemon.event_recorder import BURST, REFILL, SERIES_TIMEOUT, EventRecorder, truncated
from zoneward.kube.objects import Event, EventRegarding, EventSeries, ObjectMeta, Service, ServiceEvent
from zoneward.routing.service_events import DISABLED, ENABLED

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
CART = Service(metadata=ObjectMeta(name="cart", namespace="shop", uid="u-1", resource_version="7"))
OFF = ServiceEvent("Warning", DISABLED, "Nodes only ready in 1 zone")
ON = ServiceEvent("Normal", ENABLED, "Topology Aware Routing has been enabled")


class Clock:
    def __init__(self) -> None:
        self.at = NOON

    def __call__(self) -> datetime:
        return self.at

    def after(self, pause: timedelta) -> None:
        self.at += pause


def a_recorder(*, instance: str = "i", now: Clock) -> EventRecorder:
    controller = "zoneward.dev/endpointslice-controller"
    return EventRecorder(controller=controller, action="Decide", instance=instance, now=now)


def recorded(recorder: EventRecorder, event: ServiceEvent = OFF, service: Service = CART) -> Event:
    result = recorder.record(service, event)
    assert result is not None
    return result


def test_an_event_says_who_tells_what_of_which_service_and_when() -> None:
    event = recorded(a_recorder(instance="zoneward-0", now=Clock()))
    name, _, stamp = event.metadata.name.rpartition(".")
    assert (event.metadata.namespace, name, int(stamp, 16) // 10**9) == ("shop", "cart", NOON.timestamp())
    regarding = {"api_version": "v1", "kind": "Service", "namespace": "shop", "name": "cart", "uid": "u-1"}
    assert event == Event(
        metadata=event.metadata,
        event_time="2026-11-21T12:00:00.000000Z",
        reporting_controller="zoneward.dev/endpointslice-controller",
        reporting_instance="zoneward-0",
        action="Decide",
        reason="TopologyAwareRoutingDisabled",
        regarding=EventRegarding(**regarding, resource_version="7"),
        note="Nodes only ready in 1 zone",
        type="Warning",
    )


def test_names_differ_in_one_moment_and_from_those_of_another_replica_also_where_the_clock_is_set_back() -> None:
    clock, names = Clock(), set[str]()
    recorders = [a_recorder(instance=instance, now=clock) for instance in ("zoneward-0", "zoneward-1")]
    for index in range(10):
        for recorder in recorders:
            names.add(recorded(recorder, ServiceEvent("Warning", DISABLED, str(index))).metadata.name)
        clock.after(timedelta(seconds=-1))
    assert len(names) == 20


def test_an_event_of_an_object_with_the_longest_name_has_a_name_that_an_api_server_accepts() -> None:
    for name in ("p" * 253, "p" * 235 + ".-" * 5 + "p"):
        service = replace(CART, metadata=replace(CART.metadata, name=name))
        event = recorded(a_recorder(now=Clock()), service=service).metadata.name
        assert len(event) <= 253
        assert re.fullmatch(r"p+\.[0-9a-f]+", event)


def is_new(event: Event, first: Event) -> bool:
    return event.series is None and event.metadata.name != first.metadata.name


def test_the_same_again_within_a_while_is_a_series_of_the_first_and_later_a_new_event() -> None:
    clock = Clock()
    recorder = a_recorder(now=clock)
    first = recorded(recorder)
    for count in (2, 3):
        clock.after(SERIES_TIMEOUT)
        again = recorded(recorder)
        assert again.metadata == first.metadata
        at = f"2026-11-21T12:{6 * (count - 1):02}:00.000000Z"
        assert again.series == EventSeries(count=count, last_observed_time=at)
    clock.after(SERIES_TIMEOUT + timedelta(microseconds=1))
    assert is_new(recorded(recorder), first)


OTHER = Service(metadata=ObjectMeta(name="cart", namespace="shop", uid="u-2"))


def test_what_differs_is_no_series() -> None:
    for event, service in ((ON, CART), (ServiceEvent("Warning", DISABLED, "other"), CART), (OFF, OTHER)):
        recorder = a_recorder(now=Clock())
        first = recorded(recorder)
        assert is_new(recorded(recorder, event, service), first)


def test_a_series_whose_event_is_gone_goes_on_in_a_new_one() -> None:
    recorder = a_recorder(now=Clock())
    first = recorded(recorder)
    fresh = recorder.renewed(recorded(recorder))
    assert is_new(fresh, first)
    again = recorded(recorder)
    assert (again.metadata.name, again.series and again.series.count) == (fresh.metadata.name, 2)


def test_a_service_that_changes_without_end_is_told_of_so_often_and_others_are_not_held_back() -> None:
    clock = Clock()
    recorder = a_recorder(now=clock)
    recorded = [recorder.record(CART, (ON, OFF)[index % 2]) for index in range(BURST + 5)]
    assert [event is not None for event in recorded] == [True] * BURST + [False] * 5
    assert recorder.dropped == 5
    assert recorder.record(OTHER, ON) is not None
    clock.after(REFILL)
    assert recorder.record(CART, ON) is not None
    assert recorder.record(CART, OFF) is None


def test_nothing_is_remembered_of_what_was_told_long_ago() -> None:
    clock = Clock()
    recorder = a_recorder(now=clock)
    for index in range(100):
        recorded(recorder, OFF, Service(metadata=ObjectMeta(name="cart", namespace="shop", uid=str(index))))
    clock.after(BURST * REFILL)
    recorded(recorder)
    assert len(recorder) == 2


def test_a_long_note_is_cut_between_characters() -> None:
    for text, short in (("a" * 1024, "a" * 1024), ("a" * 1025, "a" * 1021 + "…"), ("ä" * 513, "ä" * 510 + "…")):
        assert truncated(text, 1024) == short
