"""Figures of Services become parts of zones; what a cluster does not have is left out and named."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from zoneward.kube.demand import DemandFigures
from zoneward.routing.service_demand import service_parts, unknown_services, without_zones

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
