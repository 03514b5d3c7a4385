"""Take over a whole cluster from the built-in controller, and give it back, while Pods become ready and unready."""

import re
import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest
from e2e.control_plane import QUICK, SLICE_CONTROLLERS, ControlPlane
from e2e.controllers import ZonewardController, to_write
from e2e.pods import Shop, ready_addresses
from e2e.recording import Recording
from tests.builders.objects import MANAGED_BY, SERVICE_NAME, a_namespace, a_node, a_pod, a_service, some_endpoints
from tests.contract.api import Object
from tests.deploy.manifests import ROOT

from zoneward.kube import names

NAMESPACE = "shop"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
CONTROLLERS = ("endpoints-controller", *SLICE_CONTROLLERS)
WITHOUT = tuple(name for name in CONTROLLERS if name != "endpointslice-controller")
PODS = {f"cart-{index:02}": 20 for index in range(30)} | {"large": 300}
NODES = {f"node-{zone}{index}": zone for zone in "abc" for index in (1, 2)}
DISTRIBUTIONS = (None, "PreferSameZone", "PreferSameNode", "PreferClose")
ANNOTATIONS: tuple[dict[str, str], ...] = (
    {"service.kubernetes.io/topology-mode": "Auto"},
    {"endpointslice.kubernetes.io/subsetting": "Auto"},
    {"endpointslice.kubernetes.io/subsetting": "Require"},
    {"service.kubernetes.io/topology-mode": "PreferZone"},
)
FLIPPED = (*list(PODS)[:8], "large")
"""Services of which one Pod keeps changing its readiness."""
FLIPS = tuple(f"{name}-0" for name in FLIPPED)
CONTESTED = "zoneward_controller_contested_services"
MIRRORED = "mirrored"
TAKE_OVER_PAGE = ROOT / "docs" / "take-over.md"


def service(name: str, index: int) -> Object:
    """A Service; some are headless, some have two families."""
    way = index % (len(DISTRIBUTIONS) + len(ANNOTATIONS))
    more = {3: {"clusterIP": "None"}, 5: {"ipFamilyPolicy": "PreferDualStack"}}.get(index % 7, {})
    return a_service(
        name,
        namespace=NAMESPACE,
        selector={"app": name},
        distribution=(*DISTRIBUTIONS, *[None] * len(ANNOTATIONS))[way],
        annotations=(*[None] * len(DISTRIBUTIONS), *ANNOTATIONS)[way],
        **more,  # type: ignore[arg-type]
    )


def pod(name: str, service_number: int, index: int) -> Object:
    ips = f"10.{service_number + 1}.{index // 250}.{index % 250 + 1}", f"fd00::{service_number + 1:x}:{index + 1:x}"
    node = list(NODES)[index % len(NODES)]
    return a_pod(f"{name}-{index}", namespace=NAMESPACE, node=node, ips=ips, labels={"app": name})


def addresses(name: str) -> list[str]:
    at = list(PODS).index(name)
    return [pod(name, at, pod_index)["status"]["podIP"] for pod_index in range(PODS[name])]


