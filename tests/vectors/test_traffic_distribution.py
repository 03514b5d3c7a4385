"""``traffic_distribution.json``: hints for ``spec.trafficDistribution``, what they change in slices, who is reached."""

from collections.abc import Mapping
from typing import Final

import pytest
from tests.clusters import endpoints_in
from tests.vectors import outcomes
from tests.vectors.building import (
    a_node,
    a_pod,
    a_service,
    annotations_of,
    asking_service,
    packed_from,
    plan,
    pod_behind,
    set_hints,
)
from tests.vectors.cases import Case, RunIn, by_name, check_complete, load
from tests.vectors.outcomes import check

from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.kube.objects import EndpointSlice
from zoneward.routing.configuration import Configuration, FeatureGates
from zoneward.routing.selection.endpoint_selection import (
    CURRENT,
    endpoints_of_port,
    honored_hints,
    policies_of,
    select_endpoints,
)
from zoneward.slices.plan import ServicePlan

WAITED: Final = "wait_limit_seconds_per_step"
"""How long upstream's test waits for each step."""


def reconcile_hints(case: Case) -> None:
    service = asking_service(case["input"])
    given = packed_from(case["input"]["slices"], service)
    packed = set_hints(service, given, nodes=()).packed
    slices = (*packed.create, *packed.update, *packed.unchanged)
    got = {
        "hints_by_endpoint": {
            outcomes.name_of(endpoint): outcomes.hints_of(endpoint) for endpoint in endpoints_in(slices)
        },
        "slices_to_create": [slice_.metadata.name for slice_ in packed.create],
        "slices_to_update": [slice_.metadata.name for slice_ in packed.update],
        "slices_unchanged": [slice_.metadata.name for slice_ in packed.unchanged],
    }
    check(got, case["expected"])
    assert given == packed_from(case["input"]["slices"], service), "what was given must stay as it was"


def reconcile_service(case: Case) -> None:
    given = case["input"]
    assert not given["existing_slices"]
    service = asking_service(given["service"])
    planned = plan(
        service,
        nodes=[a_node(node) for node in given["nodes"]],
        pods=[pod_behind(endpoint, namespace=service.metadata.namespace) for endpoint in given["endpoints"]],
        configuration=with_gate(given["switches"]["PreferSameTrafficDistribution"]),
    )
    after = outcomes.slices_after(planned)
    got = {
        "zone_hints": outcomes.hints_per_zone(after),
        "node_hints": outcomes.hints_per_node(after),
        "endpoints_without_zone_hint": sum(not outcomes.zone_hints(endpoint) for endpoint in endpoints_in(after)),
        "cross_zone_hints": outcomes.cross_zone_hints(after),
        "changes": outcomes.writes(planned),
        "endpoints_added": outcomes.endpoints_added(planned),
        "changed_slices_metric_label": outcomes.metric_label(planned),
        "services_count_by_traffic_distribution": services_counted(planned),
    }
    # Whether upstream's test looks at hints for nodes is no fact about the outcome.
    check(got, case["expected"], skipped=("node_hints_checked_by_upstream_test",))


def services_counted(planned: ServicePlan) -> dict[str, int]:
    metrics = ControllerMetrics()
    metrics.record_sync(planned)
    return {asked.value: count for asked, count in metrics.totals.by_traffic_distribution.items()}


def service_transition(case: Case) -> None:
    steps = case["input"]["steps"]
    if "event" in steps[0]:
        gate_transition(case)
        return
    nodes = [a_node(node) for node in case["input"]["nodes"]]
    pods = [pod_behind(endpoint, namespace="ns") for endpoint in case["input"]["endpoints"]]
    configuration = Configuration(max_endpoints_per_slice=case["input"]["max_endpoints_per_slice"]).as_upstream()
    slices: list[EndpointSlice] = []
    planned: ServicePlan | None = None
    hints = []
    for step in steps:
        service = asking_service(step)
        planned = plan(service, nodes=nodes, pods=pods, slices=slices, previous=planned, configuration=configuration)
        slices = outcomes.slices_after(planned)
        hints.append({outcomes.name_of(endpoint): outcomes.hints_of(endpoint) for endpoint in endpoints_in(slices)})
    check({"hints_per_step": hints}, case["expected"], skipped=(WAITED,))


RESTART: Final = "controller restart only"
"""What a controller does when it starts is tested elsewhere. The case itself says that what these steps show depends on
when one looks; the steps after them are about the gate alone."""


def gate_transition(case: Case) -> None:
    number_of_pods = {"first endpoint": 1, "second endpoint added": 2, "one endpoint deleted": 1}
    nodes = [a_node({"name": "node-1", "zone": "zone-1"})]
    service = a_service(traffic_distribution=case["input"]["traffic_distribution"])
    slices: list[EndpointSlice] = []
    for step, wanted in zip(case["input"]["steps"], case["expected"]["node_hints_present_per_step"], strict=True):
        if step["event"] == RESTART:
            continue
        pods = [a_pod(f"p{n}", ips=[f"10.0.0.{n + 1}"], node="node-1") for n in range(number_of_pods[step["event"]])]
        planned = plan(service, nodes=nodes, pods=pods, slices=slices, configuration=with_gate(step["switch"]))
        slices = outcomes.slices_after(planned)
        assert bool(outcomes.hints_per_node(slices)) == wanted, step


def routing(case: Case) -> None:
    given = case["input"]
    places = {server["node"]: a_node({"name": server["node"], "zone": server["zone"]}) for server in given["servers"]}
    places |= {client["node"]: a_node({"name": client["node"], "zone": client["zone"]}) for client in given["clients"]}
    service = a_service(
        annotations=annotations_of(given),
        traffic_distribution=given["traffic_distribution"],
        internal_traffic_policy=given["internal_traffic_policy"],
    )
    pods = [
        a_pod(server["id"], ips=[f"10.0.0.{index}"], node=server["node"])
        for index, server in enumerate(given["servers"], start=1)
    ]
    planned = plan(service, nodes=list(places.values()), pods=pods)
    reached = {}
    for client in given["clients"]:
        selection = select_endpoints(
            tuple(endpoints_of_port(outcomes.slices_after(planned), "http", node=client["node"]).values()),
            policies=policies_of(service),
            honored=honored_hints(service, CURRENT, FeatureGates()),
            node=client["node"],
            zone=client["zone"],
        )
        reached[client["id"]] = sorted(outcomes.name_of(endpoint) for endpoint in selection.cluster or ())
    # How many requests upstream's test sends says nothing here.
    check({"reached_servers_by_client": reached}, case["expected"], skipped=("minimum_consecutive_good_requests",))


def with_gate(prefer_same_traffic_distribution: bool) -> Configuration:
    gates = FeatureGates(prefer_same_traffic_distribution=prefer_same_traffic_distribution)
    return Configuration(gates=gates).as_upstream()


RUN: Final = by_name(reconcile_hints, reconcile_service, service_transition, routing)
LEFT_OUT: Final[Mapping[str, RunIn]] = {"td-metric-01": RunIn("test_controller_clockwork")}
CASES: Final = load("traffic_distribution.json")


def test_every_case_is_run_or_left_out_for_a_reason() -> None:
    check_complete(CASES, RUN, LEFT_OUT)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] in RUN])
def test_traffic_distribution_is_upstreams(case: Case) -> None:
    RUN[case["kind"]](case)
