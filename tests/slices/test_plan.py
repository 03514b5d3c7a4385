"""The plan of a Service: whose slices are touched, what is created, and what each kind of Service gets."""

from collections.abc import Mapping, Sequence
from dataclasses import replace as with_fields
from typing import Final

import pytest
from msgspec.structs import replace
from tests.builders.structs import (
    DUAL_STACK,
    a_node,
    a_pod,
    a_service,
    a_slice,
    an_endpoint,
    hints,
    nodes_in,
    pods_in,
)
from tests.clusters import Cluster, endpoints_in, only_family, slices_after, written

from zoneward.kube import names
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION, manager_of
from zoneward.kube.objects import ContainerPort, Endpoint, EndpointSlice, ServicePort
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.routing.rules import Reason, Rule
from zoneward.routing.selection.endpoint_selection import CONSUMERS
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan

CLUSTER: Final = Cluster(service=a_service("Auto"), nodes=nodes_in({"a": 4, "b": 4}), pods=pods_in({"a": 2, "b": 2}))
BUILT_IN: Final = tuple(
    replace(slice_, metadata=replace(slice_.metadata, name="cart-x7f2q"))
    for slice_ in slices_after(CLUSTER.with_(configuration=Configuration().as_upstream()).plan())
)
"""The one slice of the built-in controller in this cluster; the API server made up its name."""


def rules_named(name: str, plan: ServicePlan) -> list[Rule]:
    return [rule for family in plan.families for rule in family.decision.rules if rule.rule == name]


def pods_of(slices: Sequence[EndpointSlice]) -> list[str]:
    return sorted(one.target_ref.name for one in endpoints_in(slices) if one.target_ref)


def test_slices_of_the_built_in_controller_are_replaced_and_never_relabelled() -> None:
    """Zoneward's are created beside them; the plan names those to delete, and no address counts twice."""
    family = only_family(CLUSTER.with_(slices=BUILT_IN).plan())
    assert family.replaced == BUILT_IN
    assert family.slices == family.changes.after
    assert family.traffic == only_family(CLUSTER.plan()).traffic
    changes = family.changes
    assert (len(changes.create), changes.update, changes.unchanged, changes.delete) == (1, (), (), ())
    assert manager_of(changes.create[0]) == names.MANAGER
    assert changes.create[0].metadata.name not in {slice_.metadata.name for slice_ in BUILT_IN}


def test_deciding_as_kubernetes_does_replaces_what_we_made_otherwise() -> None:
    existing = only_family(CLUSTER.plan()).slices
    family = only_family(CLUSTER.with_(slices=existing, configuration=Configuration().as_upstream()).plan())
    assert family.replaced == existing
    assert {manager_of(slice_) for slice_ in family.slices} == {names.BUILT_IN_MANAGER}


def others(*endpoints: Endpoint, manager: str | None = "example.com") -> Cluster:
    return CLUSTER.with_(slices=(a_slice("foreign", *endpoints, manager=manager, owner=None),))


@pytest.mark.parametrize("manager", ["example.com", "endpointslicemirroring-controller.k8s.io", None])
def test_slices_of_others_are_untouched_and_named(manager: str | None) -> None:
    cluster = others(an_endpoint("10.9.9.9"), manager=manager)
    plan = cluster.plan()
    family = only_family(plan)
    assert family.others == cluster.slices
    assert cluster.slices[0] not in written(plan)
    (rule,) = rules_named("slices-of-others", plan)
    assert rule.detail.startswith(f"foreign managed by {manager or 'nobody named'}")


VOIDING: Final[Mapping[str, tuple[Cluster, bool]]] = {
    "an endpoint without a hint": (others(an_endpoint("10.9.9.9")), False),
    "an endpoint with one": (others(an_endpoint("10.9.9.9", hinted=hints("a"))), True),
    "no endpoint": (others(), True),
    "one with a hint and one without": (
        others(an_endpoint("10.9.9.8", hinted=hints("a")), an_endpoint("10.9.9.9")),
        False,
    ),
    "one without a hint that is not ready": (others(an_endpoint("10.9.9.9", ready=False)), True),
    "hints for nodes beside Zoneward's for zones": (
        others(an_endpoint("10.9.9.9", hinted=hints(nodes=["node-a"]))),
        False,
    ),
}


