"""The overlay: which Services are in it, a plan as entries of the ConfigMap, and what the policy makes of a slice."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders.structs import a_node, a_pod, a_service, a_slice, an_endpoint, hints, nodes_in, pods_in
from tests.clusters import Cluster, only_family, slices_after
from tests.properties.random_clusters import clusters, examples, with_one_address

from zoneward.kube import names
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION
from zoneward.kube.objects import EndpointIdentity, EndpointSlice, Hints, Service, identity, is_ready
from zoneward.routing.configuration import Configuration, OverlaySettings, SubsettingSettings
from zoneward.slices.desired import hints_of
from zoneward.slices.overlay import (
    REMOVED,
    FamilyOverlay,
    OverlayHints,
    TooManyZones,
    approach_of_entries,
    encode_entries,
    family_overlay,
    is_selected,
    overlay_configuration,
    read_entries,
    with_approach,
    with_overlay_hints,
)
from zoneward.slices.plan import FamilyPlan
from zoneward.slices.planner import ServicePlanner

CONFIGURATION = overlay_configuration(Configuration())
MARK = {names.OVERLAY_MARK: names.OVERLAY_ENABLED}


def built_in_slices(cluster: Cluster) -> tuple[EndpointSlice, ...]:
    """What the built-in controller writes, with names as an API server gives them."""
    built_in = cluster.with_(configuration=cluster.configuration.as_upstream(), slices=()).plan()
    return tuple(
        replace(slice_, metadata=replace(slice_.metadata, name=f"built-in-{index}"))
        for index, slice_ in enumerate(slices_after(built_in))
    )


def in_overlay(cluster: Cluster) -> Cluster:
    configuration = overlay_configuration(cluster.configuration)
    return cluster.with_(configuration=configuration, slices=built_in_slices(cluster))


def overlay_of(cluster: Cluster) -> FamilyOverlay:
    overlay = family_overlay(only_family(in_overlay(cluster).plan()).decision)
    assert overlay is not None
    return overlay


def a_cluster(service: Service, nodes: dict[str, int], pods: dict[str, int]) -> Cluster:
    return Cluster(service=service, nodes=nodes_in(nodes), pods=pods_in(pods))


# --- which Services ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (a_service("zoneward.dev/Balanced"), True),
        (a_service("Auto"), False),
        (a_service(distribution="PreferSameZone"), False),
        (a_service("Auto", annotations=MARK), True),
        (a_service("zoneward.dev/Balanced", annotations={names.OVERLAY_MARK: "disabled"}), False),
        (a_service("zoneward.dev/Balanced", type_="ExternalName"), False),
        (a_service("zoneward.dev/Balanced", selects=False), False),
        (a_service("zoneward.dev/Balanced", annotations={SELECTOR_ANNOTATION: '{"app":"cart"}'}), False),
    ],
)
def test_a_service_is_in_the_overlay_only_if_somebody_asked_for_it(service: Service, expected: bool) -> None:
    assert is_selected(service, None, CONFIGURATION) is expected


def test_a_label_of_the_namespace_or_a_selector_takes_services_in() -> None:
    service = a_service("Auto", labels={"tier": "web"})
    assert is_selected(service, MARK, CONFIGURATION)
    assert not is_selected(service, {names.OVERLAY_MARK: "true"}, CONFIGURATION)
    selecting = replace(CONFIGURATION, overlay=OverlaySettings(service_selector="tier in (web,api)"))
    assert is_selected(service, None, selecting)
    assert not is_selected(a_service("Auto", labels={"tier": "db"}), None, selecting)


def test_an_overlay_has_no_groups_and_no_weights() -> None:
    weighing = Configuration(subsetting=SubsettingSettings(algorithm="local-weighted"))
    configuration = overlay_configuration(weighing)
    assert (configuration.subsetting.algorithm, configuration.subsetting.encoding) == ("local", "hints")
    assert configuration.manager == names.BUILT_IN_MANAGER


# --- plans as entries -------------------------------------------------------------------------------------------------


def test_only_what_differs_from_the_own_zone_is_an_entry() -> None:
    even = overlay_of(a_cluster(a_service("Auto"), {"a": 4, "b": 4}, {"a": 3, "b": 3}))
    assert even == FamilyOverlay(OverlayHints.ZONES, "Hints/ProportionalZoneCPU")
    uneven = overlay_of(a_cluster(a_service("Auto"), {"a": 4, "b": 4}, {"a": 4, "b": 2}))
    assert list(uneven.exceptions.values()) == [("b",)]
    assert encode_entries("cart", {"IPv4": even}) == {"cart.IPv4": "zones Hints/ProportionalZoneCPU"}


def test_an_entry_has_what_was_decided_for_the_first_ready_endpoint_of_an_address() -> None:
    """Another one with this address does not count: in its own zone, or not ready and in a zone without traffic."""
    shared = [
        a_pod(f"pod-{index}-{zone}", f"node-{zone}", ips=(f"10.0.0.{index}",)) for index in range(8) for zone in "ab"
    ]
    nodes, service = nodes_in({"a": 4, "b": 4}), a_service("zoneward.dev/PreferSameZone")
    overlay = overlay_of(Cluster(service=service, nodes=nodes, pods=tuple(shared)))
    assert overlay.exceptions == {f"10.0.0.{index}": ("a",) for index in range(8)}
    unready = a_pod("pod-8", "node-c", ips=("10.1.0.3",), ready=False)
    pods = (
        *(a_pod(f"pod-{index}", f"node-{'ab'[index % 2]}", ips=(f"10.1.0.{index}",)) for index in range(6)),
        unready,
    )
    nodes = (*nodes, a_node("node-c", "c", ready=False))
    assert not overlay_of(Cluster(service=a_service("Auto"), nodes=nodes, pods=pods)).exceptions


def test_a_decision_without_hints_says_so() -> None:
    overlay = overlay_of(a_cluster(a_service("Auto"), {"a": 4, "b": 4}, {"a": 1}))
    assert overlay == FamilyOverlay(OverlayHints.NONE)
    assert encode_entries("cart", {"IPv4": overlay}) == {"cart.IPv4": "none"}


def test_same_node_has_hints_for_zones_and_nodes() -> None:
    overlay = overlay_of(a_cluster(a_service(distribution="PreferSameNode"), {"a": 4, "b": 4}, {"a": 1, "b": 1}))
    assert overlay.hints is OverlayHints.ZONES_AND_NODES


def test_a_service_that_asks_for_nothing_is_not_in_it() -> None:
    cluster = in_overlay(a_cluster(a_service(), {"a": 4, "b": 4}, {"a": 1, "b": 1}))
    assert family_overlay(only_family(cluster.plan()).decision) is None


def test_an_endpoint_for_more_than_eight_zones_is_refused() -> None:
    zones = [f"zone-{letter}" for letter in "abcdefghij"]
    nodes = tuple(a_node(f"node-{zone}", zone) for zone in zones)
    cluster = Cluster(service=a_service("zoneward.dev/Balanced"), nodes=nodes, pods=(a_pod("one", f"node-{zones[0]}"),))
    family = only_family(in_overlay(cluster).plan())
    if family.decision.active:
        with pytest.raises(TooManyZones):
            family_overlay(family.decision)
    else:
        overlay = family_overlay(family.decision)
        assert overlay is not None
        assert overlay.hints is OverlayHints.NONE


def test_addresses_of_both_families_are_keys_of_a_config_map() -> None:
    overlays = {
        "IPv4": FamilyOverlay(OverlayHints.ZONES, "Hints/Balanced", {"10.0.0.1": ("b", "c")}),
        "IPv6": FamilyOverlay(OverlayHints.NODES, None, {"fd00::1": ("b",)}),
    }
    entries = encode_entries("cart", overlays)
    assert entries == {
        "cart.IPv4": "zones Hints/Balanced",
        "cart.10.0.0.1": "b,c",
        "cart.IPv6": "nodes",
        "cart.fd00__1": "b",
    }
    assert read_entries(entries) == {("cart", family): overlay for family, overlay in overlays.items()}
    assert approach_of_entries(entries, "cart", "IPv4") == "Hints/Balanced"
    assert approach_of_entries(entries, "cart", "IPv6") is approach_of_entries({}, "cart", "IPv4") is None


@pytest.mark.parametrize(
    "entries",
    [
        {"cart.IPv4": "all"},
        {"cart.IPv4": ""},
        {"cart.IPv4": "zones Hints/Ba lanced"},
        {"cart": "zones"},
        {"": ""},
        {".": "x" * 1000},
    ],
)
def test_malformed_entries_count_as_absent(entries: dict[str, str]) -> None:
    assert read_entries(entries) == {}


@pytest.mark.parametrize("zones", ["", ",", "a,", "a b", "-a", "a,b,c,d,e,f,g,h,i", "z" * 64, "a\n"])
def test_a_malformed_list_of_zones_leaves_the_own_zone(zones: str) -> None:
    overlay = read_entries({"cart.IPv4": "zones", "cart.10.0.0.1": zones})["cart", "IPv4"]
    assert overlay.exceptions == {}


# --- the policy -------------------------------------------------------------------------------------------------------


def hinted(
    overlay: FamilyOverlay | None, *, manager: str = names.BUILT_IN_MANAGER, is_touch: bool = True
) -> list[object]:
    slice_ = a_slice(
        "cart-1",
        an_endpoint("10.0.0.1", "a", node="n1", hinted=hints("z")),
        an_endpoint("10.0.0.2", "b", ready=False),
        manager=manager,
    )
    stored = with_overlay_hints(slice_, overlay, is_touch=is_touch)
    return [endpoint.hints for endpoint in stored.endpoints or ()]


def test_every_endpoint_gets_its_hint_ready_or_not() -> None:
    exceptions = {"10.0.0.2": ("a", "c")}
    assert hinted(FamilyOverlay(OverlayHints.ZONES, None, exceptions)) == [hints("a"), hints("a", "c")]
    assert hinted(FamilyOverlay(OverlayHints.ZONES_AND_NODES)) == [hints("a", nodes=["n1"]), hints("b")]
    assert hinted(FamilyOverlay(OverlayHints.NONE)) == [None, None]


def test_hints_are_never_given_to_a_part_of_a_slice() -> None:
    # The second endpoint has no node.
    assert hinted(FamilyOverlay(OverlayHints.NODES)) == [None, None]
    without_zone = a_slice(
        "cart-1", an_endpoint("10.0.0.1", "a"), an_endpoint("10.0.0.2", None), manager=names.BUILT_IN_MANAGER
    )
    stored = with_overlay_hints(without_zone, FamilyOverlay(OverlayHints.ZONES))
    assert stored == without_zone


def test_slices_of_others_and_of_other_services_stay_as_they_are() -> None:
    as_before = [hints("z"), None]
    assert hinted(FamilyOverlay(OverlayHints.ZONES), manager=names.MANAGER) == as_before
    assert hinted(None) == as_before


def test_a_service_that_leaves_loses_its_hints_by_a_touch_and_keeps_those_of_the_built_in_controller() -> None:
    assert hinted(REMOVED, is_touch=True) == [None, None]
    assert hinted(REMOVED, is_touch=False) == [hints("z"), None]


def test_plans_read_the_approach_from_the_entries() -> None:
    slice_ = a_slice("cart-1", manager=names.BUILT_IN_MANAGER, annotations={"other": "kept"})
    marked = with_approach(slice_, "Hints/Balanced")
    assert marked.metadata.annotations == {"other": "kept", names.APPROACH_ANNOTATION: "Hints/Balanced"}
    assert with_approach(marked, None) == slice_
    other = a_slice("cart-2")
    assert with_approach(other, "Hints/Balanced") is other


def decided_hints(family: FamilyPlan) -> dict[EndpointIdentity, Hints | None]:
    """What Zoneward's own slices would say, but each endpoint names its own node, also at a shared address."""
    assert family.endpoints is not None
    nodes = {key: member.endpoint.node_name for key, member in family.endpoints.by_identity.items()}
    return {key: hints_of(replace(target, node=target.node and nodes[key])) for key, target in family.targets.items()}


