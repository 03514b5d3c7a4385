"""Fixes keep what they promise, and are the smallest of their kind.

Random clusters are few here, for each takes many plans; ``make search`` looks at others in every round.
"""

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations_with_replacement
from typing import Final

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.advice.inputs import input_of
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster, rounded
from tests.properties.random_clusters import BALANCED, SUBSETTING, ZONE_HINTS, clusters, examples

from zoneward.advice.changed_cluster import ImpossibleChange
from zoneward.advice.fix_commands import steps_of
from zoneward.advice.fixes import Aim, Fix, aim_of, find_fixes
from zoneward.advice.service_input import Change, ServiceInput
from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.slices.plan import FamilyPlan, plan_service


def planned(given_: ServiceInput, address_type: str) -> FamilyPlan | None:
    """Afresh, by the real decision."""
    plan = plan_service(
        given_.service, pods=given_.pods, slices=given_.slices, cluster_state=given_.cluster_state, taken=given_.taken
    )
    return next((family for family in plan.families if family.address_type == address_type), None)


def meets(aim: Aim, given_: ServiceInput, change: Change, address_type: str) -> bool:
    try:
        changed = given_.changed(change, address_type=address_type)
    except ImpossibleChange:
        return False
    family = planned(changed, address_type)
    return family is not None and aim.is_met(family)


def check_promises(cluster: Cluster) -> int:
    """Apply every fix of every address family; how many there are."""
    given_, count = input_of(cluster), 0
    for family in given_.plan.families:
        address_type, aim = family.address_type, aim_of(family)
        fixes = find_fixes(given_, address_type)
        assert not fixes or aim is not None
        for fix in fixes:
            assert aim is not None
            assert not aim.is_met(family), "a fix where nothing is to be fixed"
            count += 1
            after = planned(given_.changed(fix.change, address_type=address_type), address_type)
            assert after is not None
            assert after.decision == fix.family.decision
            assert after.decision.active or aim.only_served
            assert after.traffic is not None
            assert fix.family.traffic is not None
            assert rounded(after.traffic) == rounded(fix.family.traffic)
            assert aim.is_met(after)
            check_commands(fix, given_, address_type)
    return count


def check_commands(fix: Fix, given_: ServiceInput, address_type: str) -> None:
    """What the commands say is what was verified."""
    steps = steps_of(fix, given_, address_type)
    assert steps.commands
    service = msgspec.to_builtins(given_.service)
    labels: dict[str, str] = {}
    replicas = None
    for command in steps.commands:
        words = shlex.split(command)
        about = words[words.index("--") + 1 :]
        if "scale" in words:
            (replicas,) = (word.removeprefix("--replicas=") for word in words if word.startswith("--replicas="))
        elif "label" in words:
            labels |= dict.fromkeys(about[1:-1], about[-1].removeprefix(f"{names.ZONE_LABEL}="))
        elif about[0] == "service":
            service = merged(service, json.loads(words[words.index("-p") + 1]))
    changed = given_.changed(fix.change, address_type=address_type)
    assert msgspec.convert(service, Service) == changed.service
    assert labels == dict(fix.change.zone_of_node)
    if fix.pods:
        assert replicas == f"N{fix.pods:+d}", "nobody says how many replicas the workload has"


def merged(document: object, patch: object) -> object:
    """RFC 7396 § 2, as its pseudocode has it."""
    if not isinstance(patch, dict):
        return patch
    target = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = merged(target.get(name), value)
    return target


@examples(15)
@given(clusters(setting=st.one_of(BALANCED, ZONE_HINTS, SUBSETTING), most_zones=5, tidy=True))
def test_each_fix_leads_to_what_it_promises(cluster: Cluster) -> None:
    check_promises(cluster)


@examples(15)
@given(clusters(most_zones=4, most_pods=20))
def test_each_fix_leads_to_what_it_promises_wherever_anything_may_be_wrong(cluster: Cluster) -> None:
    check_promises(cluster)


@examples(10)
@given(clusters(setting=BALANCED, most_zones=3, most_pods=12, tidy=True))
def test_each_fix_leads_to_what_it_promises_where_slices_are_all_that_is_known(cluster: Cluster) -> None:
    check_promises(cluster.settled().with_(pods=(), pods_known=False))


SETTINGS: Final = st.sampled_from(
    (
        a_service("Auto"),
        a_service("Auto"),
        a_service(distribution="PreferSameZone"),
        a_service("zoneward.dev/Balanced"),
        a_service(subsetting="Auto", algorithm="local", starting="1"),
    )
)
CPU: Final = st.sampled_from(
    (
        {"a": 4, "b": 4, "c": 4},
        {"a": 40, "b": 32, "c": 28},
        {"a": 8, "b": 1},
        {"a": 5, "b": 4},
        {"a": 9, "b": 3, "c": 3},
    )
)


@st.composite
def small_clusters(draw: st.DrawFn) -> Cluster:
    cpu = draw(CPU)
    pods = pods_in({zone: draw(st.integers(0, 4)) for zone in cpu})
    return Cluster(service=draw(SETTINGS), nodes=nodes_in(cpu), pods=pods)


def placements(zones: tuple[str, ...], size: int) -> Iterator[Counter[str]]:
    for chosen in combinations_with_replacement(zones, size):
        yield Counter(chosen)


def smaller(kind: str, zones: tuple[str, ...], fewer_than: int) -> Iterator[Mapping[str, int]]:
    """Every change of a kind that is smaller."""
    for size in range(1, fewer_than):
        for pods in placements(zones, size):
            if kind == "add-pods":
                yield pods
            elif kind == "remove-pods":
                yield {zone: -count for zone, count in pods.items()}
            else:
                for others in placements(zones, size):
                    if not pods.keys() & others.keys():
                        yield {**{zone: -count for zone, count in pods.items()}, **others}


@examples(25)
@given(small_clusters())
def test_no_smaller_change_of_the_same_kind_suffices(cluster: Cluster) -> None:
    given_ = input_of(cluster)
    (family,) = given_.plan.families
    aim, zones = aim_of(family), tuple(node.metadata.name[-1] for node in cluster.nodes)
    fixes = {fix.kind: fix for fix in find_fixes(given_, "IPv4")}
    if aim is None or ("setting" in fixes and fixes["setting"].change.pods):
        return
    for kind in ("add-pods", "remove-pods", "move-pods"):
        spread = fixes.get("spread")
        if kind not in fixes and spread is not None and kind != "remove-pods":
            # An even spread that takes no more Pods takes its place.
            limit = min(3, spread.pods) if kind == "add-pods" else 1
        elif kind in fixes:
            limit = min(4, fixes[kind].change.moved_pods or fixes[kind].pods)
        else:
            limit = 3
        for pods in smaller(kind, zones, limit):
            if kind == "remove-pods" and sum(pods.values()) <= -len(cluster.pods):
                continue
            assert not meets(aim, given_, Change(pods=pods), "IPv4"), (kind, fixes.get(kind), pods)


@examples(10)
@given(small_clusters(), st.data())
def test_where_only_the_number_of_pods_counts_any_zones_do(cluster: Cluster, data: st.DataObject) -> None:
    given_ = input_of(cluster)
    (family,) = given_.plan.families
    zones = tuple(node.metadata.name[-1] for node in cluster.nodes)
    for fix in find_fixes(given_, "IPv4"):
        if fix.wherever and fix.pods > 0:
            aim = aim_of(family)
            assert aim is not None
            pods = data.draw(st.sampled_from(list(placements(zones, fix.pods))))
            assert meets(aim, given_, Change(pods=pods), "IPv4")
