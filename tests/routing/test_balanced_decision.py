"""Decisions of ``Balanced``: hints for sets that zones share, what stays in force, and what refuses them."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.structs import a_node, a_pod, a_service, nodes_in, pods_in
from tests.clusters import Cluster, endpoints_in, only_family, slices_after, written

from zoneward.kube import names
from zoneward.kube.objects import Pod, Service
from zoneward.kube.zone_weights import parse_zone_weights
from zoneward.routing import balanced_decision
from zoneward.routing.configuration import BalancedSettings, Configuration, ZoneCosts
from zoneward.routing.decision import Decision
from zoneward.routing.rules import Reason
from zoneward.routing.selection.endpoint_selection import CONSUMERS
from zoneward.routing.selection.traffic import ExpectedTraffic
from zoneward.slices.plan import ServicePlan

BALANCED: Final = "zoneward.dev/Balanced"


def a_cluster(
    pods: Mapping[str, int] | Iterable[Pod],
    nodes: Mapping[str, int] | None = None,
    *,
    service: Service | None = None,
    configuration: Configuration | None = None,
) -> Cluster:
    return Cluster(
        service=service or a_service(BALANCED),
        nodes=nodes_in(nodes or {"a": 4, "b": 4, "c": 4}),
        pods=pods_in(pods) if isinstance(pods, Mapping) else tuple(pods),
        configuration=configuration or Configuration(),
    )


def decision_of(cluster: Cluster) -> Decision:
    return only_family(cluster.plan()).decision


def zones_by_pod(plan: ServicePlan) -> dict[str, str]:
    """``a,b`` for each endpoint that has hints."""
    return {
        endpoint.target_ref.name: ",".join(zone.name for zone in endpoint.hints.for_zones or ())
        for endpoint in endpoints_in(slices_after(plan))
        if endpoint.target_ref is not None and endpoint.hints is not None
    }


def traffic_of(cluster: Cluster, consumer: str) -> ExpectedTraffic:
    """What the proxies of one kind do after the plan."""
    family = only_family(cluster.plan())
    family = type(family)(
        family.service,
        family.address_type,
        family.decision,
        family.changes,
        family.replaced,
        family.others,
        replace(cluster.cluster_state, consumer=CONSUMERS[consumer]),
    )
    traffic = family.traffic
    assert traffic is not None
    return traffic


# --- hints ------------------------------------------------------------------------------------------------------------


def test_a_zone_without_endpoints_shares_those_of_others() -> None:
    plan = a_cluster({"a": 2, "b": 1}).plan()
    decision = only_family(plan).decision
    assert (decision.active, decision.reason, decision.heuristic) == (True, Reason.ENABLED, "Balanced")
    assert sorted(zones_by_pod(plan).values()) == ["a", "b", "c"]
    assert decision.allocation is not None
    assert decision.allocation.by_zone() == {"a": {"a": 1, "c": 1}, "b": {"b": 1}}


def test_an_endpoint_may_serve_several_zones_and_counts_for_each() -> None:
    plan = a_cluster({"a": 1, "b": 1}, {"a": 4, "b": 2, "c": 2}).plan()
    assert zones_by_pod(plan) == {"a-0000": "a", "b-0000": "b,c"}
    allocation = only_family(plan).decision.allocation
    assert allocation is not None
    assert allocation.by_zone() == {"a": {"a": 1}, "b": {"b": 1, "c": 1}}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=12), st.data())
def test_what_proxies_do_is_what_the_decision_measured(located: list[str], data: st.DataObject) -> None:
    """kube-proxy, which reads hints, and Zoneward's proxy, which reads weights, stay within the limit; the latter sends
    more traffic in its zone."""
    cpu = {zone: data.draw(st.integers(1, 8)) for zone in "abc"}
    cluster = a_cluster({zone: located.count(zone) for zone in sorted(set(located))}, cpu)
    hinted, weighed = traffic_of(cluster, "current"), traffic_of(cluster, "zoneward")
    decision = decision_of(cluster)
    assert hinted.max_overload <= 0.2 + 1e-9
    total, everything = len(located), sum(cpu.values())
    bound = sum(min(cpu[zone] / everything, located.count(zone) / total) for zone in cpu)
    # Weights have four digits.
    assert weighed.in_zone is not None
    assert weighed.in_zone >= bound - 1e-3
    assert weighed.max_overload <= 0.05
    hints = [endpoint.hints for endpoint in endpoints_in(slices_after(cluster.plan()))]
    assert all(hints) == decision.active
    assert any(hints) == decision.active


def test_one_endpoint_is_for_all_zones_and_the_event_is_no_warning() -> None:
    plan = a_cluster({"a": 1}).plan()
    decision = only_family(plan).decision
    assert (decision.active, decision.reason) == (False, Reason.CLUSTER_WIDE_IS_BEST)
    assert [(event.type, event.reason) for event in plan.events] == [("Normal", "TopologyAwareRoutingDisabled")]
    assert zones_by_pod(plan) == {}


@pytest.mark.parametrize(
    ("most", "zones"), [("0%", {"a": "", "b": ""}), ("1000%", {"a": "a", "b": "b"}), ("20%", {"a": "a", "b": "a,b"})]
)
def test_the_annotation_says_how_much_overload_is_too_much(most: str, zones: dict[str, str]) -> None:
    """Zone a starts nine tenths of the traffic, and has one of two endpoints."""
    configuration = Configuration(balanced=BalancedSettings(objective="locality"))
    service = a_service(BALANCED, max_overload=most)
    plan = a_cluster({"a": 1, "b": 1}, {"a": 9, "b": 1}, service=service, configuration=configuration).plan()
    by_pod = zones_by_pod(plan)
    assert {pod[0]: by_pod.get(pod, "") for pod in ("a-0000", "b-0000")} == zones


def test_locality_stays_in_the_zone_and_spills_just_enough() -> None:
    """Three endpoints of twelve in a zone of half the traffic: it borrows until nobody has more than 20 % too much."""
    configuration = Configuration(balanced=BalancedSettings(objective="locality"))
    cluster = a_cluster({"a": 3, "b": 9}, {"a": 4, "b": 4}, configuration=configuration)
    traffic = traffic_of(cluster, "current")
    assert traffic.max_overload == pytest.approx(0.2)
    assert traffic.in_zone == pytest.approx(0.5 + 0.5 * 3 / 5)


def test_regions_make_a_near_zone_better_than_a_far_one() -> None:
    regions = {"a": "west", "b": "west", "c": "east"}
    nodes = tuple(a_node(f"node-{zone}", zone, labels={names.REGION_LABEL: regions[zone]}) for zone in "abc")
    costs = ZoneCosts(same_region=Fraction(1, 4))
    cluster = Cluster(
        service=a_service(BALANCED),
        nodes=nodes,
        pods=pods_in({"b": 6, "c": 3}),
        configuration=Configuration(balanced=BalancedSettings(costs=costs)),
    )
    plan = cluster.plan()
    assert {pod[0] for pod, zones in zones_by_pod(plan).items() if zones == "a"} == {"b"}


def test_a_zone_whose_nodes_count_for_nothing_has_endpoints_all_the_same() -> None:
    """Proxies on control plane nodes drop all hints where none is for their zone."""
    master = a_node("master", "d", labels={names.NODE_EXCLUDED_LABELS[0]: ""})
    cluster = a_cluster({"a": 2, "b": 2, "c": 2})
    plan = cluster.with_(nodes=(*cluster.nodes, master)).plan()
    assert any("d" in zones.split(",") for zones in zones_by_pod(plan).values())


# --- refusals ---------------------------------------------------------------------------------------------------------


def with_a_lost_endpoint(cluster: Cluster) -> Cluster:
    node, pod = a_node("node-x", None, ready=False), a_pod("lost", "node-x", ips=("10.9.9.9",))
    return cluster.with_(nodes=(*cluster.nodes, node), pods=(*cluster.pods, pod))


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        (a_cluster({"a": 2, "b": 2}, service=a_service(BALANCED, external="Local")), "ExternalTrafficPolicyLocal"),
        (a_cluster({"a": 2, "b": 2}).with_(nodes=()), "NoReadyNodes"),
        (a_cluster({"a": 2}, {"a": 4}), "OneZone"),
        (a_cluster({}), "NoReadyEndpoints"),
        (with_a_lost_endpoint(a_cluster({"a": 2})), "EndpointWithoutZone"),
        (a_cluster({"a": 2}, {f"z{index}": 1 for index in range(33)}), "TooManyZones"),
    ],
)
def test_refusals(cluster: Cluster, reason: str) -> None:
    decision = decision_of(cluster)
    assert (decision.active, str(decision.reason), decision.weights) == (False, reason, None)


# --- weights ----------------------------------------------------------------------------------------------------------


def test_weights_are_written_with_the_hints_and_also_where_no_hints_help() -> None:
    for cluster, active in ((a_cluster({"a": 2, "b": 1}), True), (a_cluster({"a": 1}), False)):
        (slice_,) = only_family(cluster.plan()).changes.after
        weights = parse_zone_weights((slice_.metadata.annotations or {})[names.ZONE_WEIGHTS_ANNOTATION])
        assert decision_of(cluster).active == active
        assert weights is not None
        assert weights.counts == {zone: sum(pod.metadata.name[0] == zone for pod in cluster.pods) for zone in "abc"}
        assert set(weights.shares) == {"a", "b", "c"}


def test_upstream_knows_nothing_of_it() -> None:
    cluster = a_cluster({"a": 2, "b": 1}, configuration=Configuration().as_upstream())
    plan = cluster.plan()
    assert only_family(plan).decision.heuristic is None
    assert zones_by_pod(plan) == {}


# --- what stays -------------------------------------------------------------------------------------------------------


def test_a_settled_service_is_not_written_again() -> None:
    for located in ({"a": 1, "b": 1}, {"a": 5, "b": 2, "c": 1}, {"a": 30, "b": 2}, {"a": 1}):
        assert not written(a_cluster(located).settled().plan())


def test_another_controllers_hints_are_no_reason_to_keep_sets() -> None:
    """Only slices written for Balanced have sets that stay."""
    settled = a_cluster({"a": 4, "b": 1, "c": 1}, service=a_service("PreferZone")).settled()
    plan = settled.with_(service=a_service(BALANCED)).plan()
    fresh = a_cluster({"a": 4, "b": 1, "c": 1}).plan()
    assert sorted(zones_by_pod(plan).values()) == sorted(zones_by_pod(fresh).values())


def test_an_endpoint_more_moves_as_few_others_as_possible() -> None:
    settled = a_cluster({"a": 4, "b": 4, "c": 4}).settled()
    more = settled.with_(pods=pods_in({"a": 5, "b": 4, "c": 4}))
    decision = decision_of(more)
    assert decision.moved == 0
    assert {rule.rule for rule in decision.rules if rule.passed} >= {"sets-in-force"}


def test_sets_stay_while_overload_is_less_than_ten_points_above_the_limit() -> None:
    """One zone's endpoints get 25 % too much when demand moves: more than a fresh decision may do."""
    configuration = Configuration(balanced=BalancedSettings(objective="locality"))
    settled = a_cluster({"a": 4, "b": 4}, {"a": 10, "b": 10}, configuration=configuration).settled()
    moved = settled.with_(nodes=nodes_in({"a": 125, "b": 75}))
    assert decision_of(moved).moved == 0
    assert traffic_of(moved, "current").max_overload == pytest.approx(0.25)
    fresh = moved.with_(slices=())
    assert traffic_of(fresh, "current").max_overload <= 0.2


