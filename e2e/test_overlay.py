"""``zoneward controller --overlay`` beside the built-in EndpointSlice controller, on a real API server.

It is installed as ``deploy/overlay`` does it. Random histories are each followed by a comparison of every slice with a
fresh decision. Fifteen Services live through twenty rounds at the same time, so that 300 histories take a minute. The
built-in controller writes through a second API server, which is frozen at times and then knows an old ConfigMap.
"""

import os
import signal
import time
from collections.abc import Iterator, Set
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

import msgspec
import pytest
from e2e.control_plane import QUICK
from e2e.processes import wait_until
from e2e.test_deploy import Cluster, a_cluster
from tests.builders.objects import a_node, a_pod, a_service
from tests.contract.api import MERGE_PATCH, Object
from tests.patience import PATIENCE

from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, Node, Pod, Service, node_zone
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.overlay import (
    FamilyOverlay,
    OverlayHints,
    encode_entries,
    family_overlay,
    is_selected,
    overlay_configuration,
    read_entries,
    with_approach,
    with_overlay_hints,
)
from zoneward.slices.plan import plan_service

BUILT_IN: Final = ("endpointslice-controller",)
NAMESPACE: Final = "shop"
SERVICES: Final = 15
ROUNDS: Final = 20
NODES: Final = {f"n-{zone}{index}": zone for zone in "abc" for index in range(2)}
SETTINGS: Final = (
    {names.TOPOLOGY_MODE_ANNOTATION: "zoneward.dev/Balanced", names.OVERLAY_MARK: None},
    {names.TOPOLOGY_MODE_ANNOTATION: "Auto", names.OVERLAY_MARK: "enabled"},
    {names.TOPOLOGY_MODE_ANNOTATION: None, names.OVERLAY_MARK: "enabled"},
    {names.TOPOLOGY_MODE_ANNOTATION: None, names.OVERLAY_MARK: None},
    {names.TOPOLOGY_MODE_ANNOTATION: "zoneward.dev/Balanced", names.OVERLAY_MARK: "disabled"},
)
DISTRIBUTIONS: Final = (None, "PreferSameZone", "PreferSameNode")
CONFIG_MAP: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{names.OVERLAY_CONFIG_MAP}"
SHORT_LEASE: Final = tuple(
    f"--leader-elect-{flag}" for flag in ("lease-duration=3s", "renew-deadline=2s", "retry-period=500ms")
)
SLICES: Final = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("overlay"), "overlay") as cluster:
        for name, zone in NODES.items():
            cluster.api.create_all([a_node(name, zone=zone)])
        yield cluster


