"""Demand by CPU and measured demand, where traffic does not start where the CPU is.

Three zones with the same CPU, a real kube-proxy and a meter on the node of each, and a real Prometheus. Seven of ten
clients are in one zone. ``docs/pictures/make_measured_demand.py`` reads the results.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from e2e.chances import FALSE_ALARM, chance
from e2e.control_plane import ControlPlane
from e2e.controllers import ZonewardController
from e2e.door import Door
from e2e.kube_proxy import KubeProxy
from e2e.meters import ZonewardMeter
from e2e.nodes import Bed, ask
from e2e.pods import Shop
from e2e.prometheus import prometheus
from tests.builders.objects import a_namespace, a_node, a_pod, a_service

from zoneward.routing.configuration import HintsSettings

FIGURES: Final = Path(".cache/e2e/measured-demand.json")
NAMESPACE: Final = "skewed"
SERVICE: Final = f"{NAMESPACE}/cart"
CLIENTS: Final = {"a": 0.7, "b": 0.2, "c": 0.1}
"""The part of the connections that start in each zone."""
PODS: Final = 12
"""In each zone."""
LABELS: Final = {"app": "cart"}
RATE: Final = 400
"""Connections a second, from all zones together."""
ROUND: Final = 20
"""Connections from all zones that are opened at once. Each round has the zones' shares, however slow the machine is."""
METERS: Final = 10_274


def address(zone: str, index: int) -> str:
    return f"10.{'abc'.index(zone) + 1}.0.{index + 1}"


