"""Demand from a real Prometheus: presets, the documented queries, and what it refuses."""

import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

import pytest
import yaml
from e2e.prometheus import Exporter, Prometheus, Sample, exporter, growing, prometheus

from zoneward.cli.configuration_file import configuration_from
from zoneward.cli.main import run
from zoneward.client.prometheus import Prometheus as Client
from zoneward.client.prometheus import PrometheusUnavailable
from zoneward.kube.objects import ObjectKey
from zoneward.kube.prometheus_settings import Preset, PrometheusSettings

PAGE: Final = Path(__file__).parents[1] / "docs" / "demand.md"
ZONES: Final = ("eu-central-1a", "eu-central-1b", "eu-central-1c")
PARTS: Final = (70, 20, 10)
NODES: Final = ("worker-a1", "worker-b1")
SHARES: Final = dict(zip(ZONES, (0.7, 0.2, 0.1), strict=True))


def of_zoneward(service: str, node: str) -> list[Sample]:
    """What a meter and a proxy say of one Service, with clients from outside, and on a node without a zone."""
    of_all = {"namespace": "shop", "service": service, "address_type": "IPv4"}
    infos: list[Sample] = [
        (f"zoneward_{program}_info", {"version": "0.1.0", "node": node, "zone": ZONES[0]}, 1)
        for program in ("meter", "proxy")
    ]
    counted = [
        ({**of_all, "from_zone": zone, "to_zone": to}, float(part))
        for zone, part in zip((*ZONES, "external", ""), (*PARTS, 5000, 300), strict=True)
        for to in (ZONES[0], "")
    ]
    return [
        *infos,
        *(("zoneward_meter_connections_total", labels, value) for labels, value in counted),
        *(("zoneward_proxy_connections_total", {**labels, "asked": "cluster-ip"}, value) for labels, value in counted),
        (
            "zoneward_proxy_connections_total",
            {**of_all, "from_zone": ZONES[0], "to_zone": "", "asked": "external"},
            9e3,
        ),
    ]


def forged(node: str | None) -> list[Sample]:
    """What a Pod of another namespace says: that all traffic of `search` starts in the last zone, counted on a node."""
    labels = {"namespace": "shop", "service": "search", "address_type": "IPv4", "from_zone": ZONES[2], "to_zone": ""}
    return [
        ("zoneward_meter_connections_total", labels, 1e6),
        ("zoneward_proxy_connections_total", {**labels, "asked": "cluster-ip"}, 1e6),
        *(
            (f"zoneward_{program}_info", {"version": "0.1.0", "node": node, "zone": ZONES[2]}, 1.0)
            for program in ("meter", "proxy")
            if node is not None
        ),
    ]


def of_others() -> list[Sample]:
    """As kube-state-metrics, Istio, Linkerd and Hubble document their labels: a client Pod in each zone."""
    of_istio = {"destination_service_name": "cart", "destination_service_namespace": "shop"}
    of_linkerd = {"dst_namespace": "shop", "dst_service": "cart"}
    of_hubble = {"destination_namespace": "shop", "destination_workload": "cart"}
    samples: list[Sample] = []
    for zone, part in zip(ZONES, PARTS, strict=True):
        pod, node = f"client-{zone}", f"node-{zone}"
        client = {"namespace": "clients", "pod": pod}
        source = {"source_namespace": "clients", "source_pod": pod}
        samples.append(("kube_pod_info", {**client, "node": node, "uid": pod, "pod_ip": "10.0.0.1"}, 1))
        samples.append(("kube_node_labels", {"node": node, "label_topology_kubernetes_io_zone": zone}, 1))
        for reporter, code in product(("source", "destination"), ("200", "503")):
            labels = {**client, **of_istio, "reporter": reporter, "response_code": code}
            samples.append(("istio_requests_total", labels, part))
        for direction, tls in product(("outbound", "inbound"), ("true", "no_identity")):
            samples.append(("request_total", {**client, **of_linkerd, "direction": direction, "tls": tls}, part))
        for direction, verdict in product(("egress", "ingress"), ("FORWARDED", "DROPPED")):
            labels = {**source, **of_hubble, "traffic_direction": direction, "verdict": verdict}
            samples.append(("hubble_flows_processed_total", labels, part))
    return samples


