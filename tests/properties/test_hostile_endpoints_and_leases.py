"""Endpoints and Leases with hostile fields, where the controller reads them: none ends a worker or holds others up."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, cast

import msgspec
import pytest
from tests.controller.lines import Lines
from tests.properties.hostile_objects import Object, Raw, an_adopted_service, an_object, changed, hostile, written
from tests.properties.test_hostile_objects import GOOD, encoded, follow, hostile_sets, server_with

from zoneward.client.api_errors import ApiError, CallFailed, api_error
from zoneward.client.informer_cache import InformerCache
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.object_store import ObjectStore
from zoneward.client.resources import ENDPOINTS, LEASES, LiveNode, LivePod, WatchedResource, WatchedT
from zoneward.client.writer import Writer
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.handover import endpoints_object as keeping_endpoints
from zoneward.controller.handover.endpoints_object import EndpointsObjectWriter
from zoneward.controller.handover.service_handover import ServiceHandover
from zoneward.controller.leader_elector import LeaderElector, always_leading
from zoneward.controller.queue.work_queue import Batching
from zoneward.controller.status.node_proxies import NodeProxies
from zoneward.kube.leases import ProgrammedReport
from zoneward.kube.objects import Lease, Service
from zoneward.routing.configuration import Configuration

pytestmark = pytest.mark.slow

NAMESPACE = GOOD[0]
_NUMBERS = {"leaseDurationSeconds": range(1, 2**31), "leaseTransitions": range(2**31)}
"""What an API server takes in a Lease."""


class Kept:
    """A server that has these objects, by name, and takes what it would take of us."""

    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        self.bodies = dict(bodies)
        self.read: set[str] = set()
        self.wrote: dict[str, Object] = {}

    async def get(self, path: str, query: Mapping[str, str] = {}, *, timeout: float | None = None) -> bytes:  # noqa: ARG002
        plural, name = path.split("/")[-2:]
        if name == "endpointslices":
            return b'{"items":[]}'
        if plural == "services":
            return written(an_adopted_service(name))
        self.read.add(name)
        if name not in self.bodies:
            raise _error(404)
        return self.bodies[name]

    async def send(self, method: str, path: str, body: bytes, **_: Any) -> bytes:  # noqa: ARG002
        document = msgspec.json.decode(body)
        for field, valid in _NUMBERS.items():
            if (value := document.get("spec", {}).get(field)) is not None and value not in valid:
                raise _error(422)
        self.wrote[document["metadata"]["name"]] = document
        document["metadata"]["resourceVersion"] = "8"
        answer = msgspec.json.encode(document)
        self.bodies[document["metadata"]["name"]] = answer
        return answer

    def stream(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("nothing is watched")


def _error(status: int) -> ApiError:
    return api_error(status, msgspec.json.encode({"kind": "Status"}))


def name(document: Object) -> str:
    return cast(str, cast(Object, document["metadata"])["name"])


def a_cache(names: Iterable[str]) -> InformerCache:
    cache = InformerCache()
    cache.nodes.put(msgspec.convert(an_object("nodes", "n1"), LiveNode))
    for name in names:
        pod = an_object("pods", name)
        pod["spec"]["nodeName"] = "n1"
        cache.pods.put(msgspec.convert(pod, LivePod))
        cache.services.put(msgspec.convert(an_adopted_service(name), Service))
    return cache


async def keep(bad: Iterable[Object]) -> None:
    server, log = Kept({name(document): written(document) for document in bad}), Lines()
    every = {*server.bodies, GOOD[1]}
    keeper = EndpointsObjectWriter(
        a_cache(every), Writer(server), leading=always_leading(), metrics=ControllerMetrics(), log=log
    )
    for service_name in sorted(every):
        keeper.add((NAMESPACE, service_name))
    task = asyncio.create_task(keeper.run())
    try:
        async with asyncio.timeout(60):
            while not (server.read >= every and GOOD[1] in server.wrote):
                assert not task.done()
                await asyncio.sleep(0)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not [line for line in log.lines if "mistake" in line[0]]


@pytest.fixture(autouse=True)
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping_endpoints, "BATCHING", Batching())


def test_hostile_endpoints_of_a_service_keep_no_other_endpoints_from_being_written() -> None:
    for bad in hostile_sets(ENDPOINTS.plural):
        asyncio.run(keep(bad))


def test_a_release_beside_hostile_endpoints_goes_on_or_fails_as_a_call_does() -> None:
    async def look() -> None:
        for document in hostile(ENDPOINTS.plural):
            server = Kept({name(document): written(document)})
            key = NAMESPACE, name(document)
            adopting = ServiceHandover(server, key, configuration=Configuration(), report=lambda _line: None)
            with suppress(CallFailed):
                await adopting.read_state(needs_plan=lambda _service: False)
            assert name(document) in server.read

    asyncio.run(look())


class Enough(Exception):  # noqa: N818 -- it ends what has no end
    pass


async def elect(bad: Object) -> None:
    """Run an elector beside a hostile Lease, which is repaired after 40 s if there is no leader by then."""
    server, seconds = Kept({name(bad): written(bad)}), 0.0
    elector: LeaderElector

    async def sleep(_seconds: float) -> None:
        nonlocal seconds
        seconds += 8.0  # Each attempt parses the Lease: fewer of them make the test cheap.
        if seconds == 40 and not elector.is_leader:
            mended = an_object("leases", name(bad))
            server.bodies[name(bad)] = written(mended | {"spec": {"holderIdentity": "", "renewTime": "now"}})
        if elector.is_leader:
            raise Enough
        assert seconds < 120, f"nobody leads: {bad}"

    elector = LeaderElector(
        server, key=(NAMESPACE, name(bad)), identity="us", clock=lambda: seconds, sleep=sleep, chance=lambda: 0.5
    )
    with pytest.raises(Enough):
        await elector.run()
    await elector.release()


def test_a_hostile_lease_ends_no_candidate_and_once_it_is_mended_somebody_leads() -> None:
    async def run() -> None:
        endless = changed(an_object(LEASES.plural, "bad"), ("spec", "leaseDurationSeconds"), Raw("9" * 400))
        for bad in ([endless], *hostile_sets(LEASES.plural)):
            for lease in bad:
                await elect(lease)

    asyncio.run(run())


class Leases:
    def __init__(self) -> None:
        self.unreadable: list[UnreadableObject] = []
        self.proxies = NodeProxies(has_node=lambda _name: True, clock=lambda: 0.0, on_unreadable=self.unreadable.append)

    @property
    def resources(self) -> tuple[WatchedResource[Lease]]:
        return (LEASES,)

    def store(self, _resource: WatchedResource[WatchedT]) -> ObjectStore[WatchedT]:
        return cast(ObjectStore[WatchedT], self.proxies.leases)


def test_a_hostile_lease_of_a_node_hides_no_other_and_is_told_where_it_cannot_be_read() -> None:
    async def run(bad: list[Object]) -> Leases:
        leases = Leases()
        await follow(server_with(LEASES.plural, [encoded(lease) for lease in bad]), cast(Any, leases), leases.resources)
        seen = leases.proxies.groups()
        assert seen[""].nodes[GOOD[1]] == ProgrammedReport(10, 20, (("default", "x"), ("default", "y")))
        for group in seen.values():
            group.behind(GOOD, 10, 20)
        assert {lease.key for lease in leases.unreadable} == leases.proxies.leases.unreadable.keys()
        return leases

    assert any(asyncio.run(run(bad)).unreadable for bad in hostile_sets(LEASES.plural))