@pytest.mark.parametrize("what", VOIDING)
def test_a_rule_says_whether_slices_of_others_void_hints(what: str) -> None:
    cluster, passed = VOIDING[what]
    plan = cluster.plan()
    (rule,) = rules_named("slices-of-others", plan)
    assert rule.passed == passed
    assert only_family(plan).void_hints == (None if passed else rule.detail)
    traffic = only_family(plan).traffic
    assert traffic is not None
    ready = sum(1 for share in traffic.load if share)
    assert all(zone.consumed == ready for zone in traffic.zones.values()) == (not passed)


def test_an_external_name_has_no_slices() -> None:
    ours = CLUSTER.settled().slices
    cluster = CLUSTER.with_(service=a_service("Auto", type_="ExternalName"), slices=(*BUILT_IN, *ours))
    plan = cluster.plan()
    assert (plan.families, plan.conditions, plan.events, plan.surplus, plan.worst_family) == ((), (), (), ours, None)


MANUAL: Final = a_slice(
    "by-hand", an_endpoint("10.9.9.1", "a"), an_endpoint("10.9.9.2", "b", ready=False), manager=None, owner=None
)


@pytest.mark.parametrize("selector", [None, {}])
def test_a_service_without_selector_is_looked_at_and_never_touched(selector: dict[str, str] | None) -> None:
    service = a_service("Auto")
    service = replace(service, spec=replace(service.spec, selector=selector))
    plan = CLUSTER.with_(service=service, slices=(MANUAL,)).plan()
    assert not written(plan)
    assert (plan.conditions, plan.events) == ((), ())
    family = only_family(plan)
    assert family.others == (MANUAL,)
    assert (family.decision.reason, family.decision.active) == (Reason.NO_SELECTOR, False)
    assert family.decision.rules[0] == Rule(
        "selector", False, "no selector: its EndpointSlices are managed by others (nobody named)"
    )
    assert family.traffic is not None
    assert family.traffic.load == (1.0, 0.0)


def test_a_service_that_was_adopted_is_planned_as_it_was_before() -> None:
    service, mark = a_service("Auto", selects=False), {SELECTOR_ANNOTATION: '{"app": "cart"}'}
    annotations = (service.metadata.annotations or {}) | mark
    adopted = replace(service, metadata=replace(service.metadata, annotations=annotations))
    plan = CLUSTER.with_(service=adopted).plan()
    assert endpoints_in(slices_after(plan)) == endpoints_in(slices_after(CLUSTER.plan()))
    assert only_family(plan).decision.active


def test_a_service_without_selector_and_slices_is_told_of_once() -> None:
    plan = CLUSTER.with_(service=a_service(selects=False, families=DUAL_STACK)).plan()
    assert [family.address_type for family in plan.families] == ["IPv4"]
    assert only_family(plan).decision.rules[0].detail.endswith("(there are none)")


def test_a_headless_service_gets_slices_and_no_prediction() -> None:
    """Clients choose among all addresses: hints are for DNS and others."""
    plan = CLUSTER.with_(service=a_service("Auto", cluster_ip="None")).plan()
    family = only_family(plan)
    assert family.traffic is None
    assert family.decision.active
    assert (family.changes.create[0].metadata.labels or {})[names.HEADLESS_LABEL] == ""
    assert [rule.passed for rule in rules_named("proxied", plan)] == [False]


def test_the_internal_policy_local_is_a_rule() -> None:
    plan = CLUSTER.with_(service=a_service("Auto", internal="Local")).plan()
    assert [rule.detail for rule in rules_named("internal-traffic-policy", plan)] == [
        "internalTrafficPolicy is Local: hints do not matter inside the cluster"
    ]
    assert rules_named("internal-traffic-policy", CLUSTER.plan()) == []


