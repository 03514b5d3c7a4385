"""The reporter counts and logs what happens to a proxy, and writes Events for the Services concerned."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace
from tests.client.a_writer import A_SERVICE, NAMESPACE, Object, a_writer
from tests.controller.lines import Lines
from tests.patience import PATIENCE
from tests.proxy.background import in_background

from zoneward.client.writer import Writer
from zoneward.daemon.metrics import counter_total, histogram_totals
from zoneward.kube.objects import ObjectMeta, Service
from zoneward.proxy.proxy_metrics import ProxyMetrics
from zoneward.proxy.proxy_reporter import (
    ADDRESS_CONTESTED,
    CONTROLLER,
    MOST_WAITING,
    NOT_PROGRAMMED,
    PER_MINUTE,
    QUIET,
    ProxyEventRecorder,
    ProxyReporter,
)
from zoneward.proxy.ruleset.service_rules import ServiceTooLarge
from zoneward.sandbox.server.resource_registry import Registry


class Scene:
    """A reporter, with its metrics, Events and log lines."""

    def __init__(self) -> None:
        self.metrics, self.events, self.log = ProxyMetrics(), list[tuple[str, str, str]](), Lines()
        self.reporter = ProxyReporter(
            self.metrics,
            log=self.log,
            recorder=self,  # type: ignore[arg-type]
            service=lambda key: Service(metadata=ObjectMeta(namespace=key[0], name=key[1])),
            said=str,
        )

    def record(self, service: Service, reason: str, note: str) -> None:
        self.events.append((service.metadata.name, reason, note))


def test_transactions_are_counted_and_timed() -> None:
    scene = Scene()
    scene.reporter.transaction_committed("ip6", elements=3, seconds=0.5)
    scene.reporter.service_synced(2.0)
    scene.reporter.endpoints_programmed(4.0)
    metrics = scene.metrics
    assert counter_total(metrics.transactions["ip6"]) == 1
    assert counter_total(metrics.changed_elements["ip6"]) == 3
    durations = (metrics.transaction_duration, metrics.sync_duration, metrics.programming_duration)
    assert [histogram_totals(duration) for duration in durations] == [(1, 0.5), (1, 2.0), (1, 4.0)]


def test_a_service_that_is_too_large_is_counted_logged_and_reported() -> None:
    scene = Scene()
    scene.reporter.service_too_large(("shop", "cart"), ServiceTooLarge("ip6", 300_000, 250_000))
    assert {family: counter_total(counter) for family, counter in scene.metrics.refusals.items()} == {"ip": 0, "ip6": 1}
    ((name, reason, note),) = scene.events
    assert (name, reason) == ("cart", "ServiceNotProgrammed")
    assert "300,000 entries in IPv6, expected at most 250,000 (--max-service-entries)" in note
    ((event, fields),) = scene.log.lines
    assert (event, fields["service"]) == ("failed to program a Service", "shop/cart")


def test_a_service_that_exceeds_a_budget_is_logged_and_reported() -> None:
    scene = Scene()
    scene.reporter.service_set_aside(("shop", "cart"), "older Services come first")
    assert scene.events == [("cart", "ServiceNotProgrammed", "older Services come first")]
    ((event, fields),) = scene.log.lines
    assert (event, fields["service"]) == ("a Service is not programmed", "shop/cart")


def test_conflicts_and_omitted_values_are_logged_and_reported_until_they_are_resolved() -> None:
    scene, cart = Scene(), ("shop", "cart")
    scene.reporter.addresses_contested("ip", cart, ("10.96.0.10 of kube-system/kube-dns", "2 more"))
    scene.reporter.values_left_out(cart, ("external IP 127.0.0.1 is loopback", "endpoint 'x' is no IPv4 address"))
    scene.reporter.addresses_contested("ip", cart, ())
    scene.reporter.values_left_out(cart, ())
    contested = "conflict, owned by other Services: 10.96.0.10 of kube-system/kube-dns, 2 more"
    left_out = "not programmed: external IP 127.0.0.1 is loopback; endpoint 'x' is no IPv4 address"
    assert scene.events == [
        ("cart", "ServiceAddressContested", contested),
        ("cart", "ServicePartlyProgrammed", left_out),
    ]
    assert scene.log.events == ["conflict: addresses belong to other Services", "ignoring invalid values of a Service"]


def test_an_invalid_node_address_is_logged_in_one_line() -> None:
    scene = Scene()
    scene.reporter.node_address_left_out("192.168.77.1 }\nadd table inet X")
    ((_, fields),) = scene.log.lines
    assert fields["address"] == r"'192.168.77.1 }\nadd table inet X'"


# --- Events, at a rate that suits many nodes --------------------------------------------------------------------------

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class RecorderScene:
    """A recorder with a clock that only its pauses advance."""

    def __init__(self, writer: Writer, registry: Registry) -> None:
        self.registry, self.log, self.seconds, self.pauses = registry, Lines(), 1000.0, list[float]()
        self.recorder = ProxyEventRecorder(
            writer,
            node="n1",
            log=self.log,
            clock=lambda: self.seconds,
            now=lambda: NOON + timedelta(seconds=self.seconds),
            sleep=self._sleep,
        )

    async def _sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    def events(self) -> list[Object]:
        return [record.object() for _, record in self.registry.store.records(self.registry.kinds["events"])]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                await asyncio.sleep(0.002)


def a_service(index: int = 0) -> Service:
    return replace(A_SERVICE, metadata=replace(A_SERVICE.metadata, name=f"cart-{index}", uid=f"u-{index}"))


@asynccontextmanager
async def a_running_recorder(*faults: str) -> AsyncIterator[RecorderScene]:
    async with a_writer(*faults) as (writer, registry):
        scene = RecorderScene(writer, registry)
        async with in_background(scene.recorder.run()):
            yield scene


async def test_an_event_names_the_service_the_node_and_the_reason() -> None:
    async with a_running_recorder() as scene:
        scene.recorder.record(
            a_service(), NOT_PROGRAMMED, "No buffer space available (add element ip zoneward services)"
        )
        await scene.until(lambda: len(scene.events()) == 1)
        (event,) = scene.events()
        assert (event["type"], event["reason"]) == ("Warning", "ServiceNotProgrammed")
        assert event["message"] == "Node n1: No buffer space available (add element ip zoneward services)"
        assert (event["reportingComponent"], event["reportingInstance"]) == (CONTROLLER, "n1")
        assert CONTROLLER == "zoneward.dev/node-proxy"
        about = event["involvedObject"]
        assert (about["kind"], about["namespace"], about["name"], about["uid"]) == (
            "Service",
            NAMESPACE,
            "cart-0",
            "u-0",
        )


async def test_a_service_gets_one_event_for_each_reason_in_ten_minutes() -> None:
    async with a_running_recorder() as scene:
        for note in ("one", "two"):
            scene.recorder.record(a_service(), NOT_PROGRAMMED, note)
        scene.recorder.record(a_service(), ADDRESS_CONTESTED, "three")
        await scene.until(lambda: len(scene.events()) == 2)
        scene.seconds += QUIET - 60
        scene.recorder.record(a_service(), NOT_PROGRAMMED, "four")
        scene.seconds += 60
        scene.recorder.record(a_service(), NOT_PROGRAMMED, "one")
        await scene.until(lambda: len(scene.events()) == 3)
        assert sorted(event["message"] for event in scene.events()) == [
            "Node n1: one",
            "Node n1: one",
            "Node n1: three",
        ]


async def test_ten_events_are_written_at_once_and_ten_a_minute() -> None:
    async with a_running_recorder() as scene:
        for index in range(MOST_WAITING + 20):
            scene.recorder.record(a_service(index), NOT_PROGRAMMED, "no")
        await scene.until(lambda: len(scene.events()) == MOST_WAITING)
        assert len(scene.pauses) == MOST_WAITING - PER_MINUTE
        assert scene.seconds - 1000 == 60 * (MOST_WAITING - PER_MINUTE) / PER_MINUTE
        # The Events beyond the limit were dropped, and can be recorded later.
        scene.recorder.record(a_service(MOST_WAITING + 1), NOT_PROGRAMMED, "no")
        await scene.until(lambda: len(scene.events()) == MOST_WAITING + 1)


async def test_an_event_that_an_overloaded_server_rejects_is_logged_and_tried_again() -> None:
    async with a_running_recorder("500@0.8") as scene:
        for index in range(6):
            scene.recorder.record(a_service(index), NOT_PROGRAMMED, "no")
        await scene.until(lambda: len(scene.events()) == 6)
        assert set(scene.log.events) == {"an Event could not be written"}


async def test_an_event_that_the_server_refuses_is_logged_and_given_up() -> None:
    async with a_running_recorder() as scene:
        wrong = replace(a_service(), metadata=replace(a_service().metadata, name="No Name"))
        scene.recorder.record(wrong, ADDRESS_CONTESTED, "no")
        scene.recorder.record(a_service(), NOT_PROGRAMMED, "no")
        await scene.until(lambda: len(scene.events()) == 1)
        ((event, fields),) = scene.log.lines
        assert event == "an Event could not be written"
        assert (fields["service"], fields["is_given_up"]) == (f"{NAMESPACE}/No Name", True)


async def test_a_clock_that_is_set_back_needs_no_permission_to_change_events() -> None:
    async with a_running_recorder() as scene:
        scene.recorder.record(a_service(), NOT_PROGRAMMED, "no")
        await scene.until(lambda: len(scene.events()) == 1)
        scene.recorder._recorder._now = lambda: NOON
        scene.seconds += QUIET
        scene.recorder.record(a_service(), NOT_PROGRAMMED, "no")
        await scene.until(lambda: len(scene.events()) == 2)
        assert all("series" not in event or event["series"] is None for event in scene.events())