@examples(300)
@given(clusters(), st.integers(0, 4))
def test_slices_with_the_overlay_say_what_was_decided(cluster: Cluster, sharing: int) -> None:
    overlaid = in_overlay(cluster.with_(pods=with_one_address(cluster.pods, sharing)))
    for family in overlaid.plan().families:
        try:
            overlay = family_overlay(family.decision)
        except TooManyZones:
            continue
        if overlay is None:
            continue
        entries = encode_entries("cart", {family.address_type: overlay})
        assert read_entries(entries) == {("cart", family.address_type): overlay}
        expected = decided_hints(family)
        ready = {one.addresses for slice_ in overlaid.slices for one in slice_.endpoints or () if is_ready(one)}
        for slice_ in overlaid.slices:
            if slice_.address_type != family.address_type:
                continue
            stored = with_overlay_hints(slice_, overlay).endpoints or ()
            assert len({endpoint.hints is None for endpoint in stored}) <= 1 or overlay.hints is OverlayHints.NODES
            needs_zones = overlay.hints is not OverlayHints.NODES
            if overlay.hints is OverlayHints.NONE or (needs_zones and not all(endpoint.zone for endpoint in stored)):
                assert all(endpoint.hints is None for endpoint in stored)
                continue
            for endpoint in stored:
                decided = expected.get(identity(endpoint))
                # An entry is about an address. Where several Pods have it, it says what was decided for the ready ones.
                if decided is None or (not is_ready(endpoint) and endpoint.addresses in ready):
                    continue
                if overlay.hints is OverlayHints.NODES:
                    # An endpoint without a zone voids the hints for zones, which Zoneward's own slices keep.
                    assert (endpoint.hints and endpoint.hints.for_nodes) == decided.for_nodes
                else:
                    assert endpoint.hints == decided


