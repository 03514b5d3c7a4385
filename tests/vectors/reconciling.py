"""The ``reconcile`` cases of ``slices_packing.json``: a Service, its Pods and its existing slices, to the slices after.

Most Pods have a number instead of a name, and existing slices say which numbers they hold.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tests.builders import structs
from tests.vectors.building import UID, a_node, a_pod, a_service, an_existing_slice
from tests.vectors.cases import Case
from tests.vectors.outcomes import (
    check,
    endpoints_added,
    endpoints_in,
    endpoints_removed,
    name_of,
    pods_left_out,
    slices_after,
    writes,
)
from tests.vectors.planning import plan

from zoneward.kube import names
from zoneward.kube.objects import Endpoint, EndpointPort, EndpointSlice, Pod, Service, ServicePort
from zoneward.routing.configuration import Configuration
from zoneward.slices.plan import ServicePlan

NOW: Final = "2026-01-02T03:04:05.678901234Z"
"""What a case calls ``now``."""
RULES: Final[Mapping[str | None, Callable[[int], Any]]] = {
    None: lambda _: None,
    "index % 3 == 0": lambda index: index % 3 == 0,
    "8080 + index % 5": lambda index: 8080 + index % 5,
}
"""What the cases say about a Pod in terms of its number."""
CONTROLLERS: Final = ("gauges", "histogram", "metric_values", "order_of_writes")
"""Expected fields about metrics, and about the order in which requests are sent: they wait for the controller (issue
7)."""


def reconcile(case: Case) -> None:
    given, expected = case["input"], case["expected"]
    planned = reconciled(given)
    after = slices_after(planned)
    sizes = {each.metadata.name: len(each.endpoints or ()) for each in after}
    got = {
        "changes": writes(planned),
        "final_sizes": sorted(sizes.values()),
        "sizes_by_existing_slice": {name: sizes.get(name) for name in expected.get("sizes_by_existing_slice", ())},
        "endpoints_added": endpoints_added(planned),
        "endpoints_removed": endpoints_removed(planned),
        # What upstream's reconcile returns as an error is a rule here.
        "sync_error": bool(pods_left_out(planned)),
        "labels": same_on_all([each.metadata.labels for each in after]),
        "labels_subset_on_all": same_on_all([subset(each, expected.get("labels_subset_on_all", ())) for each in after]),
        "trigger_time_annotation": "now" if trigger_times(after) == {NOW} else trigger_times(after),
        "address_type": same_on_all([each.address_type for each in after]),
        "final_address_type": same_on_all([each.address_type for each in after]),
        "slice_ports": sorted(port.port or 0 for each in after for port in each.ports or ()),
        "slice_port_name": same_on_all([port.name for each in after for port in each.ports or ()]),
        "all_endpoints_ready": all(each.conditions and each.conditions.ready for each in endpoints_in(after)),
        "endpoints_by_address_type": {
            family.address_type: [shown(each) for each in endpoints_in(family.changes.after)]
            for family in planned.families
        },
    }
    # A number that is null was not looked at.
    wanted = {field: value for field, value in expected.items() if value is not None}
    if "final_sizes" in wanted:
        wanted["final_sizes"] = sorted(wanted["final_sizes"])
    check(got, wanted, skipped=(*CONTROLLERS, "name_prefix", "placeholder"))
    if "placeholder" in expected:
        check_placeholder(planned, expected["placeholder"])
    if "name_prefix" in expected:
        created = [each.metadata.name for family in planned.families for each in family.changes.create]
        assert created
        assert all(name.startswith(f"{expected['name_prefix']}-") for name in created)


def check_placeholder(planned: ServicePlan, expected: Case) -> None:
    (slice_,) = slices_after(planned)
    got = {
        "ports": list(slice_.ports or ()),
        "endpoints": len(slice_.endpoints or ()),
        "labels_subset": subset(slice_, expected["labels_subset"]),
    }
    # Generations of slices are remembered by the controller, by its tracker.
    check(got, expected, skipped=("name_prefix", "tracked_generation"))
    assert slice_.metadata.name.startswith(f"{expected['name_prefix']}-")


def shown(endpoint: Endpoint) -> Case:
    """An endpoint as the cases show it."""
    conditions = endpoint.conditions
    assert conditions is not None
    return {
        "addresses": list(endpoint.addresses or ()),
        "ready": conditions.ready,
        "serving": conditions.serving,
        "terminating": conditions.terminating,
        "zone": endpoint.zone,
        "node": endpoint.node_name,
        "hostname": endpoint.hostname,
        "target": name_of(endpoint),
    }


def same_on_all(values: list[Any]) -> Any:
    """The value that all have; otherwise all of them, which equals no expected value."""
    return values[0] if values and all(each == values[0] for each in values) else values


def subset(slice_: EndpointSlice, labels: Iterable[str]) -> dict[str, str | None]:
    return {name: (slice_.metadata.labels or {}).get(name) for name in labels}


def trigger_times(slices: list[EndpointSlice]) -> set[str | None]:
    return {(each.metadata.annotations or {}).get(names.TRIGGER_TIME_ANNOTATION) for each in slices}


def reconciled(given: Case) -> ServicePlan:
    """The plan for the input of a case."""
    before = packed_service(given["service"])
    pods = [pod for shape in given["pods"] for pod in pods_of(shape, before)]
    zone_of = {each["name"]: each["zone"] for each in given["nodes"]}
    return plan(
        packed_service(given["service"], **given.get("service_change", {})),
        nodes=[a_node(each) for each in given["nodes"]],
        pods=pods,
        slices=existing_slices(given["existing_slices"], before, pods, zone_of),
        configuration=Configuration(max_endpoints_per_slice=given["max_endpoints_per_slice"]).as_upstream(),
        trigger_time={"now": NOW}[given["trigger_time"]] if "trigger_time" in given else None,
    )


def packed_service(shape: Case, *, target_port: list[int] | None = None, labels: Case | None = None) -> Service:
    """The Service of a case; ``target_port`` (old and new) and ``labels`` are what changes after its slices were
    written."""
    old, new = target_port or (None, None)
    ports = tuple(
        ServicePort(
            name=each["name"],
            port=80,
            target_port=new if each["target_port"] == old else each["target_port"],
            protocol=each["protocol"],
        )
        for each in shape["ports"]
    )
    return a_service(
        shape["key"],
        labels=labels or shape["labels"],
        cluster_ip=shape["cluster_ip"],
        ip_families=shape["ip_families"] and tuple(shape["ip_families"]),
        ports=ports,
        publish_not_ready_addresses=shape["publish_not_ready_addresses"],
        traffic_distribution=shape.get("traffic_distribution"),
    )


def pods_of(shape: Case, service: Service) -> list[Pod]:
    """The Pods of one entry: a single one by name, or a range of numbers."""
    namespace = service.metadata.namespace
    if "indices" not in shape:
        return [
            a_pod(
                shape["name"],
                ips=shape.get("ips") or [address_of(shape["name"])],
                namespace=namespace,
                node=shape["node"],
                ready=shape["ready"],
                hostname=shape.get("hostname"),
                subdomain=shape.get("subdomain"),
            )
        ]
    assert len(range_of(shape["indices"])) == shape["count"]
    return [
        a_pod(
            pod_name(index),
            ips=[address_of(pod_name(index))],
            namespace=namespace,
            node=shape["node"],
            ready=not RULES[shape["not_ready_when"]](index),
            containers=containers_of(shape, index),
        )
        for index in range_of(shape["indices"])
    ]


def containers_of(shape: Case, index: int) -> list[Case]:
    if "container_port" not in shape:
        return []
    number = RULES[shape["container_port"]](index)
    port = {"name": shape["container_port_name"], "port": number, "protocol": "TCP"}
    return [{"type": "container", "ports": [port]}]


def range_of(indices: Case) -> range:
    return range(indices["start"], indices["stop"], indices["step"])


def pod_name(index: int) -> str:
    return f"pod-{index}"


def address_of(name: str) -> str:
    number = int(name.removeprefix("pod-"))
    return f"10.0.{number // 250}.{number % 250 + 1}"


def existing_slices(
    shapes: Iterable[Case], service: Service, pods: list[Pod], zone_of: Mapping[str, str | None]
) -> list[EndpointSlice]:
    """The slices that a reconcile finds. Where one does not say which Pods it holds, it holds the next ones."""
    slices = []
    known = {pod.metadata.name: pod for pod in pods}
    rest = iter(pods)
    for shape in shapes:
        if "endpoint_pod_indices" in shape:
            held = [pod_name(index) for index in range_of(shape["endpoint_pod_indices"])]
        elif "endpoints" in shape:
            held = shape["endpoints"]
        else:
            held = [next(rest).metadata.name for _ in range(shape["size"])]
        assert len(held) == shape["size"]
        changed = shape.get("endpoints_whose_condition_changed", 0)
        endpoints = [
            endpoint_before(name, known.get(name), service, zone_of, changed=number < changed)
            for number, name in enumerate(held)
        ]
        slices.append(
            an_existing_slice(
                shape["name"],
                endpoints,
                service=service,
                address_type=shape.get("address_type", "IPv4"),
                labels=shape.get("labels"),
                owner_uid=shape.get("owner_uid", UID),
                ports=ports_before(shape["ports"]) if "ports" in shape else "as-the-service",
            )
        )
    return slices


def ports_before(shapes: list[Case] | None) -> tuple[EndpointPort, ...] | None:
    return None if shapes is None else tuple(EndpointPort(**each) for each in shapes)


def endpoint_before(
    name: str, pod: Pod | None, service: Service, zone_of: Mapping[str, str | None], *, changed: bool
) -> Endpoint:
    """The endpoint that was written for a Pod; ``changed`` if the Pod's readiness was the opposite then.

    A Pod that is gone was ready, on a Node like the others'.
    """
    ready = pod is None or any(condition.status == "True" for condition in pod.status.conditions or ())
    node = pod.spec.node_name if pod else "node-1"
    return structs.an_endpoint(
        address_of(name),
        zone_of.get(node),
        node=node,
        ready=ready != changed,
        serving=ready != changed,
        terminating=False,
        pod=name,
        namespace=service.metadata.namespace,
    )
