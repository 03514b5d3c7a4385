"""``validation.json``: what an API server accepts, the limits that a controller of EndpointSlices keeps to, and which
setting wins."""

from typing import Final

import pytest
from tests.builders import structs
from tests.clusters import endpoints_in
from tests.vectors.building import UPSTREAM, a_node, a_pod, a_service, plan
from tests.vectors.cases import Case, RunIn, by_name, check_complete, load
from tests.vectors.outcomes import check, hints_of

from zoneward.controller.controller_configuration import MOST_SYNCS, ControllerConfiguration
from zoneward.kube import validation
from zoneward.kube.objects import (
    ServicePort,
)
from zoneward.routing.algorithms.heuristics import PROPORTIONAL_ZONE_CPU
from zoneward.routing.configuration import Configuration, FeatureGates
from zoneward.routing.request import Approach, requested_approach
from zoneward.routing.rules import RuleLog
from zoneward.routing.selection.endpoint_selection import CURRENT, honored_hints, policies_of, select_endpoints


def controller_options(case: Case) -> None:
    checked = {
        "max_endpoints_per_slice": {
            "default": validation.DEFAULT_ENDPOINTS_PER_SLICE,
            "min": validation.ENDPOINTS_PER_SLICE[0],
            "max": validation.ENDPOINTS_PER_SLICE[-1],
        },
        "concurrent_service_endpoint_syncs": {
            "default": ControllerConfiguration().concurrent_syncs,
            "min": 1,
            "max": MOST_SYNCS,
        },
        "endpointslice_updates_batch_period_seconds": {"default": ControllerConfiguration().batch_period},
    }
    check(checked, case["expected"])


def annotation(case: Case) -> None:
    service = a_service(annotations=case["input"]["annotations"])
    heuristic = requested_approach(service, UPSTREAM, RuleLog()).heuristic
    check({"auto_hints_enabled": heuristic is PROPORTIONAL_ZONE_CPU}, case["expected"])


def precedence(case: Case) -> None:
    """Which setting hints come from, or which endpoints get traffic, from inside and outside the cluster."""
    if "hint_source" in case["expected"]:
        check({"hint_source": hint_source(case["input"])}, case["expected"])
    else:
        check(routing_by_policy(case["input"]), case["expected"])


def hint_source(given: Case) -> str | None:
    # Two zones are what the heuristic needs at least.
    zones = ("zone-a", "zone-b") if given.get("auto_possible", True) else ("zone-a",)
    nodes = [a_node({"name": zone, "zone": zone, "cpu": "1", "ready": True}) for zone in zones]
    pods = [a_pod(zone, ips=[f"10.0.0.{index}"], node=zone) for index, zone in enumerate(zones, start=1)]
    service = a_service(annotations=given["annotations"], traffic_distribution=given["traffic_distribution"])
    gates = FeatureGates(topology_aware_hints=given.get("topology_engine_enabled", True))
    (family,) = plan(service, nodes=nodes, pods=pods, configuration=Configuration(gates=gates).as_upstream()).families
    hinted = all(hints_of(endpoint) for endpoint in endpoints_in(family.changes.after))
    assert hinted == family.decision.active
    sources = {Approach.HINTS: "annotation", Approach.TRAFFIC_DISTRIBUTION: "traffic_distribution"}
    return sources[family.decision.approach] if hinted else None


def routing_by_policy(given: Case) -> dict[str, str]:
    """``topology`` where hints choose, ``local`` where the policy does."""
    policies = {"internal": given["internal_traffic_policy"], "external": given["external_traffic_policy"]}
    service = a_service(
        type="NodePort",
        ports=(ServicePort(port=80, node_port=30080),),
        internal_traffic_policy=policies["internal"],
        external_traffic_policy=policies["external"],
    )
    assert given["topology_in_use"]
    here, near, far = (
        structs.an_endpoint(f"10.0.0.{index}", node=node, hinted=structs.hints(zone))
        for index, (node, zone) in enumerate([("here", "zone-a"), ("near", "zone-a"), ("far", "zone-b")], start=1)
    )
    selection = select_endpoints(
        (here, near, far),
        policies=policies_of(service),
        honored=honored_hints(service, CURRENT, FeatureGates()),
        node="here",
        zone="zone-a",
    )
    by_policy = {"Cluster": selection.cluster, "Local": selection.local}
    words = {(here, near): "topology", (here,): "local"}
    return {f"{origin}_routing": words[by_policy[policy] or ()] for origin, policy in policies.items()}


RUN: Final = by_name(controller_options, annotation, precedence)
CASES: Final = load("validation.json")
SANDBOX: Final = RunIn("test_validation_on_the_sandbox")
"""What an API server accepts, and what it does around that."""
LEFT_OUT: Final = {case["id"]: SANDBOX for case in CASES if case["kind"] not in RUN}


def test_every_case_is_run_or_left_out_for_a_reason() -> None:
    check_complete(CASES, RUN, LEFT_OUT)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] in RUN])
def test_validation_is_upstreams(case: Case) -> None:
    RUN[case["kind"]](case)
