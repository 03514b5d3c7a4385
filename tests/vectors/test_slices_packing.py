"""``slices_packing.json``: Pods into endpoints, and endpoints into slices with the fewest changes."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders.structs import SOME_TIME
from tests.vectors.building import a_pod, a_service, an_existing_slice
from tests.vectors.cases import Case, RunIn, check_complete, load
from tests.vectors.outcomes import check, slices_after
from tests.vectors.planning import plan
from tests.vectors.reconciling import reconcile, shown

from zoneward.kube import names
from zoneward.kube.objects import Endpoint, OwnerReference, Service, ServicePort, identity
from zoneward.slices.changes import SliceChanges, changes_of
from zoneward.slices.encode import EncodedGroup, SliceTemplate, encode_group, slice_labels
from zoneward.slices.endpoints import address_types, endpoint_of, has_endpoint
from zoneward.slices.pack import PackedSlices, labels_differ, pack
from zoneward.slices.ports import port_key, ports_of, target_of


def template(service: Service) -> SliceTemplate:
    """What upstream's packing aims at: hints are set afterwards, and nothing is remembered in slices."""
    labels = slice_labels(service, manager=names.BUILT_IN_MANAGER)
    return SliceTemplate(service=service, address_type="IPv4", labels=labels, upstream=True)


def placeholder_compare(case: Case) -> None:
    service = a_service()
    (placeholder,) = pack(template(service), {}, ()).create
    there = replace(placeholder, metadata=replace(placeholder.metadata, name="there"))
    metadata = there.metadata
    there = {
        None: there,
        "name": replace(there, metadata=replace(metadata, name="elsewhere")),
        # Even a label that on any other slice would cause no write.
        "labels": replace(
            there, metadata=replace(metadata, labels={**(metadata.labels or {}), names.HEADLESS_LABEL: ""})
        ),
        "creation_timestamp": replace(there, metadata=replace(metadata, creation_timestamp=SOME_TIME)),
        "address_type": replace(there, address_type="IPv6"),
    }[case["input"]["differs_in"]]
    packed = pack(template(service), {}, [there])
    stays = packed.unchanged == [there] and not packed.create and not packed.delete
    assert stays == case["expected"]["treated_as_same_placeholder"]


def apply_changes(case: Case) -> None:
    given = case["input"]
    service = a_service(deleting=given["service_being_deleted"])
    existing = {name: an_existing_slice(name, (), service=service) for name in given["existing_slices"]}
    # A new slice has no name before it is written.
    created = [an_existing_slice("", [Endpoint(addresses=("10.0.0.1",))], service=service)]
    packed = PackedSlices(
        create=created * len(given["planned"]["create"]),
        update=[
            replace(existing[name], endpoints=(Endpoint(addresses=("10.0.0.2",)),))
            for name in given["planned"]["update"]
        ],
        delete=[existing[name] for name in given["planned"]["delete"]],
    )
    changes = changes_of(packed, existing.values(), service=service, taken=(existing,), trigger_time=None)
    deleted = {each.metadata.name for each in changes.delete}
    check(
        {"exists_after": {"to-create": bool(changes.create)} | {name: name not in deleted for name in existing}},
        case["expected"],
    )
    for each in (*changes.create, *changes.update):
        merged = each.metadata.name != "to-update"
        assert each.endpoints == (created[0] if merged else packed.update[0]).endpoints


def new_slice(case: Case) -> None:
    shape, expected = case["input"]["service"], case["expected"]
    service = a_service(
        f"{shape['namespace']}/{shape['name']}",
        cluster_ip=shape["cluster_ip"],
        labels=shape["labels"],
        annotations=shape.get("annotations"),
    )
    (slice_,) = slices_after(plan(service, nodes=(), pods=()))
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
    packed = PackedSlices(update=[replace(before, endpoints=(Endpoint(addresses=("10.0.0.1",)),))])
    after = [
        changes_of(packed, [before], service=service, taken=("s1",), trigger_time=time)
        for time in given["trigger_time"]
    ]
    # The time comes as text and stays as it is: whoever reads the clock writes it.
    got = {"annotation_after": [annotation_of(each, key) for each in after]}
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
    labels, annotations = encode_group(template(service), None)
    group = EncodedGroup(ports=ports, labels=labels, annotations=annotations, endpoints={identity(wanted): wanted})
    packed = pack(template(service), {(port_key(ports), ()): group}, [slice_])
    stays = packed.unchanged == [slice_]
    assert stays == case["expected"]["treated_as_equal"]
    if not stays:
        assert [each.endpoints for each in (*packed.create, *packed.update)] == [(wanted,)]


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


