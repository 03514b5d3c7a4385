"""Rollouts under load on real kubelets: with Zoneward's parts no more connections fail than with the built-in ones."""

import json
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from cluster.box import BOX
from cluster.disruptions import roll_out
from cluster.lifecycle import Cluster
from cluster.load import (
    BALANCED,
    CLIENTS,
    NAMESPACE,
    RATE,
    Outcome,
    open_connections,
    scale,
    serve,
    settle,
    wait_for_rollout,
)
from cluster.parts import Mode
from cluster.sites import SITES, Site
from e2e.kube_proxy import service_endpoints
from e2e.processes import wait_until

from zoneward.kube import names

SECONDS = 40
CLIENT_SITES = [site for site in SITES if site.name in CLIENTS]
_SIGMAS = 6.5
"""Once in ten billion runs."""


@pytest.fixture(scope="module")
def built_in(cluster: Cluster) -> Iterator[Outcome]:
    """A rollout with the built-in parts."""
    # Longer than a kube-proxy on a busy machine needs to learn that a Pod is terminating.
    serve(cluster, delay=15)
    start(cluster, Mode.BUILT_IN)
    yield rolled_out(cluster)
    cluster.parts.start(Mode.BUILT_IN)
    cluster.kubectl("delete", *NAMESPACE, "service,deployment", "web")


def start(cluster: Cluster, mode: Mode) -> None:
    cluster.parts.start(mode)
    settle(cluster)


def rolled_out(cluster: Cluster) -> Outcome:
    outcome = open_connections(cluster, SECONDS, lambda: roll_out(cluster))
    # A client that is late skips connections, on a machine with other work.
    assert outcome.sent > 0.5 * RATE * SECONDS * len(CLIENTS)
    return outcome


def endpoints(cluster: Cluster) -> list[dict[str, Any]]:
    selector = f"--selector={names.SERVICE_NAME_LABEL}=web"
    slices = json.loads(cluster.kubectl("get", "endpointslices", selector, "--output=json", *NAMESPACE))["items"]
    assert {slice_["metadata"]["labels"][names.MANAGED_BY_LABEL] for slice_ in slices} == {names.BUILT_IN_MANAGER}
    return [endpoint for slice_ in slices for endpoint in slice_["endpoints"] or ()]


def is_hinted(cluster: Cluster) -> bool:
    return all(endpoint.get("hints") for endpoint in endpoints(cluster))


def is_scaled(cluster: Cluster, replicas: int) -> bool:
    """Whether slices list this number of ready Pods, with hints."""
    return sum(endpoint["conditions"]["ready"] for endpoint in endpoints(cluster)) == replicas and is_hinted(cluster)


def is_programmed(cluster: Cluster, site: Site) -> bool:
    """Whether kube-proxy sends connections of a node to the ready endpoints with a hint for its zone."""
    address = cluster.kubectl("get", "service", "web", *NAMESPACE, "--output=jsonpath={.spec.clusterIP}")
    hinted = {
        endpoint["addresses"][0]
        for endpoint in endpoints(cluster)
        if endpoint["conditions"]["ready"] and {"name": site.zone} in (endpoint.get("hints") or {}).get("forZones", ())
    }
    rules = json.loads(cluster.box.run("nft", "--json", "list", "table", "ip", "kube-proxy", inside=site.name))
    return {to.partition(":")[0] for to in service_endpoints(rules["nftables"], address, 80)} == hinted


def in_zone_share(outcome: Outcome) -> tuple[float, float]:
    """The share of in-zone traffic where all clients count the same, and by how much it may differ at random.

    Clients choose at random among the endpoints of a zone. A client that is late, on a machine with other work, opens
    fewer connections.
    """
    shares = [(inside / total, total) for inside, total in outcome.answers]
    variance = sum(share * (1 - share) / total for share, total in shares) / len(shares) ** 2
    return sum(share for share, _ in shares) / len(shares), _SIGMAS * variance**0.5


def predicted_in_zone(cluster: Cluster) -> float:
    """The share of traffic to ``web`` that stays in its zone, by ``zoneward plan``."""
    options = ("--quiet", "--with=overlay", "--output=json", f"--kubeconfig={cluster.plane.kubeconfig()}", *NAMESPACE)
    (decision,) = json.loads(
        cluster.box.run_here(sys.executable, "-m", "zoneward", "plan", *options, "web", network=BOX)
    )["decisions"]
    return float(decision["inZoneTraffic"])


def test_overlay_keeps_its_hints_and_fails_no_more_connections(cluster: Cluster, built_in: Outcome) -> None:
    start(cluster, Mode.OVERLAY)
    cluster.kubectl("annotate", "service", "web", BALANCED, *NAMESPACE)
    wait_until(lambda: is_hinted(cluster), "hints of the overlay")
    outcome = rolled_out(cluster)
    assert outcome.failed <= built_in.failed, outcome.lines
    # Old and new Pods, ready or not, have hints at every moment; so do Pods after scaling.
    assert is_hinted(cluster)
    for replicas in (4, 12):
        scale(cluster, replicas)
        wait_for_rollout(cluster)
        wait_until(partial(is_scaled, cluster, replicas), "hints after scaling")
        for site in CLIENT_SITES:
            wait_until(partial(is_programmed, cluster, site), f"the hints in the kernel of {site.name}")
        steady = open_connections(cluster, 10, lambda: None)
        assert steady.failed == 0, steady.lines
        in_zone, most_by_chance = in_zone_share(steady)
        assert in_zone == pytest.approx(predicted_in_zone(cluster), abs=most_by_chance + 0.005), steady.answers
    assert steady.in_zone > 0.99, "each zone has four Pods and a third of the demand"
    cluster.parts.start(Mode.BUILT_IN)
    assert not any(endpoint.get("hints") for endpoint in endpoints(cluster))
    named = f"--field-selector=metadata.name={names.OVERLAY_CONFIG_MAP}"
    assert cluster.kubectl("get", "configmaps", "--all-namespaces", named) == ""


def test_controller_and_proxy_fail_no_more_connections_in_a_rollout(cluster: Cluster, built_in: Outcome) -> None:
    start(cluster, Mode.BOTH)
    outcome = rolled_out(cluster)
    assert outcome.failed <= built_in.failed, outcome.lines