def test_far_from_the_limit_few_endpoints_change() -> None:
    settled = a_cluster({"a": 10, "b": 10, "c": 10}).settled()
    moved = settled.with_(nodes=nodes_in({"a": 6, "b": 3, "c": 3}))
    plan = moved.plan()
    assert 0 < only_family(plan).decision.moved <= 5
    assert traffic_of(moved, "current").max_overload <= 0.2 + 1e-9


# --- churn ------------------------------------------------------------------------------------------------------------


@dataclass
class Churn:
    writes: int = 0
    without_hints: int = 0


def rolling_update(cluster: Cluster, seed: int, *, spread: bool = False) -> Churn:
    """Replace all Pods one by one, with one more for a moment, as a Deployment does. New ones land at random, or with
    ``spread`` where the fewest are, which is what the scheduler prefers."""
    churn = Churn()
    cluster = cluster.settled()
    chance = random.Random(seed)
    pods = list(cluster.pods)
    for count, old in enumerate(cluster.pods):
        located = Counter(pod.spec.node_name for pod in pods)
        zone = min("abc", key=lambda zone: located[f"node-{zone}"]) if spread else chance.choice("abc")
        pods.append(a_pod(f"new-{old.metadata.name}", f"node-{zone}", ips=(f"10.9.0.{count + 1}",)))
        without = [pod for pod in pods if pod is not old]
        for step in (pods, without):
            cluster = cluster.with_(pods=tuple(step))
            plan = cluster.plan()
            churn.writes += len(written(plan))
            cluster = cluster.after(plan)
            churn.without_hints += sum(endpoint.hints is None for endpoint in endpoints_in(cluster.slices))
        pods = without
    return churn


