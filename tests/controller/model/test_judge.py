"""What must not happen is seen where it happens: otherwise no schedule would ever fail."""

import msgspec
from tests.builders.objects import SERVICE_NAME
from tests.controller.leader.an_election import in_no_time
from tests.controller.model.cluster import NAMESPACE
from tests.controller.model.network import Link
from tests.controller.model.schedules import made
from tests.controller.model.world import World

from zoneward.client.resources import SLICES
from zoneward.client.writer import Writer
from zoneward.kube.objects import EndpointSlice


def faults_of(*, knows: bool = True, saw: bool = True, leads: bool = True) -> list[str]:
    """Of deleting the only slice of a Service, all of whose Pods are ready.

    ``knows``: whoever does it knows that they are; ``saw``: and has seen this version of the slice.
    """

    async def scene() -> list[str]:
        world = World(made(bytes(8), ()))
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
        return world.judge.faults

    return in_no_time(scene())


def test_to_take_a_ready_endpoint_out_of_the_last_slice_is_a_fault() -> None:
    faults = faults_of()
    assert len(faults) == 3
    assert all("takes 10.0." in each for each in faults)


def test_who_does_not_know_that_an_endpoint_is_ready_may() -> None:
    assert faults_of(knows=False) == []


def test_to_replace_what_was_not_seen_is_a_fault() -> None:
    (fault,) = faults_of(knows=False, saw=False)
    assert "has not seen" in fault


def test_to_write_without_leading_is_a_fault() -> None:
    (fault,) = faults_of(knows=False, leads=False)
    assert "no longer leads" in fault
