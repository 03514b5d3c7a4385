"""Hints that an API server drops: written once, reported, and tried again by a dry run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal
from unittest.mock import patch

import pytest
from tests.builders.structs import a_slice, an_endpoint, hints
from tests.client.recording import until
from tests.controller.a_controller import KEPT, Place, a_place, addresses, at_work, fill, settle
from tests.controller.lines import Lines

from zoneward.client.writer import Writer
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.controller.sync.dropped_hints import stored_hints
from zoneward.kube import names
from zoneward.kube.objects import Hints
from zoneward.routing.configuration import Configuration

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
        a_slice("s", an_endpoint(hinted=endpoint_hints), an_endpoint("10.0.0.2")) for endpoint_hints in (sent, stored)
    )
    assert stored_hints(one, other) == expected


@contextmanager
def dropping(sandbox: Place, kind: Literal["hints", "forNodes"]) -> Iterator[set[str]]:
    """The server's feature gate is off: it drops the field of endpoints, or hints for nodes; until the set is empty."""
    dropped_kinds: set[str] = {kind}
    strategy = sandbox.registry.kinds[KEPT].strategy
    create, update = strategy.prepare_create, strategy.prepare_update

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
        patch.object(type(strategy), "prepare_create", staticmethod(prepare_create)),
        patch.object(type(strategy), "prepare_update", staticmethod(prepare_update)),
    ):
        yield dropped_kinds


def programmed(sandbox: Place) -> tuple[str, str]:
    (service,) = (object_ for object_ in sandbox.objects("services") if object_["metadata"]["name"] == "cart")
    conditions = {condition["type"]: condition for condition in service["status"].get("conditions") or ()}
    result = conditions.get(names.PROGRAMMED_CONDITION, {"status": "", "reason": ""})
    return result["status"], result["reason"]


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
