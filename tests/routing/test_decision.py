"""One decision: each reason with its words, and the rules that led there, in order and with numbers."""

from collections.abc import Mapping
from typing import Final

import pytest
from msgspec.structs import replace
from tests.builders.structs import a_node, a_pod, a_service, nodes_in, pods_in
from tests.clusters import Cluster, decided_hints, hinted_zones, only_family, written

from zoneward.kube.objects import Node
from zoneward.routing.configuration import Configuration, FeatureGates, HintsSettings, SubsettingSettings
from zoneward.routing.decision import Decision
from zoneward.routing.rules import Reason

AUTO: Final = Cluster(service=a_service("Auto"), nodes=nodes_in({"a": 4, "b": 4}), pods=pods_in({"a": 3, "b": 1}))
AS_HINTS: Final = Configuration(subsetting=SubsettingSettings(encoding="hints"))
NINE: Final = "abcdefghi"
NOWHERE: Final = (a_node("node-x", None, ready=False), a_pod("lost", "node-x", ips=("10.9.9.9",)))


def without_zone(cluster: Cluster) -> Cluster:
    """The cluster with one Pod more, on a Node without a zone that does not count for demand."""
    node, pod = NOWHERE
    return cluster.with_(nodes=(*cluster.nodes, node), pods=(*cluster.pods, pod))


OUTCOMES: Final[Mapping[Reason, tuple[Cluster, str]]] = {
    Reason.ENABLED: (AUTO, "every zone has its fair share; 4 endpoints for 2 zones"),
    Reason.NOT_ASKED_FOR: (AUTO.with_(service=a_service()), "nothing is asked for: all endpoints serve all zones"),
    Reason.UNKNOWN_VALUE: (
        AUTO.with_(service=a_service("Banana")),
        "service.kubernetes.io/topology-mode: 'Banana' is not a known value",
    ),
    Reason.FEATURE_GATE_OFF: (
        AUTO.with_(configuration=Configuration(gates=FeatureGates(topology_aware_hints=False))),
        "the feature gate TopologyAwareHints is off",
    ),
    Reason.TOPOLOGY_KEYS: (
        AUTO.with_(service=a_service("Auto", keys=("*",))),
        "spec.topologyKeys is set and overrides every newer setting",
    ),
    Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL: (
        AUTO.with_(service=a_service("Auto", external="Local")),
        "externalTrafficPolicy is Local: an endpoint of a node could be given to another zone",
    ),
    Reason.NO_READY_NODES: (
        AUTO.with_(nodes=(a_node("node-a", "a", ready=False), a_node("node-b", "b", ready=False))),
        "no node is ready",
    ),
    Reason.ONLY_CONTROL_PLANES: (
        AUTO.with_(
            nodes=(
                *(a_node(f"node-{zone}", zone, ready=False) for zone in "ab"),
                *(a_node(f"plane-{zone}", zone, labels={"node-role.kubernetes.io/control-plane": ""}) for zone in "ab"),
            )
        ),
        "only control plane nodes are ready",
    ),
    Reason.NODE_WITHOUT_ZONE: (
        AUTO.with_(nodes=(*AUTO.nodes, a_node("node-x", None), a_node("node-w", None))),
        "2 nodes without zone label (node-w, node-x)",
    ),
    Reason.NODE_WITHOUT_CPU: (
        AUTO.with_(
            nodes=(*AUTO.nodes, a_node("node-x", cpu=None)),
            configuration=Configuration(hints=HintsSettings(missing_cpu="disable")),
        ),
        "1 node without allocatable CPU (node-x)",
    ),
    Reason.ONE_ZONE: (
        AUTO.with_(nodes=(a_node("node-a", "a"), a_node("node-b", "b", ready=False))),
        "nodes are only ready in 1 zone",
    ),
    Reason.NO_READY_ENDPOINTS: (
        AUTO.with_(service=a_service(distribution="PreferSameZone"), pods=()),
        "no endpoint is ready",
    ),
    Reason.TOO_FEW_ENDPOINTS: (AUTO.with_(pods=AUTO.pods[:1]), "1 endpoint for 2 zones: fewer than one each"),
    Reason.OVERLOAD: (
        AUTO.with_(pods=pods_in({"a": 3})),
        "3 endpoints for 2 zones: any split would put too much on some zone",
    ),
    Reason.ENDPOINT_WITHOUT_ZONE: (without_zone(AUTO), "1 endpoint without zone (lost)"),
    Reason.HINTS_NOT_STORED: (
        AUTO.with_(configuration=Configuration(stored_hints="none")),
        "the API server does not store hints: its feature gate is off, or a webhook removes them",
    ),
    Reason.NO_SELECTOR: (
        AUTO.with_(service=a_service("Auto", selects=False)),
        "no selector: its EndpointSlices are managed by others",
    ),
    Reason.BELOW_STARTING_THRESHOLD: (
        AUTO.with_(service=a_service(subsetting="Auto")),
        "4 endpoints, starts at 3 x 2 zones + 3 = 9",
    ),
    Reason.HINTS_WITHOUT_WEIGHTS: (
        AUTO.with_(service=a_service(subsetting="Auto", algorithm="local-opt"), configuration=AS_HINTS),
        "local-opt needs weights, and hints have none",
    ),
    Reason.TOO_MANY_ZONES: (
        Cluster(
            service=a_service(subsetting="Auto", algorithm="random"),
            nodes=nodes_in(dict.fromkeys(NINE, 4)),
            pods=pods_in({**dict.fromkeys(NINE, 3), "a": 6}),
            configuration=AS_HINTS,
        ),
        "a group for 9 zones in a hint, 8 at most",
    ),
    Reason.CLUSTER_WIDE_IS_BEST: (
        AUTO.with_(service=a_service("zoneward.dev/Balanced"), pods=AUTO.pods[:1]),
        "1 endpoint for 2 zones: no sets are better than all endpoints for all",
    ),
    Reason.BEING_DELETED: (
        Cluster(
            service=a_service(subsetting="Auto", deleting=True),
            nodes=nodes_in({"a": 4, "b": 4}),
            pods=pods_in({"a": 6, "b": 6}),
        ),
        "the Service is being deleted, and there are not enough slices for its groups",
    ),
}


