"""The demand of single Services: figures of it decide, and the annotation wins."""

from dataclasses import replace

import pytest
from tests.builders.structs import a_node, a_service
from tests.clusters import cluster_state

from zoneward.kube import names
from zoneward.kube.demand_figures import DemandFigures
from zoneward.routing.configuration import Configuration
from zoneward.routing.service_demand import service_parts

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


def test_current_kubernetes_reads_no_figures() -> None:
    assert shares({"a": 700.0}, upstream=True) == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})


@pytest.mark.parametrize("amounts", [{}, {"a": 0.0, "b": 0.0}, {"gone": 5.0}])
def test_without_traffic_from_a_zone_with_nodes_the_demand_of_all_services_counts(amounts: dict[str, float]) -> None:
    assert shares(amounts) == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
