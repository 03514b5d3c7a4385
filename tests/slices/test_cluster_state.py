"""The demand of single Services: figures of it decide, and the annotation wins."""

from dataclasses import replace
from fractions import Fraction

import pytest
from tests.builders.structs import a_node, a_service
from tests.clusters import cluster_state

from zoneward.kube import names
from zoneward.kube.demand import DemandFigures
from zoneward.routing.configuration import Configuration, DemandSettings
from zoneward.routing.demand import service_parts
from zoneward.slices.cluster_state import ClusterState

NODES = [a_node("n1", "a"), a_node("n2", "b"), a_node("n3", "c")]
SHOP = ("shop", "search")


def shares(amounts: dict[str, float], *, annotation: str | None = None, upstream: bool = False) -> dict[str, float]:
    configuration = Configuration().as_upstream() if upstream else Configuration()
    figures = DemandFigures({SHOP: amounts})
    state = replace(cluster_state(NODES, configuration), service_parts=service_parts(figures))
    annotations = {} if annotation is None else {names.DEMAND_ANNOTATION: annotation}
    demand = state.for_service(a_service(name="search", namespace="shop", annotations=annotations)).demand
    assert state.for_service(a_service(name="cart", namespace="shop")) is state
    return {zone: demand.share(zone) for zone in demand.zones}


def test_figures_are_the_demand_of_their_service() -> None:
    assert shares({"a": 700.0, "b": 200.0, "c": 100.0}) == pytest.approx({"a": 0.7, "b": 0.2, "c": 0.1})
    assert shares({"a": 1e308, "b": 1e308}) == {"a": 0.5, "b": 0.5}


def test_the_annotation_wins_over_figures() -> None:
    assert shares({"a": 700.0, "b": 300.0}, annotation="a=10%,c=90%") == pytest.approx({"a": 0.1, "c": 0.9})


def decided(state: ClusterState, *, built_in: bool = False) -> dict[str, float]:
    demand = state.decision_demand(built_in=built_in)
    return {zone: demand.share(zone) for zone in demand.zones}


EVEN = pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
SEARCH = a_service(name="search", namespace="shop")
ANNOTATED = a_service(name="search", namespace="shop", annotations={names.DEMAND_ANNOTATION: "b=1"})


def test_kubernetes_decides_by_cpu_and_traffic_starts_where_it_does() -> None:
    assert shares({"a": 700.0}, upstream=True) == {"a": 1.0}
    figures = service_parts(DemandFigures({SHOP: {"a": 700.0}}))
    state = replace(cluster_state(NODES), service_parts=figures).for_service(SEARCH)
    assert decided(state) == {"a": 1.0}
    assert decided(state, built_in=True) == EVEN
    assert decided(replace(state, configuration=Configuration().as_upstream())) == EVEN


def test_measured_traffic_weighs_predictions_and_decides_nothing() -> None:
    measured = service_parts(DemandFigures({SHOP: {"c": 5.0}}))
    state = replace(cluster_state(NODES), measured_parts=measured)
    for service, by in ((SEARCH, EVEN), (ANNOTATED, {"b": 1.0})):
        own = state.for_service(service)
        assert own.demand.weight_of.keys() == {"c"}
        assert decided(own) == by
        assert decided(own, built_in=True) == EVEN
        assert own.for_service(service) is own


def test_traffic_that_is_measured_starts_at_nodes_by_cpu_whatever_demand_is_chosen() -> None:
    nodes = [a_node("n1", "a", cpu="1"), a_node("n2", "a", cpu="3"), a_node("n3", "b", cpu="4")]
    by_nodes = Configuration(demand=DemandSettings(source="nodes"))
    state = replace(cluster_state(nodes, by_nodes), measured_parts={SHOP: {"a": Fraction(1)}}).for_service(SEARCH)
    assert [node.weight for node in state.demand.nodes] == [250_000_000, 750_000_000, 0]
    assert decided(state) == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    assert decided(state, built_in=True) == {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize("amounts", [{}, {"a": 0.0, "b": 0.0}, {"gone": 5.0}])
def test_without_traffic_from_a_zone_with_nodes_the_demand_of_all_services_counts(amounts: dict[str, float]) -> None:
    assert shares(amounts) == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
