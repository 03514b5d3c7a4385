"""The order of the input does not change the plan, and a plan that was carried out leaves nothing to do."""

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace
from tests.builders.structs import a_node, a_pod, a_service, hints, nodes_in, pods_in
from tests.clusters import Cluster, endpoint_answers, endpoints_in, rounded, slices_after, with_reported, written
from tests.properties.random_clusters import BALANCED, CPUS, MOST_NODES, SUBSETTING, clusters, examples

from zoneward.kube import names
from zoneward.kube.objects import Allocatable, EndpointSlice, Node, NodeStatus, is_ready
from zoneward.routing.configuration import Configuration, SubsettingSettings
from zoneward.routing.selection.traffic import ExpectedTraffic
from zoneward.slices.plan import FamilyPlan, ServicePlan

NOW = "2026-11-21T08:00:00Z"
LATER = "2026-11-21T09:00:00Z"


def decided(plan: ServicePlan) -> list[tuple[object, ...]]:
    return [
        (
            *(family.address_type, decision.approach, decision.heuristic, decision.active, decision.reason),
            *(decision.allocation, decision.endpoints, decision.message, endpoint_answers(decision)),
        )
        for family in plan.families
        for decision in [family.decision]
    ]


def beside_replaced(cluster: Cluster, plan: ServicePlan) -> Cluster:
    """The cluster while a plan is carried out: the built-in controller's slices are deleted after Zoneward's exist."""
    replaced = tuple(slice_ for family in plan.families for slice_ in family.replaced)
    return cluster.with_(service=with_reported(cluster.service, plan), slices=(*slices_after(plan), *replaced))


def without_pods(cluster: Cluster) -> Cluster:
    """A snapshot that holds no Pods: endpoints come from the slices."""
    return cluster.with_(pods=(), pods_known=False)


def being_deleted(cluster: Cluster) -> Cluster:
    metadata = replace(cluster.service.metadata, deletion_timestamp=NOW)
    return cluster.with_(service=replace(cluster.service, metadata=metadata))


def from_a_file(cluster: Cluster) -> Cluster:
    """A Service that no API server has seen: it has no UID."""
    return cluster.with_(service=replace(cluster.service, metadata=replace(cluster.service.metadata, uid="")))


def subsetting(algorithm: str) -> Configuration:
    """Settings with which a few endpoints are enough to start, and an update is made at any cost."""
    settings = SubsettingSettings(
        algorithm=algorithm, starting_threshold=Fraction(1), padding=0, in_zone_tolerance=Fraction(1)
    )
    return Configuration(subsetting=settings)


def one_group_beside_an_own_one() -> Cluster:
    """All zones are to share one group, and what is not ready is still in a zone's own group."""
    waiting = a_pod("waiting", "node-b", ips=("10.0.0.9",), ready=False)
    service, nodes, pods = a_service(subsetting="Auto"), nodes_in({"a": 4, "b": 4}), (*pods_in({"a": 4}), waiting)
    before = Cluster(service=service, nodes=nodes, pods=pods, configuration=subsetting("local")).settled()
    return before.with_(configuration=subsetting("random"))


def left_with_a_shared_group() -> Cluster:
    """Two of three zones shared a group, and the third is gone: all zones that are left share it."""
    service, nodes = a_service(subsetting="Auto"), nodes_in({"a": 4, "b": 4, "c": 4})
    before = Cluster(service=service, nodes=nodes, pods=pods_in({"a": 6}), configuration=subsetting("local-shared"))
    return before.settled().with_(nodes=(a_node("node-a", "a", ready=False), *nodes[1:]))


def shared_groups_in_no_order() -> Cluster:
    """The algorithm makes one for zones c and f before one for c, d and e."""
    zones = dict.fromkeys("abcdef", 4)
    nodes = (*nodes_in(zones), *(a_node(f"more-{index}", "a") for index in range(3)))
    pods = pods_in({"a": 22, "f": 3})
    service = a_service(subsetting="Auto")
    return Cluster(service=service, nodes=nodes, pods=pods, configuration=subsetting("local-weighted"))


