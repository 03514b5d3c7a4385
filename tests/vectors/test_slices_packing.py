"""``slices_packing.json``: Pods into endpoints, and endpoints into slices with the fewest changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import structs
from tests.builders.structs import SOME_TIME
from tests.clusters import endpoints_in
from tests.vectors import outcomes
from tests.vectors.building import UID, a_node, a_pod, a_service, an_existing_slice, plan
from tests.vectors.cases import Case, RunIn, by_name, check_complete, load
from tests.vectors.outcomes import check

from zoneward.kube import names
from zoneward.kube.objects import (
    Endpoint,
    EndpointPort,
    EndpointSlice,
    OwnerReference,
    Pod,
    Service,
    ServicePort,
    identity,
)
from zoneward.routing.configuration import Configuration
from zoneward.slices import endpoints
from zoneward.slices.desired import DesiredSlices, SliceKey, SliceTemplate, desired_slices, slice_labels
from zoneward.slices.endpoints import endpoint_of, has_endpoint, port_key, ports_of, target_of
from zoneward.slices.plan import ServicePlan
from zoneward.slices.reconcile import SliceChanges, finalize, labels_differ
from zoneward.slices.reconcile import reconcile as reconcile_slices

NOW: Final = "2026-01-02T03:04:05.678901234Z"
"""What a case calls ``now``."""
RULES: Final[Mapping[str | None, Callable[[int], Any]]] = {
    None: lambda _: None,
    "index % 3 == 0": lambda index: index % 3 == 0,
    "8080 + index % 5": lambda index: 8080 + index % 5,
}
"""What the cases say about a Pod in terms of its number."""
CONTROLLERS: Final = ("gauges", "histogram", "metric_values", "order_of_writes")
"""Expected fields about metrics, and about the order in which requests are sent: the controller's own tests."""


