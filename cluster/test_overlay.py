"""``Balanced`` as an overlay, on real kubelets and kube-proxies: where requests go, and what fails in a rollout."""

import json
import sys
from typing import Any

import pytest
from cluster.box import BOX
from cluster.disruptions import roll_out
from cluster.lifecycle import Cluster
from cluster.load import BALANCED, CLIENTS, NAMESPACE, RATE, open_connections, scale, serve, settle, wait_for_rollout
from cluster.parts import Mode
from e2e.processes import wait_until

from zoneward.kube import names

SECONDS = 25


def endpoints(cluster: Cluster) -> list[dict[str, Any]]:
    selector = f"--selector={names.SERVICE_NAME_LABEL}=web"
    slices = json.loads(cluster.kubectl("get", "endpointslices", selector, "--output=json", *NAMESPACE))["items"]
    assert {slice_["metadata"]["labels"][names.MANAGED_BY_LABEL] for slice_ in slices} == {names.BUILT_IN_MANAGER}
    return [endpoint for slice_ in slices for endpoint in slice_["endpoints"] or ()]


def is_hinted(cluster: Cluster) -> bool:
    return all(endpoint.get("hints") for endpoint in endpoints(cluster))


def predicted_in_zone(cluster: Cluster) -> float:
    """The share of traffic to ``web`` that stays in its zone, by ``zoneward plan``."""
    options = ("--quiet", "--with=overlay", "--output=json", f"--kubeconfig={cluster.plane.kubeconfig()}", *NAMESPACE)
    (decision,) = json.loads(
        cluster.box.run_here(sys.executable, "-m", "zoneward", "plan", *options, "web", network=BOX)
    )["decisions"]
    return float(decision["inZoneTraffic"])


def test_an_overlay_keeps_its_hints_in_rollout_and_scaling_and_fails_no_more_than_the_built_in_parts(
    cluster: Cluster,
) -> None:
    serve(cluster, delay=5)
    outcomes = {}
    for mode in (Mode.BUILT_IN, Mode.OVERLAY):
        cluster.parts.start(mode)
        settle(cluster)
        if mode is Mode.OVERLAY:
            cluster.kubectl("annotate", "service", "web", BALANCED, *NAMESPACE)
            wait_until(lambda: is_hinted(cluster), "hints of the overlay")
        outcomes[mode] = open_connections(cluster, SECONDS, lambda: roll_out(cluster))
        assert outcomes[mode].sent > 0.5 * RATE * SECONDS * len(CLIENTS)
    assert outcomes[Mode.OVERLAY].failed <= outcomes[Mode.BUILT_IN].failed, outcomes[Mode.OVERLAY].lines
    # Old and new Pods, ready or not, have hints at every moment; so have those of another scale.
    assert is_hinted(cluster)
    for replicas in (4, 12):
        scale(cluster, replicas)
        wait_for_rollout(cluster)
        wait_until(lambda: is_hinted(cluster), "hints after scaling")
        # Clients choose at random among the endpoints of a zone: 1,500 connections differ by two points.
        steady = open_connections(cluster, 10, lambda: None)
        assert steady.failed == 0, steady.lines
        assert steady.in_zone == pytest.approx(predicted_in_zone(cluster), abs=0.05)
    assert steady.in_zone > 0.99, "each zone has four Pods and a third of the demand"
    cluster.parts.start(Mode.BUILT_IN)
    assert not any(endpoint.get("hints") for endpoint in endpoints(cluster))
    named = f"--field-selector=metadata.name={names.OVERLAY_CONFIG_MAP}"
    assert cluster.kubectl("get", "configmaps", "--all-namespaces", named) == ""
