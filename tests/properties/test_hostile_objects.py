"""Objects with hostile fields, through lists, watches, caches, plans and what a node serves, beside a good one."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from random import Random
from typing import Any

import msgspec
import pytest
from tests.properties.hostile_objects import KINDS, Object, an_object, hostile, written

from zoneward.advice.decisions import decisions_document
from zoneward.client.informers import WatchedStores
from zoneward.client.reflector import Reflector, ServerFeatures
from zoneward.client.resources import CACHED_RESOURCES, LEASES, AnyWatchedResource
from zoneward.client.writer import Writer
from zoneward.controller.context import ControllerContext
from zoneward.controller.controller_configuration import Mode
from zoneward.controller.endpointslice_controller import EndpointSliceController
from zoneward.kube.objects import ObjectKey
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.model.node_cache import NodeCache
from zoneward.proxy.model.node_service import NodeService
from zoneward.proxy.proxy_configuration import ProxyConfiguration, ruleset_options
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.proxy.ruleset.ruleset_state import full_ruleset
from zoneward.routing.configuration import Configuration, FeatureGates
from zoneward.slices.plan import ServicePlan

pytestmark = pytest.mark.slow

GOOD: ObjectKey = ("default", "good")
LISTED, CHANGED, LAST = 100, 200_000, 900_000
_VERSION = "the version"


class Server:
    """Lists and watches, written down."""

    def __init__(self, pages: Mapping[str, bytes], events: Mapping[str, Sequence[bytes]]) -> None:
        self._pages, self._events = pages, events
        self.asked: list[str] = []

    async def get(self, path: str, query: Mapping[str, str] = {}, *, timeout: float | None = None) -> bytes:  # noqa: ARG002
        self.asked.append(path)
        return self._pages[path.rpartition("/")[2]]

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], *, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:  # noqa: ARG002
        async def lines() -> AsyncIterator[bytes]:
            for line in self._events[path.rpartition("/")[2]]:
                yield line
            await asyncio.Event().wait()

        yield lines()

    async def send(self, *_: Any, **__: Any) -> bytes:
        raise AssertionError("nothing is written")


def encoded(document: Object) -> bytes:
    metadata = document.get("metadata")
    assert isinstance(metadata, dict)
    return written(document | {"metadata": metadata | {"resourceVersion": _VERSION}})


def at(document: bytes, version: int) -> bytes:
    return document.replace(f'"{_VERSION}"'.encode(), f'"{version}"'.encode())


def server_with(plural: str, bad: Sequence[bytes]) -> Server:
    """They are listed, and change to the same again."""
    pages, events = {}, {}
    for index, resource in enumerate((*CACHED_RESOURCES, LEASES)):
        items = [at(encoded(an_object(resource.plural, GOOD[1])), 10 + index)]
        changes: list[bytes] = []
        if resource.plural == plural:
            items += [at(body, LISTED + position) for position, body in enumerate(bad)]
            changes = [
                b'{"type":"MODIFIED","object":%b}' % at(body, CHANGED + position) for position, body in enumerate(bad)
            ]
        mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(LAST)}}}
        head = b'{"metadata":{"resourceVersion":"%d"},"items":[' % (CHANGED - 1)
        pages[resource.plural] = head + b",".join(items) + b"]}"
        events[resource.plural] = [*changes, written(mark)]
    return Server(pages, events)


async def follow(server: Server, cache: WatchedStores, resources: Sequence[AnyWatchedResource]) -> None:

    def trouble(error: Exception) -> None:
        raise error

    heard = {resource.plural: asyncio.Event() for resource in resources}

    def reflector(resource: AnyWatchedResource) -> Any:
        return Reflector(
            server,
            resource,
            cache.store(resource),
            features=ServerFeatures(streams_lists=False),
            on_error=trouble,
            on_version=lambda version: heard[resource.plural].set() if version == LAST else None,
        )

    tasks = [asyncio.create_task(reflector(resource).run()) for resource in resources]
    all_heard = asyncio.create_task(asyncio.wait_for(asyncio.gather(*(event.wait() for event in heard.values())), 60))
    try:
        done, _ = await asyncio.wait([all_heard, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (all_heard, *tasks):
            task.cancel()
        await asyncio.gather(all_heard, *tasks, return_exceptions=True)
    assert len(server.asked) == len(resources), "a list again"


@cache
def hostile_sets(plural: str) -> list[list[Object]]:
    every = list(hostile(plural))
    return [every[start : start + 500] for start in range(0, len(every), 500)] + [
        list(hostile(plural, numbers=Random(plural), count=500))
    ]


@cache
def encoded_sets(plural: str) -> list[list[bytes]]:
    return [[encoded(document) for document in bad] for bad in hostile_sets(plural)]


async def controlled(plural: str, bad: Sequence[bytes]) -> None:
    server = server_with(plural, bad)
    controller = EndpointSliceController(
        ControllerContext(connection=server, configuration=Configuration(), mode=Mode.TAKE_OVER, writer=Writer(server))
    )
    await follow(server, controller.cache, CACHED_RESOURCES)
    plans = [plan for service in controller.cache.services if (plan := controller.decision(*name(service))) is not None]
    for plan in plans:
        msgspec.json.encode(decisions_document([plan]))
        msgspec.json.encode([(family.changes.create, family.changes.update) for family in plan.families])
    assert listed(plans) == ["10.1.0.8"]


def name(service: Any) -> ObjectKey:
    return service.metadata.namespace, service.metadata.name


def listed(plans: Sequence[ServicePlan]) -> list[str]:
    (plan,) = (plan for plan in plans if name(plan.service) == GOOD)
    return [
        address
        for family in plan.families
        for slice_ in family.changes.after
        for endpoint in slice_.endpoints or ()
        for address in endpoint.addresses or ()
        if endpoint.target_ref is not None and endpoint.target_ref.name == "good-p"
    ]


async def proxied(plural: str, bad: Sequence[bytes]) -> None:
    server = server_with(plural, bad)
    known = NodeCache("good", zone="a", gates=FeatureGates())
    await follow(server, known, known.resources)
    node_services: dict[Family, dict[ObjectKey, NodeService]] = {family: {} for family in FAMILIES}
    for key in list(known.service_keys()):
        for family, served in known.node_services(key).items():
            node_services[family][key] = served
    assert [endpoint.address for endpoint in node_services["ip"][GOOD].ports[0].cluster_endpoints] == ["10.1.0.9"]
    for node in known.nodes:
        ruleset_options(ProxyConfiguration(), node)
    for family in FAMILIES:
        full_ruleset(family, node_services[family], options=RulesetOptions())


@pytest.mark.parametrize("plural", KINDS)
def test_a_hostile_object_keeps_no_other_from_being_planned(plural: str) -> None:
    for bad in encoded_sets(plural):
        asyncio.run(controlled(plural, bad))


@pytest.mark.parametrize("plural", [kind for kind in KINDS if kind != "pods"])
def test_a_hostile_object_keeps_no_other_from_being_served(plural: str) -> None:
    for bad in encoded_sets(plural):
        asyncio.run(proxied(plural, bad))
