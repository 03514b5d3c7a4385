"""The controller is killed many times during a rollout: no endpoint is missing, and the slices end up the same."""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from e2e.control_plane import ControlPlane
from e2e.controllers import ZonewardController, decisions, to_write
from e2e.pods import LABELS, Shop
from e2e.recording import Recording
from tests.builders.objects import a_namespace, a_node, a_pod, a_service
from tests.contract.api import Api, Object

from zoneward.kube import names

PODS, KILLS, SEED = 250, 15, 20260117
SERVICES = ("plain", "near", "auto", "grouped")
ANNOTATIONS = {
    "auto": {"service.kubernetes.io/topology-mode": "Auto"},
    "grouped": {"endpointslice.kubernetes.io/subsetting": "Auto"},
}
NODES = {"node-a1": "a", "node-a2": "a", "node-b1": "b", "node-c1": "c"}
CPU = {"a": "4", "b": "8", "c": "4"}
KEEP = 0.3
"""The overload from which hints are removed."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        plane.api().create_all(a_node(name, zone=zone, cpu=CPU[zone]) for name, zone in NODES.items())
        yield plane


def pod(namespace: str, generation: int, index: int) -> Object:
    node, ip = list(NODES)[index % len(NODES)], f"10.{generation}.{index // 250}.{index % 250 + 1}"
    return a_pod(f"cart-{generation}-{index}", namespace=namespace, node=node, ips=[ip], labels=LABELS)


class Rollout(Shop):
    """The rollout of a Deployment: each step adds Pods, and then deletes as many old ones."""

    def __init__(self, api: Api, namespace: str) -> None:
        super().__init__(api, namespace)
        self.steps = [range(PODS)[PODS * at // KILLS : PODS * (at + 1) // KILLS] for at in range(KILLS)]
        api.create_all([a_namespace(namespace), *(pod(namespace, 1, index) for index in range(PODS))])
        for name in SERVICES:
            near = names.PREFER_SAME_ZONE if name == "near" else None
            wish = ANNOTATIONS.get(name)
            api.create(a_service(name, namespace=namespace, selector=LABELS, annotations=wish, distribution=near))

    def step(self, numbers: range) -> None:
        self.api.create_all((pod(self.namespace, 2, index) for index in numbers), in_flight=4)
        for index in numbers:
            self.api.delete(pod(self.namespace, 1, index))

    def all_endpoints(self, service: str) -> list[Object]:
        return [one for slice_ in self.slices(service) for one in slice_["endpoints"] or ()]


def hints(endpoint: Object) -> str:
    return ",".join(zone["name"] for zone in endpoint.get("hints", {}).get("forZones", ()))


def settled(plane: ControlPlane, rollout: Rollout) -> None:
    plane.wait_until(lambda: not to_write(plane, "-n", rollout.namespace), what="what plan says")


def undisturbed(plane: ControlPlane) -> Rollout:
    rollout = Rollout(plane.api(), "undisturbed")
    with ZonewardController(plane):
        settled(plane, rollout)
        for step in rollout.steps:
            rollout.step(step)
        settled(plane, rollout)
    return rollout


def rolled_out_while_killed(plane: ControlPlane, rollout: Rollout) -> Recording:
    chance = random.Random(SEED)
    go_on = threading.Semaphore(0)

    def roll() -> None:
        for step in rollout.steps:
            go_on.acquire()
            rollout.step(step)

    def kill_and_kill() -> None:
        rolling = threading.Thread(target=roll, daemon=True)
        rolling.start()
        for step, _ in enumerate(rollout.steps):
            controller.start()
            # Some are killed before their caches are synced, the others while Pods change.
            if step % 5:
                controller.wait_until(lambda: controller.is_ready, what="the controller")
            go_on.release()
            time.sleep(chance.uniform(0, 0.35))
            controller.kill()
        rolling.join(120)
        assert not rolling.is_alive()
        controller.start()

    controller = ZonewardController(plane)
    with controller:
        settled(plane, rollout)
        controller.kill()
        with Recording(plane.api(), rollout.namespace, SERVICES) as recording:
            kill_and_kill()
            settled(plane, rollout)
    return recording


def test_slices_after_fifteen_kills_during_a_rollout_are_the_same(plane: ControlPlane) -> None:
    calm = undisturbed(plane)
    rollout = Rollout(plane.api(), "killed")
    recording = rolled_out_while_killed(plane, rollout)
    assert recording.missing == []
    wanted = sorted(pod("", 2, index)["status"]["podIP"] for index in range(PODS))
    for name in SERVICES:
        assert recording.writes[name]
        endpoints, alike = rollout.all_endpoints(name), calm.all_endpoints(name)
        assert sorted(one["addresses"][0] for one in endpoints) == wanted
        if name != "auto":
            # `Auto` keeps earlier hints as long as no endpoint is overloaded.
            assert Counter(map(hints, endpoints)) == Counter(map(hints, alike))
        assert len(rollout.slices(name)) <= len(calm.slices(name)) + 1
    by_address = [
        {one["addresses"][0]: hints(one) for one in history.all_endpoints("near")} for history in (rollout, calm)
    ]
    assert by_address[0] == by_address[1]
    for history in (rollout, calm):
        (auto,) = decisions(plane, f"{history.namespace}/auto")
        assert auto["active"]
        assert auto["maxOverload"] < KEEP
