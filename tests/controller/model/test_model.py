"""Random schedules: after any changes and failures, the cluster reaches the planned state, and stays in it.

After each schedule, slices list exactly the Pods that exist, a plan would write and report nothing, and nothing is
written, even after all replicas restart. No write of Zoneward ever takes a ready endpoint out of the last slice that
lists it, or leaves from a replica that does not lead.
"""

from collections import Counter
from typing import Final

import msgspec
import pytest
from hypothesis import Phase, given, seed, settings
from tests.builders.objects import SERVICE_NAME
from tests.controller.model.cluster import NAMESPACE
from tests.controller.model.network import Link, in_no_time, in_virtual_time
from tests.controller.model.schedules import Schedule, Step, calm, schedules
from tests.controller.model.world import World
from tests.properties.random_clusters import examples

from zoneward.client.resources import SLICES
from zoneward.client.writer import Writer
from zoneward.kube.objects import EndpointSlice

SCHEDULES: Final = 72
CASES: Final = 6
"""Among which the schedules are split, so that they can run at the same time."""


ONCE_FAILED: Final = {
    # Each as short as it could be made.
    "a-slice-that-was-written-before-a-restart-is-deleted": calm(
        Step("kill", 0, 0, 1.0),
        Step("meddle", 0, 3, 1.0),
    ),
    "a-service-is-replaced-before-all-of-it-is-reported": calm(
        Step("ask", 0, 1, 0.002),
        Step("replace_service", 0, 0, 0.0),
    ),
    "a-service-is-replaced-while-the-one-before-is-reported-in-vain": calm(
        Step("replace_service", 20, 4, 0.0),
        Step("replace_service", 20, 4, 0.0),
    ),
    "what-a-plan-would-have-reported-that-was-not-written": calm(
        Step("ask", 0, 6, 1.0),
        Step("meddle_before_next_write", 3, 9, 0.0),
        Step("node", 0, 4, 0.002),
        Step("node", 0, 0, 1.0),
    ),
}


def play(schedule: Schedule) -> Counter[str]:
    async def scene() -> Counter[str]:
        return await World(schedule).play()

    return in_no_time(scene())


@pytest.mark.parametrize("case", range(CASES))
def test_after_any_schedule_the_slices_are_as_planned(case: int, pytestconfig: pytest.Config) -> None:
    met = Counter[str]()

    # Each case has its own schedules, and other ones with each seed of a search.
    @seed(f"{pytestconfig.getoption('--hypothesis-seed') or 0} {case}")
    @settings(examples(SCHEDULES // CASES), database=None, print_blob=False, phases=(Phase.generate, Phase.shrink))
    @given(schedules())
    def holds(schedule: Schedule) -> None:
        met.update(play(schedule))

    holds()
    assert met["endpointslices by us"] > SCHEDULES // CASES, met


@pytest.mark.parametrize("name", ONCE_FAILED)
def test_past_failures_do_not_return(name: str) -> None:
    play(ONCE_FAILED[name])


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
async def test_the_judge_detects_a_deleted_only_slice(knows: bool, saw: bool, leads: bool, faults: list[str]) -> None:
    """``knows``: the writer knows that all Pods are ready; ``saw``: it has also seen this version of the slice."""
    world = World(calm())
    world.cluster.write_as_built_in()
    if not leads:
        world.judge.deadlines["zoneward"] = lambda: -1.0
    (slice_,) = (
        msgspec.convert(slice_, EndpointSlice)
        for slice_ in world.cluster.slices()
        if slice_["metadata"]["labels"][SERVICE_NAME] == "cart"
    )
    ready = frozenset(address for endpoint in slice_.endpoints or () for address in endpoint.addresses or ())
    versions = {slice_.metadata.name: int(slice_.metadata.resource_version or 0)}
    world.judge.planned((NAMESPACE, "cart"), ready if knows else frozenset(), versions if saw else {})
    await Writer(Link(world.network, "zoneward", world.judge)).delete(SLICES, slice_)
    result = world.judge.faults
    assert len(result) == len(faults)
    assert all(words in fault for words, fault in zip(faults, result, strict=True))
