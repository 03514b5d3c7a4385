"""No hint is written while its feature gate is off, whatever a Service asks for and however that is encoded."""

import dataclasses
from typing import Final

from hypothesis import given
from tests.clusters import Cluster, endpoints_in
from tests.properties.random_clusters import clusters, examples

from zoneward.kube.objects import Endpoint
from zoneward.routing.configuration import FeatureGates

NO_HINTS: Final = FeatureGates(topology_aware_hints=False)
NO_NODE_HINTS: Final = FeatureGates(prefer_same_traffic_distribution=False)


def with_gates(cluster: Cluster, gates: FeatureGates) -> Cluster:
    return cluster.with_(configuration=dataclasses.replace(cluster.configuration, gates=gates))


def own_endpoints(cluster: Cluster) -> list[Endpoint]:
    return endpoints_in(each for family in cluster.plan().families for each in family.changes.after)


@examples(100)
@given(clusters())
def test_no_slice_of_ours_has_hints_while_their_gate_is_off(cluster: Cluster) -> None:
    """Hints that stand there from before are removed, as when nothing asks for them any more (KEP-2433 § Test Plan);
    hints for nodes likewise (KEP-3015 § Feature Enablement and Rollback)."""
    assert not [each for each in own_endpoints(with_gates(cluster, NO_HINTS)) if each.hints is not None]
    off = with_gates(cluster, NO_NODE_HINTS)
    assert not [each for each in own_endpoints(off) if each.hints is not None and each.hints.for_nodes]
