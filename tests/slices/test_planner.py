"""A planner makes the same plan as `plan_service` for the same objects, after any history."""

from collections.abc import Iterable, Mapping
from itertools import permutations
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders.structs import (
    DUAL_STACK,
    IPV4,
    IPV6,
    PORT,
    a_node,
    a_pod,
    a_service,
    a_slice,
    an_endpoint,
    hints,
    nodes_in,
    pods_in,
)
from tests.clusters import Cluster, decided_weights, endpoint_answers, slices_after, with_reported, written
from tests.properties.random_clusters import (
    ANY_SETTING,
    ZONE_HINTS,
    clusters,
    examples,
    pods_of,
    subsetting_settings,
    with_one_address,
)

from zoneward.kube import names
from zoneward.kube.objects import (
    Condition,
    EndpointSlice,
    Node,
    NodeCondition,
    Pod,
    Service,
    ServicePort,
    ServiceStatus,
)
from zoneward.kube.zone_weights import ZoneWeights
from zoneward.routing.algorithms.heuristics import SUBSETTING_ALGORITHMS
from zoneward.routing.configuration import Configuration
from zoneward.slices.plan import ServicePlan, plan_service
from zoneward.slices.planner import ServicePlanner

STRANGE: Final = ("ready", "ready", "ready", "not ready", "leaving", "going", "finished", "no address")
WEIGHTS: Final = (
    '{"counts":{"zone-1":2,"zone-2":2},"shares":{"zone-1":{"zone-1":0.5,"zone-2":0.5},"zone-2":{"zone-2":1.0}}}',
    "nonsense",
)
STRANGER: Final = (*STRANGE, "gone", "host", "host", "host leaving", "other port", "no port")


