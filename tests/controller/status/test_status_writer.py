"""What is reported of Services arrives at an API server once and in order, beside writes of other clients."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.client.a_writer import A_SERVICE, NAMESPACE, Object, a_writer
from tests.client.recording import until
from tests.controller.a_controller import LIMIT
from tests.controller.lines import Lines
from tests.sandbox.server.local_client import LocalClient

from zoneward.client.api_errors import CallFailed
from zoneward.client.backoff import Backoff
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.resources import PODS, SERVICES
from zoneward.client.writer import Writer, encode_object
from zoneward.controller.queue.work_queue import RequeueDelay
from zoneward.controller.status import status_writer as telling
from zoneward.controller.status.status_writer import (
    MAX_WAITING_EVENTS,
    StatusWriter,
    StatusWriteRate,
    annotated,
    own_conditions,
    status_patch,
)
from zoneward.daemon.event_recorder import BURST
from zoneward.kube.names import ACCEPTED_CONDITION, PROGRAMMED_CONDITION
from zoneward.kube.objects import (
    Condition,
    ObjectKey,
    ObjectMeta,
    Service,
    ServiceEvent,
)
from zoneward.routing.service_events import DISABLED, ENABLED
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.resource_registry import Registry, Write
from zoneward.sandbox.server.versioned_store import StoredChange

KEY = (NAMESPACE, "shop")
BALANCED = replace(A_SERVICE, spec=replace(A_SERVICE.spec, type="LoadBalancer"))
ACCEPTED = Condition(type=ACCEPTED_CONDITION, status="True", reason="Accepted", message="")
OTHER = Condition(type="their.org/Thing", status="True")


def programmed(message: str, *, status: str = "True", reason: str = "Enabled") -> tuple[Condition, ...]:
    programmed = Condition(type=PROGRAMMED_CONDITION, status=status, reason=reason, message=message)
    return ACCEPTED, annotated(programmed, "Hints/ProportionalZoneCPU")


ON = programmed("Hints/Auto: 6 endpoints")
OFF = programmed("Hints/Auto: 1 zone", status="False", reason="OneZone")
TURNED_ON = (ServiceEvent("Normal", ENABLED, "Topology Aware Routing has been enabled"),)
TURNED_OFF = (ServiceEvent("Warning", DISABLED, "Nodes only ready in 1 zone"),)
STAMP = "2026-01-01T00:00:00Z"
THEIRS = {"type": "their.org/Thing", "status": "True", "lastTransitionTime": STAMP, "reason": "Foreign", "message": ""}
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
QUICK = RequeueDelay(backoff=Backoff(initial=0.01, cap=0.05, jitter=0.5), with_news=0.01)


class Scene:
    """A status writer with two workers and a Service at a sandbox."""

    def __init__(self, writer: Writer, registry: Registry, **options: Any) -> None:
        self.writer, self.registry, self.noon = writer, registry, NOON
        self.troubles: list[tuple[ObjectKey, CallFailed]] = []
        self.log = Lines()
        self.writes: list[str] = []
        """The words of the second condition after each write of the Service."""
        registry.store.listeners.append(self._note)
        given: dict[str, Any] = {
            "back_off": QUICK,
            "rate": StatusWriteRate(per_second=1e4),
            "on_error": lambda key, error: self.troubles.append((key, error)),
            "now": lambda: self.noon,
            "log": self.log,
        }
        self.status_writer = StatusWriter(writer, instance="zoneward-0", **given | options)

    async def service(self) -> Service:
        return await self.writer.read(SERVICES, namespace=NAMESPACE, name="shop")

    async def tell(self, conditions: tuple[Condition, ...], events: tuple[ServiceEvent, ...] = ()) -> None:
        """As a cache that is current would have it, and all of it."""
        self.status_writer.report(await self.service(), conditions=conditions, events=events)
        assert await self.status_writer.wait_until_written(LIMIT)

    def _note(self, kind: Kind, change: StoredChange) -> None:
        if kind.resource == "services" and change.new is not None:
            conditions = change.new.object()["status"].get("conditions") or ()
            self.writes += [
                condition["message"] for condition in conditions if condition["type"] == PROGRAMMED_CONDITION
            ]

    def stored(self) -> Object:
        return self.registry.get(self.registry.kinds["services"], *KEY)

    def conditions(self) -> dict[str, tuple[str, str, str]]:
        """Status, reason and time by type."""
        result = self.stored()["status"].get("conditions") or ()
        return {
            condition["type"]: (condition["status"], condition["reason"], condition["lastTransitionTime"])
            for condition in result
        }

    def events(self) -> list[tuple[str, str, int]]:
        """Reason, note, and how often, as they were made."""
        kind = self.registry.kinds["events"]
        result = [record.object() for _, record in self.registry.store.records(kind)]
        result.sort(key=lambda event: int(event["metadata"]["name"].rpartition(".")[2], 16))
        return [(event["reason"], event["message"], (event.get("series") or {}).get("count", 1)) for event in result]

    def change_status(self, change: Callable[[Object], Object]) -> None:
        """As somebody else does, who replaces all conditions."""
        kind, write = self.registry.kinds["services"], Write(subresource="status")
        self.registry.update(kind, *KEY, lambda old: old | {"status": change(old["status"])}, write)


@asynccontextmanager
async def a_scene(*faults: str, **options: Any) -> AsyncIterator[Scene]:
    may_write = options.pop("may_write", lambda _seconds: True)
    async with a_writer(*faults, may_write=may_write) as (writer, registry):
        LocalClient(registry).create(
            registry.kinds["services"], NAMESPACE, json.loads(encode_object(SERVICES, BALANCED))
        )
        scene = Scene(writer, registry, **options)
        workers = [asyncio.create_task(scene.status_writer.run()) for _ in range(2)]
        try:
            yield scene
            assert scene.log.lines == [], "a mistake in the program"
        finally:
            scene.status_writer.shut_down()
            await asyncio.wait_for(asyncio.gather(*workers), LIMIT)


async def test_events_and_conditions_keep_those_of_other_writers() -> None:
    async with a_scene() as scene:
        ingress = {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}
        scene.change_status(lambda old: old | {"conditions": [THEIRS]})
        await scene.tell(ON, TURNED_ON)
        assert scene.events() == [(ENABLED, "Topology Aware Routing has been enabled", 1)]
        assert scene.conditions() == {
            "their.org/Thing": ("True", "Foreign", STAMP),
            ACCEPTED_CONDITION: ("True", "Accepted", "2026-11-21T12:00:00Z"),
            PROGRAMMED_CONDITION: ("True", "Enabled", "2026-11-21T12:00:00Z"),
        }
        before = scene.stored()
        scene.noon += timedelta(hours=1)
        await scene.tell(ON)
        assert scene.stored() == before, "it is reported already"
        scene.change_status(lambda old: old | {"loadBalancer": ingress})
        # One that is refused is given up, and holds up nothing.
        await scene.tell(OFF, (ServiceEvent("Warning", "", "without a reason"), *TURNED_OFF))
        assert scene.stored()["status"]["loadBalancer"] == ingress
        assert scene.conditions()["their.org/Thing"] == ("True", "Foreign", STAMP)
        # The time of a condition changes only with its status.
        scene.noon += timedelta(hours=1)
        await scene.tell(programmed("Hints/Auto: 2 zones", status="False", reason="Overload"))
        assert scene.conditions()[ACCEPTED_CONDITION] == ("True", "Accepted", "2026-11-21T12:00:00Z")
        assert scene.conditions()[PROGRAMMED_CONDITION] == ("False", "Overload", "2026-11-21T13:00:00Z")
        await scene.tell(())
        assert scene.conditions() == {"their.org/Thing": ("True", "Foreign", STAMP)}
        assert [event[0] for event in scene.events()] == [ENABLED, DISABLED]
        assert [key for key, _ in scene.troubles] == [KEY]


async def test_a_plan_from_a_stale_cache_repeats_no_event() -> None:
    async with a_scene() as scene:
        old = await scene.service()
        assert scene.status_writer.as_reported(old) is old
        scene.status_writer.report(old, conditions=ON, events=TURNED_ON)
        for _ in range(2):
            status = scene.status_writer.as_reported(old).status
            assert status
            assert [(condition.type, condition.status) for condition in status.conditions or ()] == [
                (ACCEPTED_CONDITION, "True"),
                (PROGRAMMED_CONDITION, "True"),
            ]
            scene.status_writer.report(old, conditions=ON)
            assert await scene.status_writer.wait_until_written(LIMIT)
        version = scene.stored()["metadata"]["resourceVersion"]
        scene.status_writer.report(old, conditions=ON)
        assert scene.status_writer.is_idle
        assert scene.stored()["metadata"]["resourceVersion"] == version
        now = await scene.service()
        scene.status_writer.report(now, conditions=ON)
        assert scene.status_writer.as_reported(now) is now, "the Service says it all itself"


async def test_with_network_faults_events_are_written_once_in_order_and_the_last_conditions_win() -> None:
    async with a_scene("latency=1ms-10ms", "conflict@0.2", "lost-answer@0.2", "500@0.2", "503@0.2") as scene:
        service = msgspec.convert(scene.stored(), Service)
        expected = []
        for index in range(6):
            event = ServiceEvent("Warning", DISABLED, f"Insufficient number of Endpoints ({index})")
            scene.status_writer.report(service, conditions=programmed(event.message), events=(event,))
            expected.append((event.reason, event.message, 1))
            await asyncio.sleep(0.01)
        assert await scene.status_writer.wait_until_written(LIMIT)
        assert scene.events() == expected
        assert scene.writes[-1] == expected[-1][1]
        assert scene.troubles


async def test_removed_conditions_are_restored_with_backoff() -> None:
    """Another client replaces the whole status after each change; Zoneward's conditions return ever more seldom."""
    seconds = 1000.0
    async with a_scene(clock=lambda: seconds) as scene:

        async def round_of_both(*, written: bool) -> None:
            """We want our way, and then they."""
            scene.status_writer.report(await scene.service(), conditions=ON)
            if written:
                await until(lambda: len(scene.conditions()) == 2)
                scene.change_status(lambda old: {name: value for name, value in old.items() if name != "conditions"})
            else:
                await scene.status_writer.wait_until_written(0.02)
                assert scene.conditions() == {}
            status = scene.status_writer.as_reported(await scene.service()).status
            assert status
            assert len(status.conditions or ()) == 2, "what was reported is known all the same"

        for written in (True, True, False):
            await round_of_both(written=written)
        for pause in (4, 8, 16):
            seconds += pause - 0.01
            await round_of_both(written=False)
            seconds += 0.01
            await round_of_both(written=True)
            await round_of_both(written=False)
        scene.status_writer.report(await scene.service(), conditions=ON, events=TURNED_ON)
        # Events do not wait for that.
        await until(lambda: [event[0] for event in scene.events()] == [ENABLED])


