"""Patches of three forms: what each changes, and what it says when it cannot be done."""

import pytest
from tests.builders.objects import a_bare_node, a_lease, a_service, a_slice, with_field
from tests.contract.api import (
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Api,
    Object,
    path_of,
)


@pytest.fixture
def lease(api: Api, namespace: str) -> Object:
    return api.create(a_lease("lease", namespace=namespace, labels={"a": "1", "b": "2"}))


@pytest.fixture
def service(api: Api, namespace: str) -> Object:
    """With two ports."""
    thing = a_service("cart", namespace=namespace)
    return api.create(with_field(thing, "spec.ports[1]", {"name": "more", "port": 81, "targetPort": 8081}))


def labels(thing: Object) -> Object:
    found: Object = thing["metadata"].get("labels", {})
    return found


# --- merge ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
@pytest.mark.parametrize(
    ("patch", "after"),
    [
        ({"a": "9"}, {"a": "9", "b": "2"}),
        ({"c": "3"}, {"a": "1", "b": "2", "c": "3"}),
        ({"a": None}, {"b": "2"}),
        ({"nothing": None}, {"a": "1", "b": "2"}),
        ({"a": None, "b": None}, {}),
        (None, {}),
        ({}, {"a": "1", "b": "2"}),
    ],
)
def test_a_map_is_merged_and_null_takes_away(
    api: Api, lease: Object, content_type: str, patch: object, after: Object
) -> None:
    assert labels(api.patch(lease, {"metadata": {"labels": patch}}, content_type=content_type)) == after


def test_a_merge_patch_replaces_lists(api: Api, service: Object) -> None:
    patched = api.patch(service, {"spec": {"ports": [{"port": 82}]}}, content_type=MERGE_PATCH)
    assert patched["spec"]["ports"] == [{"protocol": "TCP", "port": 82, "targetPort": 82}]


def test_what_a_patch_takes_away_gets_its_default(api: Api, service: Object) -> None:
    patched = api.patch(service, {"spec": {"internalTrafficPolicy": None}}, content_type=MERGE_PATCH)
    assert patched == service


# --- JSON -------------------------------------------------------------------------------------------------------------


# --- strategic --------------------------------------------------------------------------------------------------------


def test_conditions_are_merged_by_their_type(api: Api, namespace: str) -> None:
    node = api.create(a_bare_node(f"{namespace}-node"))
    for type_, status in (("Ready", "False"), ("DiskPressure", "False"), ("Ready", "True")):
        condition = {"type": type_, "status": status}
        node = api.patch(node, {"status": {"conditions": [condition]}}, subresource="status")
    assert [(each["type"], each["status"]) for each in node["status"]["conditions"]] == [
        ("DiskPressure", "False"),
        ("Ready", "True"),
    ]


def test_a_condition_keeps_what_a_patch_does_not_say(api: Api, namespace: str) -> None:
    node = api.create(a_bare_node(f"{namespace}-node"))
    first = {"type": "Ready", "status": "False", "reason": "Starting", "message": "wait"}
    api.patch(node, {"status": {"conditions": [first]}}, subresource="status")
    second = {"type": "Ready", "status": "True", "message": None}
    node = api.patch(node, {"status": {"conditions": [second]}}, subresource="status")
    assert node["status"]["conditions"] == [
        {"type": "Ready", "status": "True", "reason": "Starting", "lastHeartbeatTime": None, "lastTransitionTime": None}
    ]


def test_ports_of_a_service_are_merged_by_number(api: Api, service: Object) -> None:
    patched = api.patch(service, {"spec": {"ports": [{"port": 81, "targetPort": 9}]}})
    assert [(each["name"], each["port"], each["targetPort"]) for each in patched["spec"]["ports"]] == [
        ("http", 80, "http"),
        ("more", 81, 9),
    ]


def test_a_new_port_comes_before_the_others(api: Api, service: Object) -> None:
    patched = api.patch(service, {"spec": {"ports": [{"name": "new", "port": 82}]}})
    assert [each["name"] for each in patched["spec"]["ports"]] == ["new", "http", "more"]


def test_an_item_of_a_list_can_be_deleted(api: Api, service: Object) -> None:
    patched = api.patch(service, {"spec": {"ports": [{"port": 81, "$patch": "delete"}]}})
    assert [each["port"] for each in patched["spec"]["ports"]] == [80]