@pytest.mark.parametrize(
    ("pod_count", "spread"), [(2, False), (3, False), (5, False), (8, False), (20, False), (120, True)]
)
def test_hints_stay_in_a_rolling_update_and_cost_hardly_a_write(pod_count: int, spread: bool) -> None:
    """120 Pods have two slices: what changes in one may be a reason to write the other."""
    located = {"a": (pod_count + 2) // 3, "b": (pod_count + 1) // 3, "c": pod_count // 3}
    located = {zone: count for zone, count in located.items() if count}
    hinted = rolling_update(a_cluster(located), pod_count, spread=spread)
    plain = rolling_update(a_cluster(located, service=a_service()), pod_count, spread=spread)
    assert hinted.without_hints == 0
    assert hinted.writes <= 1.1 * plain.writes


def random_history(cluster: Cluster, steps: int) -> Iterator[tuple[Cluster, Decision]]:
    """Pods are added and removed at random, one at a time."""
    chance = random.Random(7)
    least = len(cluster.pods) // 2
    cluster = cluster.settled()
    for step in range(steps):
        pods = list(cluster.pods)
        if len(pods) > least and chance.random() < 0.5:
            pods.pop(chance.randrange(len(pods)))
        else:
            zone = chance.choice("abc")
            pods.append(a_pod(f"{zone}-{step}", f"node-{zone}", ips=(f"10.8.0.{step}",)))
        cluster = cluster.with_(pods=tuple(pods))
        plan = cluster.plan()
        cluster = cluster.after(plan)
        yield cluster, only_family(plan).decision


def test_sets_in_force_move_fewer_endpoints_than_the_best_sets_would(monkeypatch: pytest.MonkeyPatch) -> None:
    def moves() -> int:
        history = random_history(a_cluster({"a": 16, "b": 14, "c": 10}), 60)
        return sum(decision.moved for _, decision in history)

    moved = moves()
    monkeypatch.setattr(balanced_decision, "keep_sets", lambda *_: None)
    assert moved < moves() / 2


def zones_of_endpoints(cluster: Cluster) -> dict[str, str]:
    """The zones that use each address, whether hints or a slice's label say so."""
    return {
        address: (slice_.metadata.labels or {}).get(names.ZONE_LABEL)
        or ",".join(zone.name for zone in (endpoint.hints.for_zones if endpoint.hints else None) or ())
        for slice_ in cluster.slices
        for endpoint in slice_.endpoints or ()
        for address in endpoint.addresses or ()
    }


def test_over_a_random_history_fewer_endpoints_change_zones_than_with_local() -> None:
    def changes(service: Service) -> int:
        before: dict[str, str] = {}
        changed = 0
        for cluster, _ in random_history(a_cluster({"a": 20, "b": 20, "c": 20}, service=service), 120):
            now = zones_of_endpoints(cluster)
            changed += sum(zones != before.get(address, zones) for address, zones in now.items())
            before = now
        return changed

    assert 0 < changes(a_service(BALANCED)) < changes(a_service(subsetting="Auto", algorithm="local"))
