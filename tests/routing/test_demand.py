"""Demand of a cluster, and of single Services."""

from dataclasses import replace
from fractions import Fraction
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.structs import a_node
from tests.clusters import demand_in

from zoneward.kube import names
from zoneward.kube.demand import DemandFigures
from zoneward.kube.objects import Allocatable, Node, NodeCondition, NodeMeta, NodeStatus, Number
from zoneward.routing.configuration import Configuration, DemandSettings, DemandSource, HintsSettings
from zoneward.routing.demand import (
    Demand,
    NodeDemand,
    allocatable_cpu,
    changes_demand,
    compute_demand,
    cpu_demand_of,
    demand_of,
    service_parts,
    unknown_services,
    without_zones,
)

NORTH: Final = (("a", "north"),)


def test_a_node_without_a_status_does_not_count() -> None:
    bare = Node(metadata=NodeMeta(name="n9", labels={names.ZONE_LABEL: "z"}))
    assert compute_demand([a_node("n1", "a"), bare]) == compute_demand([a_node("n1", "a")])


def test_a_node_without_a_zone_is_named_and_adds_to_no_zone() -> None:
    """An empty label is none. Traffic starts there all the same, so its weight is known."""
    demand = compute_demand([a_node("n1", "a"), a_node("n2", "", cpu=3), a_node("n3", None, cpu=2)])
    assert (demand.weight_of, demand.without_zone, demand.unzoned) == ({"a": 4000}, ("n2", "n3"), 5000)
    assert demand.nodes[1] == NodeDemand("n2", None, 3000)
    assert compute_demand([a_node("n1", "a")]).unzoned == 0


def test_a_virtual_node_counts_only_for_kubernetes() -> None:
    """That of AKS reports 10,000 CPUs, and has no zone."""
    virtual = a_node("v1", None, cpu=10_000, labels={"type": "virtual-kubelet"})
    nodes = [a_node("n1", "a"), virtual]
    assert demand_of(nodes, Configuration()) == compute_demand(nodes[:1])
    assert demand_of(nodes, Configuration().as_upstream()) == compute_demand(nodes[:1])
    assert cpu_demand_of(nodes, Configuration()).without_zone == ("v1",)
    assert compute_demand([virtual]) == compute_demand([])


@pytest.mark.parametrize("missing", [None, 0, "0", "0m"])
def test_where_one_node_has_no_cpu_nodes_are_counted_in_all_zones(missing: Number | None) -> None:
    nodes = [a_node("n1", "a", cpu=64), a_node("n2", "b", cpu=missing), a_node("n3", "b", cpu=2)]
    demand = compute_demand(nodes)
    assert (demand.weight_of, demand.unit, demand.without_cpu) == ({"a": 1, "b": 2}, "nodes", ("n2",))
    assert [node.weight for node in demand.nodes] == [1, 1, 1]


def test_where_missing_cpu_disables_the_others_keep_theirs_and_it_is_named() -> None:
    nodes = [a_node("n1", "a", cpu=64), a_node("n2", "b", cpu=None), a_node("n3", "b", cpu=2)]
    demand = compute_demand(nodes, missing_cpu="disable")
    assert (demand.weight_of, demand.unit, demand.without_cpu) == ({"a": 64_000, "b": 2_000}, "milliCPU", ("n2",))


def test_cpu_is_added_exactly_and_rounded_up_once_a_zone() -> None:
    """Ten Nodes of a third of a thousandth: 0.0033 CPU are 4 thousandths, not ten."""
    nodes = [a_node(f"n{index}", "a", cpu="330u") for index in range(10)]
    assert compute_demand(nodes).weight_of == {"a": 4}


