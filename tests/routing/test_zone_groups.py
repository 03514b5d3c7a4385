"""Slice groups as text and back, and what proxies of every kind make of slices with a zone label (KEP-2004)."""

from collections.abc import Mapping, Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders.structs import a_slice, an_endpoint, hints
from tests.clusters import ALL_HINTS, CLUSTER
from tests.properties.random_clusters import examples

from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import (
    CONSUMERS,
    EndpointSelection,
    Policies,
    SelectionRule,
    endpoints_of_all_ports,
    select_endpoints,
    slice_groups,
)
from zoneward.routing.zone_groups import (
    WEIGHT_DIGITS,
    ZoneGroup,
    group_of_slice,
    own_group,
    restrict_to_zones,
    zones_annotation,
)

LOCAL: Final = Policies(uses_cluster=False, uses_local=True, internal_local=True)


def labelled(label: str | None, annotation: str | None = None, *addresses: str, name: str = "s") -> EndpointSlice:
    """A slice with endpoints of these addresses; the last part of an address is of no meaning."""
    slice_ = a_slice(
        name,
        *(an_endpoint(address, None) for address in addresses),
        labels={names.ZONE_LABEL: label} if label is not None else {},
    )
    annotations = {names.ZONES_ANNOTATION: annotation} if annotation is not None else None
    return replace(slice_, metadata=replace(slice_.metadata, annotations=annotations))


ZONES: Final = st.from_regex(r"[a-z0-9A-Z]([-_.a-z0-9A-Z]{0,8}[a-z0-9A-Z])?", fullmatch=True)
WEIGHTS: Final = st.one_of(
    st.just(1.0), st.integers(1, 9_999_999_999).map(lambda millionths: round(millionths / 10**6, WEIGHT_DIGITS))
)


@st.composite
def groups(draw: st.DrawFn) -> ZoneGroup:
    zones = tuple(sorted(draw(st.sets(ZONES, min_size=1, max_size=10))))
    return ZoneGroup(zones, tuple(draw(st.lists(WEIGHTS, min_size=len(zones), max_size=len(zones)))))


@examples(50)
@given(groups())
def test_every_group_comes_back_from_its_label_and_annotation(group: ZoneGroup) -> None:
    """Weights to the last digit that groups have; a proxy that knows the label alone gets the one zone it names."""
    slice_ = labelled(group.label_zone, zones_annotation(group))
    assert group_of_slice(slice_) == group
    assert group.label_zone in group.zones
    assert group_of_slice(slice_, reads="labels") == own_group(group.label_zone)
    assert group_of_slice(slice_, reads="ignored") is None


TEXTS: Final[Mapping[str, tuple[ZoneGroup, str, str | None]]] = {
    "own": (own_group("a"), "a", None),
    "shared": (ZoneGroup(("a", "b"), (1.0, 1.0)), "a", "a,b"),
    "weighted": (ZoneGroup(("a", "b"), (0.75, 0.25)), "a", "a=0.750000,b=0.250000"),
    "weighted, all alike": (ZoneGroup(("a", "b", "c"), (0.333333,) * 3), "a", "a=0.333333,b=0.333333,c=0.333333"),
    "weighted, one of them 1": (ZoneGroup(("a", "b"), (0.5, 1.0)), "b", "a=0.500000,b=1.000000"),
    "one zone, weighted": (ZoneGroup(("a",), (0.5,)), "a", "a=0.500000"),
}


@pytest.mark.parametrize("what", TEXTS)
def test_label_and_annotation_of_a_group(what: str) -> None:
    group, label, annotation = TEXTS[what]
    assert (group.label_zone, zones_annotation(group)) == (label, annotation)


def test_the_zone_label_is_the_largest_weight_then_the_first_by_name() -> None:
    for weights, label in (
        ((1.0, 1.0, 1.0), "a"),
        ((0.2, 0.5, 0.3), "b"),
        ((0.2, 0.4, 0.4), "b"),
        ((1.0, 1.0, 1.5), "c"),
    ):
        assert ZoneGroup(("a", "b", "c"), weights).label_zone == label