class Scene:
    """The Services and Pods of a namespace, and what somebody does to them."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.api, self.cluster, self.random = cluster.api, cluster, Random(seed)
        self._pods: dict[str, list[str]] = {}
        self.reset: set[str] = set()
        """Services with other settings since the last round."""
        self._addresses = 0

    def create(self, service: str) -> None:
        self._pods[service] = []
        self.api.create(a_service(service, namespace=NAMESPACE, selector={"app": service}))
        self.annotate(service, SETTINGS[self.random.randrange(3)])
        for _ in range(self.random.randint(1, 9)):
            self.add_pod(service)

    def add_pod(self, service: str) -> None:
        self._addresses += 1
        name = f"{service}-{self._addresses}"
        ip = f"10.{2 + self._addresses // 250}.0.{self._addresses % 250 + 1}"
        node = self.random.choice(list(NODES))
        ready = self.random.random() < 0.8
        pod = a_pod(name, namespace=NAMESPACE, node=node, ips=[ip], labels={"app": service}, ready=ready)
        self.api.create_all([pod])
        self._pods[service].append(name)

    def annotate(self, service: str, annotations: Object) -> None:
        change = {
            "metadata": {"annotations": annotations},
            "spec": {"trafficDistribution": self.random.choice(DISTRIBUTIONS)},
        }
        self.api.patch(a_service(service, namespace=NAMESPACE), change, content_type=MERGE_PATCH)

    def step(self, service: str) -> None:
        """Something happens to a Service."""
        pods, random = self._pods[service], self.random
        what = random.choice(("add", "add", "delete", "flip", "flip", "flip", "settings"))
        if what == "settings":
            self.reset.add(service)
            self.annotate(service, random.choice(SETTINGS))
        elif what == "add" or not pods:
            self.add_pod(service)
        elif what == "delete":
            name = pods.pop(random.randrange(len(pods)))
            self.api.delete({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}})
        else:
            self.cluster.make_ready(random.choice(pods), random.random() < 0.6)


# --- what has to hold -------------------------------------------------------------------------------------------------


class State:
    """The namespace as one reading of the API server shows it."""

    def __init__(self, cluster: Cluster) -> None:
        api = cluster.api

        def items(path: str, struct: type) -> list:  # type: ignore[type-arg]
            return [msgspec.convert(item, struct) for item in api.get(path.format(NAMESPACE))["items"]]

        self.services = {service.metadata.name: service for service in items("/api/v1/namespaces/{}/services", Service)}
        self.pods: list[Pod] = items("/api/v1/namespaces/{}/pods", Pod)
        self.slices: list[EndpointSlice] = items(SLICES, EndpointSlice)
        self.nodes: list[Node] = items("/api/v1/nodes", Node)
        answer = api.send("GET", CONFIG_MAP)
        self.data: dict[str, str] = (answer.object.get("data") or {}) if answer.code == 200 else {}
        self.overlays = read_entries(self.data)

    def slices_of(self, service: str) -> list[EndpointSlice]:
        return [slice_ for slice_ in self.slices if (slice_.metadata.labels or {})[names.SERVICE_NAME_LABEL] == service]

    def pods_of(self, service: Service) -> list[Pod]:
        selector = service.spec.selector or {}
        return [pod for pod in self.pods if selector.items() <= (pod.metadata.labels or {}).items() and selector]

    def problems(self) -> list[str]:
        """Why the slices are not those of a fresh decision; empty where they are."""
        configuration = overlay_configuration(Configuration())
        state = ClusterState(
            demand=compute_demand(self.nodes),
            node_zones={node.metadata.name: node_zone(node) for node in self.nodes},
            configuration=configuration,
        )
        problems: list[str] = []
        expected: dict[str, str] = {}
        for name, service in self.services.items():
            slices, pods = self.slices_of(name), self.pods_of(service)
            listed = {address for slice_ in slices for one in slice_.endpoints or () for address in one.addresses or ()}
            if listed != {pod.status.pod_ip for pod in pods}:
                problems.append(f"{name}: the built-in controller is behind")
                continue
            overlay: FamilyOverlay | None = None
            if is_selected(service, None, configuration):
                known = self.overlays.get((name, "IPv4"))
                seen = [with_approach(slice_, known.approach if known else None) for slice_ in slices]
                (family,) = plan_service(service, pods=pods, slices=seen, cluster_state=state).families
                overlay = family_overlay(family.decision)
            if overlay is not None:
                expected |= encode_entries(name, {"IPv4": overlay})
                problems += [
                    f"{name}: {slice_.metadata.name} has other hints than {overlay}"
                    for slice_ in slices
                    if with_overlay_hints(slice_, overlay) != slice_
                ]
            elif service.spec.traffic_distribution is None and any(
                endpoint.hints for slice_ in slices for endpoint in slice_.endpoints or ()
            ):
                problems.append(f"{name}: has hints that nobody asks for")
        if self.data != expected:
            differing = {key for key in self.data.keys() | expected if self.data.get(key) != expected.get(key)}
            problems.append(f"the ConfigMap differs in {sorted(differing)}")
        return problems

    def half_hinted(self, services: Set[str]) -> list[str]:
        """Slices of these Services in which some endpoints have hints, and some have none."""
        return [
            slice_.metadata.name
            for slice_ in self.slices
            if (slice_.metadata.labels or {})[names.SERVICE_NAME_LABEL] in services
            and len({endpoint.hints is None for endpoint in slice_.endpoints or ()}) > 1
        ]


def wait_until_settled(cluster: Cluster) -> State:
    end, processes = time.monotonic() + PATIENCE, cluster.plane.processes
    while True:
        for process in processes:
            process.check()
        state = State(cluster)
        problems = state.problems()
        if not problems:
            return state
        assert time.monotonic() < end, problems
        time.sleep(0.1)


def without_hints(state: State) -> list[str]:
    """Endpoints of Services whose entries want hints, and that have none."""
    return [
        f"{slice_.metadata.name}: {endpoint.addresses}"
        for slice_ in state.slices
        for endpoint in slice_.endpoints or ()
        if endpoint.hints is None
        and (overlay := state.overlays.get(((slice_.metadata.labels or {})[names.SERVICE_NAME_LABEL], "IPv4")))
        and overlay.hints in (OverlayHints.ZONES, OverlayHints.ZONES_AND_NODES)
    ]


# --- histories --------------------------------------------------------------------------------------------------------


def test_hints_after_random_histories_equal_a_fresh_decision(cluster: Cluster, tmp_path: Path) -> None:
    """Each round the controller, the built-in one or the API server that it writes through may fail."""
    plane, scene = cluster.plane, Scene(cluster, seed=31)
    flags = (*QUICK, "--max-endpoints-per-slice=4")
    with plane.another_server() as (server, kubeconfig), ExitStack() as stack:

        def start() -> None:
            plane.start_controllers(*BUILT_IN, flags=flags, kubeconfig=kubeconfig)

        start()
        stack.callback(plane.stop_controllers)
        services = [f"s{index}" for index in range(SERVICES)]
        for service in services:
            scene.create(service)
        account = cluster.account()
        controller = stack.enter_context(cluster.controller(account, tmp_path, *SHORT_LEASE))
        settled = wait_until_settled(cluster)
        for round_ in range(ROUNDS):
            scene.reset.clear()
            fault = ("none", "killed", "frozen", "frozen server", "built-in restarts")[round_ % 5]
            if fault == "killed":
                controller.kill()
            elif fault == "frozen":
                controller.signal(signal.SIGSTOP)
            elif fault == "frozen server":
                os.kill(server.pid, signal.SIGSTOP)
            elif fault == "built-in restarts":
                plane.stop_controllers()
            for _ in range(3):
                for service in services:
                    if fault == "killed" or scene.random.random() < 0.7:
                        scene.step(service)
            if fault == "killed":
                wait_for_the_built_in_controller(cluster)
                assert without_hints(State(cluster)) == []
                controller.start()
            elif fault == "frozen":
                controller.signal(signal.SIGCONT)
            elif fault == "frozen server":
                os.kill(server.pid, signal.SIGCONT)
            elif fault == "built-in restarts":
                start()
            # At every moment of a round.
            overlaid = {name for name, _ in settled.overlays} - scene.reset
            assert State(cluster).half_hinted(overlaid) == []
            settled = wait_until_settled(cluster)
            assert settled.half_hinted({name for name, _ in settled.overlays}) == without_hints(settled) == []
        used, refused = cluster.asked(account.name)
        assert refused == []
        assert ("discovery.k8s.io", "endpointslices", "update") not in used
    assert cluster.plane.zoneward("release", "--overlay", "--timeout", "100").returncode == 0
    assert cluster.api.send("GET", CONFIG_MAP).code == 404


def wait_for_the_built_in_controller(cluster: Cluster) -> None:
    wait_until(
        lambda: not any("is behind" in problem for problem in State(cluster).problems()), "the built-in controller"
    )
