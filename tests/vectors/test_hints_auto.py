"""``hints_auto.json``: the annotation's heuristic as current Kubernetes runs it, from Nodes to hints and events."""

from typing import Final

import pytest
from msgspec.structs import replace
from tests.builders import structs
from tests.clusters import endpoints_in, with_conditions
from tests.vectors import outcomes
from tests.vectors.building import (
    a_node,
    a_service,
    an_endpoint,
    an_existing_slice,
    asking_service,
    decision_for,
    packed_from,
    plan,
    pod_behind,
    set_hints,
    upstream_demand,
)
from tests.vectors.cases import Case, RunIn, by_name, check_complete, load
from tests.vectors.outcomes import check

from zoneward.kube.names import TOPOLOGY_MODE_ANNOTATION
from zoneward.routing.configuration import Configuration, FeatureGates
from zoneward.routing.decision import ZoneRange
from zoneward.routing.hints_decision import has_node_information
from zoneward.routing.service_events import (
    ReportedState,
    conditions_of,
    last_reported,
    upstream_events_of,
    worst_family,
)
from zoneward.slices.reconcile import SliceChanges
from zoneward.slices.upstream import allowed_hints, givers_and_receivers, share_out

AUTO: Final = {TOPOLOGY_MODE_ANNOTATION: "Auto"}


def set_nodes(case: Case) -> None:
    demand = upstream_demand(map(a_node, case["input"]["nodes"]))
    sufficient = has_node_information(demand)
    got = {
        "sufficient_node_info": sufficient,
        "cpu_milli_by_zone": demand.weight_of if sufficient else None,
        "cpu_ratio_by_zone": {zone: demand.share(zone) for zone in demand.zones} if sufficient else None,
    }
    check(got, case["expected"])


def allocations(case: Case) -> None:
    # Where the endpoints are has no influence on what each zone may have.
    packed = readiness_only([{"ready": case["input"]["ready_endpoints"], "unready": 0}])
    decision = decision_for(a_service(annotations=AUTO), packed, nodes=map(a_node, case["input"]["nodes"]))
    warnings = [event for event in upstream_events_of({"IPv4": decision}, last=None) if event.type == "Warning"]
    got = {
        zone: {
            "minimum": zone_range.minimum,
            "maximum": zone_range.maximum,
            "desired": pytest.approx(zone_range.desired, abs=1e-9),
        }
        for zone, zone_range in (decision.ranges or {}).items()
    }
    expected = case["expected"]
    meant = [outcomes.event_meant(expected["event"])] if expected["event"] else []
    check({"allocations": got or None, "event": warnings}, {**expected, "event": meant})


def ready_total(case: Case) -> None:
    slices = case["input"]["slices"]
    packed = SliceChanges(
        create=readiness_only(slices["to_create"]).create,
        update=readiness_only(slices["to_update"]).create,
        unchanged=readiness_only(slices["unchanged"]).create,
    )
    decision = decision_for(a_service(annotations=AUTO), packed, nodes=())
    assert decision.endpoints == case["expected"]["ready_endpoints"]


def readiness_only(shapes: list[Case]) -> SliceChanges:
    ready, unready = (
        replace(structs.an_endpoint(zone="zone-a", ready=value, serving=value, terminating=False), addresses=None)
        for value in (True, False)
    )
    service = a_service()
    return SliceChanges(
        create=tuple(
            an_existing_slice("s", [ready] * shape["ready"] + [unready] * shape["unready"], service=service)
            for shape in shapes
        )
    )


def giving_receiving(case: Case) -> None:
    giving, receiving = givers_and_receivers(case["input"]["desired_by_zone"], case["input"]["allocated_by_zone"])
    check({"giving": giving, "receiving": receiving}, case["expected"])


def redistribute(case: Case) -> None:
    packed = packed_from({"to_create": case["input"]["slices"], "to_update": [], "unchanged": []}, a_service())
    before = outcomes.hints_per_zone(packed.create)
    slices = [list(slice_.endpoints or ()) for slice_ in packed.create]
    share_out(slices, dict(case["input"]["giving"]), dict(case["input"]["receiving"]))
    after = outcomes.hints_per_zone(an_existing_slice("s", endpoints, service=a_service()) for endpoints in slices)
    change = {zone: after.get(zone, 0) - before.get(zone, 0) for zone in {**before, **after}}
    assert {zone: delta for zone, delta in change.items() if delta} == case["expected"]["net_change_by_zone"]


def existing_hints_check(case: Case) -> None:
    slice_ = an_existing_slice(
        "s", [an_endpoint(endpoint) for endpoint in case["input"]["endpoints"]], service=a_service()
    )
    ranges = {zone: ZoneRange(0, maximum, 0.0) for zone, maximum in case["input"]["maximum_by_zone"].items()}
    counts = allowed_hints(slice_, case["input"]["already_allocated_by_zone"], ranges)
    check({"slice_can_stay_unchanged": counts is not None, "hints_by_zone": counts}, case["expected"])