@pytest.mark.parametrize("value", ["Auto", "Require"])
def test_the_internal_policy_local_leaves_slice_groups_as_they_are(value: str) -> None:
    """Traffic from outside still uses them."""
    cluster = CLUSTER.with_(service=a_service(subsetting=value), pods=pods_in({"a": 8, "b": 3})).settled()
    plan = cluster.with_(service=a_service(subsetting=value, internal="Local")).plan()
    assert only_family(plan).decision.active
    assert not written(plan)
    assert [rule.passed for rule in rules_named("internal-traffic-policy", plan)] == [False]


@pytest.mark.parametrize("value", ["Auto", "Require", None])
def test_the_external_policy_local_disables_subsetting(value: str | None) -> None:
    """KEP-2004 § Risks: an endpoint on a Node could be given to another zone. None is the controller's default."""
    configuration = Configuration(default_approach="ClusterWide" if value else "Subsetting")
    cluster = CLUSTER.with_(
        service=a_service(subsetting=value), pods=pods_in({"a": 8, "b": 3}), configuration=configuration
    ).settled()
    assert len(cluster.slices) == 2
    plan = cluster.with_(service=a_service(subsetting=value, external="Local")).plan()
    assert only_family(plan).decision.reason is Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL
    assert len(slices_after(plan)) == 1


def test_pods_on_nodes_that_are_gone_are_left_out_and_named() -> None:
    pods = tuple(a_pod(f"lost-{index}", "node-gone", ips=(f"10.9.9.{index}",)) for index in range(5))
    plan = CLUSTER.with_(pods=(*CLUSTER.pods, *pods)).plan()
    assert pods_of(slices_after(plan)) == ["a-0000", "a-0001", "b-0000", "b-0001"]
    assert [rule.detail for rule in rules_named("pod-nodes", plan)] == [
        "5 pods left out: their node is gone (lost-0, lost-1, lost-2 and 2 more)"
    ]


def test_pods_without_the_named_port_are_a_rule() -> None:
    service = a_service("Auto", ports=[ServicePort(name="http", port=80, target_port="web")])
    web = a_pod("web", "node-a", ips=("10.9.9.9",), ports=[ContainerPort(name="web", container_port=8080)])
    plan = CLUSTER.with_(service=service, pods=(*CLUSTER.pods, web)).plan()
    assert rules_named("target-ports", plan) == [
        Rule("target-ports", False, "4 endpoints without a target for port http: no container port is called 'web'")
    ]
    assert rules_named("target-ports", CLUSTER.plan()) == []
    assert rules_named("target-ports", CLUSTER.with_(service=service, pods=(web,)).plan()) == []


def test_without_nodes_in_the_snapshot_no_pod_is_left_out() -> None:
    plan = CLUSTER.with_(nodes=()).plan()
    assert len(pods_of(slices_after(plan))) == 4
    assert only_family(plan).decision.reason is Reason.NO_READY_NODES


def test_without_pods_in_the_snapshot_endpoints_come_from_slices() -> None:
    existing = BUILT_IN
    family = only_family(CLUSTER.with_(pods=(), pods_known=False, slices=existing).plan())
    assert pods_of(family.changes.create) == ["a-0000", "a-0001", "b-0000", "b-0001"]
    assert family.decision.active
    assert family.changes.create == only_family(CLUSTER.with_(slices=existing).plan()).changes.create
    both = CLUSTER.with_(pods=(), pods_known=False, slices=(*existing, *CLUSTER.settled().slices))
    assert not written(both.plan())


TWO_NODES = [a_node("n1", "a"), a_node("n2", "b")]
STATE = ClusterState(demand=compute_demand(TWO_NODES), node_zones={"n1": "a", "n2": "b"}, configuration=Configuration())


def test_demand_the_first_node_and_settings_affect_all_services() -> None:
    others = [
        with_fields(STATE, demand=compute_demand([a_node("n1", "a", cpu=8), TWO_NODES[1]])),
        with_fields(STATE, demand=compute_demand([*TWO_NODES, a_node("n3", "a")])),
        with_fields(STATE, node_zones={}),
        with_fields(STATE, configuration=Configuration(max_endpoints_per_slice=7)),
        with_fields(STATE, pods_known=False),
        with_fields(STATE, consumer=CONSUMERS["no-hints"]),
    ]
    assert [STATE.affects_all_services(other) for other in others] == [True] * len(others)
