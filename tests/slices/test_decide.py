"""Hints that are asked for beside subsetting stay wherever subsetting does nothing."""

from dataclasses import replace
from typing import Final

import pytest
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import cluster_state

from zoneward.kube.objects import Service
from zoneward.routing.configuration import Configuration, SubsettingSettings
from zoneward.routing.decision import Decision
from zoneward.routing.rules import Reason
from zoneward.routing.selection.endpoint_selection import CURRENT
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import plan_service

EVEN: Final = {"a": 4, "b": 4, "c": 4}
NODES: Final = nodes_in(EVEN)
MANY, FEW = (dict.fromkeys(EVEN, count) for count in (6, 3))
"""Enough Pods for subsetting to start, and too few."""
AUTO: Final = a_service("Auto", subsetting="Auto")
FIELD: Final = a_service(distribution="PreferSameZone", subsetting="Auto")
SUBSETTING, HINTS, DISTRIBUTION = "Subsetting/local", "Hints/ProportionalZoneCPU", "TrafficDistribution/PreferSameZone"


def kube_proxies(configuration: Configuration | None = None) -> ClusterState:
    return replace(cluster_state(NODES, configuration), consumer=CURRENT)


def decision(service: Service, pods: dict[str, int], state: ClusterState) -> Decision:
    (family,) = plan_service(service, pods=pods_in(pods), slices=(), cluster_state=state).families
    return family.decision


@pytest.mark.parametrize(("service", "hints"), [(AUTO, HINTS), (FIELD, DISTRIBUTION)])
@pytest.mark.parametrize("pods", [MANY, FEW])
def test_hints_stay_where_no_proxy_reads_slice_groups(service: Service, hints: str, pods: dict[str, int]) -> None:
    decided = decision(service, pods, kube_proxies())
    assert (decided.in_force, decided.accepted) == (hints, True)
    assert "slice-groups" in {rule.rule for rule in decided.rules if not rule.passed}


@pytest.mark.parametrize(("service", "hints"), [(AUTO, HINTS), (FIELD, DISTRIBUTION)])
def test_hints_stay_while_subsetting_is_not_active(service: Service, hints: str) -> None:
    assert decision(service, MANY, cluster_state(NODES)).in_force == SUBSETTING
    decided = decision(service, FEW, cluster_state(NODES))
    assert (decided.in_force, decided.beside_subsetting) == (hints, True)
    (rule,) = (rule for rule in decided.rules if rule.rule == "hints-instead")
    assert "9 endpoints, starts at 3 x 3 zones + 3 = 12" in rule.detail


def test_the_reason_is_that_of_the_hints_where_these_are_refused_too() -> None:
    decided = decision(AUTO, {"a": 1}, cluster_state(NODES))
    assert (decided.approach.value, decided.active, decided.reason) == ("Hints", False, Reason.TOO_FEW_ENDPOINTS)


def test_one_node_with_a_proxy_that_reads_slice_groups_is_enough() -> None:
    state = replace(kube_proxies(), consumer_by_node={"node-a": cluster_state(NODES).consumer})
    assert decision(AUTO, MANY, state).in_force == SUBSETTING


def test_groups_by_hints_need_no_such_proxy() -> None:
    as_hints = Configuration(subsetting=SubsettingSettings(encoding="hints"))
    assert decision(AUTO, MANY, kube_proxies(as_hints)).in_force == SUBSETTING


def test_services_of_another_proxy_depend_on_that_one() -> None:
    labelled = a_service("Auto", subsetting="Auto", labels={"service.kubernetes.io/service-proxy-name": "zoneward"})
    assert decision(labelled, MANY, kube_proxies()).in_force == SUBSETTING


def test_subsetting_alone_stays_whatever_runs() -> None:
    assert decision(a_service(subsetting="Auto"), MANY, kube_proxies()).in_force == SUBSETTING
    disabled = a_service("Disabled", subsetting="Auto")
    assert decision(disabled, MANY, kube_proxies()).in_force == SUBSETTING


def test_while_the_proxies_are_not_known_what_is_in_force_stays() -> None:
    unknown = replace(cluster_state(NODES), slice_groups_seen=None)
    assert decision(AUTO, MANY, unknown).in_force == HINTS
    pods = pods_in(MANY)
    before = plan_service(AUTO, pods=pods, slices=(), cluster_state=cluster_state(NODES)).families[0]
    slices = before.changes.create
    (after,) = plan_service(AUTO, pods=pods, slices=slices, cluster_state=unknown).families
    assert (before.decision.in_force, after.decision.in_force) == (SUBSETTING, SUBSETTING)


def test_kubernetes_does_not_know_subsetting() -> None:
    decided = decision(AUTO, MANY, cluster_state(NODES, Configuration().as_upstream()))
    assert not {"slice-groups", "hints-instead"} & {rule.rule for rule in decided.rules}