def grown(samples: list[Sample], times: float) -> list[Sample]:
    """Counters grow; gauges stay."""
    return [(name, labels, value * (times if name.endswith("_total") else 1)) for name, labels, value in samples]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One Prometheus that has seen counters grow, from two jobs: one keeps the labels of metrics, the other has labels
    with the same names. Beside them are Pods that forge what meters and proxies say: under another job, for
    a node that does not exist, and without a node.
    """
    with exporter() as honored, exporter() as renamed, exporter() as pod, exporter() as ghost, exporter() as nameless:
        first: list[tuple[Exporter, list[Sample]]] = [
            (honored, of_zoneward("search", NODES[0]) + of_others()),
            (renamed, of_zoneward("cart", NODES[1])),
            (pod, forged(NODES[0])),
            (ghost, forged("ghost")),
            (nameless, forged(None)),
        ]

        def grow(seconds: float) -> None:
            for meter, samples in first:
                meter.samples = grown(samples, 1 + seconds)

        grow(0)
        labels = {"namespace": "zoneward-system", "service": "zoneward-meter", "zone": "elsewhere"}
        jobs = [
            honored.job("zoneward-meter", honor_labels=True),
            renamed.job("zoneward-proxy", labels={**labels, "node": "elsewhere"}),
            pod.job("pods", honor_labels=True),
            ghost.job("ghost", labels={"job": "zoneward-meter"}, honor_labels=True),
            nameless.job("nameless", labels={"job": "zoneward-meter"}, honor_labels=True),
        ]
        with prometheus(tmp_path_factory.mktemp("prometheus"), jobs) as started:
            started.wait_for("kube_node_labels")
            targets = [f"127.0.0.1:{meter.port}" for meter, _ in first]
            for target in targets:
                started.wait_for(f'zoneward_meter_connections_total{{instance="{target}"}}')
            with growing(grow):
                for target in targets:
                    started.wait_for(f'increase(zoneward_meter_connections_total{{instance="{target}"}}[60s]) > 0')
                yield started


def shares(amounts: dict[ObjectKey, dict[str, float]]) -> dict[ObjectKey, dict[str, float]]:
    return {
        key: {zone: amount / sum(zones.values()) for zone, amount in zones.items()} for key, zones in amounts.items()
    }


async def read(server: Prometheus, **settings: object) -> dict[ObjectKey, dict[str, float]]:
    client = Client(PrometheusSettings(url=server.url, window=60, **settings))  # type: ignore[arg-type]
    demand = await client.read_demand(nodes=NODES)
    return shares({key: dict(zones) for key, zones in demand.amounts.items()})


@pytest.mark.parametrize("preset", ["zoneward-meter", "zoneward-proxy"])
async def test_preset_reads_source_zones_with_and_without_honor_labels(server: Prometheus, preset: Preset) -> None:
    demand = await read(server, preset=preset)
    assert demand.keys() == {("shop", "search"), ("shop", "cart")}
    for zones in demand.values():
        assert zones == pytest.approx(SHARES)


async def test_selector_decides_which_metrics_count(server: Prometheus) -> None:
    """Those of the Pod are forged: a query that selects its job believes it."""
    selector = (("job", ("pods",)),)
    assert await read(server, selector=selector) == {("shop", "search"): {ZONES[2]: 1.0}}
    with pytest.raises(PrometheusUnavailable, match=r'with \{job=~"elsewhere"\} \(demand.prometheus.selector\)'):
        await read(server, selector=(("job", ("elsewhere",)),))


async def test_program_that_two_jobs_scrape_counts_once(tmp_path: Path) -> None:
    """As many connections start on both nodes."""
    with exporter() as twice, exporter() as once:
        sources = ((twice, NODES[0], ZONES[0]), (once, NODES[1], ZONES[1]))

        def grow(seconds: float) -> None:
            for program, node, zone in sources:
                labels = {"namespace": "shop", "service": "search", "address_type": "IPv4", "from_zone": zone}
                program.samples = [
                    ("zoneward_meter_info", {"version": "0.1.0", "node": node, "zone": zone}, 1),
                    ("zoneward_meter_connections_total", {**labels, "to_zone": zone}, 100 * (1 + seconds)),
                ]

        grow(0)
        jobs = [
            twice.job("zoneward-meter"),
            once.job("meters", labels={"job": "zoneward-meter"}),
            twice.job("pods", labels={"job": "zoneward-proxy"}),
        ]
        with prometheus(tmp_path, jobs) as server, growing(grow):
            # A scrape that fails makes the increases differ until they are long.
            increase = "increase(zoneward_meter_connections_total[60s])"
            server.wait_for(f"count({increase} > 500) == 3 and max({increase}) / min({increase}) < 1.2")
            demand = await read(server)
    assert demand == {("shop", "search"): pytest.approx({ZONES[0]: 0.5, ZONES[1]: 0.5}, abs=0.1)}


def documented() -> dict[str, str]:
    """The YAML of each query on the page, by its name."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return {name[1]: block for block in blocks if (name := re.search(r"# (\w+)$", block, re.MULTILINE))}


