"""What is decided is what proxies do: selection over the encoded slices gives back the allocation."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import repeat
from types import MappingProxyType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clusters import ALL_HINTS, CLUSTER, Cluster, endpoints_in
from tests.properties.random_clusters import NODE_HINTS, SUBSETTING, ZONE_HINTS, clusters, examples

from zoneward.kube import names
from zoneward.kube.objects import Endpoint, EndpointSlice, Pod, is_ready, is_serving, is_terminating
from zoneward.kube.validation import validate_endpoint_slice
from zoneward.report.manifests import slice_document
from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.allocation import Allocation, Zones
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.request import Approach
from zoneward.routing.selection.endpoint_selection import (
    CONSUMERS,
    ZONEWARD,
    SelectionRule,
    endpoints_of_all_ports,
    endpoints_of_port,
    honored_hints,
    is_proxied,
    policies_of,
    select_endpoints,
    slice_groups,
)
from zoneward.routing.zone_groups import ZoneGroup
from zoneward.slices.plan import FamilyPlan

NOWHERE = "zone-without-any-node"


def ready_by_address(family: FamilyPlan) -> list[Endpoint]:
    return [endpoint for endpoint in endpoints_of_all_ports(family.slices) if is_ready(endpoint)]


def used_in(
    zone: str | None,
    endpoints: Sequence[Endpoint],
    *,
    node: str = "node-of-nobody",
    groups: Mapping[int, ZoneGroup] = MappingProxyType({}),
) -> tuple[Sequence[Endpoint], SelectionRule, Sequence[float] | None]:
    """What a proxy there uses, by which rule, with which weights."""
    selection = select_endpoints(endpoints, policies=CLUSTER, honored=ALL_HINTS, node=node, zone=zone, groups=groups)
    assert selection.cluster is not None
    return selection.cluster, selection.rule, selection.weights


def located(endpoints: Sequence[Endpoint]) -> Counter[str | None]:
    return Counter(endpoint.zone for endpoint in endpoints)


@examples(50)
@given(clusters(setting=ZONE_HINTS, others=False))
def test_each_zone_selects_exactly_what_the_allocation_gives_it(cluster: Cluster) -> None:
    """For each zone: as many endpoints from each zone as allocated; all ready ones where it was allocated none."""
    for family in cluster.plan().families:
        allocation = family.decision.allocation
        # Where a gate refuses hints, the controller's default may step in.
        if allocation is None or family.decision.approach is Approach.SUBSETTING:
            continue
        ready = ready_by_address(family)
        everything = tuple(endpoints_of_all_ports(family.slices))
        assert located(ready) == Counter({zone: sum(row.values()) for zone, row in allocation.as_map().items()})
        rows = allocation.by_zone()
        for zone in {*allocation.zones, *cluster.cluster_state.demand.zones, NOWHERE}:
            used, used_rule, _ = used_in(zone, everything)
            column = Counter({here: row[zone] for here, row in rows.items() if zone in row})
            if column:
                assert (located(used), used_rule) == (column, SelectionRule.ZONE_HINTS)
            else:
                assert (located(used), used_rule) == (located(ready), SelectionRule.ALL)


@examples(50)
# In most clusters that are not tidy, a missing zone or a policy prevents groups.
@given(st.one_of(*(clusters(setting=SUBSETTING, others=False, tidy=tidy) for tidy in (True, True, False))))
def test_each_zone_selects_the_endpoints_of_the_groups_that_it_consumes(cluster: Cluster) -> None:
    """As many from each zone as those groups have, by their weights; all ready ones where it consumes none."""
    for family in cluster.plan().families:
        allocation = family.decision.allocation
        if allocation is None or family.decision.approach is not Approach.SUBSETTING:
            continue
        as_hints = cluster.configuration.subsetting.encoding == "hints"
        ready = ready_by_address(family)
        everything = tuple(endpoints_of_all_ports(family.slices))
        groups = slice_groups(family.slices, ZONEWARD, FeatureGates())
        assert not (as_hints and groups)
        if family.decision.has_slice_groups:
            # A kube-proxy of any version reads no slice groups: it uses all endpoints of them.
            assert not any(one.hints for one in endpoints_in(family.slices))
            assert slice_groups(family.slices, CONSUMERS["current"], FeatureGates()) == {}
            assert {id(one) for one in used_in("zone-1", everything)[0]} >= {id(one) for one in ready}
        assert located(ready) == sum(map(in_group, repeat(allocation), groups_of(allocation)), Counter())
        for zone in cluster.cluster_state.demand.zones:
            used, used_rule, used_weights = used_in(zone, everything, groups=groups)
            expected = consumed_by(zone, allocation)
            if not expected:
                assert {id(one) for one in used} == {id(one) for one in ready}
                assert (used_rule, used_weights) == (SelectionRule.ALL, None)
                continue
            if as_hints:
                assert used_rule is SelectionRule.ZONE_HINTS
            else:
                everybody = expected.total() == len(ready)
                assert used_rule is (SelectionRule.ALL if everybody else SelectionRule.ZONE_SLICES)
            if used_weights is None:
                # All alike: it does not matter how much they are.
                ((weight, _),) = Counter(weight for _, weight in expected).items()
                weights: Sequence[float] = [weight] * len(used)
            else:
                weights = used_weights
            assert Counter(zip((one.zone for one in used), weights, strict=True)) == expected


def consumed_by(zone: str, allocation: Allocation) -> Counter[tuple[str | None, float]]:
    consumed: Counter[tuple[str | None, float]] = Counter()
    for consumers in groups_of(allocation, zone):
        for here, count in in_group(allocation, consumers).items():
            consumed[here, allocation.group(consumers).weight(zone)] += count
    return consumed


def groups_of(allocation: Allocation, zone: str | None = None) -> list[Zones]:
    return [consumers for consumers in allocation.by_consumers() if zone is None or zone in consumers]


def in_group(allocation: Allocation, consumers: Zones) -> Counter[str | None]:
    """How many endpoints of a group are in each zone; ``""`` in an allocation is no zone at all."""
    return Counter({zone or None: count for zone, count in allocation.by_consumers()[consumers].items()})


@examples(50)
@given(clusters(setting=SUBSETTING, tidy=True, others=False))
def test_no_endpoint_is_overloaded_by_the_threshold_where_the_algorithm_heeds_one(cluster: Cluster) -> None:
    """local-opt honors no threshold, and local-shared does not check the group of zones without endpoints."""
    threshold = cluster.configuration.subsetting.overload_threshold
    for family in cluster.plan().families:
        decision, traffic = family.decision, family.traffic
        if decision.approach is not Approach.SUBSETTING or not decision.active or traffic is None:
            continue
        match decision.heuristic:
            case "local":
                assert traffic.max_overload < threshold
            case "local-shared":
                assert traffic.max_overload < max(threshold, Fraction(1, 2))
            case "local-weighted" | "random":
                # Weights in slices have six digits.
                assert traffic.max_overload < max(threshold, Fraction(1, 1000))


@examples(40)
@given(clusters(setting=NODE_HINTS, others=False))
def test_each_node_selects_its_own_endpoints_else_its_zones_else_all(cluster: Cluster) -> None:
    """KEP-3015: node hints count where every endpoint has one, zone hints where every endpoint has one."""
    for family in cluster.plan().families:
        # Where a gate refuses node hints, the controller's default may step in.
        if not family.decision.active or family.decision.heuristic != names.PREFER_SAME_NODE:
            continue
        ready = ready_by_address(family)
        everything = tuple(endpoints_of_all_ports(family.slices))
        nodes = [(node.metadata.name, (node.metadata.labels or {}).get(names.ZONE_LABEL)) for node in cluster.nodes]
        for node, zone in [*nodes, ("node-of-nobody", "zone-1"), ("node-of-nobody", NOWHERE), ("node-of-nobody", None)]:
            own = [one for one in ready if one.node_name == node]
            near = [one for one in ready if one.zone == zone]
            if own and all(one.node_name for one in ready):
                expected, rule = own, SelectionRule.NODE_HINTS
            elif zone and near and all(one.zone for one in ready):
                expected, rule = near, SelectionRule.ZONE_HINTS
            else:
                expected, rule = ready, SelectionRule.ALL
            used, used_rule, _ = used_in(zone, everything, node=node)
            assert {id(one) for one in used} == {id(one) for one in expected}
            assert used_rule == rule


@pytest.mark.parametrize("consumer", CONSUMERS)
@examples(20)
@given(cluster=clusters())
def test_no_client_is_without_an_endpoint_while_one_exists_that_policy_allows(consumer: str, cluster: Cluster) -> None:
    """Ready ones if any, else those that still serve while they terminate; where the policy is Local, of its node."""
    service = cluster.service
    policies = policies_of(service)
    gates = cluster.configuration.gates
    honored = honored_hints(service, CONSUMERS[consumer], gates)
    nodes = [(node.metadata.name, (node.metadata.labels or {}).get(names.ZONE_LABEL)) for node in cluster.nodes]
    for family in cluster.plan().families:
        groups = slice_groups(family.slices, CONSUMERS[consumer], gates)
        for port in service.spec.ports or ():
            for node, zone in [*nodes, ("node-of-nobody", NOWHERE), ("node-of-nobody", None)]:
                endpoints = tuple(endpoints_of_port(family.slices, port.name, node=node).values())
                selection = select_endpoints(
                    endpoints, policies=policies, honored=honored, node=node, zone=zone, groups=groups
                )
                allowed = [one for one in endpoints if not policies.internal_local or one.node_name == node]
                ready = [one for one in allowed if is_ready(one)]
                leaving = [one for one in allowed if is_serving(one) and is_terminating(one)]
                used = selection.local if policies.internal_local else selection.cluster
                assert used is not None
                assert bool(used) == bool(ready or leaving)
                assert {id(one) for one in used} <= {id(one) for one in (ready or leaving)}
                assert {id(one) for one in used} <= {id(one) for one in selection.all_reachable}
                assert selection.weights is None or len(selection.weights) == len(selection.cluster or ())
                assert not selection.weights or all(weight > 0 for weight in selection.weights)


def endpoint_that_a_pod_should_have(pod: Pod, cluster: Cluster, address_type: str) -> tuple[object, ...] | None:
    node_zones = {
        node.metadata.name: (node.metadata.labels or {}).get(names.ZONE_LABEL) or None for node in cluster.nodes
    }
    published = bool(cluster.service.spec.publish_not_ready_addresses)
    addresses = tuple(ip.ip for ip in pod.status.pod_ips or () if (":" in ip.ip) == (address_type == "IPv6"))
    if pod.status.phase in ("Succeeded", "Failed") or not addresses:
        return None
    if pod.spec.node_name not in node_zones and not published:
        return None
    serving = any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions or ())
    terminating = pod.metadata.deletion_timestamp is not None
    conditions = (published or (serving and not terminating), serving, terminating)
    return addresses, pod.metadata.name, pod.spec.node_name, node_zones.get(pod.spec.node_name), conditions


@examples(50)
@given(clusters())
def test_no_slice_and_no_endpoint_is_lost_or_doubled(cluster: Cluster) -> None:
    """Slices hold exactly the Pods' endpoints, as they are now. Each is updated, left, deleted, replaced, or another's;
    none grows above the maximum, and an API server accepts all that is written."""
    plan = cluster.plan()
    before = {slice_.metadata.name: len(slice_.endpoints or ()) for slice_ in cluster.slices}
    fates = [slice_.metadata.name for slice_ in plan.surplus]
    for family in plan.families:
        changes = family.changes
        for slices in (changes.update, changes.unchanged, changes.delete, family.replaced, family.others):
            fates.extend(slice_.metadata.name for slice_ in slices)
        assert not {slice_.metadata.name for slice_ in changes.create} & before.keys()
        for slice_ in (*changes.create, *changes.update):
            as_printed = msgspec.convert(slice_document(slice_), EndpointSlice)
            assert validate_endpoint_slice(as_printed) == (), slice_
        for slice_ in changes.after:
            most = max(cluster.configuration.max_endpoints_per_slice, before.get(slice_.metadata.name, 0))
            assert len(slice_.endpoints or ()) <= most
        expected = Counter(
            what
            for pod in cluster.pods
            if (what := endpoint_that_a_pod_should_have(pod, cluster, family.address_type)) is not None
        )
        got = Counter(
            (
                endpoint.addresses,
                endpoint.target_ref.name if endpoint.target_ref else None,
                endpoint.node_name,
                endpoint.zone,
                (is_ready(endpoint), is_serving(endpoint), is_terminating(endpoint)),
            )
            for endpoint in endpoints_in(family.changes.after)
        )
        assert got == expected
    families = {family.address_type for family in plan.families}
    fates += [
        slice_.metadata.name
        for slice_ in cluster.slices
        if slice_.address_type not in families and slice_.metadata.name == "of-others"
    ]
    assert Counter(fates) == Counter(slice_.metadata.name for slice_ in cluster.slices)


@examples(50)
@given(clusters())
def test_all_traffic_is_either_served_or_dropped(cluster: Cluster) -> None:
    for family in cluster.plan().families:
        traffic = family.traffic
        assert traffic is None or is_proxied(cluster.service)
        if traffic is None:
            continue
        assert traffic.served + traffic.dropped == pytest.approx(1)
        assert sum(traffic.load) == pytest.approx(traffic.served)
        assert -1e-9 <= traffic.dropped <= 1 + 1e-9
        assert -1e-9 <= (traffic.in_zone or 0.0) <= traffic.served + 1e-9
        assert all(load >= 0 for load in traffic.load)
        assert sum(zone.demand for zone in traffic.zones.values()) == pytest.approx(1)
        assert traffic.max_overload >= 0
        assert traffic.mean_overload <= 2
        local = policies_of(cluster.service).internal_local
        usable = [one for one in endpoints_in(family.slices) if is_ready(one) or is_serving(one)]
        if usable and not local:
            assert traffic.dropped == pytest.approx(0)


@examples(40)
@given(clusters(tidy=True, others=False))
def test_predicted_overload_is_what_the_allocation_says(cluster: Cluster) -> None:
    """A zone consumes every endpoint of every group that it is in, with however little weight."""
    for family in cluster.plan().families:
        allocation, traffic = family.decision.allocation, family.traffic
        # Weights of zones are for endpoints beyond those that hints allocate.
        if allocation is None or traffic is None or family.decision.weights is not None:
            continue
        if HEURISTICS[family.decision.heuristic or ""].node_hints:
            continue
        ready = [one for one in endpoints_in(family.slices) if is_ready(one)]
        for zone, weight in cluster.cluster_state.demand.weight_of.items():
            consumed = sum(map(allocation.size, groups_of(allocation, zone))) or len(ready)
            predicted = traffic.zones[zone]
            assert predicted.consumed == pytest.approx(consumed)
            assert predicted.expected == pytest.approx(weight / cluster.cluster_state.demand.total * len(ready))
            assert predicted.overload == pytest.approx(predicted.expected / consumed - 1)
