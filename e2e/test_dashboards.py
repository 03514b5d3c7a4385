"""A real Prometheus on a real run has series for every query of the dashboards, and for every rule."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from e2e.control_plane import ControlPlane
from e2e.controllers import ZonewardController
from e2e.door import Door
from e2e.meters import ZonewardMeter
from e2e.nodes import Bed, Namespace
from e2e.processes import Process, wait_until
from e2e.prometheus import Exporter, Prometheus, Sample, prometheus
from e2e.proxies import ZonewardProxy, opening
from tests.builders.objects import a_namespace, a_node, a_pod, a_service
from tests.contract.api import Object
from tests.deploy.queries import RULES, dashboards, metrics_of, queries, rules, variables

NAMESPACE: Final = "charted"
SERVICES: Final[dict[str, Object]] = {
    "cart": {"distribution": "PreferSameZone"},
    "basket": {},
    "wishlist": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}},
}
"""By name, what it asks for. Connections to the second one leave the zone; measured demand counts for the third one."""
CHOSEN: Final = {"namespace": NAMESPACE, "service": "cart"}
FORGED: Final = "forged"
"""The zone, and the Service, of which a Pod says what only a meter knows: it has to be in no panel and no rule."""
PORTS: Final = {"controller": 10270, "proxy": 10272, "meter": 10274}
_PODS: Final = {"a": "10.1.0.0/16", "b": "10.2.0.0/16"}
_LABELS: Final = {"cluster": "one"}


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A controller, and a node of zone a with proxy, meter and a client that opens connections all the while."""
    folder = tmp_path_factory.mktemp("dashboards")
    with ExitStack() as stack:
        plane, bed = stack.enter_context(ControlPlane()), stack.enter_context(Bed())
        for zone, pods in _PODS.items():
            node = a_node(zone, zone=zone, address=bed.node(zone, pods=(pods,)).addresses[0])
            plane.api().create(node | {"spec": {"podCIDRs": [pods]}})
        plane.api().create(a_namespace(NAMESPACE))
        addresses = []
        for index, (name, asks) in enumerate(SERVICES.items()):
            made = plane.api().create(a_service(name, namespace=NAMESPACE, selector={"app": name}, **asks))
            addresses.append(made["spec"]["clusterIP"])
            for host, zone in enumerate("aabb"):
                _add_pod(plane, name, zone, f"10.{'ab'.index(zone) + 1}.{index}.{host}")
        here = bed.nodes["a"]
        stack.enter_context(Door(here.path, plane.ports.server))
        forger = _job("pods", _serve_forged(stack, here, folder)) | {"job_name": "pods"}
        jobs = [*(_job(*item) for item in PORTS.items()), forger]
        started = stack.enter_context(prometheus(folder, jobs, rules=RULES, network=here))
        listen = "--listen", f"127.0.0.1:{PORTS['controller']}"
        flags = "--predictions", "--config", str(started.configuration(folder)), *listen
        stack.enter_context(ZonewardController(plane, *flags, network=here))
        proxy = stack.enter_context(ZonewardProxy(here, plane.kubeconfig(), folder))
        meter = stack.enter_context(ZonewardMeter(here, plane.kubeconfig(), folder, "--enable-accounting"))
        proxy.start()
        meter.start()
        started.wait_for("sum(up) == 4")
        stack.enter_context(
            opening(here.pod("10.1.200.1"), [(address, 80) for address in addresses], rate=20, folder=folder)
        )
        for name in SERVICES:
            _add_pod(plane, name, "a", f"10.1.9.{len(name)}")
        yield started


