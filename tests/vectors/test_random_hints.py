"""``random_hints.jsonl``: random clusters, step by step, through the real reconciler of v1.36.3."""

from collections import defaultdict
from typing import Any, Final

import msgspec
import pytest
from tests.clusters import endpoints_in
from tests.vectors import outcomes
from tests.vectors.building import plan
from tests.vectors.cases import Case, check_complete, load
from tests.vectors.outcomes import check

from zoneward.kube.objects import KINDS, Endpoint, EndpointPort, EndpointSlice, is_ready
from zoneward.routing.configuration import Configuration
from zoneward.slices.plan import ServicePlan

CONTROLLERS: Final = ("requeued_by_node_change",)
"""Whether a change of Nodes puts the Service into the queue. Upstream asks the hints that it remembers; here a Service
is queued where its decision comes out otherwise, which `tests.controller.test_demand` holds for random clusters, and
`tests.vectors.test_controller_clockwork` for the cases that are about it alone."""
PER_SLICE: Final = 100
"""Endpoints per slice where a case says nothing about it."""


def reconcile(case: Case) -> None:
    configuration = Configuration(max_endpoints_per_slice=case.get("max_endpoints_per_slice", PER_SLICE)).as_upstream()
    slices: list[EndpointSlice] = []
    planned: ServicePlan | None = None
    for index, step in enumerate(case["steps"]):
        objects = by_kind(step["objects"])
        (service,) = objects["Service"]
        planned = plan(
            service,
            nodes=objects["Node"],
            pods=objects["Pod"],
            slices=objects["EndpointSlice"] or slices,
            previous=planned,
            configuration=configuration,
        )
        slices = outcomes.slices_after(planned)
        expected = step["expected"]
        with_ports = any("ports" in endpoint for endpoint in expected.get("endpoints", ()))
        got = came_out(planned, with_ports=with_ports)
        check(got, wanted(expected), skipped=CONTROLLERS, where=f"step {index}")
        # Upstream has any of these, for its order is random.
        assert got["hints_by_zone"] in expected.get("hints_by_zone_any", [got["hints_by_zone"]])


def came_out(planned: ServicePlan, *, with_ports: bool) -> dict[str, object]:
    after = outcomes.slices_after(planned)
    endpoints = endpoints_in(after)
    return {
        "hints_by_zone": outcomes.hints_per_zone(after),
        "hints_by_endpoint": {address(endpoint): shown_hints(endpoint) for endpoint in endpoints if endpoint.hints},
        "endpoints": by_address(
            [
                shown(endpoint, slice_.ports if with_ports else None)
                for slice_ in after
                for endpoint in slice_.endpoints or ()
            ]
        ),
        "endpoints_total": len(endpoints),
        "endpoints_ready": sum(map(is_ready, endpoints)),
        "slices": len(after),
        "slice_sizes": sorted(len(slice_.endpoints or ()) for slice_ in after),
        "events": [event.reason for event in planned.events],
        "event_messages": [event.message for event in planned.events],
        "writes": outcomes.writes(planned),
        # What upstream's reconcile returns as an error is a rule here.
        "error": bool(outcomes.pods_left_out(planned)),
    }


def wanted(expected: Case) -> Case:
    """What is expected of us: the same, without what varies from run to run upstream, and without its idle writes."""
    varies = expected.get("varies", ())
    rest = {field: value for field, value in expected.items() if field not in ("varies", "hints_by_zone_any", *varies)}
    rest["error"] = "error" in expected
    if rest.get("slices", 0) is None:
        # Where their sizes vary, so does their number.
        assert "slice_sizes" in varies
        del rest["slices"]
    if not rest["hints_by_endpoint"] and expected["hints_by_zone"]:
        # Upstream picks at random which endpoints of a zone go to another.
        del rest["hints_by_endpoint"]
    if "hints_by_zone_any" in expected:
        rest.pop("hints_by_zone", None)
    if "writes" in rest:
        counts = dict(rest["writes"])
        counts["update"] -= counts.pop("update_without_change", 0)
        rest["writes"] = counts
    if "slice_sizes" in rest:
        rest["slice_sizes"] = sorted(rest["slice_sizes"])
    if "endpoints" in rest:
        rest["endpoints"] = by_address(rest["endpoints"])
    return rest


def by_kind(documents: list[dict[str, Any]]) -> defaultdict[str, list[Any]]:
    objects: defaultdict[str, list[Any]] = defaultdict(list)
    for document in documents:
        objects[document["kind"]].append(msgspec.convert(document, KINDS[document["apiVersion"], document["kind"]]))
    return objects


def address(endpoint: Endpoint) -> str:
    assert endpoint.addresses is not None
    (only,) = endpoint.addresses
    return only


def shown(endpoint: Endpoint, ports: tuple[EndpointPort, ...] | None) -> dict[str, object]:
    """An endpoint in the words of the file, where what is absent is left out."""
    assert endpoint.conditions is not None
    fields = {
        "ip": address(endpoint),
        "ready": endpoint.conditions.ready,
        "serving": endpoint.conditions.serving,
        "terminating": endpoint.conditions.terminating,
        "zone": endpoint.zone,
        "nodeName": endpoint.node_name,
        "hostname": endpoint.hostname,
        "ports": ",".join(f"{port.name}:{port.port}/{port.protocol}" for port in ports or ()) or None,
    }
    return {field: value for field, value in fields.items() if value is not None}


def by_address(endpoints: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(endpoints, key=lambda endpoint: (endpoint["ip"], str(sorted(endpoint.items(), key=str))))


def shown_hints(endpoint: Endpoint) -> dict[str, list[str]]:
    both = {"forZones": outcomes.zone_hints(endpoint), "forNodes": outcomes.node_hints(endpoint)}
    return {kind: values for kind, values in both.items() if values}


RUN: Final = dict.fromkeys(("auto", "traffic_distribution", "oddity", "scale"), reconcile)
CASES: Final = load("random_hints.jsonl.gz")


def test_every_case_is_run_or_left_out_for_a_reason() -> None:
    check_complete(CASES, RUN, {})


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] in RUN])
def test_random_clusters_are_reconciled_as_upstream_does(case: Case) -> None:
    RUN[case["kind"]](case)