def decided(cluster: Cluster) -> Decision:
    return only_family(cluster.plan()).decision


def test_every_reason_is_in_the_table() -> None:
    assert set(Reason) - {Reason.ACCEPTED} == set(OUTCOMES)


@pytest.mark.parametrize("reason", OUTCOMES, ids=str)
def test_an_outcome_has_its_reason_its_words_and_the_rule_that_decided(reason: Reason) -> None:
    cluster, message = OUTCOMES[reason]
    decision = decided(cluster)
    assert (decision.reason, decision.message) == (reason, message)
    assert decision.active == (reason is Reason.ENABLED)
    assert (decision.allocation is not None) == decision.active
    assert decision.in_force == ("Hints/ProportionalZoneCPU" if decision.active else None)
    # A refusal is the one rule that did not pass after the settings, and the last one asked.
    settings = ("annotation", "traffic-distribution")
    failed = [rule.rule for rule in decision.rules if not rule.passed and rule.rule not in settings]
    if reason in (Reason.ENABLED, Reason.NOT_ASKED_FOR, Reason.UNKNOWN_VALUE):
        assert failed == []
    else:
        assert failed == [decision.rules[-1].rule]


def test_rules_of_the_balancing_heuristic_in_order() -> None:
    rules = [(rule.rule, rule.passed, rule.detail) for rule in decided(AUTO).rules]
    assert rules == [
        ("annotation", True, "service.kubernetes.io/topology-mode: Auto asks for ProportionalZoneCPU"),
        ("gate-topology-aware-hints", True, "TopologyAwareHints is on"),
        ("external-traffic-policy", True, "externalTrafficPolicy is Cluster"),
        ("ready-nodes", True, "2 ready nodes"),
        ("node-zones", True, "every ready node has a zone"),
        ("node-cpu", True, "every ready node has allocatable CPU"),
        ("two-zones", True, "nodes ready in 2 zones"),
        ("enough-endpoints", True, "4 endpoints for 2 zones"),
        ("endpoint-zones", True, "every ready endpoint has a zone"),
        ("threshold-in-force", True, "not in force yet: starts below 20 %"),
        ("overload-threshold", True, "below 20 % the zones need at least 2 + 2 = 4 of 4 endpoints"),
        ("placement", True, "3 endpoints serve their own zone, 1 another; 1 moved"),
    ]


def test_the_message_names_the_worst_zone_and_how_far_it_is_above_fair() -> None:
    cluster = AUTO.with_(pods=pods_in({"a": 4, "b": 3}))
    assert decided(cluster).message == "no zone is more than 16.7 % above fair (b is); 7 endpoints for 2 zones"


@pytest.mark.parametrize("setting", ["PreferZone", "PreferSameZone", "PreferSameNode"])
def test_hints_to_the_own_zone_ask_no_node_and_count_no_endpoint(setting: str) -> None:
    """One zone, one endpoint, a Node without zone or CPU, the external policy Local: these hints stay (design)."""
    mode, distribution = (setting, None) if setting == "PreferZone" else (None, setting)
    cluster = Cluster(
        service=a_service(mode, distribution=distribution, external="Local"),
        nodes=(a_node("node-a"), a_node("node-x", None, cpu=None)),
        pods=pods_in({"a": 1}),
    )
    assert decided(cluster).active


def test_an_endpoint_without_a_zone_voids_hints_for_zones() -> None:
    """In a traffic distribution the others keep their hints: no slice is rewritten after it is removed. Hints for nodes
    stay."""
    for service, without_hint in (
        (a_service("Auto"), 5),
        (a_service("PreferZone"), 5),
        (a_service(distribution="PreferSameZone"), 1),
    ):
        decision = decided(without_zone(AUTO.with_(service=service)))
        assert (decision.reason, decision.active) == (Reason.ENDPOINT_WITHOUT_ZONE, False)
        assert decided_hints(decision).count(None) == without_hint
    decision = decided(without_zone(AUTO.with_(service=a_service(distribution="PreferSameNode"))))
    assert (decision.active, decision.reason) == (True, Reason.ENDPOINT_WITHOUT_ZONE)
    assert decision.message == (
        "every endpoint serves its own node, all serve the other nodes: 1 endpoint without zone (lost) voids zone hints"
    )
    failed = [(rule.rule, rule.passed) for rule in decision.rules if rule.rule.startswith("endpoint-")]
    assert failed == [("endpoint-zones", False), ("endpoint-nodes", True)]
    assert all(hint is not None and hint.for_nodes for hint in decided_hints(decision))


