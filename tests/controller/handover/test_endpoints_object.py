"""Endpoints of adopted Services beside a running controller."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.client.recording import until
from tests.controller.a_controller import PODS, Place, a_place, addresses, at_work, fill, settle
from tests.controller.lines import Lines

from zoneward.client.api_errors import api_error
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.controller.handover import endpoints_object as keeping_endpoints
from zoneward.controller.handover.endpoints_object import updated_endpoints
from zoneward.controller.handover.service_handover import ReadWriteConnection
from zoneward.controller.mode import Mode
from zoneward.controller.queue.batching import Batching
from zoneward.kube.adoption_marks import ENDPOINTS_ANNOTATION, SELECTOR_ANNOTATION
from zoneward.kube.names import TRIGGER_TIME_ANNOTATION

Object = dict[str, Any]
MARKS = {SELECTOR_ANNOTATION: '{"app": "cart"}', ENDPOINTS_ANNOTATION: "keep"}
PATH = "/api/v1/namespaces/default/endpoints"


@dataclass
class EndpointsLink:
    """A connection that notes what is asked about Endpoints. ``refuses``: the status of answers to writes."""

    link: ReadWriteConnection
    place: Place
    calls: list[str] = field(default_factory=list)
    refuses: int | None = None

    def stream(
        self, path: str, query: Mapping[str, str], *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.link.stream(path, query, idle=idle)

    async def get(self, path: str, query: Mapping[str, str] = {}, *, timeout: float | None = None) -> bytes:
        self._note("GET", path)
        return await self.link.get(path, query, timeout=timeout)

    async def send(self, method: str, path: str, body: bytes, **options: Any) -> bytes:
        if self._note(method, path) and self.refuses is not None:
            raise api_error(self.refuses, b'{"kind": "Status"}')
        return await self.link.send(method, path, body, **options)

    def _note(self, method: str, path: str) -> bool:
        is_about_endpoints = path.startswith(PATH)
        if is_about_endpoints:
            self.calls.append(method)
        return is_about_endpoints

    @property
    def objects(self) -> dict[str, Object]:
        return {each["metadata"]["name"]: each for each in self.place.objects("endpoints")}

    def listed(self, name: str = "cart") -> tuple[set[str], set[str]]:
        """Addresses that are ready, and that are not."""
        subsets = self.objects.get(name, {}).get("subsets") or ()
        ready, unready = (
            {one["ip"] for each in subsets for one in each.get(key) or ()} for key in ("addresses", "notReadyAddresses")
        )
        return ready, unready


@pytest.fixture(autouse=True)
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping_endpoints, "BATCHING", Batching(period=0.05))


@asynccontextmanager
async def kept(
    mode: Mode = Mode.ONLY_MARKED, **options: Any
) -> AsyncIterator[tuple[Place, EndpointsLink, EndpointSliceController]]:
    async with a_place() as place:
        place.link = server = EndpointsLink(place.link, place)
        fill(place, selector=None, annotations=MARKS)
        async with at_work(place, mode=mode, batching=Batching(), **options) as controller:
            yield place, server, controller


async def test_endpoints_follow_pods_at_the_cost_of_one_write_each() -> None:
    async with kept(Mode.TAKE_OVER) as (place, server, controller):
        # Those of a Service with a selector are the built-in controller's, which goes on with them.
        place.service("other")
        await settle(place, controller)
        assert set(server.objects) == {"cart"}
        assert server.listed() == (addresses(*range(PODS)), set())
        assert server.calls == ["GET", "POST"]
        (service,) = (each for each in place.objects("services") if each["metadata"]["name"] == "cart")
        since = server.objects["cart"]["metadata"]["annotations"][TRIGGER_TIME_ANNOTATION]
        assert since == service["metadata"]["creationTimestamp"]
        place.make_ready(1, False)
        await settle(place, controller)
        assert server.listed() == (addresses(0, *range(2, PODS)), addresses(1))
        # What changes no endpoint costs nothing.
        place.annotate("cart", MARKS | {"note": "b"})
        await settle(place, controller)
        assert server.calls == ["GET", "POST", "PUT"]
        # With the Service it goes.
        place.store.delete(place.registry.kinds["services"], "default", "cart")
        await settle(place, controller)
        assert server.objects == {}


async def test_who_writes_them_meanwhile_is_not_overwritten_unseen() -> None:
    async with kept() as (place, server, controller):
        await settle(place, controller)
        note = {"annotations": {"note": "b"}}
        place.change("endpoints", "default", "cart", lambda old: old | {"metadata": old["metadata"] | note})
        server.calls.clear()
        place.make_ready(1, False)
        await until(lambda: server.listed()[1] == addresses(1))
        await settle(place, controller)
        assert server.calls == ["PUT", "GET", "PUT"]
        assert server.objects["cart"]["metadata"]["annotations"]["note"] == "b"
        place.store.delete(place.registry.kinds["endpoints"], "default", "cart")
        place.make_ready(1, True)
        await until(lambda: server.listed() == (addresses(*range(PODS)), set()))


async def test_a_right_that_is_missing_holds_up_no_slice() -> None:
    async with kept() as (place, server, controller):
        await settle(place, controller)
        server.refuses = 403
        for ready in (False, True, False):
            place.make_ready(1, ready)
            await until(lambda ready=ready: (addresses(1) <= place.listed()) == ready)  # type: ignore[misc]
        server.refuses = None
        await until(lambda: server.listed()[1] == addresses(1))
        await settle(place, controller)


async def test_nothing_is_read_or_written_on_standby() -> None:
    leading = asyncio.Event()
    async with kept(leading=leading) as (place, server, controller):
        await controller.cache.synced.wait()
        await asyncio.sleep(0.1)
        assert server.calls == []
        leading.set()
        await settle(place, controller)
        leading.clear()
        controller.stepped_down()
        place.make_ready(1, False)
        await asyncio.sleep(0.1)
        assert server.calls == ["GET", "POST"]
        leading.set()
        await settle(place, controller)
        assert server.calls == ["GET", "POST", "GET", "PUT"]


async def test_a_mistake_in_the_program_is_told_once_and_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = True

    def breaking(*given: Any, **options: Any) -> Any:
        if broken:
            raise RuntimeError("a bug")
        return updated_endpoints(*given, **options)

    log = Lines()
    monkeypatch.setattr(keeping_endpoints, "updated_endpoints", breaking)
    async with kept(log=log) as (_, server, _):
        await until(lambda: len(server.calls) > 2)
        broken = False
        await until(lambda: server.listed() == (addresses(*range(PODS)), set()))
    ((_, fields),) = [(event, each) for event, each in log.told if "Endpoints" in event]
    assert fields["error"] == "RuntimeError: a bug"