@pytest.mark.parametrize(
    ("moment", "settle", "count"),
    [
        pytest.param(Cluster.with_, Cluster.after, 150, id="as it is"),
        pytest.param(Cluster.with_, beside_replaced, 80, id="beside replaced slices"),
        pytest.param(without_pods, Cluster.after, 60, id="without Pods"),
        pytest.param(being_deleted, Cluster.after, 60, id="being deleted"),
        pytest.param(from_a_file, Cluster.after, 60, id="from a file"),
    ],
)
def test_planning_again_changes_nothing_and_tells_nothing(
    moment: Callable[[Cluster], Cluster], settle: Callable[[Cluster, ServicePlan], Cluster], count: int
) -> None:
    """No write, no endpoint moved, no event and the same decision, once the plan was carried out, at any time."""

    @examples(count)
    @given(clusters())
    @example(one_group_beside_an_own_one())
    @example(left_with_a_shared_group())
    @example(shared_groups_in_no_order())
    def changes_nothing(cluster: Cluster) -> None:
        cluster = moment(cluster)
        first = cluster.plan(trigger_time=NOW)
        second = settle(cluster, first).plan(trigger_time=LATER)
        assert not written(second)
        assert second.events == ()
        if moment is being_deleted:
            # Endpoints that would need a new slice are nowhere then, so nothing remembers whom they were to serve.
            return
        assert decided(second) == decided(first)
        assert second.conditions == first.conditions
        assert all(family.decision.moved == 0 for family in second.families)
        assert [family.traffic for family in second.families] == [family.traffic for family in first.families]

    changes_nothing()


def test_what_is_no_longer_in_force_is_refused_in_the_same_words_as_before() -> None:
    """Going off at the higher threshold leaves conditions that stay true of the lower one: they are written once."""
    on = Cluster(service=a_service("Auto"), nodes=nodes_in({"a": 4, "b": 4, "c": 4}), pods=pods_in({"a": 3})).settled()
    off = on.with_(pods=pods_in({"a": 4}))
    plan = off.plan()
    assert not plan.families[0].decision.active
    assert off.after(plan).plan().conditions == plan.conditions


@examples(50)
@given(clusters(setting=BALANCED, tidy=True, others=False), st.binary(min_size=MOST_NODES, max_size=MOST_NODES))
def test_nodes_that_change_within_the_threshold_write_nothing(cluster: Cluster, drawn: bytes) -> None:
    """KEP-2433. The tolerance for traffic that leaves its zone is this project's own: here everything is tolerated."""
    hints = structs.replace(cluster.configuration.hints, in_zone_tolerance=Fraction(1))
    cluster = cluster.with_(configuration=structs.replace(cluster.configuration, hints=hints))
    before = cluster.settled()
    status = [node.status or NodeStatus() for node in cluster.nodes]
    nodes = tuple(
        replace(node, status=replace(node_status, allocatable=Allocatable(cpu=CPUS[index % len(CPUS)])))
        for node, node_status, index in zip(cluster.nodes, status, drawn, strict=False)
    )
    now = before.with_(nodes=nodes)
    plan = now.plan()
    demand = now.cluster_state.demand
    for family in plan.families:
        slices = [slice_ for slice_ in before.slices if slice_.address_type == family.address_type]
        ready = filter(is_ready, endpoints_in(slices))
        consumed = Counter(zone.name for one in ready if one.hints for zone in one.hints.for_zones or ())
        was_on = any(names.APPROACH_ANNOTATION in (slice_.metadata.annotations or {}) for slice_ in slices)
        if not was_on or set(consumed) != set(demand.zones) or len(consumed) < 2:
            continue
        worst = max(
            Fraction(consumed.total() * weight, demand.total * consumed[zone]) - 1
            for zone, weight in demand.weight_of.items()
        )
        if worst < cluster.configuration.hints.keep_threshold:
            assert family.decision.active
            assert family.changes.after == tuple(sorted(slices, key=lambda slice_: slice_.metadata.name))


def in_order(plan: ServicePlan) -> ServicePlan:

    def by_name(slices: Iterable[EndpointSlice]) -> tuple[EndpointSlice, ...]:
        return tuple(sorted(slices, key=lambda slice_: slice_.metadata.name))

    def family_in_order(family: FamilyPlan) -> FamilyPlan:
        changes = family.changes
        return dataclasses.replace(
            family,
            replaced=by_name(family.replaced),
            others=by_name(family.others),
            changes=dataclasses.replace(
                changes,
                create=by_name(changes.create),
                update=by_name(changes.update),
                unchanged=by_name(changes.unchanged),
                delete=by_name(changes.delete),
            ),
        )

    return dataclasses.replace(plan, families=tuple(map(family_in_order, plan.families)), surplus=by_name(plan.surplus))


