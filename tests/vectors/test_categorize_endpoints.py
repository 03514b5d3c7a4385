"""``categorize_endpoints.json`` and ``random_selection.json``: what a node's proxy selects, and what it makes of
conditions and policies before."""

from typing import Final

import pytest
from tests.vectors.cases import SELECTION, Case, by_name, check_complete, load
from tests.vectors.outcomes import check
from tests.vectors.selecting import check_selection

from zoneward.kube.objects import (
    Endpoint,
    EndpointConditions,
    LoadBalancerIngress,
    LoadBalancerStatus,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
    is_ready,
    is_serving,
    is_terminating,
)
from zoneward.routing.selection.endpoint_selection import policies_of


def condition_decoding(case: Case) -> None:
    decoded = []
    for conditions in case["input"]["endpoints"]:
        endpoint = Endpoint(conditions=EndpointConditions(**conditions))
        decoded.append(
            {"ready": is_ready(endpoint), "serving": is_serving(endpoint), "terminating": is_terminating(endpoint)}
        )
    differing = [
        f"{given}: expected {want}, got {got}"
        for given, want, got in zip(case["input"]["endpoints"], case["expected"]["decoded"], decoded, strict=True)
        if got != want
    ]
    assert not differing, "\n".join(differing)


def policy_usage(case: Case) -> None:
    given = case["input"]
    spec = ServiceSpec(
        internal_traffic_policy=given["internal_traffic_policy"],
        external_traffic_policy=given["external_traffic_policy"],
        ports=(ServicePort(port=80, node_port=given["node_port"]),),
        external_ips=tuple(given["external_ips"]),
    )
    ingress = tuple(LoadBalancerIngress(ip=ip) for ip in given["load_balancer_vips"])
    status = ServiceStatus(load_balancer=LoadBalancerStatus(ingress=ingress))
    policies = policies_of(Service(spec=spec, status=status))
    check({"uses_cluster": policies.uses_cluster, "uses_local": policies.uses_local}, case["expected"])


RUN: Final = {SELECTION: check_selection, **by_name(condition_decoding, policy_usage)}
CASES: Final = [*load("categorize_endpoints.json"), *load("random_selection.json.gz")]


def test_every_case_is_run_or_left_out_for_a_reason() -> None:
    check_complete(CASES, RUN, {})


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] in RUN])
def test_the_selection_of_a_nodes_proxy_is_upstreams(case: Case) -> None:
    RUN[case["kind"]](case)
