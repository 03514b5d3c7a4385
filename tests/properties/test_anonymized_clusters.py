"""What is decided does not change when a cluster is saved, or anonymized: each endpoint ends where it did before."""

from collections import Counter
from collections.abc import Iterable
from io import BytesIO

from hypothesis import example, given
from hypothesis import strategies as st
from tests.clusters import SERVICE, Cluster, a_service, endpoints_in, nodes_in, pods_in, rounded
from tests.properties.random_clusters import clusters, examples

from zoneward.kube.objects import Endpoint, EndpointSlice
from zoneward.kube.reading import read
from zoneward.slices.plan import FamilyPlan, ServicePlan
from zoneward.sources.anonymizing import anonymized
from zoneward.sources.saving import Form, save
from zoneward.sources.snapshot import Snapshot


def snapshot_of(cluster: Cluster) -> Snapshot:
    return Snapshot(services=(cluster.service,), nodes=cluster.nodes, pods=cluster.pods, slices=cluster.slices)


def with_objects(cluster: Cluster, snapshot: Snapshot) -> Cluster:
    """The cluster as commands find it in a snapshot: a slice that does not name the Service is none of its own."""
    (service,) = snapshot.services
    pods, slices = snapshot.pods_of(service), snapshot.slices_of(service)
    return cluster.with_(service=service, nodes=snapshot.nodes, pods=pods, slices=slices)


def other_names(before: Snapshot, after: Snapshot) -> dict[str, str]:
    """What stands for the addresses, Pods, Nodes and slices of one snapshot in another with the same objects."""
    pairs: list[tuple[str, str]] = []
    for each, now in zip(before.slices, after.slices, strict=True):
        pairs.append((each.metadata.name, now.metadata.name))
        for endpoint, there in zip(each.endpoints or (), now.endpoints or (), strict=True):
            pairs += zip(endpoint.addresses or (), there.addresses or (), strict=True)
            pairs.append((endpoint.node_name or "", there.node_name or ""))
            if endpoint.target_ref and there.target_ref:
                pairs.append((endpoint.target_ref.name, there.target_ref.name))
    for pod, same in zip(before.pods, after.pods, strict=True):
        pairs += [(pod.metadata.name, same.metadata.name), (pod.spec.node_name, same.spec.node_name)]
        pairs += zip(
            (ip.ip for ip in pod.status.pod_ips or ()), (ip.ip for ip in same.status.pod_ips or ()), strict=True
        )
    pairs += ((node.metadata.name, same.metadata.name) for node, same in zip(before.nodes, after.nodes, strict=True))
    return dict(pairs)


def endpoint_told(endpoint: Endpoint, names: dict[str, str]) -> tuple[object, ...]:
    hints, target = endpoint.hints, endpoint.target_ref
    return (
        tuple(names[address] for address in endpoint.addresses or ()),
        names[target.name] if target else None,
        names[endpoint.node_name] if endpoint.node_name else endpoint.node_name,
        (endpoint.zone, endpoint.conditions),
        hints and hints.for_zones,
        hints and [names[each.name] for each in hints.for_nodes or ()],
    )


def slices_told(slices: Iterable[EndpointSlice], names: dict[str, str], *, named: bool) -> object:
    """Slices with their content, in no order; ``named`` for those that were there before."""
    return Counter(
        repr(
            (
                names[each.metadata.name] if named else "",
                (each.address_type, each.ports, each.metadata.labels and each.metadata.labels.keys()),
                sorted((each.metadata.annotations or {}).items()),
                [endpoint_told(endpoint, names) for endpoint in each.endpoints or ()],
            )
        )
        for each in slices
    )


def is_traffic_by_chance(family: FamilyPlan) -> bool:
    """Whether an address is in a new slice and in one of somebody else that begins with the Service's name as well.

    The first by name counts, and the hash in the name of the new one decides: it is another one for another UID.
    """
    new = {address for each in endpoints_in(family.changes.create) for address in each.addresses or ()}
    alike = [each for each in family.others if each.metadata.name.startswith((f"{SERVICE}-", "service-"))]
    return any(address in new for each in endpoints_in(alike) for address in each.addresses or ())


def family_told(family: FamilyPlan, names: dict[str, str]) -> list[object]:
    decision, changes = family.decision, family.changes
    return [
        (family.address_type, decision.approach, decision.heuristic, decision.active, decision.reason),
        (decision.accepted, decision.accepted_reason, decision.endpoints, decision.moved, decision.allocation),
        [(rule.rule, rule.passed) for rule in decision.rules],
        [hints and hints.for_zones for hints in decision.hints],
        (decision.groups, decision.ranges, changes.added, changes.removed),
        slices_told(changes.create, names, named=False),
        slices_told(changes.update, names, named=True),
        slices_told(changes.unchanged, names, named=True),
        slices_told(changes.delete, names, named=True),
        slices_told(family.replaced, names, named=True),
        slices_told(family.others, names, named=True),
        # Slices that are new come in the order of their hashes.
        rounded(family.traffic) if family.traffic and not is_traffic_by_chance(family) else None,
    ]


def plan_told(plan: ServicePlan, names: dict[str, str]) -> list[object]:
    return [
        *(family_told(family, names) for family in plan.families),
        [(event.type, event.reason) for event in plan.events],
        [(each.type, each.status, each.reason) for each in plan.conditions],
        slices_told(plan.surplus, names, named=True),
    ]


def one_zone_for_five() -> Cluster:
    """Zone a consumes two groups, whose slices come in the order of their hashes."""
    service = a_service(subsetting="Auto", algorithm="local-opt", starting="1")
    return Cluster(service=service, nodes=nodes_in(dict.fromkeys("abcde", 4)), pods=pods_in({"a": 12}))


@given(clusters(), st.sampled_from((False, False, False, True)), st.sampled_from((True, True, True, False)))
@example(cluster=one_zone_for_five(), upstream=False, pods_known=True)
@examples(120)
def test_the_plan_of_an_anonymized_cluster_is_the_same(cluster: Cluster, upstream: bool, pods_known: bool) -> None:
    if upstream:
        cluster = cluster.with_(configuration=cluster.configuration.as_upstream())
    if not pods_known:
        cluster = cluster.with_(pods=(), pods_known=False)
    before = snapshot_of(cluster)
    after = anonymized(before)
    names = other_names(before, after)
    itself = {name: name for name in names.values()}
    plan, again = (with_objects(cluster, snapshot).plan() for snapshot in (before, after))
    assert plan_told(plan, names) == plan_told(again, itself)


@given(clusters(), st.sampled_from(("json", "json", "yaml")))
@examples(40)
def test_a_saved_cluster_reads_back_as_it_was(cluster: Cluster, form: Form) -> None:
    for snapshot in (snapshot_of(cluster), anonymized(snapshot_of(cluster))):
        stream = BytesIO()
        save(snapshot, stream, form=form)
        assert Snapshot.of(read("saved", stream.getvalue(), skipped=Counter())) == Snapshot.of(
            (*snapshot.services, *snapshot.nodes, *snapshot.pods, *snapshot.slices)
        )
