"""What is decided does not change when a cluster is saved, or anonymized: each endpoint ends where it did before."""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from io import BytesIO
from typing import Final
from unittest.mock import patch

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from tests.builders.structs import SERVICE, a_service, a_slice, nodes_in, pods_in
from tests.clusters import Cluster, endpoint_answers, endpoints_in, rounded
from tests.properties.random_clusters import clusters, examples

from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION, encode_selector
from zoneward.kube.names import APPROACH_ANNOTATION
from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import Endpoint, EndpointPort, EndpointSlice, Service, ServicePort
from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.request import NUMBER_ANNOTATIONS, Approach
from zoneward.routing.rules import Reason
from zoneward.routing.service_events import NOT_ACCEPTED
from zoneward.slices.plan import FamilyPlan, ServicePlan
from zoneward.snapshots import pseudonyms
from zoneward.snapshots.anonymizer import anonymized
from zoneward.snapshots.cluster_snapshot import Snapshot
from zoneward.snapshots.snapshot_writer import SnapshotFormat, iter_documents, write_snapshot

WORDS: Final = frozenset({*HEURISTICS, *Approach, *Reason})
NUMBERS: Final = {annotation.name: annotation.parse for annotation in NUMBER_ANNOTATIONS}


def snapshot_of(cluster: Cluster) -> Snapshot:
    return Snapshot(services=(cluster.service,), nodes=cluster.nodes, pods=cluster.pods, slices=cluster.slices)


def with_objects(cluster: Cluster, snapshot: Snapshot) -> Cluster:
    (service,) = snapshot.services
    pods, slices = snapshot.pods_of(service), snapshot.slices_of(service)
    return cluster.with_(service=service, nodes=snapshot.nodes, pods=pods, slices=slices)


def ports_of(service_or_slice: Service | EndpointSlice) -> tuple[ServicePort | EndpointPort, ...]:
    return (service_or_slice.spec.ports if isinstance(service_or_slice, Service) else service_or_slice.ports) or ()


def approach_said(slice_: EndpointSlice) -> str:
    return (slice_.metadata.annotations or {}).get(APPROACH_ANNOTATION, "")


def other_names(before: Snapshot, after: Snapshot) -> dict[str, str]:
    """What replaces the addresses, Pods, Nodes and slices of one snapshot in another with the same objects."""
    pairs: list[tuple[str, str]] = []
    for slice_, now in zip(before.slices, after.slices, strict=True):
        pairs.append((slice_.metadata.name, now.metadata.name))
        pairs.append((approach_said(slice_), approach_said(now)))
        for endpoint, renamed in zip(slice_.endpoints or (), now.endpoints or (), strict=True):
            pairs += zip(endpoint.addresses or (), renamed.addresses or (), strict=True)
            pairs.append((endpoint.node_name or "", renamed.node_name or ""))
            if endpoint.target_ref and renamed.target_ref:
                pairs.append((endpoint.target_ref.name, renamed.target_ref.name))
    for pod, same in zip(before.pods, after.pods, strict=True):
        pairs += [(pod.metadata.name, same.metadata.name), (pod.spec.node_name, same.spec.node_name)]
        pairs += zip(
            (ip.ip for ip in pod.status.pod_ips or ()), (ip.ip for ip in same.status.pod_ips or ()), strict=True
        )
    originals: tuple[Service | EndpointSlice, ...] = (*before.services, *before.slices)
    counterparts: tuple[Service | EndpointSlice, ...] = (*after.services, *after.slices)
    for original, counterpart in zip(originals, counterparts, strict=True):
        pairs += zip(original.metadata.labels or (), counterpart.metadata.labels or (), strict=True)
        for port, same_port in zip(ports_of(original), ports_of(counterpart), strict=True):
            pairs.append((port.name or "", same_port.name or ""))
            pairs.append((port.app_protocol or "", same_port.app_protocol or ""))
    pairs += ((node.metadata.name, same.metadata.name) for node, same in zip(before.nodes, after.nodes, strict=True))
    return dict(pairs)


