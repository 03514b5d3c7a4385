"""The cost of an overlay: in the API server for each write of a slice, and in the controller for one flip of a Pod.

Everything runs on a real control plane. A write with the policy is compared with one of the same slice under another
controller's label, which the policy does not match, in turns.
"""

import json
import time
from collections.abc import Iterator
from statistics import mean, median
from typing import Final

from e2e.control_plane import ControlPlane
from e2e.controllers import ZonewardController
from tests.builders.objects import a_namespace, a_node, a_pod, a_service, a_slice
from tests.contract.api import Api, Object

from bench.measuring import Figure
from bench.processes import cpu_of
from zoneward.kube import names
from zoneward.kube.overlay_objects import guard_policies, overlay_policy

_NAMESPACE: Final = "bench"
_SIZES: Final = (10, 100, 1_000)
_WRITES: Final = {10: 200, 100: 150, 1_000: 15}
_SERVICES: Final = (1, 1_000)
_MOST_TIMES: Final = {10: 2.8 / 1.8, 100: 6.9 / 2.9}
"""The factor by which a write may take longer, at p50: 1 ms and 4 ms more than 1.8 ms and 2.9 ms."""
_FLIPS: Final = 60
_FLIPPED: Final = (100, 5_000)
_MOST_CPU: Final = 2.0
_PAUSE: Final = 0.15
_TOUCHES: Final = "zoneward_controller_overlay_touches_total"
_PLURALS: Final = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
_CONFIG_MAP: Final = {"name": names.OVERLAY_CONFIG_MAP, "namespace": _NAMESPACE}


def costs() -> Iterator[Figure]:
    with ControlPlane() as plane:
        api = _prepared(plane)
        for services in _SERVICES:
            data = {f"s{index}.IPv4": "zones Hints/Balanced" for index in range(services - 1)}
            data |= {"cart.IPv4": "zones Hints/Balanced", "cart.10.1.0.1": "b"}
            _set_parameters(api, data)
            for size in _SIZES:
                yield from _writes(api, size, services)
    yield from _flips()


def _prepared(plane: ControlPlane) -> Api:
    api = plane.api()
    for policy in [*overlay_policy(), *guard_policies("zoneward-system")]:
        api.request("POST", f"/apis/admissionregistration.k8s.io/v1/{_PLURALS[policy['kind']]}", policy)
    api.create(a_namespace(_NAMESPACE))
    return api


def _set_parameters(api: Api, data: dict[str, str]) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _CONFIG_MAP, "data": data}
    path = f"/api/v1/namespaces/{_NAMESPACE}/configmaps"
    if api.send("GET", f"{path}/{names.OVERLAY_CONFIG_MAP}").code == 404:
        api.request("POST", path, config_map)
    else:
        api.request("PUT", f"{path}/{names.OVERLAY_CONFIG_MAP}", config_map)
    time.sleep(1.0)


