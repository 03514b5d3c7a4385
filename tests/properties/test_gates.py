"""No hint is written while its feature gate is off, whatever a Service asks for and however that is encoded."""

import dataclasses
from itertools import product
from typing import Final

import pytest
from hypothesis import given
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster, endpoints_in
from tests.properties.random_clusters import clusters, examples

from zoneward.kube.objects import Endpoint
from zoneward.routing.configuration import DefaultApproach, Encoding, FeatureGates, SubsettingSettings
from zoneward.routing.request.what_if import WHAT_IF_VALUES, as_if_requested

NO_HINTS: Final = FeatureGates(topology_aware_hints=False)
NO_NODE_HINTS: Final = FeatureGates(prefer_same_traffic_distribution=False)


def with_gates(cluster: Cluster, gates: FeatureGates) -> Cluster:
    return cluster.with_(configuration=dataclasses.replace(cluster.configuration, gates=gates))


def own_endpoints(cluster: Cluster) -> list[Endpoint]:
    """Every endpoint of the slices that the plan of a cluster leaves as ours."""
    return endpoints_in(each for family in cluster.plan().families for each in family.changes.after)


@examples(100)
@given(clusters())
def test_no_slice_of_ours_has_hints_while_their_gate_is_off(cluster: Cluster) -> None:
    """Hints that stand there from before are removed, as when nothing asks for them any more (KEP-2433 § Test Plan);
    hints for nodes likewise (KEP-3015 § Feature Enablement and Rollback)."""
    assert not [each for each in own_endpoints(with_gates(cluster, NO_HINTS)) if each.hints is not None]
    off = with_gates(cluster, NO_NODE_HINTS)
    assert not [each for each in own_endpoints(off) if each.hints is not None and each.hints.for_nodes]


ENCODINGS: Final[tuple[Encoding, ...]] = ("slice-groups", "hints")
DEFAULTS: Final[tuple[DefaultApproach, ...]] = ("ClusterWide", "Subsetting")


@pytest.mark.parametrize("upstream", [False, True])
@pytest.mark.parametrize(("encoding", "default"), list(product(ENCODINGS, DEFAULTS)))
def test_every_value_that_can_be_asked_for_is_without_hints_while_the_gate_is_off(
    encoding: Encoding, default: DefaultApproach, upstream: bool
) -> None:
    asks = [as_if_requested(a_service(), value) for value in WHAT_IF_VALUES]
    asks += [a_service(), *(a_service(f"zoneward.dev/{value}") for value in ("PreferSameZone", "PreferSameNode"))]
    for service in asks:
        cluster = Cluster(service=service, nodes=nodes_in({"a": 4, "b": 4}), pods=pods_in({"a": 6, "b": 6}))
        subsetting = SubsettingSettings(encoding=encoding)
        configuration = dataclasses.replace(
            cluster.configuration, subsetting=subsetting, default_approach=default, gates=FeatureGates()
        )
        if upstream:
            configuration = configuration.as_upstream()
        on = cluster.with_(configuration=configuration)
        # Hints from before, where there are any, go as well.
        before = on.settled()
        for off in (with_gates(on, NO_HINTS), with_gates(before, NO_HINTS)):
            assert not [each for each in own_endpoints(off) if each.hints is not None], service.metadata.annotations
        without_nodes = with_gates(before, NO_NODE_HINTS)
        assert not [each for each in own_endpoints(without_nodes) if each.hints is not None and each.hints.for_nodes]