READ: Final[Mapping[str, ZoneGroup]] = {
    "a,b": ZoneGroup(("a", "b"), (1.0, 1.0)),
    "b,a": ZoneGroup(("a", "b"), (1.0, 1.0)),
    "a=0.75,b=0.25": ZoneGroup(("a", "b"), (0.75, 0.25)),
    "a=2,b": ZoneGroup(("a", "b"), (2.0, 1.0)),
    "b": own_group("b"),
    "a=1,b=1.0": ZoneGroup(("a", "b"), (1.0, 1.0)),
}
"""Annotations that others may write; the label is ``a`` in all of them."""
NONSENSE: Final = (
    *("", ",", "a,", ",a", "a,,b", "a=", "=1", "a=,b=1", "a=b", "a==1", "a=1=2", "a=-1,b=1", "a=+1", "a=1e3", "a=nan"),
    *("a=inf", "a=.5", "a=1.", "a=0,b=1", "a=0.0", "a,a", "a=1,a=2", "a=10000", "a=0.1234567890", "a=0x1", "a=1,b=x"),
    *("a=٣", "a=1 ", "a=1\n"),
)


@pytest.mark.parametrize("text", READ)
def test_an_annotation_that_makes_sense_counts_before_the_label(text: str) -> None:
    assert group_of_slice(labelled("a", text)) == READ[text]


@pytest.mark.parametrize("text", NONSENSE, ids=ascii)
def test_an_annotation_that_makes_no_sense_is_not_there(text: str) -> None:
    assert group_of_slice(labelled("a", text)) == own_group("a")


@pytest.mark.parametrize("label", [None, ""])
def test_without_a_label_a_slice_is_for_all_whatever_the_annotation_says(label: str | None) -> None:
    for text in (None, "a,b", "a=0.75,b=0.25", "="):
        assert group_of_slice(labelled(label, text)) is None


def test_a_group_among_fewer_zones_keeps_its_weights_and_is_an_own_one_in_the_end() -> None:
    group = ZoneGroup(("a", "b", "c"), (0.5, 0.3, 0.2))
    assert restrict_to_zones(group, {"a", "b", "c", "d"}) is group
    assert restrict_to_zones(group, {"a", "c"}) == ZoneGroup(("a", "c"), (0.5, 0.2))
    assert restrict_to_zones(group, {"c"}) == own_group("c")
    assert restrict_to_zones(group, {"d"}) is None


SLICES: Final = (
    labelled("a", None, "10.0.0.1", "10.0.0.2", name="a"),
    labelled("b", None, "10.0.0.3", name="b"),
    labelled("b", "b=0.75,c=0.25", "10.0.0.4", name="bc"),
    labelled(None, None, "10.0.0.5", name="all"),
)


def use(
    slices: Sequence[EndpointSlice],
    zone: str | None,
    consumer: str = "zoneward",
    *,
    policies: Policies = CLUSTER,
    gates: FeatureGates | None = None,
    node: str = "n",
) -> EndpointSelection:
    return select_endpoints(
        endpoints_of_all_ports(slices),
        policies=policies,
        honored=ALL_HINTS,
        node=node,
        zone=zone,
        groups=slice_groups(slices, CONSUMERS[consumer], gates if gates is not None else FeatureGates()),
    )


def ends(selection: EndpointSelection) -> list[int]:
    """The last numbers of the addresses that are used for cluster traffic."""
    return sorted(int((endpoint.addresses or ("",))[0].rsplit(".", 1)[1]) for endpoint in selection.cluster or ())


ALL: Final = [1, 2, 3, 4, 5]
USED: Final[Mapping[str, Mapping[str | None, tuple[list[int], SelectionRule]]]] = {
    "zoneward": {
        "a": ([1, 2, 5], SelectionRule.ZONE_SLICES),
        "b": ([3, 4, 5], SelectionRule.ZONE_SLICES),
        "c": ([4, 5], SelectionRule.ZONE_SLICES),
        "d": ([5], SelectionRule.ZONE_SLICES),
        None: (ALL, SelectionRule.ALL),
    },
    "zone-slices": {
        "a": ([1, 2, 5], SelectionRule.ZONE_SLICES),
        "b": ([3, 4, 5], SelectionRule.ZONE_SLICES),
        "c": ([5], SelectionRule.ZONE_SLICES),
        "d": ([5], SelectionRule.ZONE_SLICES),
        None: (ALL, SelectionRule.ALL),
    },
    **{
        consumer: dict.fromkeys(("a", "b", "c", "d", None), (ALL, SelectionRule.ALL))
        for consumer in ("current", "zone-hints", "annotation", "no-hints")
    },
}


@pytest.mark.parametrize("consumer", USED)
def test_a_proxy_uses_slices_labelled_for_its_zone_and_those_without_a_label(consumer: str) -> None:
    for zone, (expected, rule) in USED[consumer].items():
        selection = use(SLICES, zone, consumer)
        assert (ends(selection), selection.rule) == (expected, rule), zone


