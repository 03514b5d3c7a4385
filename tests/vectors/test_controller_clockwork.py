"""What leads to a sync, how often, from how fresh a cache, and what metrics count: the controller's part of
``slices_packing.json``, ``hints_auto.json`` and ``traffic_distribution.json``."""

from collections.abc import Callable, Mapping
from typing import Final

import pytest
from msgspec.structs import replace
from tests.builders import structs
from tests.builders.structs import SOME_TIME
from tests.vectors.building import a_node, asking_service, decision_for, packed_from, upstream_demand
from tests.vectors.cases import Case, RunIn, by_name, load
from tests.vectors.outcomes import check
from tests.vectors.test_hints_auto import LEFT_OUT as LEFT_OUT_OF_HINTS
from tests.vectors.test_slices_packing import LEFT_OUT as LEFT_OUT_OF_SLICES
from tests.vectors.test_traffic_distribution import LEFT_OUT as LEFT_OUT_OF_DISTRIBUTIONS

from zoneward.client.informer_cache import InformerCache, subscribe_affected_services
from zoneward.client.resources import LivePod, LivePodCondition, LivePodMeta, LivePodStatus
from zoneward.controller.controller_metrics import SliceTotals, family_totals
from zoneward.controller.queue.work_queue import Batching, ItemSchedule, RequeueDelay
from zoneward.controller.sync.endpointslice_tracker import EndpointSliceTracker
from zoneward.controller.sync.service_states import TriggerTimeTracker
from zoneward.kube.names import NODE_EXCLUDED_LABELS
from zoneward.kube.objects import EndpointSlice, Node, ObjectKey, ObjectMeta, PodIP, Service, ServiceSpec
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import Demand, changes_demand, compute_demand
from zoneward.routing.hints_decision import UpstreamRefusal, zone_ranges
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import plan_service
from zoneward.slices.planner import ServicePlanner

SERVICE: Final[ObjectKey] = ("ns", "svc")


def a_slice(
    uid: str, generation: int, *, owner: ObjectKey = SERVICE, has_version: bool, being_deleted: bool = False
) -> EndpointSlice:
    """A slice by its generation; with a version that grows as it does, or with none as upstream's tracker sees it."""
    return structs.a_slice(
        f"name-{uid}",
        namespace=owner[0],
        service=owner[1],
        uid=uid,
        generation=generation,
        version=str(generation) if has_version else None,
        deleting=being_deleted,
    )


def tracker(case: Case) -> None:
    for has_version in (False, True):
        run = _stale if "tracked" in case["input"] else _handled
        check(run(case["input"], has_version=has_version), case["expected"])


def _stale(given: Case, *, has_version: bool) -> dict[str, object]:
    slice_tracker = EndpointSliceTracker()
    for uid, generation in (given["tracked"] or {}).items():
        if generation == "deleted":
            slice_tracker.deletion_expected(a_slice(uid, 1, has_version=has_version))
        else:
            slice_tracker.written(a_slice(uid, generation, has_version=has_version))
    cached = [
        a_slice(
            slice_["uid"],
            slice_["generation"],
            has_version=has_version,
            being_deleted=slice_.get("being_deleted", False),
        )
        for slice_ in given["cached_slices"]
    ]
    return {"stale": slice_tracker.is_stale(SERVICE, cached)}


def _handled(given: Case, *, has_version: bool) -> dict[str, object]:
    def the(field: str) -> EndpointSlice:
        namespace, name, uid, generation = given[field]
        return a_slice(uid, generation, owner=(namespace, name), has_version=has_version)

    slice_tracker = EndpointSliceTracker()
    slice_tracker.written(the("recorded"))
    if "deletion_expected_for" in given:
        slice_tracker.deletion_expected(the("deletion_expected_for"))
    if "service_deleted" in given:
        namespace, name = given["service_deleted"]
        slice_tracker.forget((namespace, name))
    got: dict[str, object] = {
        "has": slice_tracker.has(the("asked")),
        "should_sync": slice_tracker.is_news(the("asked")),
    }
    if "deleted" in given:
        got["deletion_was_expected"] = slice_tracker.deleted(the("deleted"))
        got["has_recorded_after"] = slice_tracker.has(the("recorded"))
    return got


