"""Subsetting in slices, from Pods and Nodes to what proxies use (KEP-2004 § Distribution of EndpointSlices).

Nobody is in two slices, every slice says who consumes it, and what our own proxy selects is what was decided.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import ceil
from typing import Final

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders.structs import IPV4, a_node, a_service, nodes_in, not_ready, pods_in
from tests.clusters import ALL_HINTS, CLUSTER, Cluster, endpoints_in, only_family, slices_after, written

from zoneward.kube import names
from zoneward.kube.objects import Endpoint, EndpointSlice, Number, Service
from zoneward.kube.validation import MAX_ZONE_HINTS, validate_endpoint_slice
from zoneward.report.manifests import slice_document
from zoneward.routing.algorithms.heuristics import SUBSETTING_ALGORITHMS
from zoneward.routing.configuration import Configuration, Encoding, SubsettingSettings
from zoneward.routing.decision import Decision
from zoneward.routing.selection.endpoint_selection import (
    CONSUMERS,
    SelectionRule,
    endpoints_of_all_ports,
    select_endpoints,
    slice_groups,
)
from zoneward.slices.plan import FamilyPlan

REQUIRE: Final = "Require"
APPROACHES: Final = (*SUBSETTING_ALGORITHMS, REQUIRE)
WEIGHTED: Final = ("local-weighted", "local-opt")
UNWEIGHTED: Final = tuple(approach for approach in APPROACHES if approach not in WEIGHTED)

EVEN: Final[Mapping[str, Number]] = {"a": 4, "b": 4, "c": 4}
FOUR: Final[Mapping[str, Number]] = {"a": 4, "b": 4, "c": 1, "d": 1}

Label = tuple[str | None, str | None]
"""Of a slice: its zone label, and its annotation with all zones."""
Used = dict[tuple[str, float], int]
"""What a proxy uses: endpoints by where they are and by their weight, which is 1 where all weigh the same."""


def the_service(approach: str, *, starting: str | None = None, families: tuple[str, ...] = IPV4) -> Service:
    if approach == REQUIRE:
        return a_service(subsetting="Require", families=families)
    return a_service(subsetting="Auto", algorithm=approach, starting=starting, families=families)


def a_cluster(
    approach: str, cpu: Mapping[str, Number], pods: Mapping[str, int], *, encoding: Encoding = "slice-groups"
) -> Cluster:
    return Cluster(
        service=the_service(approach),
        nodes=nodes_in(cpu),
        pods=pods_in(pods),
        configuration=Configuration(subsetting=SubsettingSettings(encoding=encoding)),
    )


def label_of(slice_: EndpointSlice) -> Label:
    annotations = slice_.metadata.annotations or {}
    return (slice_.metadata.labels or {}).get(names.ZONE_LABEL), annotations.get(names.ZONES_ANNOTATION)


def labels_in(slices: Iterable[EndpointSlice]) -> dict[str, Label]:
    """Label and annotation of every Pod's slice."""
    return {name_of(endpoint): label_of(slice_) for slice_ in slices for endpoint in slice_.endpoints or ()}


def name_of(endpoint: Endpoint) -> str:
    assert endpoint.target_ref is not None
    return endpoint.target_ref.name


def own(zone: str) -> Label:
    return zone, None


def decision_of(cluster: Cluster) -> Decision:
    return only_family(cluster.plan()).decision


def use(family: FamilyPlan, consumer: str, zone: str) -> tuple[SelectionRule, Used]:
    """What a proxy of some kind uses in a zone."""
    slices = family.slices
    selection = select_endpoints(
        endpoints_of_all_ports(slices),
        policies=CLUSTER,
        honored=ALL_HINTS,
        node="",
        zone=zone,
        groups=slice_groups(slices, CONSUMERS[consumer], Configuration().gates),
    )
    chosen = selection.cluster or ()
    pairs = zip(chosen, selection.weights or (1.0,) * len(chosen), strict=True)
    return selection.rule, dict(Counter((endpoint.zone or "", weight) for endpoint, weight in pairs))


def decided_for(decision: Decision, zone: str) -> Used:
    """What a decision has for a zone; everything where that is nothing."""
    assert decision.allocation is not None
    allocation = decision.allocation
    used: Counter[tuple[str, float]] = Counter()
    everything: Counter[tuple[str, float]] = Counter()
    for (consumers, located), count in allocation.counts.items():
        weight = allocation.group(consumers).weight(zone)
        everything[located, 1.0] += count
        if weight:
            used[located, weight] += count
    if not used:
        return dict(everything)
    if len({weight for _, weight in used}) == 1:
        return {(located, 1.0): count for (located, _), count in used.items()}
    return dict(used)


