"""Objects as they are created, read, replaced and deleted, and what the server alone writes into them."""

import re
import time
from datetime import UTC, datetime

import pytest
from tests.builders.objects import ZONE, a_bare_pod, a_lease, a_namespace, a_node, a_service, a_slice, with_field
from tests.contract.api import MERGE_PATCH, Api, Object, collection_of, path_of
from tests.contract.kinds import KINDS, new

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
REPLACED_INTO_BEING = {"Service", "Endpoints", "Lease", "Event", "Event.events.k8s.io"}
"""Kinds that a PUT creates."""


def version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


@pytest.mark.parametrize("kind", KINDS)
def test_created_object_is_read_and_can_be_written_again(api: Api, namespace: str, kind: str) -> None:
    obj = new(kind, namespace)
    answer = api.send("POST", collection_of(obj), obj)
    assert answer.code == 201
    assert (answer.object["kind"], answer.object["apiVersion"]) == (obj["kind"], obj["apiVersion"])
    assert api.read(obj) == answer.object
    assert api.replace(answer.object) == answer.object
    assert api.read(obj) == answer.object


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_object_is_created_by_put_for_some_kinds_only(api: Api, namespace: str, kind: str) -> None:
    obj = new(kind, namespace)
    answer = api.send("PUT", path_of(obj), obj)
    if kind in REPLACED_INTO_BEING:
        assert answer.code == 201
        assert UUID.fullmatch(answer.object["metadata"]["uid"])
    else:
        assert answer.refusal[:2] == (404, "NotFound")