def stale_sync(case: Case) -> None:
    given, slice_tracker = case["input"], EndpointSliceTracker()
    slice_tracker.written(a_slice("u1", given["tracked_generation"], has_version=False))
    cached = [a_slice("u1", given["cached_generation"], has_version=False)]
    check({"sync_fails_as_stale": slice_tracker.is_stale(SERVICE, cached)}, case["expected"])


def trigger_time(case: Case) -> None:
    times, got = TriggerTimeTracker(), []
    for step in case["input"]["steps"]:
        if step.get("service_deleted"):
            times.forget(SERVICE)
        else:
            pods = {name: second(time) for name, time in step["pod_ready_transition"].items()}
            times.observe(SERVICE, created=second(step["service_created"]), pods=pods)
        got.append(times.time(SERVICE))
        times.written(SERVICE)
    expected = [None if seconds is None else second(seconds) for seconds in case["expected"]["trigger_time_per_step"]]
    assert got == expected


def second(seconds: int) -> str:
    return f"2026-11-21T08:00:{seconds:02}Z"


ONE_MORE: Final = {f"pack-batch-{operation}-02" for operation in ("add", "update", "delete")}
"""Upstream delays every change by the period, and has one write for three changes within 200 ms, 1 s after the first.
Here the first is written at once, and the two that follow together: one write more for each burst that finds the
Service quiet, for which the first endpoint is there a whole period earlier. What follows the first costs as many writes
as upstream's: from there on a period begins with the first change that waits (``pack-batch-*-03``: 2 and 2). That a
change is given out at once and the burst is one write excludes itself; a rollout of 1,000 Pods is one burst."""


def batching(case: Case) -> None:
    given, expected = case["input"], case["expected"]
    period = given["batch_period_ms"]
    # In milliseconds: they are whole, and sums of seconds in tenths are not equal where they should be.
    schedule = ItemSchedule[str](Batching(period=period, burst=30), RequeueDelay())
    now, writes, waited = 0.0, 0, []
    changes = []
    for delay in given["delays_before_each_ms"]:
        now += delay
        changes.append(now)
    end = now + given["wait_after_ms"]
    while True:
        due = schedule.next_due()
        at = min(changes[0] if changes else end, due if due is not None else end)
        if at >= end:
            break
        while changes and changes[0] == at:
            schedule.add("svc", now=changes.pop(0))
        if schedule.take(at) is not None:
            # Each change is an endpoint in the one slice of a small Service.
            writes += 1
            waited.append(schedule.done("svc", now=at, writes=1))
    assert writes == expected["write_requests"] + (case["id"] in ONE_MORE)
    assert waited[0] == 0
    assert max(waited) <= period


def services_to_queue(case: Case) -> None:
    given, expected = case["input"], case["expected"]
    names = sorted({*given["old_services"], *given["new_services"]})
    for field, is_ready in (("queued_when_only_labels_changed", True), ("queued_when_pod_changed_too", False)):
        before = a_live_pod(labels=dict.fromkeys(given["old_services"], "") | {"version": "1"})
        after = a_live_pod(labels=dict.fromkeys(given["new_services"], "") | {"version": "2"}, is_ready=is_ready)
        assert told_of({name: {name: ""} for name in names}, before, after) == set(expected[field])


IPS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "add primary IPv4": ((), ("10.0.0.1",)),
    "modify primary IPv4": (("10.0.0.1",), ("10.0.0.2",)),
    "add primary IPv6": ((), ("fd00::1",)),
    "modify primary IPv6": (("fd00::1",), ("fd00::2",)),
    "add secondary IP": (("10.0.0.1",), ("10.0.0.1", "fd00::1")),
    "modify secondary IP": (("10.0.0.1", "fd00::1"), ("10.0.0.1", "fd00::2")),
    "remove secondary IP": (("10.0.0.1", "fd00::1"), ("10.0.0.1",)),
}
LABELS: Final = {"add label": "svc", "modify label": "another", "remove label": None}
CHANGES: Final[Mapping[str, Callable[[LivePod], LivePod]]] = {
    "none": lambda pod: pod,
    "node_name": lambda pod: replace(pod, spec=replace(pod.spec, node_name="another")),
    "resource_version": lambda pod: pod,
    "readiness": lambda pod: replace(pod, status=replace(pod.status, conditions=readiness(is_ready=False))),
    "deletion_timestamp": lambda pod: replace(pod, metadata=replace(pod.metadata, deletion_timestamp=SOME_TIME)),
}
NODE_COUNTS: Final = "node_name"
"""The endpoint says its Node and takes its zone: a change is reported, though a Pod has its Node before its address."""