GROUPS: Final[Mapping[str, dict[Label, dict[str, int]]]] = {
    "local": {("a", None): {"a": 8}, ("b", None): {"b": 7}, ("c", None): {"a": 2}, ("d", None): {"a": 1, "b": 1}},
    "local-shared": {("a", None): {"a": 8}, ("b", None): {"b": 7}, ("c", "c,d"): {"a": 3, "b": 1}},
    "local-weighted": {
        ("a", None): {"a": 7},
        ("b", None): {"b": 7},
        ("c", None): {"a": 1},
        ("d", None): {"a": 1},
        ("a", "a=0.600000,c=0.400000"): {"a": 1},
        ("b", "b=0.600000,c=0.400000"): {"b": 1},
        ("d", "c=0.100000,d=0.900000"): {"a": 1},
    },
    "local-opt": {
        ("a", None): {"a": 7},
        ("b", None): {"b": 7},
        ("c", None): {"a": 1},
        ("d", None): {"a": 1},
        ("a", "a=0.250000,b=0.250000,c=0.250000,d=0.250000"): {"a": 2, "b": 1},
    },
    "random": {(None, None): {"a": 11, "b": 8}},
    REQUIRE: {("a", None): {"a": 11}, ("b", None): {"b": 8}},
}
"""Eleven Pods in zone a and eight in zone b, where zones expect 7.6, 7.6, 1.9 and 1.9."""


@pytest.mark.parametrize("approach", APPROACHES)
def test_own_groups_carry_a_label_and_shared_ones_an_annotation_as_well(approach: str) -> None:
    cluster = a_cluster(approach, FOUR, {"a": 11, "b": 8})
    slices = only_family(cluster.plan()).changes.after
    by_label = {label_of(slice_): dict(Counter(end.zone or "" for end in slice_.endpoints or ())) for slice_ in slices}
    assert by_label == GROUPS[approach]
    assert len(slices) == len(by_label)
    in_force = f"Subsetting/{'RequireZone' if approach == REQUIRE else approach}"
    assert {(slice_.metadata.annotations or {})[names.APPROACH_ANNOTATION] for slice_ in slices} == {in_force}


@pytest.mark.parametrize("approach", APPROACHES)
def test_many_zones_with_long_names_fit_into_labels(approach: str) -> None:
    """A label's value holds 63 characters and no list: twelve zones of 63 each are said by the annotation alone."""
    zones = [f"{'x' * 62}{letter}" for letter in "abcdefghijkl"]
    cluster = a_cluster(approach, dict.fromkeys(zones, 4), {zones[0]: 40, zones[1]: 33})
    family = only_family(cluster.plan())
    assert family.decision.active
    for slice_ in family.changes.after:
        assert validate_endpoint_slice(msgspec.convert(slice_document(slice_), EndpointSlice)) == ()
    counts = Counter(map(name_of, endpoints_in(family.changes.after)))
    assert counts == Counter(pod.metadata.name for pod in cluster.pods)
    for zone in zones:
        assert use(family, "zoneward", zone)[1] == decided_for(family.decision, zone)
    if approach not in ("local", "random", REQUIRE):
        # Otherwise nothing was asked that needs a list.
        assert max(len(annotation or "") for _, annotation in labels_in(family.slices).values()) > 63
    assert not written(cluster.settled().plan())


def test_a_zone_s_own_group_is_labelled_where_it_is_the_only_zone() -> None:
    cluster = a_cluster(REQUIRE, {"a": 4}, {"a": 3})
    assert set(labels_in(cluster.settled().slices).values()) == {own("a")}
    # A second zone has its own Pods, and no endpoint moves.
    wider = cluster.settled().with_(nodes=nodes_in({"a": 4, "b": 4}), pods=pods_in({"a": 3, "b": 2}))
    family = only_family(wider.plan())
    assert Counter(labels_in(family.slices).values()) == {own("a"): 3, own("b"): 2}
    assert [label_of(slice_) for slice_ in written(wider.plan())] == [own("b")]


def test_a_zone_label_on_the_service_is_never_mirrored() -> None:
    """Other labels are; an own slice that has it gets rid of it; with compat upstream it is mirrored."""
    plain = a_cluster("local", FOUR, {"a": 11, "b": 8})
    labels = {names.ZONE_LABEL: "banana", "team": "web"}
    cluster = plain.with_(service=replace(plain.service, metadata=replace(plain.service.metadata, labels=labels)))
    slices = only_family(cluster.plan()).changes.after
    assert labels_in(slices) == labels_in(only_family(plain.plan()).changes.after)
    assert all((slice_.metadata.labels or {})["team"] == "web" for slice_ in slices)
    spoilt = tuple(
        replace(slice_, metadata=replace(slice_.metadata, labels={**(slice_.metadata.labels or {}), **labels}))
        for slice_ in cluster.settled().slices
    )
    assert labels_in(cluster.with_(slices=spoilt).settled().slices) == labels_in(slices)
    upstream = cluster.with_(configuration=cluster.configuration.as_upstream(), slices=())
    assert set(labels_in(slices_after(upstream.plan())).values()) == {("banana", None)}


def hinted_zones_of(slices: Iterable[EndpointSlice]) -> Counter[tuple[str, ...]]:
    return Counter(
        tuple(zone.name for zone in (endpoint.hints.for_zones or ()) if endpoint.hints)
        for endpoint in endpoints_in(slices)
        if endpoint.hints is not None
    )