def test_a_list_can_be_replaced(api: Api, service: Object) -> None:
    patched = api.patch(service, {"spec": {"ports": [{"name": "new", "port": 82}, {"$patch": "replace"}]}})
    assert [each["name"] for each in patched["spec"]["ports"]] == ["new"]


def test_a_map_can_be_replaced(api: Api, lease: Object) -> None:
    assert labels(api.patch(lease, {"metadata": {"labels": {"$patch": "replace", "c": "3"}}})) == {"c": "3"}


def test_the_order_of_a_list_can_be_said(api: Api, service: Object) -> None:
    patch = {
        "spec": {
            "$setElementOrder/ports": [{"port": 81}, {"port": 82}, {"port": 80}],
            "ports": [{"name": "new", "port": 82}],
        }
    }
    assert [each["port"] for each in api.patch(service, patch)["spec"]["ports"]] == [81, 82, 80]


def test_finalizers_are_merged_as_a_set(api: Api, lease: Object) -> None:
    for name in ("example.com/a", "example.com/b", "example.com/a"):
        lease = api.patch(lease, {"metadata": {"finalizers": [name]}})
    assert sorted(lease["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    lease = api.patch(lease, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}})
    assert lease["metadata"]["finalizers"] == ["example.com/b"]


def test_owners_are_merged_by_their_uid(api: Api, namespace: str, lease: Object) -> None:
    # They exist: others would be the end of the lease.
    for name in ("a", "b"):
        uid = api.create(a_lease(name, namespace=namespace))["metadata"]["uid"]
        owner = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": name, "uid": uid}
        lease = api.patch(lease, {"metadata": {"ownerReferences": [owner]}})
    lease = api.patch(lease, {"metadata": {"ownerReferences": [{"uid": uid, "controller": True}]}})
    assert {each["name"]: each.get("controller") for each in lease["metadata"]["ownerReferences"]} == {
        "a": None,
        "b": True,
    }


def test_endpoints_of_a_slice_are_replaced(api: Api, namespace: str) -> None:
    slice_ = api.create(a_slice("slice", service="cart", addresses=["10.0.0.1"], namespace=namespace))
    patched = api.patch(slice_, {"endpoints": [{"addresses": ["10.0.0.2"]}]})
    assert [each["addresses"] for each in patched["endpoints"]] == [["10.0.0.2"]]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/merge-patch", ""])
def test_a_patch_of_another_form_is_refused(api: Api, lease: Object, content_type: str) -> None:
    answer = api.send("PATCH", path_of(lease), {}, content_type=content_type)
    assert answer.refusal == (415, "UnsupportedMediaType", "415: Unsupported Media Type")


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
def test_what_is_not_can_not_be_patched(api: Api, namespace: str, content_type: str) -> None:
    for thing, resource in (
        (a_lease("x", namespace=namespace), "leases.coordination.k8s.io"),
        (a_service("x", namespace=namespace), "services"),
    ):
        answer = api.send("PATCH", path_of(thing), {}, content_type=content_type)
        assert answer.refusal == (404, "NotFound", f'{resource} "x" not found')


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"'])
def test_a_patch_that_is_no_object_is_a_bad_request(api: Api, lease: Object, content_type: str, body: bytes) -> None:
    assert api.send("PATCH", path_of(lease), body, content_type=content_type).refusal[:2] == (400, "BadRequest")


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
@pytest.mark.parametrize("patch", [{"spec": "x"}, {"spec": {"ports": "x"}}, {"metadata": {"labels": {"a": 5}}}])
def test_what_a_patch_makes_must_be_of_the_right_types(
    api: Api, service: Object, content_type: str, patch: Object
) -> None:
    answer = api.send("PATCH", path_of(service), patch, content_type=content_type)
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.refusal[2].startswith(' "" is invalid: patch: Invalid value: ')


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"name": "other"}, "the name of the object (other) does not match the name on the URL (lease)"),
        (
            {"namespace": "other"},
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ],
)
def test_a_patch_cannot_move_an_object(api: Api, lease: Object, metadata: Object, message: str) -> None:
    answer = api.send("PATCH", path_of(lease), {"metadata": metadata}, content_type=MERGE_PATCH)
    assert answer.refusal == (400, "BadRequest", message)