@pytest.mark.parametrize(
    ("cpu", "cores"),
    [
        *(("3920m", Fraction(392, 100)), (3.92, Fraction(392, 100)), (None, Fraction(0)), ("1e1", Fraction(10))),
        *(("1e18", 10**9), ("9" * 30, 10**9), ("1E999", 10**9), ("9223372036854775807", 10**9), ("-1", 0), ("four", 0)),
    ],
)
def test_allocatable_cpu_is_exact_and_within_what_can_be_reckoned_with(cpu: Number | None, cores: Fraction) -> None:
    assert allocatable_cpu(a_node("n1", cpu=cpu)) == cores
    demand = compute_demand([a_node("n1", "a", cpu=cpu), a_node("n2", "b", cpu="4")])
    assert 0 < demand.share("b") <= 1


def test_by_zone_nodes_weigh_one_by_one_and_those_without_a_zone_stand_apart() -> None:
    nodes = [a_node("n1", "b"), a_node("n2", "a"), a_node("n3", "a", cpu="500m"), a_node("n4", None, cpu=3)]
    assert compute_demand(nodes).weight_by_zone == {"": 3000, "a": 4500, "b": 4000}
    assert demand_in(a=1, b=2).weight_by_zone == {"a": 1, "b": 2}


CONTROL_PLANE: Final = dict.fromkeys(names.NODE_EXCLUDED_LABELS[:1], "")


def in_region(name: str, zone: str | None, region: str | None, *, ready: bool = True, idle: bool = False) -> Node:
    labels = {names.REGION_LABEL: region} if region is not None else {}
    return a_node(name, zone, ready=ready, labels=labels | (CONTROL_PLANE if idle else {}))


REGIONS: Final = {
    "one for each zone": (
        [in_region("1", "b", "south"), in_region("2", "a", "north"), in_region("3", "a", "north")],
        (("a", "north"), ("b", "south")),
    ),
    "the same for two zones": (
        *([in_region("1", "a", "north"), in_region("2", "b", "north")], (("a", "north"), ("b", "north"))),
    ),
    "nodes that disagree": ([in_region("1", "a", "north"), in_region("2", "a", "south")], ()),
    "nodes that name none": ([in_region("1", "a", None), in_region("2", "b", "")], ()),
    "a node that says nothing": ([in_region("1", "a", None), in_region("2", "a", "north")], (("a", "north"),)),
    "a node that is not ready": ([in_region("1", "a", "north"), in_region("2", "a", "south", ready=False)], NORTH),
    "an idle node that disagrees": ([in_region("1", "a", "north"), in_region("2", "a", "south", idle=True)], NORTH),
    "an idle node where others name none": ([in_region("1", "a", None), in_region("2", "a", "north", idle=True)], ()),
    "idle nodes alone": ([in_region("1", "a", "north", idle=True)], NORTH),
    "idle nodes that disagree": (
        *([in_region("1", "a", "north", idle=True), in_region("2", "a", "south", idle=True)], ()),
    ),
    "a node without a zone": ([in_region("1", None, "north"), in_region("2", "", "north", idle=True)], ()),
}


@pytest.mark.parametrize("what", REGIONS)
def test_the_region_of_a_zone_is_what_its_nodes_agree_on(what: str) -> None:
    nodes, expected = REGIONS[what]
    for order in (nodes, nodes[::-1]):
        demand = compute_demand(order)
        assert (demand.regions, demand.by_count.regions) == (expected, expected)


def test_a_zone_is_idle_where_nodes_are_ready_and_no_traffic_is_expected_from_any() -> None:
    nodes = [
        a_node("1", "a"),
        in_region("2", "a", None, idle=True),
        in_region("3", "d", None, idle=True),
        in_region("4", "c", None, idle=True),
        in_region("5", "c", None, idle=True),
        in_region("6", "e", None, idle=True, ready=False),
        a_node("7", "f", ready=False),
        in_region("8", None, None, idle=True),
    ]
    demand = compute_demand(nodes)
    assert (demand.zones, demand.idle_zones) == (("a",), ("c", "d"))
    assert demand.by_count.idle_zones == ("c", "d")


