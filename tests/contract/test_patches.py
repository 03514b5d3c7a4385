"""Patches of both forms: what each changes, and what it says when it cannot be done."""

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
    service = a_service("cart", namespace=namespace)
    return api.create(with_field(service, "spec.ports[1]", {"name": "more", "port": 81, "targetPort": 8081}))


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
@pytest.mark.parametrize(
    ("patch", "after"),
    [
        ({"a": "9"}, {"a": "9", "b": "2"}),
        ({"c": "3"}, {"a": "1", "b": "2", "c": "3"}),
        ({"a": None}, {"b": "2"}),
        ({"nothing": None}, {"a": "1", "b": "2"}),
        (None, {}),
        ({}, {"a": "1", "b": "2"}),
    ],
)
def test_map_is_merged_and_null_removes_a_key(
    api: Api, lease: Object, content_type: str, patch: object, after: Object
) -> None:
    patched = api.patch(lease, {"metadata": {"labels": patch}}, content_type=content_type)
    assert patched["metadata"].get("labels", {}) == after


def test_merge_patch_replaces_lists_and_resets_removed_fields(api: Api, service: Object) -> None:
    assert api.patch(service, {"spec": {"internalTrafficPolicy": None}}, content_type=MERGE_PATCH) == service
    patched = api.patch(service, {"spec": {"ports": [{"port": 82}]}}, content_type=MERGE_PATCH)
    assert patched["spec"]["ports"] == [{"protocol": "TCP", "port": 82, "targetPort": 82}]


def test_conditions_are_merged_by_their_type(api: Api, namespace: str) -> None:
    node = api.create(a_bare_node(f"{namespace}-node"))
    first = {"type": "Ready", "status": "False", "reason": "Starting", "message": "wait"}
    second = {"type": "Ready", "status": "True", "message": None}
    for condition in (first, {"type": "DiskPressure", "status": "False"}, second):
        node = api.patch(node, {"status": {"conditions": [condition]}}, subresource="status")
    conditions = node["status"]["conditions"]
    assert [(condition["type"], condition["status"], condition.get("reason")) for condition in conditions] == [
        ("DiskPressure", "False", None),
        ("Ready", "True", "Starting"),
    ]


@pytest.mark.parametrize(
    ("patch", "after"),
    [
        # Merged by number; a new port comes before the others.
        ({"ports": [{"port": 81, "targetPort": 9}]}, [("http", 80, "http"), ("more", 81, 9)]),
        (
            {"ports": [{"name": "new", "port": 82}]},
            [("new", 82, 82), ("http", 80, "http"), ("more", 81, 8081)],
        ),
        ({"ports": [{"port": 81, "$patch": "delete"}]}, [("http", 80, "http")]),
        ({"ports": [{"name": "new", "port": 82}, {"$patch": "replace"}]}, [("new", 82, 82)]),
        (
            {
                "$setElementOrder/ports": [{"port": 81}, {"port": 82}, {"port": 80}],
                "ports": [{"name": "new", "port": 82}],
            },
            [("more", 81, 8081), ("new", 82, 82), ("http", 80, "http")],
        ),
    ],
)
def test_a_strategic_patch_merges_the_ports_of_a_service(
    api: Api, service: Object, patch: Object, after: list[tuple[str, int, object]]
) -> None:
    ports = api.patch(service, {"spec": patch})["spec"]["ports"]
    assert [(port["name"], port["port"], port["targetPort"]) for port in ports] == after


def test_a_strategic_patch_can_replace_a_map_and_change_a_set(api: Api, lease: Object) -> None:
    replaced = api.patch(lease, {"metadata": {"labels": {"$patch": "replace", "c": "3"}}})
    assert replaced["metadata"]["labels"] == {"c": "3"}
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
    assert {owner["name"]: owner.get("controller") for owner in lease["metadata"]["ownerReferences"]} == {
        "a": None,
        "b": True,
    }


def test_endpoints_of_a_slice_are_replaced(api: Api, namespace: str) -> None:
    slice_ = api.create(a_slice("slice", service="cart", addresses=["10.0.0.1"], namespace=namespace))
    patched = api.patch(slice_, {"endpoints": [{"addresses": ["10.0.0.2"]}]})
    assert [endpoint["addresses"] for endpoint in patched["endpoints"]] == [["10.0.0.2"]]


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", ""])
def test_a_patch_of_another_form_is_refused(api: Api, lease: Object, content_type: str) -> None:
    answer = api.send("PATCH", path_of(lease), {}, content_type=content_type)
    assert answer.refusal == (415, "UnsupportedMediaType", "415: Unsupported Media Type")


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (b"{", (400, "BadRequest")),
        (b"[]", (400, "BadRequest")),
        ({"metadata": {"name": "other"}}, (400, "BadRequest")),
        ({"metadata": {"namespace": "other"}}, (400, "BadRequest")),
        ({"spec": "x"}, (422, "Invalid")),
        ({"metadata": {"labels": {"a": 5}}}, (422, "Invalid")),
    ],
)
def test_invalid_patch_is_refused(
    api: Api, lease: Object, content_type: str, body: object, refusal: tuple[int, str]
) -> None:
    assert api.send("PATCH", path_of(lease), body, content_type=content_type).refusal[:2] == refusal
    missing = a_lease("x", namespace=lease["metadata"]["namespace"])
    answer = api.send("PATCH", path_of(missing), {}, content_type=content_type)
    assert answer.refusal == (404, "NotFound", 'leases.coordination.k8s.io "x" not found')
