"""Existing slices back to the decision that they were written for."""

import pytest
from tests.clusters import a_slice, an_endpoint, hints

from zoneward.kube.objects import EndpointSlice, Hints, identity
from zoneward.slices.previous import previous_of

AUTO = "Hints/ProportionalZoneCPU"
ONE = an_endpoint("10.0.0.1", "a", hinted=hints("b"), pod="p")
TWO = an_endpoint("10.0.0.2", "b", hinted=hints("b"), pod="q")


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
    assert previous_of(slices).in_force == expected


def test_slices_of_the_controller_that_is_replaced_say_nothing() -> None:
    """Their hints give placement only, and the start threshold holds."""
    found = previous_of([], [a_slice("s1", ONE, in_force=AUTO)])
    assert found.in_force is None
    assert found.placement == {identity(ONE): "b"}


def test_placement_is_the_zone_that_an_endpoint_was_hinted_to() -> None:
    assert previous_of([a_slice("s1", ONE, TWO)]).placement == {identity(ONE): "b", identity(TWO): "b"}


@pytest.mark.parametrize("hinted", [None, Hints(), hints(nodes=["n"]), hints("a", "b")])
def test_hints_for_none_or_for_several_zones_place_nobody(hinted: Hints | None) -> None:
    assert previous_of([a_slice("s1", an_endpoint("10.0.0.1", hinted=hinted))]).placement == {}


def test_ours_count_before_theirs() -> None:
    theirs = an_endpoint("10.0.0.1", "a", hinted=hints("c"), pod="p")
    assert previous_of([a_slice("s1", ONE)], [a_slice("s0", theirs)]).placement == {identity(ONE): "b"}