@pytest.mark.parametrize("program", ["istio", "linkerd", "hubble"])
async def test_documented_query_finds_the_zone_of_each_client(server: Prometheus, program: str) -> None:
    head = {"apiVersion": "zoneward.dev/v1alpha1", "kind": "ZonewardConfiguration"}
    settings = configuration_from({**head, **yaml.safe_load(documented()[program])}).demand.prometheus
    assert settings is not None
    assert await read(server, query=settings.query) == {("shop", "cart"): pytest.approx(SHARES)}


def test_plan_uses_measured_demand_and_names_its_source(
    server: Prometheus, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "apiVersion: zoneward.dev/v1alpha1\nkind: ZonewardConfiguration\n"
        f"demand: {{source: prometheus, prometheus: {{url: {server.url}, window: 1m}}}}\n"
    )
    assert run(["plan", "--sample", "shop/search", "shop/images", "-o", "json", "--config", str(file)]) == 0
    out, said = capfd.readouterr()
    search, images = json.loads(out)["decisions"]
    assert {zone: values_["demand"] for zone, values_ in search["zones"].items()} == pytest.approx(SHARES)
    assert images["zones"][ZONES[0]]["demand"] < 0.5
    where = f"{server.url} (zoneward-meter, the last 1 min)"
    assert f"zoneward: demand of 2 of 16 Services from {where}; by CPU for the others\n" in said
    assert "zoneward: 2 series without a zone count for nothing\n" in said
    assert "zoneward: not counted: programs of nodes that are not in the cluster (ghost)\n" in said


REFUSED: Final = {
    "sum by (": 'expected an answer, got 400: invalid parameter "query"',
    "1": "expected a query that returns a vector, got a scalar",
    "zoneward_meter_connections_total[1m]": "expected a query that returns a vector, got a matrix",
    "no_such_metric": "got no series",
    'zoneward_meter_connections_total{job="zoneward-meter",from_zone!="eu-central-1c"}': (
        "got no series; 8 series without a zone count for nothing"
    ),
    "kube_node_labels / 0 * NaN": "series without a namespace and a service count for nothing",
    "label_replace(0 - zoneward_meter_connections_total, 'zone', 'a', '', '')": "series with a negative number count",
    "label_replace(zoneward_meter_connections_total / 0, 'zone', 'a', '', '')": "series without a finite number count",
    "kube_pod_info * on (namespace) kube_pod_info": "got 422: found duplicate series for the match group",
}


@pytest.mark.parametrize("query", REFUSED)
async def test_unusable_answers_are_reported_in_one_line(server: Prometheus, query: str) -> None:
    with pytest.raises(PrometheusUnavailable) as raised:
        await Client(PrometheusSettings(url=server.url, query=query)).read_demand()
    assert REFUSED[query] in str(raised.value)
    assert str(raised.value).isprintable()