def test_eight_zones_may_share_a_group_in_hints() -> None:
    """Beside zone z0, which has all endpoints. Nine zones are too many: `tests.routing.test_decision`."""
    zones = [f"z{index}" for index in range(MAX_ZONE_HINTS + 1)]
    family = only_family(a_cluster("local-shared", dict.fromkeys(zones, 4), {zones[0]: 60}, encoding="hints").plan())
    assert family.decision.active
    assert max(map(len, hinted_zones_of(family.slices))) == MAX_ZONE_HINTS
    for slice_ in family.changes.after:
        assert validate_endpoint_slice(slice_) == ()


@pytest.mark.parametrize("approach", UNWEIGHTED)
def test_from_one_encoding_to_the_other_nobody_moves(approach: str) -> None:
    grouped, hinted = (
        a_cluster(approach, FOUR, {"a": 11, "b": 8}, encoding=encoding) for encoding in ("slice-groups", "hints")
    )
    for before, after in ((grouped, hinted), (hinted, grouped)):
        plan = after.with_(slices=before.settled().slices).plan()
        family = only_family(plan)
        assert family.decision.moved == 0
        for zone in FOUR:
            expected = use(only_family(before.plan()), "zoneward", zone)[1]
            assert use(family, "zoneward", zone)[1] == expected
        assert labels_in(family.slices) == labels_in(only_family(after.plan()).slices)


PLACES: Final = {"without a zone": a_node("node-x", None), "where nobody asks": a_node("node-x", "x", ready=False)}


def with_strangers(where: str, pods: Mapping[str, int], approach: str = "local") -> Cluster:
    """A cluster with one more Node, whose Pods have no zone where traffic starts."""
    cluster = a_cluster(approach, EVEN, pods)
    return cluster.with_(nodes=(*cluster.nodes, PLACES[where]))


@pytest.mark.parametrize("where", PLACES)
def test_pods_without_a_zone_go_where_the_need_is_greatest(where: str) -> None:
    """Five expected in each zone, 5, 4 and 3 located: zone c gets the first, and in a tie zone b the next."""
    cluster = with_strangers(where, {"a": 5, "b": 4, "c": 3, "x": 3})
    labels = labels_in(cluster.settled().slices)
    assert (labels["x-0000"], labels["x-0001"], labels["x-0002"]) == (own("c"), own("b"), own("c"))
    assert Counter(labels.values()) == {own("a"): 5, own("b"): 5, own("c"): 5}
    rules = {rule.rule: rule for rule in decision_of(cluster).rules}
    assert rules["endpoint-zones"].passed
    assert "3 endpoints without zone where traffic starts (x-0000, x-0001, x-0002)" in rules["endpoint-zones"].detail


@pytest.mark.parametrize("where", PLACES)
def test_a_ready_pod_without_a_zone_chooses_before_one_that_is_not_ready(where: str) -> None:
    """Independent of their names: the first gets zone c, which needs it most, the other the zone with the next need."""
    cluster = with_strangers(where, {"a": 5, "b": 4, "c": 3, "x": 2})
    labels = labels_in(cluster.with_(pods=not_ready(cluster.pods, "x-0000")).settled().slices)
    assert (labels["x-0000"], labels["x-0001"]) == (own("b"), own("c"))


@pytest.mark.parametrize(
    ("approach", "where"), [(approach, where) for approach in ("local", "local-shared") for where in PLACES]
)
def test_pods_without_a_zone_stay_where_they_were_put(approach: str, where: str) -> None:
    """Also where the need is another's by now: with all there from the start, the second would be zone a's."""
    cluster = with_strangers(where, {"a": 5, "b": 4, "c": 4, "x": 2}, approach)
    later = pods_in({"a": 5, "b": 4, "c": 5, "x": 2})
    fresh = labels_in(only_family(cluster.with_(pods=later).plan()).slices)
    assert (fresh["x-0000"], fresh["x-0001"]) == (own("b"), own("a"))
    settled = cluster.settled()
    before = labels_in(settled.slices)
    assert (before["x-0000"], before["x-0001"]) == (own("b"), own("c"))
    plan = settled.with_(pods=later).plan()
    assert labels_in(only_family(plan).slices) == {**before, "c-0004": own("c")}
    assert only_family(plan).decision.moved == 0
    assert [label_of(slice_) for slice_ in written(plan)] == [own("c")]


def test_the_number_of_slices_per_size_of_a_service() -> None:
    """KEP-2004 § Scalability, three equal zones: one slice below 12 endpoints, three to 100, three to five to 300, then
    about as many: the last slice of each zone may be all but empty."""
    for total in (1, 11, 12, 15, 50, *range(97, 107), *range(295, 310), 399, 600, 1000, 1500, 3000):
        pods = {zone: (total + 2 - index) // 3 for index, zone in enumerate("abc")}
        cluster = a_cluster("local", EVEN, pods)
        slices = len(only_family(cluster.plan()).changes.after)
        without = len(only_family(cluster.with_(service=a_service()).plan()).changes.after)
        assert without == ceil(total / 100)
        least, most = (
            (1, 1) if total < 12 else (3, 3) if total <= 100 else (3, 5) if total <= 300 else (without, without + 3)
        )
        assert least <= slices <= most, total