def add_hints(case: Case) -> None:
    given, expected = case["input"], case["expected"]
    service = asking_service(given["service"], external_traffic_policy=given.get("service_external_traffic_policy"))
    hinted = set_hints(
        service,
        packed_from(given["slices"], service),
        nodes=map(a_node, given["nodes"]),
        address_type=given["address_type"],
    )
    packed = hinted.packed
    written = (*packed.create, *packed.update)
    everything = (*written, *packed.unchanged)
    by_endpoint = {
        outcomes.name_of(endpoint): outcomes.zone_hints(endpoint) or None for endpoint in endpoints_in(everything)
    }
    got = {
        "hints_per_zone": outcomes.hints_per_zone(everything) or None,
        "events": hinted.events,
        "slices_to_create": [slice_.metadata.name for slice_ in packed.create],
        "slices_to_update": [slice_.metadata.name for slice_ in packed.update],
        "slices_unchanged": [slice_.metadata.name for slice_ in packed.unchanged],
        "cross_zone_hints": outcomes.cross_zone_hints(written),
        "cross_zone_hints_scope": "slices listed as created or updated",
        "hints_by_endpoint": expected["hints_by_endpoint"] and by_endpoint,
    }
    meant = outcomes.events_meant(expected["events"], address_type=given["address_type"])
    check(got, {**expected, "events": meant})


def reconcile_topology(case: Case) -> None:
    given, expected = case["input"], case["expected"]
    service = asking_service(given["service"])
    namespace = service.metadata.namespace
    shapes = [
        *given.get("endpoints", ()),
        *(endpoint for old in given["existing_slices"] for endpoint in old["endpoints"]),
    ]
    pods = [pod_behind(shape, namespace=namespace) for shape in shapes if shape["id"] in given["desired_endpoints"]]
    existing = [
        an_existing_slice(
            old["id"], [an_endpoint(endpoint, namespace=namespace) for endpoint in old["endpoints"]], service=service
        )
        for old in given["existing_slices"]
    ]
    gates = FeatureGates(topology_aware_hints=given["topology_engine_enabled"])
    planned = plan(
        service,
        nodes=[a_node(node) for node in given["nodes"]],
        pods=pods,
        slices=existing,
        configuration=Configuration(gates=gates).as_upstream(),
    )
    after = outcomes.slices_after(planned)
    got = {
        "hints_per_zone": outcomes.hints_per_zone(after) or None,
        "cross_zone_hints": outcomes.cross_zone_hints(after),
        "changes": outcomes.writes(planned),
        "final_slice_count": len(after),
        "endpoints_added": outcomes.endpoints_added(planned),
        "endpoints_removed": outcomes.endpoints_removed(planned),
        "events": planned.events,
        "changed_slices_metric_label": outcomes.metric_label(planned),
    }
    meant = outcomes.events_meant(expected["events"], address_type=given["address_type"])
    # How upstream's test looks at events is no fact about the outcome.
    check(got, {**expected, "events": meant}, skipped=("events_checked_by_upstream_test",))


def event_sequence(case: Case) -> None:
    nodes = [a_node(node) for node in case["input"]["nodes"]]
    last: ReportedState | None = None
    got = []
    for step in case["input"]["steps"]:
        value = step["annotation_value"]
        service = a_service(annotations={} if value is None else {TOPOLOGY_MODE_ANNOTATION: value})
        decisions = {}
        for family, endpoints in step["endpoints_by_family"].items():
            slices = {"to_create": [{"id": "s1", "endpoints": endpoints}], "to_update": [], "unchanged": []}
            decisions[family] = decision_for(service, packed_from(slices, service), nodes=nodes)
        got.append(upstream_events_of(decisions, last=last))
        worst = worst_family(decisions)
        assert worst is not None
        last = last_reported(with_conditions(service, conditions_of(decisions), requested=worst[1].asked_for))
    assert got == [outcomes.events_meant(step) for step in case["expected"]["events_per_step"]]


def node_update_sequence(case: Case) -> None:
    given = case["input"]
    service = asking_service(given["service"])
    nodes: dict[str, Case] = {}
    last: ReportedState | None = None
    events, hints = [], []
    for step in given["steps"]:
        assert step["then"] == "sync"
        nodes |= {node["name"]: node for node in step.get("nodes", ())}
        for name, change in step.get("node_update", {}).items():
            nodes[name] = {**nodes[name], **change}
        hinted = set_hints(
            service,
            packed_from(given["slices"], service),
            nodes=map(a_node, nodes.values()),
            address_type=given["address_type"],
            last=last,
        )
        last = hinted.reported
        events.append(hinted.events)
        hints.append(outcomes.hints_per_zone((*hinted.packed.create, *hinted.packed.update)) or None)
    meant = [
        outcomes.events_meant(step_events, address_type=given["address_type"])
        for step_events in case["expected"]["events_per_step"]
    ]
    check({"events_per_step": events, "hints_per_zone_per_step": hints}, {**case["expected"], "events_per_step": meant})


RUN: Final = by_name(
    *(set_nodes, allocations, ready_total, giving_receiving, redistribute, existing_hints_check, add_hints),
    *(reconcile_topology, event_sequence, node_update_sequence),
)
CONTROLLER: Final = RunIn("test_controller_clockwork")
"""Which Services a change of Nodes puts into the queue."""
LEFT_OUT: Final = {f"auto-nodechange-{index:02}": CONTROLLER for index in (*range(1, 12), 13)}
CASES: Final = load("hints_auto.json")


def test_every_case_is_run_or_left_out_for_a_reason() -> None:
    check_complete(CASES, RUN, LEFT_OUT)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] in RUN])
def test_hints_for_the_annotation_are_upstreams(case: Case) -> None:
    RUN[case["kind"]](case)