def pod_change(case: Case) -> None:
    expected, change = case["expected"], case["input"]["change"]
    pod = a_live_pod(labels={} if change == "add label" else {"app": "svc"})
    if change in IPS:
        before, after = (with_ips(pod, *ips) for ips in IPS[change])
    elif change in LABELS:
        app = LABELS[change]
        before, after = pod, replace(pod, metadata=replace(pod.metadata, labels={"app": app} if app else {}))
    else:
        before, after = pod, CHANGES[change](pod)
    reported = told_of({"svc": {"app": "svc"}}, before, after)
    matters = expected["endpoint_relevant_change"] or expected["membership_relevant_change"]
    assert bool(reported) == (matters or change == NODE_COUNTS)


def told_of(selectors: Mapping[str, dict[str, str]], before: LivePod, after: LivePod) -> set[str]:
    cache, reported = InformerCache(), set[str]()
    for name, selector in selectors.items():
        metadata = ObjectMeta(namespace="ns", name=name, resource_version="1")
        cache.services.put(Service(metadata=metadata, spec=ServiceSpec(selector=selector)))
    cache.pods.put(before)
    subscribe_affected_services(cache, lambda keys: reported.update(name for _, name in keys))
    cache.pods.put(replace(after, metadata=replace(after.metadata, resource_version="2")))
    return reported


def a_live_pod(*, labels: dict[str, str], is_ready: bool = True) -> LivePod:
    metadata = LivePodMeta(namespace="ns", name="pod-1", labels=labels, resource_version="1")
    status = LivePodStatus(phase="Running", conditions=readiness(is_ready=is_ready))
    return with_ips(LivePod(metadata=metadata, status=status), "10.0.0.1")


def readiness(*, is_ready: bool) -> tuple[LivePodCondition, ...]:
    return (LivePodCondition(type="Ready", status=str(is_ready)),)


def with_ips(pod: LivePod, *ips: str) -> LivePod:
    status = replace(pod.status, pod_ip=ips[0] if ips else "", pod_ips=tuple(PodIP(ip=ip) for ip in ips))
    return replace(pod, status=status)


KEPT: Final = {
    "auto-nodechange-02": "30 % are kept, and zone-c is 29 % above fair",
    "auto-nodechange-06": "a Node without CPU: Nodes are counted instead, two in each zone",
    "auto-nodechange-07": "30 % are kept, and zone-c is 25 % above fair",
}
"""Where upstream asks again for one threshold of 20 %, and for the loss of all hints where a Node has no CPU."""


def node_change_requeue(case: Case) -> None:
    given, expected = case["input"], case["expected"]["services_requeued"]
    nodes = [a_node(node) for node in given["nodes"]]
    is_on: bool = given["topology_engine_enabled"]
    services: list[Mapping[str, int]] = list(given["allocated_hints_by_service"].values())
    # Before, demand was as the hints are.
    before = next(iter(services), {"zone-a": 1, "zone-b": 1})
    fair = [
        a_node({"name": f"{zone}-{index}", "zone": zone, "cpu": "1", "ready": True})
        for zone, hints in before.items()
        for index in range(hints)
    ]
    configuration = Configuration()
    old, new = (compute_demand(node_list, missing_cpu=configuration.hints.missing_cpu) for node_list in (fair, nodes))
    assert sum(is_on and lacks_minimum(hints, upstream_demand(nodes)) for hints in services) == expected
    requeued = sum(is_on and is_affected(hints, old=old, new=new) for hints in services)
    assert requeued == (0 if case["id"] in KEPT else expected)


def lacks_minimum(hints: Mapping[str, int], demand: Demand) -> bool:
    """Upstream asks again where a zone has fewer hints than its minimum, or where there are no ranges."""
    ranges = zone_ranges(demand, sum(hints.values()))
    return isinstance(ranges, UpstreamRefusal) or any(
        hints.get(zone, 0) < range_.minimum for zone, range_ in ranges.items()
    )