class Cluster(Shop):
    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane.api(), NAMESPACE)
        self.plane = plane

    def fill(self) -> None:
        self.api.create_all([a_namespace(NAMESPACE), *(a_node(name, zone=zone) for name, zone in NODES.items())])
        self.api.create_all(pod(name, at, index) for at, name in enumerate(PODS) for index in range(PODS[name]))
        self.api.create_all(service(name, index) for index, name in enumerate(PODS))
        self.api.create(a_service(MIRRORED, namespace=NAMESPACE))
        self.api.create(some_endpoints(MIRRORED, namespace=NAMESPACE))

    def all_managers(self) -> set[str]:
        """The managers of all slices except the mirrored one."""
        return {
            slice_["metadata"]["labels"][MANAGED_BY]
            for slice_ in self.slices()
            if slice_["metadata"]["labels"][SERVICE_NAME] != MIRRORED
        }

    def ready_of(self, manager: str) -> dict[str, set[str]]:
        """By Service, the ready IPv4 addresses in the slices of a manager."""
        listed: dict[str, set[str]] = {name: set() for name in PODS}
        for slice_ in self.slices(manager=manager):
            if slice_["addressType"] == "IPv4":
                listed[slice_["metadata"]["labels"][SERVICE_NAME]] |= ready_addresses([slice_])
        return listed

    def lists_all(self, manager: str) -> bool:
        return self.ready_of(manager) == {name: set(addresses(name)) for name in PODS}

    def all_conditions(self) -> set[str]:
        """The types of all conditions of Services."""
        services = self.items("/api/v1/{}/services")
        return {one["type"] for service in services for one in service["status"].get("conditions") or ()}

    def is_contested(self) -> bool:
        """Whether every Service has an Event about contested slices."""
        events = self.items("/apis/events.k8s.io/v1/{}/events")
        return {event["regarding"]["name"] for event in events if event["reason"] == "EndpointSlicesContested"} == {
            *PODS
        }

    def zones_of_slices(self) -> set[str]:
        """The zones of slice groups."""
        return {slice_["metadata"]["labels"].get(names.ZONE_LABEL, "") for slice_ in self.slices()} - {""}

    def mirrored(self) -> list[str]:
        return [
            slice_["metadata"]["resourceVersion"]
            for slice_ in self.slices()
            if slice_["metadata"]["labels"][SERVICE_NAME] == MIRRORED
        ]

    def recording(self) -> Recording:
        steady = {name: addresses(name)[name in FLIPPED :] for name in PODS}
        return Recording(self.api, NAMESPACE, PODS, steady=steady)

    # --- the controllers ----------------------------------------------------------------------------------------------

    def restart_built_in(self, *controllers: str) -> None:
        """Restart the controller manager with another value of ``--controllers``."""
        self.plane.stop_controllers()
        self.plane.start_controllers(*controllers, flags=QUICK)

    @contextmanager
    def taken_over(self, *flags: str, manager: str = names.MANAGER) -> Iterator[ZonewardController]:
        """Run Zoneward's controller in place of the built-in one, once all slices are Zoneward's."""
        self.restart_built_in(*WITHOUT)
        with ZonewardController(self.plane, *flags) as controller:
            controller.wait_until(lambda: self.all_managers() == {manager}, what="all slices are Zoneward's")
            yield controller


@pytest.fixture(scope="module")
def shop() -> Iterator[Cluster]:
    with ControlPlane(controllers=CONTROLLERS) as plane:
        shop = Cluster(plane)
        shop.fill()
        plane.wait_until(lambda: shop.lists_all(names.BUILT_IN_MANAGER) and bool(shop.mirrored()), what="its slices")
        yield shop
        plane.stop_controllers()


def is_complete(plane: ControlPlane) -> bool:
    """Whether `zoneward plan --compat=upstream` has no slice to create or to update: it would delete Zoneward's."""
    left = to_write(plane, "-A", "--compat=upstream").values()
    return not any({"create", "update"} & writes.keys() for writes in left)


def is_as_planned(plane: ControlPlane, *flags: str) -> bool:
    """Whether `zoneward plan` has nothing left to write: all families, with their hints."""
    return to_write(plane, "-A", *flags) == {}


def check(recording: Recording) -> None:
    assert recording.missing == []
    assert recording.twice == PODS.keys()


def test_no_endpoint_is_missing_while_all_services_are_taken_over(shop: Cluster) -> None:
    mirrored = shop.mirrored()
    with shop.recording() as recording, ExitStack() as flips:
        flips.enter_context(shop.flipping(*FLIPS, period=0.2))
        with shop.taken_over() as controller:
            time.sleep(0.5)
            flips.close()
            controller.wait_until(lambda: shop.lists_all(names.MANAGER), what="all endpoints")
            controller.wait_until(partial(is_as_planned, shop.plane), what="slices as they are planned")
            assert controller.is_ready
            assert controller.metric(CONTESTED) == 0
    check(recording)
    assert shop.mirrored() == mirrored


@pytest.mark.parametrize("late", ["built-in", "zoneward"])
def test_zoneward_reports_a_second_controller_and_deletes_its_slices(shop: Cluster, late: str) -> None:
    shop.api.request("DELETE", EVENTS)
    with shop.recording() as recording, ExitStack() as ends:
        if late == "built-in":
            controller = ends.enter_context(shop.taken_over())
        ends.enter_context(shop.flipping(*FLIPS, period=0.2))
        if late == "built-in":
            shop.restart_built_in(*CONTROLLERS)
        else:
            controller = ends.enter_context(ZonewardController(shop.plane))
        controller.wait_until(shop.is_contested, what="all Services contested")
        assert controller.is_ready
        assert controller.get("/healthz")[0] == 200
        assert controller.metric(CONTESTED) == len(PODS)
        assert controller.logged("backing off: the built-in controller writes slices of the same Service")
        controller.wait_until(lambda: shop.all_managers() == {names.BUILT_IN_MANAGER}, what="Zoneward's slices gone")
        controller.wait_until(lambda: not shop.all_conditions(), what="no conditions of Zoneward")
        assert controller.terminate() == 0
    check(recording)
    assert shop.all_managers() == {names.BUILT_IN_MANAGER}
    shop.plane.wait_until(lambda: shop.lists_all(names.BUILT_IN_MANAGER), what="all endpoints")