def test_a_zone_whose_nodes_weigh_nothing_is_idle_until_nodes_are_counted() -> None:
    nodes = [a_node("1", "a"), a_node("2", "b", cpu=0), in_region("3", "c", "south", idle=True)]
    demand = compute_demand(nodes, missing_cpu="disable")
    assert (demand.zones, demand.idle_zones) == (("a",), ("b", "c"))
    assert (demand.by_count.zones, demand.by_count.idle_zones) == (("a", "b"), ("c",))
    assert demand.by_count.regions == (("c", "south"),)
    assert compute_demand(nodes).idle_zones == ("c",)


def a_changing_node(
    *,
    zone: str | None = "a",
    region: str | None = None,
    cpu: str | None = "4",
    ready: str = "True",
    excluded: bool = False,
    other: str = "",
) -> Node:
    labels = {"other": other} | ({names.ZONE_LABEL: zone} if zone else {})
    if region is not None:
        labels[names.REGION_LABEL] = region
    if excluded:
        labels[next(iter(names.NODE_EXCLUDED_LABELS))] = ""
    conditions = (NodeCondition(type="MemoryPressure", status=other), NodeCondition(type="Ready", status=ready))
    return Node(
        metadata=NodeMeta(name="n", labels=labels),
        status=NodeStatus(allocatable=Allocatable(cpu=cpu), conditions=conditions),
    )


nodes = st.none() | st.builds(
    a_changing_node,
    zone=st.sampled_from([None, "a", "b"]),
    region=st.sampled_from([None, "", "north", "south"]),
    cpu=st.sampled_from([None, "4", "4000m", "2"]),
    ready=st.sampled_from(["True", "False"]),
    excluded=st.booleans(),
    other=st.sampled_from("xy"),
)


@given(nodes, nodes)
def test_it_changes_demand_exactly_where_demand_differs(old: Node | None, new: Node | None) -> None:
    others = [Node(metadata=NodeMeta(name="o", labels={names.ZONE_LABEL: "c"}), status=a_changing_node().status)]
    before, after = (compute_demand([*others, *([node] if node else [])]) for node in (old, new))
    assert changes_demand(old, new) == (before != after)


# --- demand that is configured ----------------------------------------------------------------------------------------

THREE: Final = (
    a_node("a1", "a", cpu=12),
    a_node("b1", "b", cpu=2),
    a_node("b2", "b", cpu=6),
    a_node("c1", "c", cpu=4),
)


def configured(*nodes: Node, source: DemandSource = "cpu", **zones: float) -> Demand:
    parts = tuple((zone, Fraction(part).limit_denominator(1000)) for zone, part in zones.items())
    return demand_of(nodes, Configuration(demand=DemandSettings(source=source, zones=parts)))


def test_without_settings_it_is_cpu() -> None:
    assert configured(*THREE) == compute_demand(THREE)


def test_nodes_may_count_instead_of_their_cpu_and_then_nobody_misses_it() -> None:
    demand = configured(*THREE, a_node("d1", "d", cpu=None), source="nodes")
    assert (demand.weight_of, demand.unit) == ({"a": 1, "b": 2, "c": 1, "d": 1}, "nodes")
    settings = Configuration(demand=DemandSettings(source="nodes"), hints=HintsSettings(missing_cpu="disable"))
    assert demand_of([*THREE, a_node("d1", "d", cpu=None)], settings) == demand
    assert demand.without_cpu == ()


def test_all_zones_may_have_the_same_and_their_nodes_share_it_by_cpu() -> None:
    demand = configured(*THREE, source="even")
    assert (demand.reduced, demand.unit) == ({"a": 1, "b": 1, "c": 1}, "even")
    assert [node.weight / demand.total for node in demand.nodes] == pytest.approx([1 / 3, 1 / 12, 1 / 4, 1 / 3])


def test_parts_that_are_set_win_and_count_in_proportion() -> None:
    demand = configured(*THREE, source="nodes", a=35, b=10, c=5)
    assert (demand.reduced, demand.unit) == ({"a": 7, "b": 2, "c": 1}, "parts")
    assert demand == configured(*THREE, a=0.7, b=0.2, c=0.1)


