"""The controller adopts measured demand on a server: slices and condition say it, also after another replica leads."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from msgspec.structs import force_setattr
from tests.client.a_writer import Object
from tests.client.recording import until
from tests.controller.a_controller import Place, a_place, at_work, fill, settle
from tests.patience import PATIENCE

from zoneward.client.writer import Writer
from zoneward.controller.context import FiguresSource, FiguresUnavailable
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.kube.demand import DemandFigures
from zoneward.kube.names import MEASURED_CONDITION, MEASURED_DEMAND_ANNOTATION, TOPOLOGY_MODE_ANNOTATION
from zoneward.routing.configuration import Configuration, DemandSettings
from zoneward.sandbox.server.resource_registry import Write

OFTEN = Configuration(demand=DemandSettings())
# Below the bounds of the setting: the test does not wait for 10 s.
force_setattr(OFTEN.demand, "refresh", 0.02)


async def skewed(_nodes: Collection[str]) -> DemandFigures:
    return DemandFigures({("default", "cart"): {"a": 7000.0, "b": 2000.0, "c": 1000.0}})


async def away(_nodes: Collection[str]) -> DemandFigures:
    raise FiguresUnavailable("http://prometheus:9090: no connection")


@asynccontextmanager
async def following(sandbox: Place, source: FiguresSource) -> AsyncIterator[None]:
    writer = StatusWriter(Writer(sandbox.link), instance="test")
    async with at_work(sandbox, status_writer=writer, configuration=OFTEN, figures=source) as controller:
        await settle(sandbox, controller)
        assert await writer.wait_until_written(PATIENCE)
        yield


def measured(sandbox: Place) -> tuple[str, str, str] | None:
    result = sandbox.condition(MEASURED_CONDITION)
    return (result["status"], result["reason"], result["message"]) if result else None


def annotation(sandbox: Place) -> str | None:
    text: str | None = sandbox.service_now()["metadata"]["annotations"].get(MEASURED_DEMAND_ANNOTATION)
    return text


def consumed(sandbox: Place) -> Counter[str]:
    hints = (endpoint.hints for slice_ in sandbox.slices() for endpoint in slice_.endpoints or ())
    return Counter(hint.for_zones[0].name for hint in hints if hint is not None and hint.for_zones)


def without_measured_demand(service: Object) -> Object:
    metadata = service["metadata"]
    annotations = {key: value for key, value in metadata["annotations"].items() if key != MEASURED_DEMAND_ANNOTATION}
    return service | {"metadata": metadata | {"annotations": annotations}}


async def test_slices_and_the_condition_follow_the_figures_and_the_next_leader_keeps_them() -> None:
    async with a_place() as sandbox:
        fill(sandbox, annotations={TOPOLOGY_MODE_ANNOTATION: "Auto"})
        async with following(sandbox, FiguresSource(away, 3600)):
            assert consumed(sandbox) == {"a": 3, "b": 3, "c": 3}
            assert measured(sandbox) is None
        async with following(sandbox, FiguresSource(skewed, 3600)):
            await until(lambda: measured(sandbox) is not None and consumed(sandbox)["a"] > 3)
            reported, held = measured(sandbox), consumed(sandbox)
            assert reported is not None
            assert reported[:2] == ("True", "Measured")
            assert reported[2].startswith("a=0.6")
            assert annotation(sandbox) == reported[2]
            assert held == {"a": 5, "b": 2, "c": 2}
        version = sandbox.registry.store.version
        async with following(sandbox, FiguresSource(away, 3600)):
            await asyncio.sleep(0.2)
            assert (measured(sandbox), consumed(sandbox)) == (reported, held)
        assert sandbox.registry.store.version == version
        # As earlier versions wrote it, the condition alone restores nothing.
        sandbox.registry.update(sandbox.registry.kinds["services"], "default", "cart", without_measured_demand, Write())
        async with following(sandbox, FiguresSource(away, 3600)):
            await until(lambda: measured(sandbox) is None and consumed(sandbox) == {"a": 3, "b": 3, "c": 3})
        async with following(sandbox, FiguresSource(skewed, 3600)):
            await until(lambda: annotation(sandbox) == reported[2] and consumed(sandbox) == held)


async def test_upstream_ignores_measured_demand() -> None:
    async with a_place() as sandbox:
        fill(sandbox, annotations={TOPOLOGY_MODE_ANNOTATION: "Auto"})
        async with at_work(
            sandbox, configuration=OFTEN.as_upstream(), figures=FiguresSource(skewed, 3600)
        ) as controller:
            await settle(sandbox, controller)
            assert consumed(sandbox) == {"a": 3, "b": 3, "c": 3}