async def test_the_waiting_events_of_a_service_are_limited() -> None:
    async with a_scene() as scene:
        service = await scene.service()
        for event_index in range(BURST + 5):
            scene.status_writer.report(
                service, conditions=ON, events=(ServiceEvent("Warning", DISABLED, str(event_index)),)
            )
        assert await scene.status_writer.wait_until_written(LIMIT)
        assert [event[1] for event in scene.events()] == [
            str(index) for index in range(BURST - MAX_WAITING_EVENTS, BURST)
        ]


async def test_a_namespace_does_not_delay_others() -> None:
    written: list[str] = []

    class Noting(Writer):
        async def patch(self, *_what: Any, namespace: str, **_options: Any) -> ObjectMeta:
            written.append(namespace)
            return ObjectMeta(resource_version="9")

    async def sleep(_seconds: float) -> None:
        return

    async with a_writer() as (writer, _):
        noting = Noting(writer._transport)
        status_writer = StatusWriter(noting, instance="a", rate=StatusWriteRate(per_second=20, burst=1), sleep=sleep)
        for index in range(100):
            metadata = replace(A_SERVICE.metadata, name=f"s{index}", namespace="flood", uid=f"u{index}")
            status_writer.report(replace(A_SERVICE, metadata=metadata), conditions=ON)
        metadata = replace(A_SERVICE.metadata, name="cart", namespace="other", uid="u")
        status_writer.report(replace(A_SERVICE, metadata=metadata), conditions=ON)
        worker = asyncio.create_task(status_writer.run())
        while len(written) < 20:
            await asyncio.sleep(0)
        status_writer.shut_down()
        await worker
    assert written.index("other") < 10