ZONES: Final = {address(zone, index): zone for zone in CLIENTS for index in range(PODS)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What clients saw: connections by the zone where they started and the Pod that answered."""

    answers: Mapping[str, Counter[str]]

    @property
    def loads(self) -> dict[str, float]:
        """Of each Pod; 1 is fair."""
        total: Counter[str] = sum(self.answers.values(), Counter())
        return {pod: total[pod] * len(ZONES) / total.total() for pod in ZONES}

    @property
    def load_by_zone(self) -> dict[str, float]:
        """The mean load of the Pods that clients of a zone use: without the chance by which each draws."""
        loads, total = {}, sum(zone_answers.total() for zone_answers in self.answers.values())
        for zone, zone_answers in self.answers.items():
            loads[zone] = zone_answers.total() / len(zone_answers) * len(ZONES) / total
        return loads

    @property
    def share_in_zone(self) -> float:
        inside = sum(
            count
            for zone, zone_answers in self.answers.items()
            for pod, count in zone_answers.items()
            if ZONES[pod] == zone
        )
        return inside / sum(zone_answers.total() for zone_answers in self.answers.values())

    def as_figures(self) -> dict[str, Any]:
        return {"loads": {pod: round(load, 4) for pod, load in self.loads.items()}, "inZone": self.share_in_zone}


class Site:
    """``inside`` is on the wire beside the nodes: Prometheus and the controller are there."""

    def __init__(self, stack: ExitStack, plane: ControlPlane) -> None:
        self.plane: Final = plane
        bed = stack.enter_context(Bed())
        self.nodes = {
            zone: bed.node(f"node-{zone}", pods=(f"10.{index + 1}.0.0/16",)) for index, zone in enumerate("abc")
        }
        self.clients = {
            zone: node.pod(f"10.{index + 1}.200.1") for index, (zone, node) in enumerate(self.nodes.items())
        }
        self.inside: Final = bed.outside()
        stack.enter_context(Door(self.inside.path, plane.ports.server))
        api = plane.api()
        nodes = (a_node(node.name, zone=zone, cpu="4", address=node.addresses[0]) for zone, node in self.nodes.items())
        api.create_all([a_namespace(NAMESPACE), *nodes])
        pods = ((zone, pod_index) for zone in CLIENTS for pod_index in range(PODS))
        api.create_all(
            a_pod(
                f"cart-{zone}{pod_index}",
                namespace=NAMESPACE,
                node=f"node-{zone}",
                ips=[address(zone, pod_index)],
                labels=LABELS,
            )
            for zone, pod_index in pods
        )
        asks = {"service.kubernetes.io/topology-mode": "Auto"}
        made = api.create(a_service("cart", namespace=NAMESPACE, selector=LABELS, annotations=asks))
        self.address: Final[str] = made["spec"]["clusterIP"]
        self.proxies = [
            stack.enter_context(KubeProxy(plane, node=node.name, network=node)) for node in self.nodes.values()
        ]
        for node in self.nodes.values():
            meter = ZonewardMeter(node, plane.kubeconfig(), plane.folder, "--enable-accounting", f"--listen=:{METERS}")
            stack.enter_context(meter)
            meter.start()
        targets = [f"{node.addresses[0]}:{METERS}" for node in self.nodes.values()]
        jobs = [{"job_name": "zoneward-meter", "static_configs": [{"targets": targets}]}]
        self.prometheus: Final = stack.enter_context(prometheus(plane.folder, jobs, network=self.inside))
        # Longer than the test: connections of a part of it have other shares.
        self.configuration: Final = self.prometheus.configuration(plane.folder, window="1h")

    def hinted(self) -> dict[str, int]:
        """By zone, the endpoints with a hint for it."""
        hints = [
            {hint["name"] for hint in (endpoint.get("hints") or {}).get("forZones") or ()}
            for slice_ in Shop(self.plane.api(), NAMESPACE).slices("cart")
            for endpoint in slice_["endpoints"]
        ]
        return {zone: sum(zone in zones for zones in hints) for zone in CLIENTS}

    def used_by(self) -> dict[str, int]:
        """By zone, the endpoints that its kube-proxy sends to."""
        counts = (len(proxy.endpoints(self.address, 80)) for proxy in self.proxies)
        return dict(zip(self.nodes, counts, strict=True))

    def uses_hints_by_demand(self) -> bool:
        """Whether the zone with most clients has more endpoints, and every kube-proxy sends as the hints say."""
        hinted = self.hinted()
        return hinted["a"] > PODS and self.used_by() == hinted

    def ask(self, seconds: float) -> Outcome:
        """Open connections from all zones, in each its part of `RATE`."""
        answers = {zone: Counter[str]() for zone in self.clients}
        began = time.monotonic()
        for done in range(round(seconds * RATE / ROUND)):
            time.sleep(max(0.0, began + done * ROUND / RATE - time.monotonic()))
            asking = {
                zone: client.start(_tally, self.address, round(CLIENTS[zone] * ROUND))
                for zone, client in self.clients.items()
            }
            for zone, future in asking.items():
                answers[zone] += future.result()
        return Outcome(answers)

    def counted(self) -> dict[str, float]:
        """By zone, the connections from there that Prometheus has of the meters so far."""
        query = f'sum by (from_zone) (zoneward_meter_connections_total{{namespace="{NAMESPACE}"}})'
        return {labels["from_zone"]: count for labels, count in self.prometheus.query(query)}

    def wait_until_counted(self, *outcomes: Outcome) -> None:
        """Until Prometheus has all these connections from the meters: a part of them has other shares."""
        made = {zone: sum(outcome.answers[zone].total() for outcome in outcomes) for zone in CLIENTS}
        self.plane.wait_until(lambda: self.counted() == made, what=f"counts of {made}")

    def predicted(self) -> dict[str, Any]:
        """What `plan` says of the Service, with the demand that Prometheus has."""
        command = [sys.executable, "-m", "zoneward", "plan", SERVICE, "-o", "json", "--with", "controller"]
        command += ["--config", str(self.configuration)]
        text = self.inside.run(*command, "--kubeconfig", str(self.plane.kubeconfig()), "--proxy", "kube-proxy-1.37")
        (decision,) = json.loads(text)["decisions"]
        return dict(decision)


def _tally(target: str, times: int) -> Counter[str]:
    return Counter(ask(target, 80).address for _ in range(times))


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(stack, stack.enter_context(ControlPlane()))


def test_measured_demand_prevents_overload_that_cpu_causes(site: Site) -> None:
    with ZonewardController(site.plane):
        site.plane.wait_until(lambda: site.used_by() == dict.fromkeys(CLIENTS, PODS), what="hints by CPU")
        # An increase is seen only of what Prometheus knows already, and this demand is not what decides.
        first = site.ask(1.0)
        site.wait_until_counted(first)
        by_cpu = site.ask(10.0)
        site.wait_until_counted(first, by_cpu)
    # A Pod of the zone where most clients are has more than twice its fair load.
    assert max(by_cpu.loads.values()) > 2
    assert by_cpu.share_in_zone == 1
    with ZonewardController(site.plane, "--config", str(site.configuration), network=site.inside) as controller:
        site.plane.wait_until(site.uses_hints_by_demand, what="hints by what was measured")
        assert controller.logged("adopting measured demand")
        measured = site.ask(30.0)
        site.wait_until_counted(first, by_cpu, measured)
        predicted = site.predicted()
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    figures = {
        "zones": ZONES,
        "cpu": by_cpu.as_figures(),
        "measured": measured.as_figures(),
        "predicted": predicted["inZoneTraffic"],
    }
    FIGURES.write_text(json.dumps(figures))
    assert max(measured.load_by_zone.values()) < 1 + HintsSettings().start_threshold
    for zone_answers in measured.answers.values():
        # What one Pod has above the others of its zone is chance.
        assert chance(zone_answers, dict.fromkeys(zone_answers, 1.0)) > FALSE_ALARM
    assert measured.share_in_zone == pytest.approx(predicted["inZoneTraffic"], abs=0.03)