def families(case: Case) -> None:
    given = case["input"]
    service = a_service(
        cluster_ip=given["cluster_ip"], ip_families=given["ip_families"] and tuple(given["ip_families"])
    )
    check({"address_types": list(address_types(service))}, case["expected"])


def port_group(case: Case) -> None:
    assert (port_key(case["input"]["ports_a"]) == port_key(case["input"]["ports_b"])) == case["expected"]["same_group"]


def slice_ports(case: Case) -> None:
    ports = tuple(ServicePort(port=1, **each) for each in case["input"]["service_ports"])
    pod = a_pod("pod-1", ips=["10.0.0.1"], containers=case["input"]["containers"])
    got = [
        {"name": each.name, "port": each.port, "protocol": each.protocol, "app_protocol": each.app_protocol}
        for each in ports_of(a_service(ports=ports), pod)
    ]
    check({"slice_ports": got}, case["expected"])


def find_port(case: Case) -> None:
    given = case["input"]
    port = ServicePort(port=1, target_port=given["target_port"], protocol=given["protocol"])
    pod = a_pod("pod-1", ips=["10.0.0.1"], containers=given["containers"])
    check({"port": target_of(port, pod)}, case["expected"])


RUN: Final[Mapping[str, Callable[[Case], None]]] = {
    "reconcile": reconcile,
    "placeholder_compare": placeholder_compare,
    "apply_changes": apply_changes,
    "new_slice": new_slice,
    "mirror_labels": mirror_labels,
    "trigger_annotation": trigger_annotation,
    "endpoint_equality": endpoint_equality,
    "pod_to_endpoint": pod_to_endpoint,
    "pod_membership": pod_membership,
    "address_types": families,
    "port_group": port_group,
    "slice_ports": slice_ports,
    "find_port": find_port,
}
CONTROLLER: Final = RunIn("test_controller_clockwork")
"""What leads to a reconcile, how often, from how fresh a cache, and what metrics count."""
LEFT_OUT: Final[Mapping[str, RunIn]] = {
    **{f"pack-podchange-{number:02}": CONTROLLER for number in range(1, 16)},
    **{f"pack-svcset-{number:02}": CONTROLLER for number in range(1, 7)},
    **{f"pack-tracker-stale-{number:02}": CONTROLLER for number in range(1, 10)},
    **{f"pack-tracker-update-{number:02}": CONTROLLER for number in range(1, 5)},
    **{f"pack-tracker-delete-{number:02}": CONTROLLER for number in range(1, 8)},
    **{f"pack-tracker-svcdelete-{number:02}": CONTROLLER for number in range(1, 4)},
    **{f"pack-stale-sync-{number:02}": CONTROLLER for number in range(1, 4)},
    **{f"pack-trigger-{number:02}": CONTROLLER for number in range(1, 9)},
    **{f"pack-batch-add-{number:02}": CONTROLLER for number in range(1, 4)},
    **{f"pack-batch-update-{number:02}": CONTROLLER for number in range(1, 4)},
    **{f"pack-batch-delete-{number:02}": CONTROLLER for number in range(1, 4)},
    **{f"pack-metric-{number:02}": CONTROLLER for number in range(1, 3)},
}
CASES: Final = load("slices_packing.json")


def test_every_case_is_run_or_left_out_for_a_reason() -> None:
    check_complete(CASES, RUN, LEFT_OUT)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] in RUN])
def test_slices_are_packed_as_upstream_packs_them(case: Case) -> None:
    RUN[case["kind"]](case)