def reconcile(case: Case) -> None:
    given, expected = case["input"], case["expected"]
    planned = reconciled(given)
    after = outcomes.slices_after(planned)
    sizes = {slice_.metadata.name: len(slice_.endpoints or ()) for slice_ in after}
    got = {
        "changes": outcomes.writes(planned),
        "final_sizes": sorted(sizes.values()),
        "sizes_by_existing_slice": {name: sizes.get(name) for name in expected.get("sizes_by_existing_slice", ())},
        "endpoints_added": outcomes.endpoints_added(planned),
        "endpoints_removed": outcomes.endpoints_removed(planned),
        # What upstream's reconcile returns as an error is a rule here.
        "sync_error": bool(outcomes.pods_left_out(planned)),
        "labels": same_on_all([slice_.metadata.labels for slice_ in after]),
        "labels_subset_on_all": same_on_all(
            [subset(slice_, expected.get("labels_subset_on_all", ())) for slice_ in after]
        ),
        "trigger_time_annotation": "now" if trigger_times(after) == {NOW} else trigger_times(after),
        "address_type": same_on_all([slice_.address_type for slice_ in after]),
        "final_address_type": same_on_all([slice_.address_type for slice_ in after]),
        "slice_ports": sorted(port.port or 0 for slice_ in after for port in slice_.ports or ()),
        "slice_port_name": same_on_all([port.name for slice_ in after for port in slice_.ports or ()]),
        "all_endpoints_ready": all(
            endpoint.conditions and endpoint.conditions.ready for endpoint in endpoints_in(after)
        ),
        "endpoints_by_address_type": {
            family.address_type: [shown(endpoint) for endpoint in endpoints_in(family.changes.after)]
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
        created = [slice_.metadata.name for family in planned.families for slice_ in family.changes.create]
        assert created
        assert all(name.startswith(f"{expected['name_prefix']}-") for name in created)


def check_placeholder(planned: ServicePlan, expected: Case) -> None:
    (slice_,) = outcomes.slices_after(planned)
    got = {
        "ports": list(slice_.ports or ()),
        "endpoints": len(slice_.endpoints or ()),
        "labels_subset": subset(slice_, expected["labels_subset"]),
    }
    # Generations of slices are remembered by the controller, by its tracker.
    check(got, expected, skipped=("name_prefix", "tracked_generation"))
    assert slice_.metadata.name.startswith(f"{expected['name_prefix']}-")


def shown(endpoint: Endpoint) -> Case:
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
        "target": outcomes.name_of(endpoint),
    }


def same_on_all(values: list[Any]) -> Any:
    return values[0] if values and all(value == values[0] for value in values) else values


def subset(slice_: EndpointSlice, labels: Iterable[str]) -> dict[str, str | None]:
    return {name: (slice_.metadata.labels or {}).get(name) for name in labels}


def trigger_times(slices: list[EndpointSlice]) -> set[str | None]:
    return {(slice_.metadata.annotations or {}).get(names.TRIGGER_TIME_ANNOTATION) for slice_ in slices}


def reconciled(given: Case) -> ServicePlan:
    before = packed_service(given["service"])
    pods = [pod for shape in given["pods"] for pod in pods_of(shape, before)]
    zone_of = {node["name"]: node["zone"] for node in given["nodes"]}
    return plan(
        packed_service(given["service"], **given.get("service_change", {})),
        nodes=[a_node(node) for node in given["nodes"]],
        pods=pods,
        slices=existing_slices(given["existing_slices"], before, pods, zone_of),
        configuration=Configuration(max_endpoints_per_slice=given["max_endpoints_per_slice"]).as_upstream(),
        trigger_time={"now": NOW}[given["trigger_time"]] if "trigger_time" in given else None,
    )


def packed_service(shape: Case, *, target_port: list[int] | None = None, labels: Case | None = None) -> Service:
    """The Service of a case; ``target_port`` (old and new) and ``labels`` are what changes afterwards."""
    old, new = target_port or (None, None)
    ports = tuple(
        ServicePort(
            name=port["name"],
            port=80,
            target_port=new if port["target_port"] == old else port["target_port"],
            protocol=port["protocol"],
        )
        for port in shape["ports"]
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
    port_number = RULES[shape["container_port"]](index)
    port = {"name": shape["container_port_name"], "port": port_number, "protocol": "TCP"}
    return [{"type": "container", "ports": [port]}]


def range_of(indices: Case) -> range:
    return range(indices["start"], indices["stop"], indices["step"])


def pod_name(index: int) -> str:
    return f"pod-{index}"


def address_of(name: str) -> str:
    index = int(name.removeprefix("pod-"))
    return f"10.0.{index // 250}.{index % 250 + 1}"


def existing_slices(
    shapes: Iterable[Case], service: Service, pods: list[Pod], zone_of: Mapping[str, str | None]
) -> list[EndpointSlice]:
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
            endpoint_before(name, known.get(name), service, zone_of, changed=index < changed)
            for index, name in enumerate(held)
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
    return None if shapes is None else tuple(EndpointPort(**shape) for shape in shapes)


def endpoint_before(
    name: str, pod: Pod | None, service: Service, zone_of: Mapping[str, str | None], *, changed: bool
) -> Endpoint:
    """The endpoint that was written for a Pod; ``changed`` if its readiness was the opposite."""
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


def template(service: Service) -> SliceTemplate:
    labels = slice_labels(service, manager=names.BUILT_IN_MANAGER)
    return SliceTemplate(service=service, address_type="IPv4", labels=labels)


def changes_for(
    service: Service, existing: Sequence[EndpointSlice] = (), desired: Mapping[SliceKey, DesiredSlices] | None = None
) -> SliceChanges:
    return reconcile_slices(template(service), desired or {}, existing, reads_routing=False)


def placeholder_compare(case: Case) -> None:
    service = a_service()
    (placeholder,) = changes_for(service).create
    existing = replace(placeholder, metadata=replace(placeholder.metadata, name="there"))
    metadata = existing.metadata
    existing = {
        None: existing,
        "name": replace(existing, metadata=replace(metadata, name="elsewhere")),
        # Even a label that on any other slice would cause no write.
        "labels": replace(
            existing, metadata=replace(metadata, labels={**(metadata.labels or {}), names.HEADLESS_LABEL: ""})
        ),
        "creation_timestamp": replace(existing, metadata=replace(metadata, creation_timestamp=SOME_TIME)),
        "address_type": replace(existing, address_type="IPv6"),
    }[case["input"]["differs_in"]]
    packed = changes_for(service, [existing])
    stays = packed.unchanged == (existing,) and not packed.create and not packed.delete
    assert stays == case["expected"]["treated_as_same_placeholder"]


def apply_changes(case: Case) -> None:
    given = case["input"]
    service = a_service(deleting=given["service_being_deleted"])
    existing = {name: an_existing_slice(name, (), service=service) for name in given["existing_slices"]}
    # A new slice has no name before it is written.
    created = [an_existing_slice("", [Endpoint(addresses=("10.0.0.1",))], service=service)]
    packed = SliceChanges(
        create=tuple(created * len(given["planned"]["create"])),
        update=tuple(
            replace(existing[name], endpoints=(Endpoint(addresses=("10.0.0.2",)),))
            for name in given["planned"]["update"]
        ),
        delete=tuple(existing[name] for name in given["planned"]["delete"]),
    )
    changes = finalize(packed, existing, service=service, taken=(existing,), trigger_time=None)
    deleted = {slice_.metadata.name for slice_ in changes.delete}
    check(
        {"exists_after": {"to-create": bool(changes.create)} | {name: name not in deleted for name in existing}},
        case["expected"],
    )
    for slice_ in (*changes.create, *changes.update):
        merged = slice_.metadata.name != "to-update"
        assert slice_.endpoints == (created[0] if merged else packed.update[0]).endpoints


def new_slice(case: Case) -> None:
    shape, expected = case["input"]["service"], case["expected"]
    service = a_service(
        f"{shape['namespace']}/{shape['name']}",
        cluster_ip=shape["cluster_ip"],
        labels=shape["labels"],
        annotations=shape.get("annotations"),
    )
    (slice_,) = outcomes.slices_after(plan(service, nodes=(), pods=()))
    (owner,) = slice_.metadata.owner_references or ()
    got = {
        "slice_labels": slice_.metadata.labels,
        "slice_annotations": slice_.metadata.annotations or {},
        "owner": {"kind": owner.kind, "controller": owner.controller},
    }
    # Upstream lets the API server complete the name; here the same prefix starts one that is always the same.
    check(got, expected, skipped=("generate_name",))
    assert slice_.metadata.name.startswith(expected["generate_name"])
    meta = service.metadata
    assert owner == OwnerReference(
        api_version="v1", kind="Service", name=meta.name, uid=meta.uid, controller=True, block_owner_deletion=True
    )


def mirror_labels(case: Case) -> None:
    shape = case["input"]["service"]
    service = a_service(f"ns/{shape['name']}", cluster_ip=shape["cluster_ip"], labels=shape["labels"])
    labels = slice_labels(service, manager=names.BUILT_IN_MANAGER)
    got = {"slice_labels": labels, "triggers_update": labels_differ(case["input"]["slice_labels"], labels)}
    check(got, case["expected"])


def trigger_annotation(case: Case) -> None:
    given, expected = case["input"], case["expected"]
    service = a_service()
    key = expected["annotation_key"]
    assert key == names.TRIGGER_TIME_ANNOTATION
    before = an_existing_slice("s1", (), service=service)
    before = replace(before, metadata=replace(before.metadata, annotations={key: given["annotation_before"]}))
    packed = SliceChanges(update=(replace(before, endpoints=(Endpoint(addresses=("10.0.0.1",)),)),))
    after = [
        finalize(packed, {"s1": before}, service=service, taken=("s1",), trigger_time=time)
        for time in given["trigger_time"]
    ]
    # The time is text and is not changed: the caller that reads the clock formats it.
    got = {"annotation_after": [annotation_of(slice_, key) for slice_ in after]}
    check(got, expected, skipped=("annotation_key", "format"))


def annotation_of(changes: SliceChanges, key: str) -> str | None:
    (slice_,) = changes.update
    return (slice_.metadata.annotations or {}).get(key)


AN_ENDPOINT: Final[Mapping[str, Any]] = {
    "addresses": ["10.0.0.1"],
    "conditions": {"ready": True, "terminating": False},
    "targetRef": {"kind": "Pod", "namespace": "ns", "name": "pod-1", "resourceVersion": "1"},
    "nodeName": "node-1",
    "zone": "zone-a",
}
DIFFERENCES: Final[Mapping[str | None, tuple[Mapping[str, Any], Mapping[str, Any]]]] = {
    None: ({}, {}),
    "node": ({}, {"nodeName": "node-2"}),
    "zone": ({}, {"zone": "zone-b"}),
    "ready": ({}, {"conditions": {"ready": False, "terminating": False}}),
    "serving null->true": ({}, {"conditions": {"ready": True, "serving": True, "terminating": False}}),
    "serving false->true": (
        {"conditions": {"ready": True, "serving": False, "terminating": False}},
        {"conditions": {"ready": True, "serving": True, "terminating": False}},
    ),
    "target name": ({}, {"targetRef": {**AN_ENDPOINT["targetRef"], "name": "pod-2"}}),
    "target resourceVersion": ({}, {"targetRef": {**AN_ENDPOINT["targetRef"], "resourceVersion": "2"}}),
    # Endpoints are made without hints: only existing ones have any.
    "hints": ({"hints": {"forZones": [{"name": "zone-b"}]}}, {}),
}
"""What the existing endpoint and the wanted one have otherwise."""


def endpoint_equality(case: Case) -> None:
    differences = DIFFERENCES[case["input"]["differs_in"]]
    existing, wanted = (msgspec.convert({**AN_ENDPOINT, **difference}, Endpoint) for difference in differences)
    service = a_service()
    slice_ = an_existing_slice("s1", [existing], service=service)
    ports = slice_.ports or ()
    desired = desired_slices(template(service), None, ports=ports)
    desired.endpoints[identity(wanted)] = wanted
    packed = changes_for(service, [slice_], {(port_key(ports), ()): desired})
    stays = packed.unchanged == (slice_,)
    assert stays == case["expected"]["treated_as_equal"]
    if not stays:
        assert [slice_.endpoints for slice_ in (*packed.create, *packed.update)] == [(wanted,)]


def pod_to_endpoint(case: Case) -> None:
    given = case["input"]
    node = given["node"]
    service = a_service(
        f"ns/{given['service']['name']}", publish_not_ready_addresses=given["service"]["publish_not_ready_addresses"]
    )
    endpoint = endpoint_of(
        a_pod(**given["pod"]), service, zone=node and node["zone"], address_type=given["address_type"]
    )
    assert endpoint is not None
    check(shown(endpoint), case["expected"])


def pod_membership(case: Case) -> None:
    given = case["input"]["pod"]
    # What a Pod's restart policy is makes no difference, and is not read.
    pod = a_pod("pod-1", ips=given["ips"], phase=given["phase"], terminating=given["terminating"])
    if given["terminating"] and not case["input"]["include_terminating"]:
        # Upstream's controller of EndpointSlices never asks this way: its slices list a Pod that is terminating, marked
        # as such, and what leaves it out of the Endpoints object makes it not ready here.
        endpoint = endpoint_of(pod, a_service(), zone=None, address_type="IPv4")
        assert has_endpoint(pod)
        assert endpoint is not None
        assert endpoint.conditions is not None
        assert endpoint.conditions.terminating is True
        assert endpoint.conditions.ready is case["expected"]["in_endpoints"]
        return
    assert has_endpoint(pod) == case["expected"]["in_endpoints"]


def address_types(case: Case) -> None:
    given = case["input"]
    service = a_service(
        cluster_ip=given["cluster_ip"], ip_families=given["ip_families"] and tuple(given["ip_families"])
    )
    check({"address_types": list(endpoints.address_types(service))}, case["expected"])


def port_group(case: Case) -> None:
    assert (port_key(case["input"]["ports_a"]) == port_key(case["input"]["ports_b"])) == case["expected"]["same_group"]


def slice_ports(case: Case) -> None:
    ports = tuple(ServicePort(port=1, **port) for port in case["input"]["service_ports"])
    pod = a_pod("pod-1", ips=["10.0.0.1"], containers=case["input"]["containers"])
    got = [
        {"name": port.name, "port": port.port, "protocol": port.protocol, "app_protocol": port.app_protocol}
        for port in ports_of(a_service(ports=ports), pod)
    ]
    check({"slice_ports": got}, case["expected"])


def find_port(case: Case) -> None:
    given = case["input"]
    port = ServicePort(port=1, target_port=given["target_port"], protocol=given["protocol"])
    pod = a_pod("pod-1", ips=["10.0.0.1"], containers=given["containers"])
    check({"port": target_of(port, pod)}, case["expected"])


RUN: Final = by_name(
    *(reconcile, placeholder_compare, apply_changes, new_slice, mirror_labels, trigger_annotation),
    *(endpoint_equality, pod_to_endpoint, pod_membership, address_types, port_group, slice_ports, find_port),
)
CONTROLLER: Final = RunIn("test_controller_clockwork")
"""What leads to a reconcile, how often, from how fresh a cache, and what metrics count."""
CASES: Final = load("slices_packing.json")
LEFT_OUT: Final = {case["id"]: CONTROLLER for case in CASES if case["kind"] not in RUN}


def test_every_case_is_run_or_left_out_for_a_reason() -> None:
    check_complete(CASES, RUN, LEFT_OUT)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] in RUN])
def test_slices_are_packed_as_upstream_packs_them(case: Case) -> None:
    RUN[case["kind"]](case)