def _serve_forged(stack: ExitStack, network: Namespace, folder: Path) -> int:
    """The port of a Pod in the node's network that has the metrics of a meter and a proxy. They stay as they are."""
    info = {"version": "0.1.0", "node": "a", "zone": FORGED}
    route = {"namespace": NAMESPACE, "service": FORGED, "address_type": "IPv4", "from_zone": "a", "to_zone": FORGED}
    samples: list[Sample] = [
        ("zoneward_meter_info", info, 1),
        ("zoneward_proxy_info", info, 1),
        ("zoneward_meter_connections_total", route, 1e6),
        ("zoneward_meter_bytes_total", {**route, "direction": "response"}, 1e12),
        ("zoneward_proxy_connections_total", {**route, "asked": "cluster-ip"}, 1e6),
    ]
    site = folder / FORGED
    site.mkdir()
    (site / "metrics").write_text(Exporter(0, samples).text())
    port = 10999
    serve = (sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", site)
    stack.enter_context(Process((*network.enter, *serve), log=folder / "forged.log"))
    return port


def _add_pod(plane: ControlPlane, service: str, node: str, address: str) -> None:
    """Ready from now on, so that the proxy can say how long the change took."""
    name = f"{service}-{address.replace('.', '-')}"
    made = a_pod(name, node=node, ips=[address], namespace=NAMESPACE, labels={"app": service})
    made["status"]["conditions"][0]["lastTransitionTime"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    plane.api().create(made)


def _job(daemon: str, port: int) -> dict[str, Any]:
    targets = [{"targets": [f"127.0.0.1:{port}"], "labels": _LABELS}]
    return {"job_name": f"zoneward-{daemon}", "static_configs": targets, "honor_labels": True}


@pytest.mark.parametrize("name", dashboards())
def test_dashboard_queries_have_series(scraped: Prometheus, name: str) -> None:
    """With values of its variables that they offer."""
    dashboard = dashboards()[name]
    texts = {item["name"]: item["query"] for item in dashboard["templating"]["list"] if item["type"] == "textbox"}
    values = {"__rate_interval": "1m", **texts}
    for variable in variables(dashboard):
        offered = partial(_offered, scraped, variable, values)
        chosen = CHOSEN.get(variable["name"])
        wait_until(partial(_has, offered, chosen), f"{variable['name']}: {chosen or 'any'}", scraped.process)
        values[variable["name"]] = chosen or offered()[0]
        assert not {FORGED, "pods"} & {*offered()}
    for query in queries(dashboard):
        expr = _filled(query, values)
        scraped.wait_for(expr)
        assert not [labels for labels, _ in scraped.query(expr) if FORGED in labels.values()], expr


def _offered(scraped: Prometheus, variable: dict[str, Any], values: dict[str, str]) -> list[str]:
    """What Grafana would offer: the values of a label, or what the expression of the variable finds in them."""
    match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"])
    assert match is not None
    selector, label = _filled(match[1], values), match[2]
    values_ = scraped.read(f"label/{label}/values", **{"match[]": selector})
    if regex := variable.get("regex"):
        values_ = [re.search(regex.strip("/"), value)[1] for value in values_]  # type: ignore[index]
    return sorted(values_)


def _has(offered: Callable[[], list[str]], chosen: str | None) -> bool:
    values = offered()
    return bool(values) if chosen is None else chosen in values


def _filled(expr: str, values: dict[str, str]) -> str:
    return re.sub(r"\$(\w+)", lambda match: values[match[1]], expr)


@pytest.mark.parametrize("name", [rule["record"] for rule in rules() if "record" in rule])
def test_recording_rules_have_series_of_each_service(scraped: Prometheus, name: str) -> None:
    scraped.wait_for(f'count(count by (service) ({name}{{cluster="one", namespace="{NAMESPACE}"}})) == {len(SERVICES)}')


@pytest.mark.parametrize("what", ["connections", "bytes"])
def test_cross_zone_rates_equal_rates_between_zones(scraped: Prometheus, what: str) -> None:
    """Of one Service all stays in its zone. The past is compared: rules that are evaluated now are not all done."""
    for service, share in (("cart", "== 1"), ("basket", "< 1")):
        scraped.wait_for(f'zoneward:{what}_in_zone:ratio_rate1h{{service="{service}"}} offset 5s {share}')
    moment = min(
        last
        for name in (f"zoneward:{what}_cross_zone", f"zoneward:{what}")
        for _, last in scraped.query(f'timestamp({name}:rate1h{{namespace="{NAMESPACE}"}})')
    )

    def rates(series: str, labels: str = "") -> dict[str, float]:
        expr = f'sum by (service) ({series}:rate1h{{namespace="{NAMESPACE}"{labels}}} @ {moment})'
        return dict.fromkeys(SERVICES, 0.0) | {metric["service"]: rate for metric, rate in scraped.query(expr)}

    crossing = rates(f"zoneward:{what}_cross_zone")
    assert crossing == pytest.approx(rates(f"zoneward:{what}", ', from_zone="a", to_zone="b"'))
    assert crossing["cart"] == 0 < crossing["basket"]
    shares = scraped.query(f'zoneward:{what}_in_zone:ratio_rate1h{{service="cart"}}')
    assert [value for _, value in shares] == [1]


def test_rules_evaluate_without_errors_and_use_existing_metrics(scraped: Prometheus) -> None:
    def evaluated() -> list[dict[str, Any]]:
        return [rule for group in scraped.read("rules")["groups"] for rule in group["rules"]]

    wait_until(lambda: all(rule["health"] != "unknown" for rule in evaluated()), "all rules", scraped.process)
    assert len(evaluated()) == len(rules())
    known = scraped.read("metadata")
    for rule in evaluated():
        assert rule["health"] == "ok", rule
        for metric in metrics_of(rule["query"]):
            assert metric in known or scraped.query(metric), (rule["name"], metric)
    assert not [alert for alert in scraped.read("alerts")["alerts"] if alert["state"] == "firing"]