async def test_nothing_is_remembered_of_unreadable_objects_that_are_reported() -> None:
    async with a_scene() as scene:
        for index in range(3):
            scene.status_writer.report_unreadable(an_unreadable_pod(f"p{index}"))
        assert await scene.status_writer.wait_until_written(LIMIT)
        await until(lambda: not scene.status_writer._services)
        assert [reason for reason, _, _ in scene.events()] == ["ObjectUnreadable"] * 3


def an_unreadable_pod(name: str, *, version: str = "1") -> UnreadableObject:
    return UnreadableObject(resource=PODS, namespace=NAMESPACE, name=name, uid=name, version=version, problem="no Pod")


async def test_the_rate_of_all_writes_is_limited() -> None:
    async with a_scene(rate=StatusWriteRate(per_second=20, burst=5)) as scene:
        service = await scene.service()
        loop = asyncio.get_running_loop()
        start = loop.time()
        events = tuple(ServiceEvent("Warning", DISABLED, str(index)) for index in range(9))
        scene.status_writer.report(service, conditions=ON, events=events)
        assert await scene.status_writer.wait_until_written(LIMIT)
        # Ten writes, of which five are free.
        assert loop.time() - start >= 0.25


async def test_refused_conditions_are_retried_when_they_change_or_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_scene() as scene:
        result = await scene.service()
        # The server refuses to make one Service another.
        wrong = replace(result, metadata=replace(result.metadata, uid="another"))
        for endpoints in range(6):
            scene.status_writer.report(wrong, conditions=programmed(f"Hints/Auto: {endpoints} endpoints"))
            assert await scene.status_writer.wait_until_written(LIMIT)
        scene.status_writer.report(wrong, conditions=ON, events=TURNED_ON)
        assert await scene.status_writer.wait_until_written(LIMIT)
        assert len(scene.troubles) == 1
        assert [event[0] for event in scene.events()] == [ENABLED], "Events do not wait for that"
        monkeypatch.setattr(telling, "LONGEST_PAUSE", 0.05)
        scene.status_writer.report(wrong, conditions=OFF)
        await until(lambda: len(scene.troubles) >= 3 and scene.status_writer.is_idle)