def is_affected(hints: Mapping[str, int], *, old: Demand, new: Demand) -> bool:
    """Whether another demand changes the decision about a Service that has this number of hints for each zone."""
    nodes = {f"node-{zone}": zone for zone in hints}
    cluster_state = ClusterState(demand=old, node_zones=nodes, configuration=Configuration())
    service, pods = structs.a_service("Auto"), structs.pods_in(hints)
    plan = plan_service(service, pods=pods, slices=(), cluster_state=cluster_state)
    slices = [slice_ for family in plan.families for slice_ in family.slices]
    planner = ServicePlanner(service, cluster_state, pods=pods, slices=slices)
    planner.plan()
    return planner.is_affected_by(new)


def node_update_sequence(case: Case) -> None:
    given = case["input"]
    service, (first, second_) = asking_service(given["service"]), given["steps"]
    before = {node["name"]: node for node in first["nodes"]}
    after = {name: {**node, **second_["node_update"].get(name, {})} for name, node in before.items()}
    packed = packed_from(given["slices"], service)
    old, new = (decision_for(service, packed, nodes=map(a_node, nodes.values())) for nodes in (before, after))
    assert not old.has_same_outcome(new)


def node_update_trigger(case: Case) -> None:
    """Zoneward also plans again where CPU changes or a Node begins or ceases to count: both change demand."""
    node = structs.a_node("n", "zone-a")
    states: Mapping[str, tuple[Node | None, Node | None]] = {
        "add": (None, node),
        "delete": (node, None),
        "ready_condition_changed": (node, structs.a_node("n", "zone-a", ready=False)),
        "zone_label_changed": (node, structs.a_node("n", "zone-b")),
        "allocatable_cpu_changed": (node, structs.a_node("n", "zone-a", cpu=8)),
        "control_plane_label_changed": (node, structs.a_node("n", "zone-a", labels={NODE_EXCLUDED_LABELS[0]: ""})),
        "other_label_changed": (node, structs.a_node("n", "zone-a", labels={"other": "label"})),
    }
    assert list(states) == case["input"]["node_events"]
    ours = {"allocatable_cpu_changed", "control_plane_label_changed"}
    got = {event: changes_demand(*pair) for event, pair in states.items()}
    assert got == {event: refresh or event in ours for event, refresh in case["expected"]["refresh"].items()}


def metric_totals(case: Case) -> None:
    """A step says what a Service has by ports, or that it is deleted."""
    given, accounts, got = case["input"], SliceTotals(), []
    assert given["pair"] == ["endpoints", "slices"]
    for step in given["steps"]:
        for word, value in step.items():
            if word == "delete":
                accounts.drop(("ns", value))
            else:
                groups = [(endpoints, slices) for endpoints, slices in value]
                count = family_totals(groups, max_endpoints=given["max_endpoints_per_slice"])
                accounts.put(("ns", word), {"IPv4": count})
        desired, actual = accounts.desired_slices, accounts.slices
        got.append({"desired_slices": desired, "actual_slices": actual, "endpoints": accounts.endpoints})
    check({"totals_per_step": got}, case["expected"])


def services_count_sequence(case: Case) -> None:
    accounts = SliceTotals()
    for step, expected in zip(case["input"]["steps"], case["expected"]["services_by_value_per_step"], strict=True):
        for word, value in step.items():
            if word == "delete":
                accounts.drop(("ns", value))
            else:
                accounts.put(("ns", value[0]), {}, traffic_distribution=value[1])
        assert accounts.by_traffic_distribution == {asked: len(services) for asked, services in expected.items()}


RUN: Final = by_name(
    *(tracker, stale_sync, trigger_time, batching, services_to_queue, pod_change, node_change_requeue),
    *(node_update_sequence, node_update_trigger, metric_totals, services_count_sequence),
)
FILES: Final = ("slices_packing.json", "hints_auto.json", "traffic_distribution.json")
CASES: Final = [case for name in FILES for case in load(name) if case["kind"] in RUN]
LEFT_TO_THIS: Final = {
    id_
    for table in (LEFT_OUT_OF_SLICES, LEFT_OUT_OF_HINTS, LEFT_OUT_OF_DISTRIBUTIONS)
    for id_, why in table.items()
    if why == RunIn("test_controller_clockwork")
}


def test_what_other_modules_leave_to_the_controller_is_run_here() -> None:
    ids = {case["id"] for case in CASES}
    assert ids >= LEFT_TO_THIS
    assert {case["kind"] for case in CASES} == set(RUN)
    assert ONE_MORE | KEPT.keys() <= ids


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_what_leads_to_a_sync_is_as_the_vectors_say(case: Case) -> None:
    RUN[case["kind"]](case)
