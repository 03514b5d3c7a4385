"""Bytes of a real Prometheus become the money of ``zoneward report``, however two meters and a proxy are scraped."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from e2e.prometheus import Prometheus, Sample, exporter, growing, prometheus
from msgspec import UNSET

from zoneward.advice.measured_flows import HOURS_IN_MONTH
from zoneward.cli.main import run
from zoneward.client.prometheus import Prometheus as Client
from zoneward.client.prometheus_traffic import read_traffic
from zoneward.kube.demand import MeasuredTraffic, ServiceTraffic
from zoneward.kube.prometheus_settings import PrometheusSettings

A, B, C = "eu-central-1a", "eu-central-1b", "eu-central-1c"
GB: Final = 10**9
BEFORE: Final = 1000
"""Seconds for which the programs ran before Prometheus did. From 0 it would extrapolate less."""
WINDOW: Final = "1m"
STEP: Final = 60 / 720
"""Seconds of the window between two looks whether a program was there."""
SAMPLES: Final = 12
"""At least this number of each program."""
CONNECTIONS: Final = {A: 900, B: 100}
"""Of the node in the zone A each second, by where they went; of the node in B all to A."""
SCRAPED: Final = {"namespace": "zoneward-system", "service": "zoneward-meter", "pod": "meter-1", "zone": "elsewhere"}


def of_meter(node: str, zone: str, sent: dict[str, int], seconds: float) -> list[Sample]:
    """A meter's counters after some seconds: a GB of responses for each connection, and a tenth of requests."""
    samples: list[Sample] = [
        ("zoneward_meter_info", {"version": "0.1.0", "node": node, "zone": zone}, 1),
        *(
            (f"zoneward_meter_{name}_total", {}, 0)
            for name in ("unlisted_connections", "lost_messages", "connections_without_bytes")
        ),
    ]
    routes = [(zone, to, count) for to, count in sent.items()]
    for start, to, count in [*routes, ("external", C, 50)]:
        labels = {"namespace": "shop", "service": "search", "address_type": "IPv4", "from_zone": start, "to_zone": to}
        total = count * seconds
        samples += [
            ("zoneward_meter_connections_total", labels, total),
            ("zoneward_meter_bytes_total", {**labels, "direction": "response"}, total * GB),
            ("zoneward_meter_bytes_total", {**labels, "direction": "request"}, total * GB / 10),
        ]
    return samples


def of_proxy(seconds: float) -> list[Sample]:
    """A proxy on a third node."""
    labels = {"namespace": "shop", "service": "search", "address_type": "IPv4", "from_zone": C, "to_zone": C}
    return [
        ("zoneward_proxy_info", {"version": "0.1.0", "node": "worker-c1", "zone": C}, 1),
        *(
            ("zoneward_proxy_connections_total", {**labels, "asked": asked}, count * seconds)
            for asked, count in (("cluster-ip", 70), ("external", 30))
        ),
    ]


def forged(node: str | None, seconds: float) -> list[Sample]:
    """What a Pod says that has nothing to do with Zoneward: much traffic from A to B."""
    samples = of_meter(node or "", A, {B: 10**6}, seconds)
    return [(name, {**labels, "forged": "yes"}, value) for name, labels, value in samples if node or "info" not in name]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, str]]:
    """One that has scraped for some seconds, and the name in it of a Pod that forges metrics and says no node.

    Two others forge them under another job, and for a node that does not exist.
    """
    with (
        exporter() as first,
        exporter() as second,
        exporter() as proxy,
        exporter() as pod,
        exporter() as ghost,
        exporter() as nameless,
    ):

        def grow(passed: float) -> None:
            seconds = BEFORE + passed
            first.samples = of_meter("worker-a1", A, CONNECTIONS, seconds)
            second.samples = of_meter("worker-b1", B, {A: 500}, seconds)
            proxy.samples = of_proxy(seconds)
            pod.samples = forged("worker-a1", seconds)
            ghost.samples = forged("ghost", seconds)
            nameless.samples = forged(None, seconds)

        grow(0)
        jobs: list[Any] = [
            first.job("zoneward-meter", honor_labels=True, labels=SCRAPED),
            second.job("renamed", labels={**SCRAPED, "node": "elsewhere", "job": "zoneward-meter"}),
            proxy.job("zoneward-proxy"),
            pod.job("pods", honor_labels=True),
            ghost.job("ghost", labels={"job": "zoneward-meter"}, honor_labels=True),
            nameless.job("nameless", labels={"job": "zoneward-meter"}, honor_labels=True),
        ]
        with prometheus(tmp_path_factory.mktemp("prometheus"), jobs) as started, growing(grow):
            for source in (first, second, proxy, pod, ghost, nameless):
                counters = f'{{__name__=~"zoneward_.*_connections_total",instance="127.0.0.1:{source.port}"}}'
                started.wait_for(f"count_over_time({counters}[60s]) >= {SAMPLES}")
            yield started, f"127.0.0.1:{nameless.port}"


