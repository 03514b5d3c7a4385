"""What must not happen is seen where it happens: otherwise no schedule would ever fail."""

import msgspec
import pytest
from tests.builders.objects import SERVICE_NAME
from tests.controller.model.cluster import NAMESPACE
from tests.controller.model.network import Link, in_virtual_time
from tests.controller.model.schedules import calm
from tests.controller.model.world import World

from zoneward.client.resources import SLICES
from zoneward.client.writer import Writer
from zoneward.kube.objects import EndpointSlice


@pytest.mark.parametrize(
    ("knows", "saw", "leads", "faults"),
    [
        pytest.param(True, True, True, ["takes 10.0."] * 3, id="known-to-be-ready"),
        pytest.param(False, True, True, [], id="not-known-to-be-ready"),
        pytest.param(False, False, True, ["has not seen"], id="not-seen"),
        pytest.param(False, True, False, ["no longer leads"], id="not-leading"),
    ],
)
@in_virtual_time
async def test_what_must_not_happen_when_the_only_slice_of_a_service_is_deleted_is_a_fault(
    knows: bool, saw: bool, leads: bool, faults: list[str]
) -> None:
    """``knows``: whoever does it knows that all Pods are ready; ``saw``: and has seen this version of the slice."""
    world = World(calm())
    world.cluster.write_as_built_in()
    if not leads:
        world.judge.deadlines["ours"] = lambda: -1.0
    (slice_,) = (
        msgspec.convert(each, EndpointSlice)
        for each in world.cluster.slices()
        if each["metadata"]["labels"][SERVICE_NAME] == "cart"
    )
    ready = frozenset(address for each in slice_.endpoints or () for address in each.addresses or ())
    versions = {slice_.metadata.name: int(slice_.metadata.resource_version or 0)}
    world.judge.planned((NAMESPACE, "cart"), ready if knows else frozenset(), versions if saw else {})
    await Writer(Link(world.network, "ours", world.judge)).delete(SLICES, slice_)
    found = world.judge.faults
    assert len(found) == len(faults)
    assert all(words in each for words, each in zip(faults, found, strict=True))