def test_a_zone_without_a_part_sends_nothing_but_has_proxies() -> None:
    demand = configured(*THREE, a=1, b=0)
    assert (demand.reduced, demand.idle_zones) == ({"a": 1}, ("b", "c"))
    assert [node.weight > 0 for node in demand.nodes] == [True, False, False, False]


def test_nobody_sends_from_zones_without_nodes() -> None:
    demand = configured(*THREE, a=0.25, b=0.25, c=0.5, d=9)
    assert demand.reduced == {"a": 1, "b": 1, "c": 2}
    assert configured(*THREE, d=1) == compute_demand(THREE), "CPU where nothing else is left"
    for source in ("nodes", "even"):
        assert configured(source=source) == replace(compute_demand([]), unit=configured(source=source).unit)


def test_current_kubernetes_knows_of_cpu_alone() -> None:
    configuration = Configuration(demand=DemandSettings(source="even")).as_upstream()
    assert demand_of(THREE, configuration) == compute_demand(THREE, missing_cpu="disable")


@given(
    parts=st.dictionaries(st.sampled_from("abcdef"), st.fractions(0, 10**9), min_size=1),
    sizes=st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 400)), min_size=1, max_size=30),
)
def test_nodes_share_exactly_what_their_zone_has(parts: dict[str, Fraction], sizes: list[tuple[str, int]]) -> None:
    nodes = [a_node(f"n{index:02}", zone, cpu=cpu) for index, (zone, cpu) in enumerate(sizes)]
    settings = DemandSettings(zones=tuple(sorted((parts | {"a": Fraction(1)}).items())))
    demand = demand_of(nodes, Configuration(demand=settings))
    assert {zone: weight for zone, weight in demand.weight_by_zone.items() if weight} == demand.weight_of
    assert all(node.weight >= 0 for node in demand.nodes)
    assert not set(demand.zones) & set(demand.idle_zones)
    if demand.unit == "parts":
        whole = sum(part for zone, part in settings.zones if any(zone == sized_zone for sized_zone, _ in sizes))
        for zone in demand.zones:
            assert demand.share(zone) == pytest.approx(float(dict(settings.zones)[zone] / whole), abs=1e-8)


# --- demand of single Services ----------------------------------------------------------------------------------------


CART, SEARCH = ("shop", "cart"), ("shop", "search")
AMOUNTS = st.dictionaries(st.sampled_from("abcd"), st.floats(0, allow_nan=False, allow_infinity=False))


@given(st.dictionaries(st.sampled_from([CART, SEARCH]), AMOUNTS))
def test_parts_add_up_to_one_in_the_proportions_of_the_figures(
    amounts: dict[tuple[str, str], dict[str, float]],
) -> None:
    parts = service_parts(DemandFigures(amounts))
    assert parts.keys() == {key for key, zones in amounts.items() if any(zones.values())}
    for key, zones in parts.items():
        assert sum(zones.values()) == 1
        assert zones.keys() == {zone for zone, amount in amounts[key].items() if amount}
        whole = sum(map(Fraction, amounts[key].values()))
        assert all(part * whole == Fraction(amounts[key][zone]) for zone, part in zones.items())


def test_zones_without_a_node_are_left_out_and_named() -> None:
    figures = DemandFigures({CART: {"a": 1.0, "z": 2.0}, SEARCH: {"y": 3.0, "z": 0.0}}, ("a note",))
    note = "figures of 2 zones without a Node count for nothing (y, z)"
    assert without_zones(figures, known=["a", "b"]) == DemandFigures({CART: {"a": 1.0}, SEARCH: {}}, ("a note", note))
    assert without_zones(figures, known="ayz") is figures


def test_services_that_do_not_exist_are_named_in_order() -> None:
    figures = DemandFigures({SEARCH: {"a": 1.0}, CART: {"a": 1.0}, ("a", "b"): {"a": 1.0}})
    assert unknown_services(figures, known=[CART]) == (("a", "b"), SEARCH)
