"""One decision with its encoding and packing, where one endpoint of many changed."""

import time
from collections.abc import Iterator
from statistics import median

from msgspec.structs import replace

from bench.measuring import Figure
from zoneward.kube import names
from zoneward.kube.objects import (
    Allocatable,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    Node,
    NodeCondition,
    NodeMeta,
    NodeStatus,
    ObjectMeta,
    ObjectReference,
    Service,
    ServicePort,
    identity,
)
from zoneward.routing.approach import as_if_asked
from zoneward.routing.configuration import Configuration
from zoneward.routing.deciding import decide
from zoneward.routing.demand import Demand, demand_of
from zoneward.routing.hysteresis import NOTHING_BEFORE, Previous
from zoneward.slices.encoding import encoded
from zoneward.slices.endpoints import Endpoints, PortGroup
from zoneward.slices.labels import slice_labels
from zoneward.slices.packing import SliceChanges, Target, finish, pack
from zoneward.slices.ports import port_key
from zoneward.slices.previous import previous_of

_ZONES = ("a", "b", "c")
_PORTS = (EndpointPort(name="http", protocol="TCP", port=8080),)
_REPEATS = 7


def one_changed() -> Iterator[Figure]:
    """Previous decision read back, decision, hints and packing; microseconds, the median."""
    for setting in ("none", "Auto", "PreferSameZone", "local"):
        for size in (1_000, 10_000):
            yield Figure(f"one of {size} endpoints changed, {setting}", _measure(setting, size), "us")


def _measure(setting: str, size: int) -> float:
    service = _service(setting)
    demand = demand_of([_node(zone, cpu) for zone, cpu in zip(_ZONES, ("40", "32", "28"), strict=True)])
    endpoints = [_endpoint(number) for number in range(size)]
    before = _step(service, demand, endpoints, SliceChanges())
    changed = replace(
        endpoints[size // 2], conditions=EndpointConditions(ready=False, serving=False, terminating=False)
    )
    endpoints[size // 2] = changed
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        after = _step(service, demand, endpoints, before)
        times.append(time.perf_counter() - start)
        assert len(after.update) == 1, after
        assert not after.create, after
    return median(times) * 1e6


def _step(service: Service, demand: Demand, endpoints: list[Endpoint], before: SliceChanges) -> SliceChanges:
    configuration = Configuration()
    group = PortGroup(_PORTS, {identity(endpoint): endpoint for endpoint in endpoints})
    known = Endpoints({port_key(_PORTS): group})
    existing = before.after
    previous: Previous = previous_of(existing) if existing else NOTHING_BEFORE
    decision = decide(service, endpoints, demand=demand, previous=previous, configuration=configuration)
    target = Target(
        service=service,
        address_type="IPv4",
        labels=slice_labels(service, manager=names.MANAGER),
        in_force=decision.in_force,
    )
    packed = pack(target, existing, encoded(known, decision).groups)
    return finish(packed, existing, service=service, taken=(), trigger_time=None)


def _service(setting: str) -> Service:
    asked = as_if_asked(Service(metadata=ObjectMeta(name="web", namespace="shop", uid="1")), setting)
    return replace(
        asked,
        spec=replace(
            asked.spec,
            selector={"app": "web"},
            cluster_ip="10.0.0.1",
            ports=(ServicePort(name="http", port=80, target_port=8080),),
        ),
    )


def _node(zone: str, cpu: str) -> Node:
    ready = (NodeCondition(type="Ready", status="True"),)
    return Node(
        metadata=NodeMeta(name=f"node-{zone}", labels={names.ZONE_LABEL: zone}),
        status=NodeStatus(allocatable=Allocatable(cpu=cpu), conditions=ready),
    )


def _endpoint(number: int) -> Endpoint:
    zone = _ZONES[number * 7 % 3]
    return Endpoint(
        addresses=(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",),
        conditions=EndpointConditions(ready=True, serving=True, terminating=False),
        target_ref=ObjectReference(kind="Pod", namespace="shop", name=f"web-{number}", uid=str(number)),
        node_name=f"node-{zone}",
        zone=zone,
    )