def shuffled(cluster: Cluster, random: Random) -> Cluster:
    return cluster.with_(
        nodes=tuple(random.sample(cluster.nodes, len(cluster.nodes))),
        pods=tuple(random.sample(cluster.pods, len(cluster.pods))),
        slices=tuple(random.sample(cluster.slices, len(cluster.slices))),
    )


@examples(200)
@given(clusters() | clusters(setting=BALANCED | SUBSETTING, tidy=True), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(cluster: Cluster, random: Random) -> None:
    """Also for rules, messages and conditions, or every sync would write conditions."""
    one, other = in_order(cluster.plan()), in_order(shuffled(cluster, random).plan())
    for this, that in zip(one.families, other.families, strict=True):
        for field in ("changes", "traffic", "replaced", "others"):
            assert getattr(this, field) == getattr(that, field)
        for field in ("allocation", "moved", "reason", "message", "rules"):
            assert getattr(this.decision, field) == getattr(that.decision, field)
        assert endpoint_answers(this.decision) == endpoint_answers(that.decision)
    assert (one.events, one.surplus, one.worst_family) == (other.events, other.surplus, other.worst_family)
    assert one.conditions == other.conditions


def test_an_endpoint_in_two_slices_counts_in_the_first_by_name_where_it_stays() -> None:
    settled = Cluster(
        service=a_service("Auto"), nodes=nodes_in({"a": 4, "b": 4}), pods=pods_in({"a": 4, "b": 2})
    ).settled()
    (slice_,) = settled.slices
    endpoints = tuple(replace(one, hints=hints("b")) for one in slice_.endpoints or ())
    again = replace(slice_, metadata=replace(slice_.metadata, name="later"), endpoints=endpoints)
    plans = [settled.with_(slices=slices).plan() for slices in ((slice_, again), (again, slice_))]
    assert [family.decision.moved for plan in plans for family in plan.families] == [0, 0]


OTHER_NAMES = ("a", "area-b", "area-bb", "bay", "c.1", "north", "north-b", "p", "west", "zulu")
"""Names for ``zone-0`` to ``zone-9`` that sort as these do."""


def renamed(text: str) -> str:
    return re.sub(r"zone-([0-9])", lambda match: OTHER_NAMES[int(match[1])], text)


def without_new_names(plan: ServicePlan) -> ServicePlan:
    """The same plan with new slices called after what is in them."""

    def named_by_content(slice_: EndpointSlice) -> EndpointSlice:
        name = repr((slice_.ports, [endpoint.addresses for endpoint in slice_.endpoints or ()]))
        return replace(slice_, metadata=replace(slice_.metadata, name=name))

    def without(family: FamilyPlan) -> FamilyPlan:
        created = tuple(map(named_by_content, family.changes.create))
        return dataclasses.replace(family, changes=dataclasses.replace(family.changes, create=created))

    return dataclasses.replace(plan, families=tuple(map(without, plan.families)))


def traffic_of(plan: ServicePlan) -> list[ExpectedTraffic | None]:
    return [rounded(family.traffic) if family.traffic else None for family in plan.families]


def with_zones_renamed(things: object, type_: Any) -> Any:
    return msgspec.json.decode(renamed(msgspec.json.encode(things).decode()), type=type_)


@examples(50)
@given(clusters())
def test_other_names_for_zones_in_the_same_order_rename_the_result(cluster: Cluster) -> None:
    """Even the messages. Only new slices of a group are called after a hash of its zones."""
    elsewhere = cluster.with_(
        nodes=with_zones_renamed(cluster.nodes, tuple[Node, ...]),
        slices=with_zones_renamed(cluster.slices, tuple[EndpointSlice, ...]),
    )
    plan, elsewhere_plan = cluster.plan(), elsewhere.plan()
    one, other = in_order(without_new_names(plan)), in_order(without_new_names(elsewhere_plan))
    assert repr(other.families) == renamed(repr(one.families))
    assert repr(traffic_of(elsewhere_plan)) == renamed(repr(traffic_of(plan)))
    assert repr((other.conditions, other.events, other.surplus)) == renamed(
        repr((one.conditions, one.events, one.surplus))
    )