async def test_a_change_of_messages_alone_waits_for_its_period() -> None:
    seconds = 1000.0
    async with a_scene(clock=lambda: seconds) as scene:

        async def report(conditions: tuple[Condition, ...]) -> None:
            scene.status_writer.report(await scene.service(), conditions=conditions)
            await asyncio.sleep(0.005)

        await report(programmed("Hints/Auto: 0 endpoints"))
        await until(lambda: scene.writes == ["Hints/Auto: 0 endpoints"])
        for endpoints in range(1, 5):
            await report(programmed(f"Hints/Auto: {endpoints} endpoints"))
        assert len(scene.writes) == 1
        assert not scene.status_writer.is_idle
        # What waits is not repeated as news.
        reported = own_conditions(scene.status_writer.as_reported(await scene.service()))
        assert reported[1].message == "Hints/Auto: 4 endpoints"
        for conditions in (OFF, ON):
            await report(conditions)
            await until(lambda expected=conditions: scene.writes[-1] == expected[1].message)  # type: ignore[misc]
            # The period counts from the response.
            await until(lambda: scene.status_writer.is_idle)
        seconds += 29.9
        await report(programmed("Hints/Auto: 2 endpoints"))
        assert len(scene.writes) == 3
        # The written text again: nothing is left to write.
        await report(ON)
        await until(lambda: scene.status_writer.is_idle)
        seconds += 0.1
        await report(programmed("Hints/Auto: 3 endpoints"))
        await until(lambda: scene.writes[3:] == ["Hints/Auto: 3 endpoints"])


async def test_an_exception_is_logged_once_and_ends_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = 6

    def breaking(uid: str, wanted: tuple[Condition, ...]) -> dict[str, Any]:
        nonlocal broken
        if broken:
            broken -= 1
            raise RuntimeError("a bug")
        return status_patch(uid, wanted)

    monkeypatch.setattr(telling, "status_patch", breaking)
    async with a_scene() as scene:
        await scene.tell(ON, TURNED_ON)
        assert scene.writes == [ON[1].message]
        ((event, fields),) = scene.log.lines
        assert event == "internal error while writing a condition or Event"
        assert fields["error"] == "RuntimeError: a bug"
        assert str(fields["at"]).startswith("test_status_writer.py:")
        scene.log.lines.clear()