def describe_endpoint(endpoint: Endpoint, names: dict[str, str]) -> tuple[object, ...]:
    hints, target = endpoint.hints, endpoint.target_ref
    return (
        tuple(names[address] for address in endpoint.addresses or ()),
        names[target.name] if target else None,
        names[endpoint.node_name] if endpoint.node_name else endpoint.node_name,
        (endpoint.zone, endpoint.conditions),
        hints and hints.for_zones,
        hints and [names[node.name] for node in hints.for_nodes or ()],
    )


def describe_port(port: EndpointPort, names: dict[str, str]) -> tuple[object, ...]:
    name, protocol = port.name, port.app_protocol
    return (names.get(name or "", name), port.protocol, port.port, names.get(protocol or "", protocol))


def describe_slices(slices: Iterable[EndpointSlice], names: dict[str, str], *, named: bool) -> object:
    """Without their names, what annotations say is not about one of them: weights are on the first one by name."""
    slices = tuple(slices)
    annotations = [
        sorted((key, names.get(value, value)) for key, value in (slice_.metadata.annotations or {}).items())
        for slice_ in slices
    ]
    contents = Counter(
        repr(
            (
                (names[slice_.metadata.name], own) if named else "",
                (slice_.address_type, [describe_port(port, names) for port in slice_.ports or ()]),
                sorted(names.get(key, key) for key in slice_.metadata.labels or ()),
                [describe_endpoint(endpoint, names) for endpoint in slice_.endpoints or ()],
            )
        )
        for slice_, own in zip(slices, annotations, strict=True)
    )
    return contents, Counter(map(repr, annotations))


def is_traffic_by_chance(family: FamilyPlan) -> bool:
    """Whether an address is in a new slice, whose name is a hash of the UID, and in another controller's slice whose
    name begins alike."""
    new = {address for endpoint in endpoints_in(family.changes.create) for address in endpoint.addresses or ()}
    alike = [slice_ for slice_ in family.others if slice_.metadata.name.startswith(f"{SERVICE}-")]
    return any(address in new for endpoint in endpoints_in(alike) for address in endpoint.addresses or ())


def describe_family(family: FamilyPlan, names: dict[str, str], by_chance: Collection[str]) -> list[object]:
    decision, changes = family.decision, family.changes
    return [
        (family.address_type, decision.approach, decision.heuristic, decision.active, decision.reason),
        (decision.accepted, decision.accepted_reason, decision.endpoints, decision.moved, decision.allocation),
        [(rule.rule, rule.passed) for rule in decision.rules],
        Counter((hints and hints.for_zones, group) for hints, group in endpoint_answers(decision).values()),
        (decision.ranges, changes.added, changes.removed),
        describe_slices(changes.create, names, named=False),
        describe_slices(changes.update, names, named=True),
        describe_slices(changes.unchanged, names, named=True),
        describe_slices(changes.delete, names, named=True),
        describe_slices(family.replaced, names, named=True),
        describe_slices(family.others, names, named=True),
        # Slices that are new come in the order of their hashes.
        rounded(family.traffic) if family.traffic and family.address_type not in by_chance else None,
    ]


def describe_plan(plan: ServicePlan, names: dict[str, str], by_chance: Collection[str]) -> list[object]:
    """``by_chance``: the address families whose traffic depends on the order of two hashes."""
    return [
        *(describe_family(family, names, by_chance) for family in plan.families),
        # Whether a misspelt value was reported before is read from a message, and an anonymized snapshot has none.
        [(event.type, event.reason) for event in plan.events if event.reason != NOT_ACCEPTED],
        [(condition.type, condition.status, condition.reason) for condition in plan.conditions],
        describe_slices(plan.surplus, names, named=True),
    ]


def one_zone_for_five() -> Cluster:
    """Zone a consumes two groups, whose slices come in the order of their hashes."""
    service = a_service(subsetting="Auto", algorithm="local-opt", starting="1")
    return Cluster(service=service, nodes=nodes_in(dict.fromkeys("abcde", 4)), pods=pods_in({"a": 12}))


def unknown_approach_in_force() -> Cluster:
    """Under the rules of the built-in controller a slice of Zoneward has another manager, and keeps its annotation."""
    slices = (a_slice("cart-1", in_force="?"),)
    return Cluster(service=a_service(mode="Auto"), nodes=nodes_in({"a": 4}), slices=slices)