def test_built_in_controller_resumes_after_zoneward_was_killed(shop: Cluster) -> None:
    with shop.taken_over() as controller:
        controller.wait_until(lambda: shop.lists_all(names.MANAGER), what="all endpoints")
        controller.kill()
        with shop.recording() as recording:
            shop.restart_built_in(*CONTROLLERS)
            shop.plane.wait_until(lambda: is_complete(shop.plane), what="its slices")
            shop.plane.kubectl("delete", "endpointslices", "-A", "-l", f"{MANAGED_BY}={names.MANAGER}")
    assert recording.missing == []
    assert shop.all_managers() == {names.BUILT_IN_MANAGER}
    assert shop.lists_all(names.BUILT_IN_MANAGER)


# --- under the built-in controller's label ----------------------------------------------------------------------------


def configured(plane: ControlPlane) -> str:
    """A configuration file that `plan` and the controller take."""
    file = plane.folder / "keep-built-in-label.yaml"
    controller = "controller: {mode: take-over, keepBuiltInLabel: true}\n"
    file.write_text(f"apiVersion: zoneward.dev/v1alpha1\nkind: ZonewardConfiguration\n{controller}")
    return str(file)


def uids(shop: Cluster) -> set[str]:
    return {slice_["metadata"]["uid"] for slice_ in shop.slices()}


def go_back(shop: Cluster) -> None:
    """The built-in controller keeps the existing slices. They keep Zoneward's annotation until it is removed."""
    shop.restart_built_in(*CONTROLLERS)
    shop.plane.wait_until(lambda: not shop.zones_of_slices(), what="slices for all zones")
    (command,) = re.findall(r"^kubectl (annotate endpointslices .*)$", TAKE_OVER_PAGE.read_text(), re.MULTILINE)
    shop.plane.kubectl(*shlex.split(command))
    shop.plane.wait_until(lambda: is_complete(shop.plane), what="its slices")
    assert shop.all_managers() == {names.BUILT_IN_MANAGER}
    assert shop.lists_all(names.BUILT_IN_MANAGER)


def test_slices_under_the_built_in_label_are_kept_in_both_directions(shop: Cluster) -> None:
    before, config = uids(shop), configured(shop.plane)
    with shop.recording() as recording, ExitStack() as flips:
        flips.enter_context(shop.flipping(*FLIPS, period=0.2))
        with shop.taken_over("--config", config, manager=names.BUILT_IN_MANAGER) as controller:
            controller.wait_until(lambda: bool(shop.zones_of_slices()), what="groups of zones")
            assert controller.is_ready
            # Slices are added for the other zones, and all earlier ones are kept.
            assert before <= uids(shop)
            _check_a_service_that_selects_nobody(shop, controller)
            assert controller.terminate() == 0
        flips.close()
        go_back(shop)
    assert recording.missing == []


def _check_a_service_that_selects_nobody(shop: Cluster, controller: ZonewardController) -> None:
    """Its slice is created and deleted, as Kubernetes' conformance tests demand."""

    def slices() -> list[Object]:
        return [slice_ for slice_ in shop.slices() if slice_["metadata"]["labels"][SERVICE_NAME] == "nobody"]

    created = shop.api.create(a_service("nobody", namespace=NAMESPACE, selector={"does-not-match": "anything"}))
    controller.wait_until(slices, what="a slice")
    (slice_,) = slices()
    assert slice_["metadata"]["labels"][MANAGED_BY] == "endpointslice-controller.k8s.io"
    assert not slice_["endpoints"]
    shop.api.delete(created)
    controller.wait_until(lambda: not slices(), what="no slice")


def test_no_endpoint_is_missing_while_the_label_changes(shop: Cluster) -> None:
    config = configured(shop.plane)
    with shop.recording() as recording:
        label = (("--config", config), names.BUILT_IN_MANAGER)
        for flags, manager in (label, ((), names.MANAGER), label):
            with ExitStack() as flips, shop.taken_over(*flags, manager=manager) as controller:
                flips.enter_context(shop.flipping(*FLIPS, period=0.2))
                time.sleep(0.5)
                flips.close()
                controller.wait_until(partial(shop.lists_all, manager), what="all endpoints")
                controller.wait_until(partial(is_as_planned, shop.plane, *flags), what="slices as they are planned")
                assert controller.metric(CONTESTED) == 0
                assert controller.terminate() == 0
        go_back(shop)
    check(recording)
