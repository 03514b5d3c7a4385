"""The Services of a cluster as inputs."""

import numpy as np
import pytest
from msgspec.structs import replace
from tests.builders.structs import a_node, a_service, nodes_in, pods_in
from tests.clusters import Cluster

from zoneward.kube.input_error import InputError
from zoneward.lab.datasets import Inputs, cluster_dataset


def rows_of(*clusters: Cluster) -> Inputs:
    result = cluster_dataset([cluster.plan() for cluster in clusters], clusters[0].cluster_state.demand)
    assert result.rows == len(result.stored.names)
    (chunk,) = result.chunks()
    return chunk.inputs()


def cluster_in(pods: dict[str, int], nodes: dict[str, int] | None = None, name: str = "cart") -> Cluster:
    service = a_service()
    named = replace(service, metadata=replace(service.metadata, name=name))
    return Cluster(service=named, nodes=nodes_in(nodes or {"a": 4, "b": 2, "c": 2}), pods=pods_in(pods))


def test_endpoints_count_where_they_are_and_nodes_by_their_cpu() -> None:
    inputs = rows_of(cluster_in({"a": 3, "c": 5}))
    assert list(inputs.names) == ["shop/cart"]
    assert inputs.supply.tolist() == [[3, 0, 5]]
    assert (inputs.demand / inputs.demand.sum()).tolist() == [[0.5, 0.25, 0.25]]
    assert {inputs.demand.dtype, inputs.supply.dtype} == {np.dtype(np.int64)}


def test_each_service_has_a_row_in_order() -> None:
    inputs = rows_of(cluster_in({"a": 1}, name="z"), cluster_in({"b": 2}, name="y"))
    assert list(inputs.names) == ["shop/z", "shop/y"]
    assert inputs.numbers.tolist() == [0, 1]
    assert inputs.supply.tolist() == [[1, 0, 0], [0, 2, 0]]


def test_an_endpoint_outside_the_zones_goes_where_it_is_needed_most() -> None:
    cluster = cluster_in({"a": 1, "b": 1, "c": 1, "d": 2})
    away = a_node("node-d", "d", ready=False)
    inputs = rows_of(cluster.with_(nodes=(*cluster.nodes, away)))
    assert inputs.supply.tolist() == [[3, 1, 1]], "a, with half of the demand, lacks most, twice"


def test_a_dual_stack_service_has_a_row_for_each_family() -> None:
    both = Cluster(
        service=a_service(families=("IPv4", "IPv6")),
        nodes=nodes_in({"a": 4, "b": 4}),
        pods=pods_in({"a": 1, "b": 2}, dual_stack=True),
    )
    inputs = rows_of(both)
    assert list(inputs.names) == ["shop/cart 4", "shop/cart 6"]
    assert inputs.supply.tolist() == [[1, 2], [1, 2]]


def test_one_zone_is_nothing_to_compare() -> None:
    with pytest.raises(InputError, match="expected ready nodes in two zones or more, got 1"):
        rows_of(cluster_in({"a": 2}, {"a": 4}))


def test_without_a_service_that_can_be_predicted_there_is_nothing_to_score() -> None:
    with pytest.raises(InputError, match="expected Services whose traffic can be predicted, got none"):
        rows_of(cluster_in({}))
