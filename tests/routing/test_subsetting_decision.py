"""Decisions by slice groups: what traffic policies, a default and conditions mean for them (KEP-2004)."""

import pytest
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster, only_family, written

from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.configuration import Configuration
from zoneward.routing.rules import Reason
from zoneward.slices.plan import ServicePlan


def a_cluster(service: Service, configuration: Configuration | None = None) -> Cluster:
    """Twelve Pods in three zones, most of them in one."""
    return Cluster(
        service=service,
        nodes=nodes_in({"a": 4, "b": 4, "c": 4}),
        pods=pods_in({"a": 8, "b": 3, "c": 1}),
        configuration=configuration if configuration is not None else Configuration(),
    )


def labels(plan: ServicePlan) -> list[str]:
    slices = only_family(plan).changes.after
    return sorted((slice_.metadata.labels or {}).get(names.ZONE_LABEL, "") for slice_ in slices)


@pytest.mark.parametrize("value", ["Auto", "Require", None])
def test_an_external_policy_of_local_disables_subsetting(value: str | None) -> None:
    """KEP-2004 § Risks: an endpoint on a Node could be given to another zone; groups that are there go. None is the
    controller's default."""
    configuration = Configuration(default_approach="ClusterWide" if value else "Subsetting")
    settled = a_cluster(a_service(subsetting=value), configuration).settled()
    assert labels(settled.plan()) == ["a", "b", "c"]
    service = a_service(subsetting=value, external="Local", type_="LoadBalancer", node_port=30080)
    plan = settled.with_(service=service).plan()
    decision = only_family(plan).decision
    assert (decision.active, decision.reason) == (False, Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL)
    assert [(rule.rule, rule.passed) for rule in decision.rules][-1] == ("external-traffic-policy", False)
    assert labels(plan) == [""]


@pytest.mark.parametrize("value", ["Auto", "Require"])
def test_an_internal_policy_of_local_leaves_the_slices_as_they_are(value: str) -> None:
    """Traffic from outside still uses them; a rule says that traffic from inside does not."""
    settled = a_cluster(a_service(subsetting=value)).settled()
    plan = settled.with_(service=a_service(subsetting=value, internal="Local")).plan()
    assert only_family(plan).decision.active
    assert not written(plan)
    assert ("internal-traffic-policy", False) in [(rule.rule, rule.passed) for rule in only_family(plan).decision.rules]