async def traffic(server: Prometheus) -> tuple[list[MeasuredTraffic], tuple[str, ...]]:
    client = Client(PrometheusSettings(url=server.url, window=60))
    measured = await read_traffic(client, nodes=["worker-a1", "worker-b1", "worker-c1"])
    return list(measured.documents), measured.notes


async def test_each_program_is_a_document_of_its_node(server: tuple[Prometheus, str]) -> None:
    documents, notes = await traffic(server[0])
    name = server[1]
    assert [(document.node, document.zone, document.complete) for document in documents] == [
        ("worker-a1", A, True),
        ("worker-b1", B, True),
        ("worker-c1", C, True),
    ]
    assert notes == (
        f"{name}: no zoneward_meter_info or zoneward_proxy_info says which node this is; it does not count",
        "not counted: programs of nodes that are not in the cluster (ghost)",
    )
    first, second, proxy = (_only(document) for document in documents)
    assert proxy.bytes is UNSET
    assert (set(proxy.zones), set(proxy.external)) == ({C}, {C})
    assert first.zones[A] == pytest.approx(9 * first.zones[B], rel=0.01)
    assert (set(second.zones), set(second.external)) == ({A}, {C})
    for totals in (first, second):
        assert isinstance(totals.bytes, dict)
        for zone, size in totals.bytes.items():
            # Prometheus answers another query for bytes, and may have one more sample by then.
            assert size.response == pytest.approx(totals.zones[zone] * GB, rel=1 / SAMPLES)
            assert size.request == pytest.approx(size.response / 10)


def _only(document: MeasuredTraffic) -> ServiceTraffic:
    (service,) = document.services
    assert (service.namespace, service.service, service.address_type) == ("shop", "search", "IPv4")
    return service


def crossing_bytes_a_second(server: Prometheus, until: str) -> tuple[float, float]:
    """Of the samples themselves, without what came from outside; and the seconds between the first and the last."""
    query = f'zoneward_meter_bytes_total{{from_zone!="external",from_zone!="",forged=""}}[{WINDOW}]'
    total, shortest = 0.0, float("inf")
    for series in server.read("query", query=query, time=until)["result"]:
        if series["metric"]["from_zone"] != series["metric"]["to_zone"]:
            (first, before), (last, after) = series["values"][0], series["values"][-1]
            total += (float(after) - float(before)) / (last - first)
            shortest = min(shortest, last - first)
    return total, shortest


def test_report_has_the_cost_of_the_samples(
    server: tuple[Prometheus, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "apiVersion: zoneward.dev/v1alpha1\nkind: ZonewardConfiguration\n"
        f"demand: {{prometheus: {{url: {server[0].url}, window: 720h}}}}\n"
    )
    measured = ("--measured", "prometheus", "--window", WINDOW, "--config", str(file))
    asked = ("--sample", "shop/search", *measured, "-o", "json")
    assert run(["report", *asked, "--price-per-gb", "0.01USD", "--only", "none"]) == 0
    out, said = capfd.readouterr()
    printed = json.loads(out)
    a_second, seconds = crossing_bytes_a_second(server[0], printed["measured"]["until"])
    a_month = a_second * 3600 * HOURS_IN_MONTH / GB
    now = printed["total"]["now"]
    # Of few samples, when the first and the last were is known to a step each, and whether the last was near is chance.
    near = pytest.approx(a_month, rel=(2 * STEP + 0.6 * seconds / (SAMPLES - 1)) / seconds)
    assert now["gb"] == near
    assert now["money"] == pytest.approx(now["gb"] / 100)
    assert printed["measured"]["measuredNodes"] == 2
    assert f"zoneward: measured traffic of 3 nodes from {server[0].url}, the last 1 min\n" in said
    assert run(["plan", *asked]) == 0
    decided = json.loads(capfd.readouterr().out)["decisions"][0]["measured"]
    assert decided["zones"][A]["inZone"] == pytest.approx(0.9, abs=0.01)
    assert run(["explain", *asked]) == 0
    explained = json.loads(capfd.readouterr().out)["families"][0]["measured"]
    assert {node["node"] for node in explained["nodes"]} >= {"worker-a1", "worker-b1"}