def test_a_prediction_has_the_slices_of_the_built_in_controller_with_other_hints() -> None:
    cluster = in_overlay(a_cluster(a_service("zoneward.dev/Balanced"), {"a": 4, "b": 4}, {"a": 3, "b": 3}))
    family = only_family(cluster.plan())
    assert [slice_.metadata.name for slice_ in family.changes.update] == ["built-in-0"]
    assert (family.changes.create, family.changes.delete, family.replaced) == ((), (), ())
    assert family.traffic is not None
    assert family.traffic.in_zone == 1
    again = only_family(cluster.with_(slices=family.changes.after).plan())
    assert [slice_.metadata.name for slice_ in again.changes.unchanged] == ["built-in-0"]


def test_a_service_that_leaves_loses_the_hints_of_the_overlay() -> None:
    asking = in_overlay(a_cluster(a_service("zoneward.dev/Balanced"), {"a": 4, "b": 4}, {"a": 3, "b": 3}))
    hinted = only_family(asking.plan()).changes.after
    assert all(endpoint.hints for slice_ in hinted for endpoint in slice_.endpoints or ())
    family = only_family(asking.with_(service=a_service(), slices=hinted).plan())
    assert [slice_.metadata.name for slice_ in family.changes.update] == ["built-in-0"]
    assert family.traffic is not None
    assert family.traffic.in_zone == Fraction(1, 2)


def test_a_planner_settles_slices_that_have_their_hints() -> None:
    """The next plan looks at none of them again."""
    cluster = in_overlay(a_cluster(a_service("zoneward.dev/Balanced"), {"a": 4, "b": 4}, {"a": 4, "b": 2}))
    planner = ServicePlanner(cluster.service, cluster.cluster_state, pods=cluster.pods, slices=cluster.slices)
    overlay = family_overlay(only_family(planner.plan()).decision)
    assert overlay is not None
    for slice_ in cluster.slices:
        stored = with_approach(with_overlay_hints(slice_, overlay), overlay.approach)
        planner.update_slice(slice_.metadata.name, stored)
    changes = only_family(planner.plan()).changes
    assert (changes.update, changes.create, changes.delete) == ((), (), ())
    assert planner.pending_slices == 0