SINCE: Final = "2026-01-01T10:00:00Z"
NEWER: Final = "2026-01-01T10:00:01Z"


def with_node_without_zone(cluster: Cluster, *, created: str | None) -> Cluster:
    node = a_node("node-x", None, cpu=None)
    node = replace(node, metadata=replace(node.metadata, creation_timestamp=created))
    return cluster.with_(nodes=(*cluster.nodes, node))


@pytest.mark.parametrize("created", [NEWER, SINCE, "2026-01-01T09:59:59Z", "soon", None])
def test_a_new_node_without_a_zone_voids_no_hints_and_adds_nothing_to_demand(created: str | None) -> None:
    """Nor does it lack CPU. As upstream, no Node is new."""
    new = AUTO.with_(configuration=Configuration(nodes_new_since=SINCE))
    cluster = with_node_without_zone(new, created=created)
    decision = decided(cluster)
    assert decision.active is (created == NEWER)
    assert decision.reason is (Reason.ENABLED if created == NEWER else Reason.NODE_WITHOUT_ZONE)
    assert (cluster.cluster_state.demand.weight_of == {"a": 4000, "b": 4000}) is (created == NEWER)
    (rule,) = (rule for rule in decision.rules if rule.rule == "node-zones")
    assert rule.passed is (created == NEWER)
    assert "without zone label (node-x)" in rule.detail
    upstream = cluster.with_(configuration=cluster.configuration.as_upstream())
    assert not decided(upstream).active


@pytest.mark.parametrize(
    ("nodes", "reason", "message"),
    [
        ((a_node("n1", "a"), a_node("n2", None)), Reason.NODE_WITHOUT_ZONE, "1 node without zone label (n2)"),
        ((a_node("n1", "a"), a_node("n2", "b", cpu=0)), Reason.NODE_WITHOUT_CPU, "1 node without allocatable CPU (n2)"),
        ((a_node("n1", "a"),), Reason.ONE_ZONE, "nodes are only ready in 1 zone"),
    ],
)
def test_as_upstream_the_reason_says_which_information_is_missing(
    nodes: tuple[Node, ...], reason: Reason, message: str
) -> None:
    """Upstream's event has one message for all three."""
    upstream = AUTO.with_(configuration=Configuration().as_upstream(), nodes=nodes)
    decision = decided(upstream)
    assert (decision.active, decision.reason, decision.message) == (False, reason, message)


def test_a_service_between_the_thresholds_gets_its_hints_back_after_a_node_without_a_zone() -> None:
    """Five endpoints for two zones: one of them is 25 % above fair."""
    between = AUTO.settled().with_(pods=pods_in({"a": 3, "b": 2}))
    assert not decided(between.with_(slices=())).active
    settled = between.settled()
    assert decided(settled).active
    suspended = with_node_without_zone(settled, created=None).settled()
    assert (decided(suspended).active, decided(suspended).in_force) == (False, None)
    assert set(hinted_zones(suspended.slices)) == set()
    assert not written(suspended.plan())
    back = suspended.with_(nodes=settled.nodes)
    assert decided(back).active
    assert "in force until something was unknown: kept below 30 %" in [rule.detail for rule in decided(back).rules]
    # Any other reason removes the memory.
    few = suspended.with_(nodes=settled.nodes, pods=pods_in({"a": 1})).settled()
    assert not decided(few.with_(pods=between.pods)).active


def test_an_endpoint_that_is_not_ready_has_no_hint_for_a_zone_without_ready_endpoints() -> None:
    """Data planes that select it by its hint would find nothing else there."""
    cluster = Cluster(
        service=a_service(distribution="PreferSameZone"),
        nodes=nodes_in({"a": 1, "b": 1}),
        pods=(*pods_in({"b": 2}), a_pod("unready", "node-a", ips=("10.8.0.1",), ready=False)),
    )
    assert set(hinted_zones(only_family(cluster.plan()).changes.after).values()) == {"b"}


def test_an_address_counts_once_and_all_who_share_it_get_the_same_hint() -> None:
    shared = tuple(a_pod(f"host-{index}", "node-a", ips=("10.1.0.1",)) for index in (1, 2, 3))
    cluster = AUTO.with_(pods=(*pods_in({"a": 2, "b": 1}), *shared))
    decision = decided(cluster)
    assert decision.allocation is not None
    assert sum(decision.allocation.counts.values()) == 4
    assert decision.endpoints == 6
    assert all(hint is not None for hint in decided_hints(decision))
    zones = hinted_zones(only_family(cluster.plan()).changes.after)
    assert len({zones[pod.metadata.name] for pod in shared}) == 1
