"""The input of ``explain`` for the small clusters of tests."""

from tests.clusters import Cluster

from zoneward.advice.service_input import ServiceInput


def input_of(cluster: Cluster) -> ServiceInput:
    return ServiceInput(cluster.service, cluster.nodes, cluster.pods, cluster.slices, cluster.cluster_state)
