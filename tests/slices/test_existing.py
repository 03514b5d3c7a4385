"""What existing slices show: the approach in force, and the group that each endpoint was in."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from tests.builders.structs import a_service, a_slice, an_endpoint, hints

from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, Hints, identity
from zoneward.routing.configuration import Configuration
from zoneward.routing.zone_groups import EVERY_ZONE, ZoneGroup, own_group
from zoneward.slices.existing import ExistingSlices

AUTO = "Hints/ProportionalZoneCPU"
ONE = an_endpoint("10.0.0.1", "a", hinted=hints("b"), pod="p")
TWO = an_endpoint("10.0.0.2", "b", hinted=hints("b"), pod="q")
BARE = an_endpoint("10.0.0.3", "a", pod="r")


def existing(own: Iterable[EndpointSlice], theirs: Iterable[EndpointSlice] = ()) -> ExistingSlices:
    """Our slices, and those of the built-in controller."""
    slices = ExistingSlices(a_service(), Configuration())
    for slice_ in own:
        slices.set(slice_)
    for slice_ in theirs:
        labels = {**(slice_.metadata.labels or {}), names.MANAGED_BY_LABEL: names.BUILT_IN_MANAGER}
        slices.set(replace(slice_, metadata=replace(slice_.metadata, labels=labels)))
    return slices


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([], None),
        ([a_slice("s1", ONE)], None),
        ([a_slice("s1", ONE, in_force=AUTO)], AUTO),
        ([a_slice("s1", ONE, in_force=AUTO), a_slice("s2", TWO, in_force=AUTO)], AUTO),
        ([a_slice("s1", ONE, in_force=AUTO), a_slice("s2", TWO)], None),
        ([a_slice("s1", ONE, in_force=AUTO), a_slice("s2", TWO, in_force="Hints/PreferZone")], None),
        ([a_slice("s1", ONE, in_force=AUTO), a_slice("s2")], AUTO),
        ([a_slice("s1", in_force=AUTO)], None),
    ],
    ids=["none", "unsaid", "said", "said by all", "unsaid by one", "at odds", "unsaid by an empty one", "empty"],
)
def test_what_was_in_force_is_what_all_slices_with_endpoints_say(
    slices: list[EndpointSlice], expected: str | None
) -> None:
    assert existing(slices).in_force == expected


def test_slices_of_the_controller_that_is_replaced_say_nothing() -> None:
    """Their hints give placement only, and the start threshold holds. A zone label there is the Service's own."""
    slices = existing([], [a_slice("s1", ONE), a_slice("s2", BARE, labels={names.ZONE_LABEL: "c"})])
    assert slices.in_force is None
    assert slices.previous_groups() == {identity(ONE): own_group("b")}


def test_slices_that_we_wrote_under_another_label_say_what_they_were_written_for() -> None:
    """Whether our slices carry the built-in controller's label changes nothing about what is in force."""
    former = [a_slice("s1", ONE, in_force=AUTO), a_slice("s2", BARE, in_force=AUTO, labels={names.ZONE_LABEL: "c"})]
    slices = existing([], former)
    assert slices.in_force == AUTO
    assert slices.previous_groups() == {identity(ONE): own_group("b"), identity(BARE): own_group("c")}


def test_what_the_built_in_controller_wrote_takes_nothing_from_what_ours_say() -> None:
    ours, theirs, former = a_slice("s3", ONE, in_force=AUTO), a_slice("s1", BARE), a_slice("s2", TWO, in_force=AUTO)
    assert existing([ours], [theirs, former]).in_force == AUTO
    assert existing([ours], [former, theirs]).in_force == AUTO


@pytest.mark.parametrize("hinted", [hints("b", "a"), hints("a", "b", "a")])
def test_hints_for_several_zones_are_the_group_that_these_share(hinted: Hints) -> None:
    endpoint = an_endpoint("10.0.0.1", hinted=hinted)
    assert existing([a_slice("s1", endpoint)]).previous_groups() == {
        identity(endpoint): ZoneGroup(("a", "b"), (1.0, 1.0))
    }


def test_the_hint_of_an_endpoint_that_is_not_ready_is_no_placement() -> None:
    unready = an_endpoint("10.0.0.1", hinted=hints("a"), ready=False)
    assert existing([a_slice("s1", unready)]).previous_groups() == {}


def test_placement_is_the_group_of_the_slice_that_an_endpoint_was_in() -> None:
    """Hints beside it do not matter; slices for all zones say nothing."""
    shared = a_slice("s2", TWO, labels={names.ZONE_LABEL: "a"})
    annotations = {names.ZONES_ANNOTATION: "a=0.75,c=0.25"}
    shared = replace(shared, metadata=replace(shared.metadata, annotations=annotations))
    slices = existing([a_slice("s1", ONE, labels={names.ZONE_LABEL: "c"}), shared, a_slice("s3", BARE)])
    assert slices.previous_groups() == {
        identity(ONE): own_group("c"),
        identity(TWO): ZoneGroup(("a", "c"), (0.75, 0.25)),
    }


def test_a_slice_group_without_a_label_is_that_of_every_zone() -> None:
    slices = existing([a_slice("s1", BARE, in_force="Subsetting/random")])
    assert slices.previous_groups() == {identity(BARE): EVERY_ZONE}
    assert existing([a_slice("s1", ONE, BARE, in_force="Subsetting/local")]).previous_groups().keys() == {identity(ONE)}
    assert existing([a_slice("s1", BARE, in_force=AUTO)]).previous_groups() == {}


@pytest.mark.parametrize("hinted", [None, Hints(), Hints(for_zones=()), hints(nodes=["n"])])
def test_hints_for_no_zone_place_nobody(hinted: Hints | None) -> None:
    assert existing([a_slice("s1", an_endpoint("10.0.0.1", hinted=hinted))]).previous_groups() == {}