class Pair:
    """A planner, and the objects that it has received."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.pods = {pod.metadata.name: pod for pod in cluster.pods}
        self.slices = {slice_.metadata.name: slice_ for slice_ in cluster.slices}
        self.planner = ServicePlanner(cluster.service, cluster.cluster_state, pods=cluster.pods, slices=cluster.slices)
        self.version = 0

    def pod(self, name: str, pod: Pod | None) -> None:
        self.planner.update_pod(("shop", name), pod)
        if pod is None:
            self.pods.pop(name, None)
        else:
            self.pods[name] = pod

    def slice(self, name: str, slice_: EndpointSlice | None) -> None:
        if slice_ is not None:
            self.version += 1
            metadata = replace(slice_.metadata, resource_version=str(self.version))
            slice_ = replace(slice_, metadata=metadata)
        self.planner.update_slice(name, slice_)
        if slice_ is None:
            self.slices.pop(name, None)
        else:
            self.slices[name] = slice_

    def service(self, service: Service) -> None:
        self.planner.update_service(service)
        self.cluster = self.cluster.with_(service=service)

    def nodes(self, nodes: Iterable[Node]) -> None:
        self.cluster = self.cluster.with_(nodes=tuple(nodes))
        self.planner.update_cluster(self.cluster.cluster_state)

    def plan(self) -> ServicePlan:
        """The plan, which must equal a new plan of the same objects."""
        plan = self.planner.plan(trigger_time="now")
        anew = plan_service(
            self.cluster.service,
            pods=self.pods.values(),
            slices=self.slices.values(),
            cluster_state=self.cluster.cluster_state,
            trigger_time="now",
        )
        assert [family.address_type for family in plan.families] == [family.address_type for family in anew.families]
        for this, that in zip(plan.families, anew.families, strict=True):
            assert this.decision == that.decision
            assert endpoint_answers(this.decision) == endpoint_answers(that.decision)
            assert this.changes == that.changes
            assert (this.replaced, this.others, this.traffic) == (that.replaced, that.others, that.traffic)
        assert (plan.conditions, plan.events, plan.surplus) == (anew.conditions, anew.events, anew.surplus)
        return plan

    def write(self, plan: ServicePlan, *, most: int = 1000) -> None:
        """Carry a plan out, or the first few of its writes."""
        new = [slice_ for family in plan.families for slice_ in (*family.changes.create, *family.changes.update)]
        replaced = [slice_ for family in plan.families for slice_ in family.replaced]
        gone = [*plan.surplus, *replaced, *(slice_ for family in plan.families for slice_ in family.changes.delete)]
        for endpoint_slice in new[:most]:
            self.slice(endpoint_slice.metadata.name, endpoint_slice)
        for endpoint_slice in gone[: max(most - len(new), 0)]:
            self.slice(endpoint_slice.metadata.name, None)
        if most >= len(new):
            self.service(with_reported(self.cluster.service, plan))


@st.composite
def changes(draw: st.DrawFn, pair: Pair) -> None:
    """Something happens."""
    kinds = ("pod",) * 6 + ("slice",) * 3 + ("node", "service", "service", "some writes", "rare", "rare")
    match draw(st.sampled_from(kinds)):
        case "pod":
            draw(pod_changes(pair))
        case "slice":
            draw(slice_changes(pair))
        case "node":
            draw(node_changes(pair))
        case "service":
            draw(service_changes(pair))
        case "some writes":
            pair.write(pair.plan(), most=draw(st.integers(1, 3)))
        case "rare":
            draw(rare_changes(pair))


@st.composite
def pod_changes(draw: st.DrawFn, pair: Pair) -> None:
    index = draw(st.integers(0, 7))
    name = f"pod-{index:02}"
    if draw(st.sampled_from((False, False, False, True))):
        pair.pod(name, None)
        return
    kinds = draw(st.sampled_from((("ready",), STRANGE, STRANGER)))
    earlier = pair.pods.get(name)
    nodes = len(pair.cluster.nodes)
    made = draw(pods_of(nodes=nodes, most=4, kinds=kinds, first=index))
    for pod in made[:1]:
        if earlier is not None and draw(st.booleans()):
            # The same Pod in another state: its Node is the one it has.
            pod = replace(pod, spec=earlier.spec, status=replace(pod.status, pod_ips=earlier.status.pod_ips))
        elif draw(st.booleans()):
            (pod,) = with_one_address((pod,), 1)
        pair.pod(pod.metadata.name, pod)


@st.composite
def slice_changes(draw: st.DrawFn, pair: Pair) -> None:
    if not pair.slices:
        return
    slice_ = pair.slices[draw(st.sampled_from(sorted(pair.slices)))]
    endpoints, meta = slice_.endpoints or (), slice_.metadata
    endpoints_of = ("delete", "as it is", "hints", "no hints", "twice", "twice", "twice", "empty", "fewer")
    metadata_of = ("label", "approach", "weights", "other", "owner")
    match draw(st.sampled_from((*endpoints_of, *metadata_of))):
        case "delete":
            pair.slice(meta.name, None)
            return
        case "hints":
            hinted_count = draw(st.integers(0, len(endpoints)))
            hinted = (
                replace(one, hints=hints(draw(st.sampled_from(("zone-1", "zone-2")))))
                for one in endpoints[:hinted_count]
            )
            endpoints = (*hinted, *endpoints[hinted_count:])
        case "no hints":
            endpoints = tuple(replace(one, hints=None) for one in endpoints)
        case "twice":
            other = pair.slices[draw(st.sampled_from(sorted(pair.slices)))]
            endpoints = (*endpoints, *(other.endpoints or ())[:2])
        case "empty":
            endpoints = ()
        case "fewer":
            endpoints = endpoints[draw(st.integers(0, len(endpoints))) :]
        case "label":
            zone = draw(st.sampled_from(("zone-1", "zone-8")))
            meta = replace(meta, labels={**(meta.labels or {}), names.ZONE_LABEL: zone})
        case "approach":
            said = draw(st.sampled_from(("Hints/ProportionalZoneCPU", "Subsetting/local", "?")))
            meta = replace(meta, annotations={**(meta.annotations or {}), names.APPROACH_ANNOTATION: said})
        case "weights":
            text = draw(st.sampled_from(WEIGHTS))
            meta = replace(meta, annotations={**(meta.annotations or {}), names.ZONE_WEIGHTS_ANNOTATION: text})
        case "other":
            manager = draw(st.sampled_from((names.MANAGER, names.BUILT_IN_MANAGER, "example.com")))
            meta = replace(meta, labels={**(meta.labels or {}), names.MANAGED_BY_LABEL: manager})
        case "owner":
            meta = replace(meta, owner_references=a_slice("of-before", owner="uid-of-before").metadata.owner_references)
    pair.slice(meta.name, replace(slice_, metadata=meta, endpoints=endpoints))


@st.composite
def node_changes(draw: st.DrawFn, pair: Pair) -> None:
    nodes = {node.metadata.name: node for node in pair.cluster.nodes}
    index = draw(st.integers(0, len(nodes)))
    name = f"node-{index:02}"
    if name in nodes and draw(st.booleans()):
        # Demand alone: it starts elsewhere, or no more.
        status = a_node(name, cpu=draw(st.sampled_from((1, 4, 16))), ready=draw(st.booleans())).status
        nodes[name] = replace(nodes[name], status=status)
    elif name in nodes and len(nodes) > 1 and draw(st.booleans()):
        del nodes[name]
    else:
        zone = draw(st.sampled_from(("zone-1", "zone-2", "zone-3", None)))
        ready = draw(st.sampled_from((True, True, False)))
        nodes[name] = a_node(name, zone, cpu=draw(st.sampled_from((4, 4, 8, 16, None))), ready=ready)
    pair.nodes(nodes.values())


@st.composite
def service_changes(draw: st.DrawFn, pair: Pair) -> None:
    service = pair.cluster.service
    spec, meta = service.spec, service.metadata
    match draw(st.sampled_from((*("setting",) * 6, "label", "ports", "publish", "families", "policy"))):
        case "setting":
            asked = draw(ANY_SETTING)
            other = a_service(**asked._asdict())
            meta = replace(meta, annotations=other.metadata.annotations)
            spec = replace(spec, traffic_distribution=asked.distribution, topology_keys=asked.keys)
        case "label":
            meta = replace(meta, labels={"team": draw(st.sampled_from("ab"))})
        case "ports":
            targets: tuple[str | int, ...] = ("web", "none", PORT)
            target = draw(st.sampled_from(targets))
            spec = replace(spec, ports=(ServicePort(name="http", port=80, target_port=target),))
        case "publish":
            spec = replace(spec, publish_not_ready_addresses=draw(st.booleans()))
        case "families":
            spec = replace(spec, ip_families=draw(st.sampled_from((IPV4, IPV6, DUAL_STACK))))
        case "policy":
            spec = replace(spec, external_traffic_policy=draw(st.sampled_from((None, "Local"))))
    pair.service(replace(service, metadata=meta, spec=spec))


@st.composite
def rare_changes(draw: st.DrawFn, pair: Pair) -> None:
    service = pair.cluster.service
    match draw(st.sampled_from(("others", "built-in", "deleted", "uid", "no selector", "external name", "settings"))):
        case "others":
            zone = draw(st.sampled_from(("zone-1", None)))
            hinted = hints("zone-1") if draw(st.booleans()) else None
            endpoint = an_endpoint("10.0.0.1", zone, hinted=hinted)
            pair.slice("of-others", a_slice("of-others", endpoint, manager="example.com", owner=None))
        case "built-in":
            as_upstream = pair.cluster.configuration.as_upstream()
            cluster = pair.cluster.with_(pods=tuple(pair.pods.values()), configuration=as_upstream)
            for index, slice_ in enumerate(slices_after(cluster.with_(slices=()).plan())):
                name = f"cart-bltn{index}"
                pair.slice(name, replace(slice_, metadata=replace(slice_.metadata, name=name)))
        case "deleted":
            deleted = draw(st.sampled_from(("2026-11-21T08:00:00Z", None)))
            pair.service(replace(service, metadata=replace(service.metadata, deletion_timestamp=deleted)))
        case "uid":
            uid = draw(st.sampled_from(("uid-of-cart", "another")))
            pair.service(replace(service, metadata=replace(service.metadata, uid=uid)))
        case "no selector":
            selector = draw(st.sampled_from(({"app": "cart"}, None)))
            pair.service(replace(service, spec=replace(service.spec, selector=selector)))
        case "external name":
            type_ = draw(st.sampled_from(("ExternalName", "ClusterIP")))
            pair.service(replace(service, spec=replace(service.spec, type=type_)))
        case "settings":
            most = draw(st.sampled_from((2, 5, 100)))
            configuration = replace(
                pair.cluster.configuration, max_endpoints_per_slice=most, subsetting=draw(subsetting_settings())
            )
            if draw(st.sampled_from((False, False, True))):
                configuration = configuration.as_upstream()
            pair.cluster = pair.cluster.with_(configuration=configuration)
            pair.planner.update_cluster(pair.cluster.cluster_state)


@examples(150)
@given(clusters(most_pods=12), st.data())
def test_whatever_happens_the_kept_plan_is_the_plan_anew(cluster: Cluster, data: st.DataObject) -> None:
    anything_happens(cluster, data)


@examples(150)
@given(clusters(setting=ZONE_HINTS, most_pods=12, tidy=True), st.data())
def test_whatever_happens_the_kept_plan_with_hints_is_the_plan_anew(cluster: Cluster, data: st.DataObject) -> None:
    anything_happens(cluster, data)


def near_twice_as_much(counts: Mapping[str, int]) -> ZoneWeights | None:
    """Each endpoint gets the same from a zone, and one in the zone itself twice as much."""
    if not all(counts):
        return None
    rows = {start: {end: counts[end] * (1 + (start == end)) for end in counts} for start in counts}
    shares = {start: {end: part / sum(row.values()) for end, part in row.items()} for start, row in rows.items()}
    return ZoneWeights(shares, counts)


@examples(50)
@given(clusters(), st.data())
def test_whatever_happens_the_kept_plan_has_the_weights_of_the_plan_anew(cluster: Cluster, data: st.DataObject) -> None:
    with decided_weights(near_twice_as_much):
        anything_happens(cluster, data)


def anything_happens(cluster: Cluster, data: st.DataObject) -> None:
    pair = Pair(cluster.with_(pods=with_one_address(cluster.pods, data.draw(st.integers(0, 4)))))
    pair.write(pair.plan())
    for _ in range(data.draw(st.integers(8, 16))):
        for _ in range(data.draw(st.sampled_from((1, 1, 1, 2, 4)))):
            data.draw(changes(pair))
        plan = pair.plan()
        if data.draw(st.booleans()):
            pair.write(plan)
    pair.write(pair.plan())
    pair.write(pair.plan())
    assert not written(pair.plan())


THREE_ZONES: Final = nodes_in({"a": 4, "b": 4, "c": 4})
SMALL_SLICES: Final = Configuration(max_endpoints_per_slice=10)
SETTINGS: Final = {
    "none": a_service(),
    "Auto": a_service("Auto"),
    "PreferSameZone": a_service(distribution="PreferSameZone"),
    "PreferSameNode": a_service(distribution="PreferSameNode"),
    **{name: a_service(subsetting="Auto", algorithm=name) for name in SUBSETTING_ALGORITHMS},
    "Require": a_service(subsetting="Require"),
}


def settled(service: Service, pods: Iterable[Pod], configuration: Configuration = SMALL_SLICES) -> Pair:
    """A Service in three zones whose slices are as they should be, and known to be."""
    pair = Pair(Cluster(service=service, nodes=THREE_ZONES, pods=tuple(pods), configuration=configuration))
    pair.write(pair.plan())
    assert not written(pair.plan())
    return pair


def flipped(pod: Pod) -> Pod:
    return replace(pod, status=replace(pod.status, conditions=(NodeCondition(type="Ready", status="False"),)))


@pytest.mark.parametrize("service", SETTINGS.values(), ids=SETTINGS)
def test_a_flip_leaves_all_other_slices_alone(service: Service) -> None:
    pair = settled(service, pods_in({"a": 40, "b": 40, "c": 40}))
    assert len(pair.slices) >= 12
    assert pair.planner.pending_slices == 0
    pair.pod("b-0007", flipped(pair.pods["b-0007"]))
    assert pair.planner.pending_slices == 1
    plan = pair.plan()
    assert len(written(plan)) == 1
    pair.write(plan)
    assert pair.planner.pending_slices == 1
    assert not written(pair.plan())
    assert pair.planner.pending_slices == 0


@pytest.mark.parametrize("service", SETTINGS.values(), ids=SETTINGS)
def test_what_no_endpoint_depends_on_opens_no_slice(service: Service) -> None:
    pair = settled(service, pods_in({"a": 40, "b": 40, "c": 40}))
    conditions = (Condition(type="Other", status="True"),)
    pair.service(replace(service, status=ServiceStatus(conditions=(*conditions, *pair.plan().conditions))))
    pair.nodes([*THREE_ZONES, a_node("node-new", "b", ready=False)])
    pair.nodes(nodes_in({"a": 8, "b": 8, "c": 8}))
    assert not written(pair.plan())
    assert pair.planner.pending_slices == 0


def test_a_node_that_changes_its_zone_opens_the_slices_of_its_pods() -> None:
    pair = settled(SETTINGS["PreferSameZone"], [*pods_in({"a": 10, "b": 10}), a_pod("z", "node-c", ips=("10.9.0.1",))])
    pair.nodes([*THREE_ZONES[:2], a_node("node-c", "b")])
    assert pair.planner.pending_slices == 1
    assert len(written(pair.plan())) == 1


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_who_stands_for_an_address_may_go(order: tuple[int, ...]) -> None:
    """Three Pods with one address in three zones have the hint of the first by name, then that of the next."""
    pods = [a_pod(f"pod-{pod_index}", f"node-{'abc'[pod_index]}") for pod_index in order]
    pair = settled(SETTINGS["PreferSameZone"], pods)
    for index in range(2):
        pair.pod(f"pod-{index}", None)
        plan = pair.plan()
        hinted = {endpoint.hints for slice_ in slices_after(plan) for endpoint in slice_.endpoints or ()}
        assert hinted == {hints("abc"[index + 1])}
        pair.write(plan)
        pair.plan()


@pytest.mark.parametrize("algorithm", [name for name in SUBSETTING_ALGORITHMS if name != "random"])
def test_who_was_given_a_home_stays_there_and_is_not_looked_at(algorithm: str) -> None:
    """A third of the endpoints is where no traffic starts; once they have a group, they are counted like all others."""
    nodes = (*nodes_in({"a": 4, "b": 4}), a_node("node-c", "c", ready=False))
    pods = pods_in({"a": 40, "b": 40, "c": 40})
    service = SETTINGS[algorithm]
    pair = Pair(Cluster(service=service, nodes=nodes, pods=pods, configuration=SMALL_SLICES))
    pair.write(pair.plan())
    assert not written(pair.plan())
    assert pair.planner.pending_slices == 0
    pair.pod("c-0007", flipped(pair.pods["c-0007"]))
    assert len(written(pair.plan())) == 1
    assert pair.planner.pending_slices == 1