@given(clusters(), st.sampled_from((False, False, False, True)), st.sampled_from((True, True, True, False)))
@example(cluster=one_zone_for_five(), upstream=False, pods_known=True)
@example(cluster=unknown_approach_in_force(), upstream=True, pods_known=True)
@examples(60)
def test_the_plan_of_an_anonymized_cluster_is_the_same(cluster: Cluster, upstream: bool, pods_known: bool) -> None:
    if upstream:
        cluster = cluster.with_(configuration=cluster.configuration.as_upstream())
    if not pods_known:
        cluster = cluster.with_(pods=(), pods_known=False)
    before = snapshot_of(cluster)
    after = anonymized(before, words=WORDS, numbers=NUMBERS)
    names = other_names(before, after)
    itself = {name: name for name in names.values()}
    plan, again = (with_objects(cluster, snapshot).plan() for snapshot in (before, after))
    by_chance = [family.address_type for family in plan.families if is_traffic_by_chance(family)]
    assert describe_plan(plan, names, by_chance) == describe_plan(again, itself, by_chance)


def plain(value: object) -> str:
    """As text that is the same for equal values."""
    match value:
        case Counter():
            return repr(sorted((plain(key), count) for key, count in value.items()))
        case list() | tuple():
            return f"[{', '.join(map(plain, value))}]"
        case _:
            return repr(value)


@given(clusters(), st.booleans())
@examples(30)
def test_so_it_is_where_zones_and_settings_are_nobody_s_and_the_service_is_adopted(
    cluster: Cluster, adopted: bool
) -> None:
    """Zones are called like nobody's first, each in its place among the others."""
    with patch.object(pseudonyms, "is_public_place", return_value=False):
        ours = anonymized(snapshot_of(cluster), words=WORDS, numbers=NUMBERS)
    text = msgspec.json.encode([*iter_documents(ours)]).decode()
    text = re.sub(r"\b(?:zone|unknown)-(\d+)", r"rack-berlin-\1", text)
    before = Snapshot.of(read_objects("berlin", text.encode(), skipped=Counter()))
    if adopted:
        before = replace(before, services=tuple(map(as_adopted, before.services)))
    after = anonymized(before, words=WORDS, numbers=NUMBERS)
    names = other_names(before, after)
    itself = {name: name for name in names.values()}
    plan, again = (with_objects(cluster, snapshot).plan() for snapshot in (before, after))
    by_chance = [family.address_type for family in plan.families if is_traffic_by_chance(family)]
    shown, shown_again = (
        plain(describe_plan(plan, names, by_chance)),
        plain(describe_plan(again, itself, by_chance)),
    )
    assert "berlin" not in shown_again
    assert in_order("rack-berlin", shown) == in_order("(?:zone|unknown)", shown_again)


def in_order(form: str, text: str) -> str:
    """With the place among all in place of each name with a number."""
    all_names = sorted(set(re.findall(rf"\b{form}-\d+", text)))
    return re.sub(rf"\b{form}-\d+", lambda match: f"<{all_names.index(match[0])}>", text)


def as_adopted(service: Service) -> Service:
    marks = {SELECTOR_ANNOTATION: encode_selector(service.spec.selector or {})}
    metadata = msgspec.structs.replace(service.metadata, annotations=(service.metadata.annotations or {}) | marks)
    return msgspec.structs.replace(
        service, metadata=metadata, spec=msgspec.structs.replace(service.spec, selector=None)
    )


@given(clusters(), st.sampled_from(("json", "json", "yaml")))
@examples(40)
def test_a_saved_cluster_reads_back_as_it_was(cluster: Cluster, form: SnapshotFormat) -> None:
    for snapshot in (snapshot_of(cluster), anonymized(snapshot_of(cluster), words=WORDS, numbers=NUMBERS)):
        stream = BytesIO()
        write_snapshot(snapshot, stream, form=form)
        assert Snapshot.of(read_objects("saved", stream.getvalue(), skipped=Counter())) == Snapshot.of(
            (*snapshot.services, *snapshot.nodes, *snapshot.pods, *snapshot.slices)
        )
