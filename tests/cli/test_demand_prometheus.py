"""``--demand prometheus`` and ``--demand URL``: figures of a Prometheus decide; nothing else is asked for."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import pytest
from tests.cli.a_prometheus import Answers, a_prometheus
from tests.cli.live_cluster import Cluster
from tests.cli.running import Commands, configuration_file

from zoneward.cli.cluster_input import know_cluster_demand
from zoneward.client.auth.kubeconfig import load_client_config
from zoneward.kube.input_error import InputError
from zoneward.kube.prometheus_settings import PrometheusSettings
from zoneward.routing.configuration import Configuration, DemandSettings

A, B = "eu-central-1a", "eu-central-1b"


def answering(
    *series: tuple[str, str, str, str], nodes: Sequence[str] = ("worker-a1",)
) -> AbstractContextManager[Answers]:
    result = [
        {"metric": {"namespace": namespace, "service": service, "zone": zone}, "value": [1, value]}
        for namespace, service, zone, value in series
    ]
    named = [{"metric": {"node": node}, "value": [1, "1"]} for node in nodes]
    return a_prometheus(lambda query: named if query.startswith("group by (node)") else result)


SEARCH: Final = (("shop", "search", A, "75"), ("shop", "search", B, "25"))


def demand_of(zoneward: Commands, *arguments: str | Path) -> tuple[dict[str, float], str]:
    result = zoneward("plan", "--sample", "shop/search", "-o", "json", *arguments)
    assert result.status == 0, result.err
    (decision,) = json.loads(result.out)["decisions"]
    return {zone: figures["demand"] for zone, figures in decision["zones"].items() if figures["demand"]}, result.err


def test_a_prometheus_is_asked_and_named(zoneward: Commands) -> None:
    with answering(*SEARCH) as server:
        demand, said = demand_of(zoneward, "--demand", f"http://me:secret@127.0.0.1:{server.server_port}/")
        with_scheme, same = demand_of(zoneward, "--demand", f"prometheus+{server.url}")
    assert demand == pytest.approx({A: 0.75, B: 0.25})
    where = f"{server.url} (zoneward-meter, the last 1 h)"
    assert f"zoneward: demand of 1 of 16 Services from {where}; by CPU for the others\n" in said
    assert (with_scheme, same) == (demand, said)
    assert len(server.asked) == 4
    assert "zoneward_meter_connections_total" in server.asked[1]


def test_the_configuration_says_what_is_asked(zoneward: Commands, tmp_path: Path) -> None:
    with answering(*SEARCH) as server:
        query = "sum by (namespace, service, zone) (x[$window])"
        settings = f"demand: {{prometheus: {{url: {server.url}, window: 10m, query: '{query}'}}}}"
        file = configuration_file(tmp_path, settings)
        usual, _ = demand_of(zoneward, "--config", file)
        assert server.asked == [], "nobody asked for it"
        demand, said = demand_of(zoneward, "--config", file, "--demand", "prometheus")
    assert usual[A] < 0.5
    assert demand[A] == pytest.approx(0.75)
    assert server.asked == ["sum by (namespace, service, zone) (x[600s])"]
    assert f"from {server.url} (a query of the configuration, the last 10 min); by CPU" in said


def test_what_is_unknown_is_told_and_counts_for_nothing(zoneward: Commands) -> None:
    with answering(*SEARCH, ("shop", "search", "gone", "9"), ("a", "b", A, "1"), ("shop", "cart", A, "NaN")) as server:
        demand, said = demand_of(zoneward, "--demand", server.url, "-v")
    assert demand == pytest.approx({A: 0.75, B: 0.25})
    assert "zoneward: 1 series without a finite number counts for nothing\n" in said
    assert "zoneward: figures of 1 zone without a Node count for nothing (gone)\n" in said
    assert ": 1 Service was skipped that is not in the cluster as it was read (a/b)\n" in said


def test_without_figures_nothing_is_decided(zoneward: Commands) -> None:
    with answering() as server:
        results = [zoneward("plan", "--sample", "--demand", server.url)]
    results += [
        zoneward("check", "--sample", "--demand", server.url),
        zoneward("explain", "--sample", "shop/search", "--demand", "http://127.0.0.1:x"),
        zoneward("plan", "--sample", "--demand", "prometheus"),
    ]
    for result, expected in zip(results, ("got no series", "no connection", "HOST", "demand.prometheus"), strict=True):
        assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
        assert expected in result.err


def test_a_command_that_asks_before_it_reads_the_cluster_lists_the_nodes(cluster: Cluster) -> None:
    access = load_client_config(kubeconfig=str(cluster.kubeconfig), environment={})
    with answering(*SEARCH, nodes=("worker-a1", "ghost")) as server:
        demand = DemandSettings(source="prometheus", prometheus=PrometheusSettings(url=server.url))
        result = know_cluster_demand(Configuration(demand=demand), access)
    assert [note.text for note in result.notes[1:]] == [
        "not counted: programs of nodes that are not in the cluster (ghost)"
    ]
    assert 'node!~"ghost"' in server.asked[1]
    cluster.server.refusals["nodes"] = 403
    with pytest.raises(InputError):
        know_cluster_demand(Configuration(demand=demand), access)


def test_hostile_names_do_not_reach_the_terminal(zoneward: Commands) -> None:
    with answering(*SEARCH, ("a\x1b[2J", "b\n", f"{A}\x1b[1m", "1")) as server:
        _, said = demand_of(zoneward, "--demand", server.url, "-v")
    assert said.replace("\n", "").isprintable()