@pytest.mark.parametrize("consumer", ["zoneward", "zone-slices"])
def test_where_labels_leave_nothing_all_are_used(consumer: str) -> None:
    selection = use(SLICES[:3], "d", consumer)
    assert (ends(selection), selection.rule) == ([1, 2, 3, 4], SelectionRule.ALL)
    assert selection.weights is None


@pytest.mark.parametrize("consumer", ["zoneward", "zone-slices"])
def test_with_none_but_endpoints_that_are_not_ready_in_its_group_a_zone_uses_all_ready_ones(consumer: str) -> None:
    own = a_slice(
        "a",
        an_endpoint("10.0.0.1", "a", ready=False),
        an_endpoint("10.0.0.2", "a", ready=False, serving=True, terminating=True),
        labels={names.ZONE_LABEL: "a"},
    )
    others = (labelled("b", None, "10.0.0.3", name="b"), labelled("c", None, "10.0.0.4", name="c"))
    selection = use((own, *others), "a", consumer)
    assert (ends(selection), selection.rule) == ([3, 4], SelectionRule.ALL)
    # No endpoint is ready: those that are terminating, of any group.
    leaving = use((own,), "b", consumer)
    assert (ends(leaving), leaving.rule) == ([2], SelectionRule.TERMINATING)


def test_weights_are_those_of_what_was_chosen_for_the_zone() -> None:
    assert weights("b") == {3: 1.0, 4: 0.75, 5: 1.0}
    assert weights("c") == {4: 0.25, 5: 1.0}
    assert weights("a") is None
    assert weights(None) is None
    alike = (labelled("a", "a=0.25,b=0.75", "10.0.0.1", name="s"), labelled("a", "a=0.25,c=1", "10.0.0.2", name="t"))
    assert use(alike, "a").weights is None


def weights(zone: str | None) -> dict[int, float] | None:
    """By the last numbers of addresses."""
    selection = use(SLICES, zone)
    if selection.weights is None:
        return None
    pairs = zip(selection.cluster or (), selection.weights, strict=True)
    return {int((endpoint.addresses or ("",))[0].rsplit(".", 1)[1]): weight for endpoint, weight in pairs}


def test_hints_count_within_the_slices_of_the_zone() -> None:
    hinted = a_slice(
        "a",
        an_endpoint("10.0.0.1", "a", hinted=hints("a")),
        an_endpoint("10.0.0.2", "a", hinted=hints("b")),
        labels={names.ZONE_LABEL: "a"},
    )
    other = labelled("b", None, "10.0.0.3", name="b")
    selection = use((hinted, other), "a")
    assert (ends(selection), selection.rule) == ([1], SelectionRule.ZONE_HINTS)
    # For a proxy that ignores labels, the endpoint without hints voids all of them.
    selection = use((hinted, other), "a", "current")
    assert (ends(selection), selection.rule) == ([1, 2, 3], SelectionRule.ALL)
    # Where no hint in the own slices matches, all of these are used.
    elsewhere = a_slice("a", an_endpoint("10.0.0.1", "a", hinted=hints("c")), labels={names.ZONE_LABEL: "a"})
    selection = use((elsewhere, other), "a")
    assert (ends(selection), selection.rule) == ([1], SelectionRule.ZONE_SLICES)


def test_node_hints_count_within_the_slices_of_the_zone() -> None:
    hinted = a_slice(
        "a",
        an_endpoint("10.0.0.1", "a", hinted=hints("a", nodes=["n"])),
        an_endpoint("10.0.0.2", "a", hinted=hints("a", nodes=["m"])),
        labels={names.ZONE_LABEL: "a"},
    )
    selection = use((hinted, labelled("b", None, "10.0.0.3", name="b")), "a", node="m")
    assert (ends(selection), selection.rule) == ([2], SelectionRule.NODE_HINTS)


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_an_internal_policy_of_local_looks_at_all_slices(consumer: str) -> None:
    slices = (
        a_slice("b", an_endpoint("10.0.0.1", "a", node="n"), labels={names.ZONE_LABEL: "b"}),
        a_slice("a", an_endpoint("10.0.0.2", "a", node="m"), labels={names.ZONE_LABEL: "a"}),
    )
    selection = use(slices, "a", consumer, policies=LOCAL)
    assert selection.cluster is None
    assert [endpoint.addresses for endpoint in selection.local or ()] == [("10.0.0.1",)]
    assert selection.weights is None


def test_with_the_gate_off_a_proxy_ignores_labels() -> None:
    off = FeatureGates(topology_aware_subsetting=False)
    for consumer in ("zoneward", "zone-slices"):
        assert ends(use(SLICES, "a", consumer, gates=off)) == ALL