def _writes(api: Api, size: int, services: int) -> Iterator[Figure]:
    """PUTs of a slice in which one endpoint's readiness flips, as the built-in controller sends them: without hints."""
    slices = [_slice(api, size, manager) for manager in (names.BUILT_IN_MANAGER, "somebody-else")]
    times: tuple[list[float], list[float]] = ([], [])
    for index in range(_WRITES[size]):
        for slice_, spent in zip(slices, times, strict=True):
            slice_["endpoints"][0]["conditions"]["ready"] = bool(index % 2)
            begun = time.perf_counter()
            stored = api.replace(slice_)
            spent.append((time.perf_counter() - begun) * 1e3)
            assert ("hints" in stored["endpoints"][0]) == (spent is times[0])
            slice_["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
    for slice_ in slices:
        api.delete(slice_)
    with_policy, without = map(median, times)
    what = f"write of a slice of {size}, entries of {services} Services, p50"
    yield Figure(f"{what}, without", without, "ms")
    yield Figure("  with the policy", with_policy, "ms")
    yield Figure("  more", with_policy - without, "ms")
    yield Figure("  times as long", with_policy / without, "", _MOST_TIMES.get(size))


def _slice(api: Api, size: int, manager: str) -> Object:
    slice_ = a_slice(f"of-{size}-{manager[:8]}", service="cart", manager=manager, namespace=_NAMESPACE)
    slice_["endpoints"] = [
        {
            "addresses": [f"10.1.{index // 250}.{index % 250}"],
            "conditions": {"ready": True},
            "zone": "abc"[index % 3],
            "nodeName": f"node-{index % 30}",
        }
        for index in range(size)
    ]
    return api.create(slice_)


def _flips() -> Iterator[Figure]:
    """Pods flip; the built-in controller writes their slices, and CPU is that of Zoneward's whole process."""
    with ControlPlane(controllers=("endpointslice-controller",)) as plane:
        api = _prepared(plane)
        api.create_all(a_node(f"node-{index}", zone="abc"[index % 3]) for index in range(30))
        for size in _FLIPPED:
            labels = {"size": str(size)}
            for index in range(size):
                ips, node = [f"10.{size // 100}.{index // 250}.{index % 250}"], f"node-{index % 30}"
                api.create(a_pod(f"pod-{size}-{index}", namespace=_NAMESPACE, node=node, ips=ips, labels=labels))
            annotations = {names.TOPOLOGY_MODE_ANNOTATION: "zoneward.dev/Balanced"}
            api.create(a_service(f"of-{size}", namespace=_NAMESPACE, selector=labels, annotations=annotations))
        (built_in,) = [process for process in plane.processes if process.name == "kube-controller-manager"]
        with ZonewardController(plane, mode="overlay") as controller:
            time.sleep(15.0)
            for size in _FLIPPED:
                yield from _flips_of(api, size, controller, built_in.pid)


def _flips_of(api: Api, size: int, controller: ZonewardController, built_in: int) -> Iterator[Figure]:
    def parameters() -> str:
        return str(api.get(f"/api/v1/namespaces/{_NAMESPACE}/configmaps/{names.OVERLAY_CONFIG_MAP}")["metadata"])

    costs, writes, touched, pid = [], 0, controller.metric(_TOUCHES), controller.process.pid
    cpu_of_built_in = cpu_of(built_in)
    for index in range(_FLIPS // 2):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{size}-{index}", "namespace": _NAMESPACE}}
        for ready in ("False", "True"):
            before, version = cpu_of(pid), parameters()
            conditions = [{"type": "Ready", "status": ready}]
            api.patch(pod, {"status": {"conditions": conditions}}, subresource="status")
            time.sleep(_PAUSE)
            costs.append((cpu_of(pid) - before) * 1e3)
            writes += parameters() != version
    cost_of_built_in = (cpu_of(built_in) - cpu_of_built_in) * 1e3 / len(costs)
    idle, idle_built_in = cpu_of(pid), cpu_of(built_in)
    time.sleep(_PAUSE * 10)
    idle, idle_built_in = (
        (cpu - before) * 1e2 for cpu, before in ((cpu_of(pid), idle), (cpu_of(built_in), idle_built_in))
    )
    yield Figure(f"one of {size} Pods flips, CPU of the process, p50", median(costs) - idle, "ms", _MOST_CPU)
    yield Figure("  mean", mean(costs) - idle, "ms")
    yield Figure("  CPU of the built-in controller, mean", cost_of_built_in - idle_built_in, "ms")
    yield Figure("  writes of the ConfigMap, of all flips", writes / len(costs), "")
    config_map = api.get(f"/api/v1/namespaces/{_NAMESPACE}/configmaps/{names.OVERLAY_CONFIG_MAP}")
    yield Figure("  size of the ConfigMap", len(json.dumps(config_map["data"])), "B")
    yield Figure("  slices that were touched, of all flips", (controller.metric(_TOUCHES) - touched) / len(costs), "")