def test_a_new_object_gets_its_metadata_from_the_server(api: Api, namespace: str) -> None:
    earlier, lease = int(time.time()), a_lease("lease", namespace=namespace)
    lease["metadata"] |= {
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "selfLink": "/somewhere",
        "labels": {},
        "annotations": {},
        "finalizers": [],
        "ownerReferences": [],
    }
    metadata = api.create(lease)["metadata"]
    metadata.pop("managedFields", None)
    assert metadata.keys() == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}
    assert UUID.fullmatch(metadata["uid"])
    created = datetime.strptime(metadata["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert earlier - 1 <= created.timestamp() <= time.time() + 1
    api.delete(lease)
    assert api.create(a_lease("lease", namespace=namespace))["metadata"]["uid"] != metadata["uid"]


def test_versions_grow_over_all_kinds(api: Api, namespace: str) -> None:
    versions = [version(api.create(new(kind, namespace))) for kind in KINDS]
    assert versions == sorted(set(versions))
    lease = api.create(a_lease("last", namespace=namespace))
    assert versions[-1] < version(lease) < version(api.patch(lease, {"spec": {"holderIdentity": "you"}}))


def test_a_name_can_be_generated(api: Api, namespace: str) -> None:
    lease = a_lease("", namespace=namespace)
    lease["metadata"] = {"generateName": "lease-", "namespace": namespace}
    names = {api.request("POST", collection_of(lease), lease)["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(re.fullmatch(r"lease-[a-z0-9]{5}", name) for name in names)


def test_replacing_removes_missing_fields(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace, labels={"a": "1", "b": "2"}))
    changed = api.replace(with_field(lease, "metadata.labels", {"b": "3"}) | {"spec": {}})
    assert (changed["metadata"]["labels"], changed["spec"]) == ({"b": "3"}, {})


@pytest.mark.parametrize(
    ("method", "field", "value", "refusal"),
    [
        (
            "POST",
            "metadata.namespace",
            "default",
            (400, "the namespace of the provided object does not match the namespace sent on the request"),
        ),
        (
            "PUT",
            "metadata.name",
            "other",
            (400, "the name of the object (other) does not match the name on the URL (lease)"),
        ),
        ("POST", "metadata.resourceVersion", "1", (500, "resourceVersion should not be set on objects to be created")),
    ],
)
def test_object_that_contradicts_the_request_is_refused(
    api: Api, namespace: str, method: str, field: str, value: str, refusal: tuple[int, str]
) -> None:
    lease = api.create(a_lease("lease", namespace=namespace))
    path = collection_of(lease) if method == "POST" else path_of(lease)
    sent = a_lease("new", namespace=namespace) if method == "POST" else lease
    answer = api.send(method, path, with_field(sent, field, value))
    assert (answer.code, answer.refusal[2]) == refusal


def test_the_namespace_comes_from_the_path_and_must_exist(api: Api, namespace: str) -> None:
    lease = a_lease("lease", namespace=namespace)
    collection = collection_of(lease)
    del lease["metadata"]["namespace"]
    assert api.request("POST", collection, lease)["metadata"]["namespace"] == namespace
    other = a_lease("lease", namespace=f"{namespace}-none")
    answer = api.send("POST", collection_of(other), other)
    assert answer.refusal == (404, "NotFound", f'namespaces "{namespace}-none" not found')


def test_the_generation_of_a_slice_grows_with_its_content(api: Api, namespace: str) -> None:
    slice_ = api.create(a_slice("slice", service="cart", addresses=["10.0.0.1"], namespace=namespace))
    changes: list[Object] = [
        {"endpoints": [{"addresses": ["10.0.0.2"]}]},
        {"metadata": {"labels": {"tier": "front"}}},
        {"metadata": {"annotations": {"note": "seen"}}},
    ]
    changed = [slice_, *(api.patch(slice_, change, content_type=MERGE_PATCH) for change in changes)]
    assert [service["metadata"]["generation"] for service in changed] == [1, 2, 3, 3]


# --- defaults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "field", "value", "expected"),
    [
        ("Service", "spec.ports", [{"port": 80}], {"ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}]}),
        (
            "Service",
            "spec.type",
            "ClusterIP",
            {
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
            },
        ),
        ("Service", "spec.type", "NodePort", {"externalTrafficPolicy": "Cluster"}),
        ("EndpointSlice", "ports", [{"port": 80}], {"ports": [{"name": "", "protocol": "TCP", "port": 80}]}),
        ("EndpointSlice", "ports", [], {"ports": None}),
        (
            "EndpointSlice",
            "endpoints",
            [{"addresses": ["10.0.0.1"]}],
            {"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {}}]},
        ),
        (
            "Endpoints",
            "subsets[0].ports",
            [{"port": 80}],
            {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80, "protocol": "TCP"}]}]},
        ),
        ("Lease", "spec.renewTime", "2026-01-01T02:00:00.123456+02:00", {"renewTime": "2026-01-01T00:00:00.123456Z"}),
        (
            "Event",
            "metadata.labels",
            {},
            {"eventTime": None, "reportingComponent": "", "reportingInstance": "", "count": 3},
        ),
        (
            "Event.events.k8s.io",
            "metadata.labels",
            {},
            {"deprecatedSource": {}, "deprecatedFirstTimestamp": None, "deprecatedLastTimestamp": None},
        ),
        ("Node", "spec", {}, {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}),
        ("Namespace", "spec", {}, {"finalizers": ["kubernetes"]}),
    ],
)
def test_absent_fields_get_defaults(
    api: Api, namespace: str, kind: str, field: str, value: object, expected: Object
) -> None:
    created = api.create(with_field(new(kind, namespace), field, value))
    fields = created if kind in ("EndpointSlice", "Endpoints") or "Event" in kind else created["spec"]
    assert fields | expected == fields


def test_pod_gets_the_zone_of_its_node(api: Api, namespace: str) -> None:
    api.create(a_node(node := f"{namespace}-node", zone="b"))
    pod = with_field(a_bare_pod("pod", namespace=namespace, labels={"app": "cart"}), "spec.nodeName", node)
    assert api.create(pod)["metadata"]["labels"] == {"app": "cart", ZONE: "b"}


def test_the_addresses_of_a_pod_begin_with_its_address(api: Api, namespace: str) -> None:
    pod = api.create(a_bare_pod("pod", namespace=namespace))
    for address in ("10.1.0.8", "10.1.0.9"):
        status = api.patch(pod, {"status": {"podIP": address}}, subresource="status", content_type=MERGE_PATCH)[
            "status"
        ]
        assert (status["podIP"], status["podIPs"]) == (address, [{"ip": address}])


def test_a_namespace_has_its_name_as_a_label(api: Api, namespace: str) -> None:
    label = "kubernetes.io/metadata.name"
    for value in ("other", None):
        changed = api.patch(a_namespace(namespace), {"metadata": {"labels": {label: value}}})
        assert changed["metadata"]["labels"] == {label: namespace}


# --- the addresses and ports that a Service gets ----------------------------------------------------------------------


def test_a_service_keeps_its_address_until_it_is_deleted(api: Api, namespace: str) -> None:
    service = api.create(a_service("cart", namespace=namespace))
    address = service["spec"]["clusterIP"]
    assert service["spec"]["clusterIPs"] == [address]
    patched = api.patch(service, {"spec": {"ports": [{"port": 81}]}}, content_type=MERGE_PATCH)
    replaced = api.replace(a_service("cart", namespace=namespace))
    assert patched["spec"]["clusterIP"] == replaced["spec"]["clusterIP"] == address
    other = a_service("other", namespace=namespace, clusterIP=address)
    answer = api.send("POST", collection_of(other), other)
    problem = f'Invalid value: ["{address}"]: failed to allocate IP {address}: provided IP is already allocated'
    assert answer.causes == [("spec.clusterIPs", problem)]
    api.delete(service)
    assert api.create(other)["spec"]["clusterIP"] == address


@pytest.mark.parametrize("type_", ["NodePort", "LoadBalancer"])
def test_each_port_of_such_a_service_gets_a_node_port(api: Api, namespace: str, type_: str) -> None:
    service = a_service("cart", namespace=namespace, type=type_)
    spec = api.create(with_field(service, "spec.ports[1]", {"name": "more", "port": 81}))["spec"]
    ports = {port["nodePort"] for port in spec["ports"]}
    assert len(ports) == 2
    assert all(30000 <= port < 32768 for port in ports)
    inside = api.patch(service, {"spec": {"type": "ClusterIP"}}, content_type=MERGE_PATCH)["spec"]
    assert not any("nodePort" in port for port in inside["ports"])


@pytest.mark.parametrize("value", ["PreferClose", "PreferSameZone", "PreferSameNode"])
def test_traffic_can_be_distributed(api: Api, namespace: str, value: str) -> None:
    service = api.create(a_service("cart", namespace=namespace, distribution=value))
    assert service["spec"]["trafficDistribution"] == value
    patched = api.patch(service, {"spec": {"trafficDistribution": None}}, content_type=MERGE_PATCH)
    assert "trafficDistribution" not in patched["spec"]
