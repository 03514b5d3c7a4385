"""Patches of three forms: what each changes, and what it says when it cannot be done."""

import pytest
from tests.contract.api import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Api,
    Object,
    path_of,
)
from tests.contract.objects import a_bare_node, a_bare_pod, a_lease, a_service, an_endpoint_slice, with_field


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


@pytest.mark.parametrize(
    ("patch", "after"),
    [
        ([{"op": "add", "path": "/metadata/labels/c", "value": "3"}], {"a": "1", "b": "2", "c": "3"}),
        ([{"op": "replace", "path": "/metadata/labels/a", "value": "9"}], {"a": "9", "b": "2"}),
        ([{"op": "remove", "path": "/metadata/labels/a"}], {"b": "2"}),
        ([{"op": "remove", "path": "/metadata/labels"}], {}),
        ([{"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/c"}], {"b": "2", "c": "1"}),
        ([{"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/c"}], {"a": "1", "b": "2", "c": "1"}),
        (
            [
                {"op": "test", "path": "/metadata/labels/a", "value": "1"},
                {"op": "remove", "path": "/metadata/labels/b"},
            ],
            {"a": "1"},
        ),
        (
            [{"op": "add", "path": "/metadata/labels/example.com~1x", "value": "3"}],
            {"a": "1", "b": "2", "example.com/x": "3"},
        ),
        ([], {"a": "1", "b": "2"}),
    ],
)
def test_a_json_patch_goes_step_by_step(api: Api, lease: Object, patch: list[Object], after: Object) -> None:
    assert labels(api.patch(lease, patch, content_type=JSON_PATCH)) == after


def test_a_json_patch_inserts_into_lists(api: Api, service: Object) -> None:
    patch = [
        {"op": "add", "path": "/spec/ports/0", "value": {"name": "first", "port": 1}},
        {"op": "add", "path": "/spec/ports/-", "value": {"name": "last", "port": 2}},
        {"op": "remove", "path": "/spec/ports/1"},
    ]
    patched = api.patch(service, patch, content_type=JSON_PATCH)
    assert [port["name"] for port in patched["spec"]["ports"]] == ["first", "more", "last"]


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


def test_a_kubelet_keeps_the_order_of_conditions(api: Api, namespace: str) -> None:
    node = api.create(a_bare_node(f"{namespace}-node"))
    types = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
    first = [{"type": type_, "status": "False"} for type_ in types]
    api.patch(node, {"status": {"conditions": first}}, subresource="status")
    order = {"$setElementOrder/conditions": [{"type": type_} for type_ in types]}
    status = order | {"conditions": [{"type": "Ready", "status": "True"}]}
    node = api.patch(node, {"status": status}, subresource="status")
    assert [each["type"] for each in node["status"]["conditions"]] == types
    assert [each["status"] for each in node["status"]["conditions"]] == ["False", "False", "False", "True"]


def test_addresses_of_a_node_are_merged_by_type(api: Api, namespace: str) -> None:
    node = api.create(a_bare_node(f"{namespace}-node"))
    for type_, address in (("Hostname", "a"), ("InternalIP", "10.0.0.1"), ("Hostname", "b")):
        patch = {"status": {"addresses": [{"type": type_, "address": address}]}}
        node = api.patch(node, patch, subresource="status")
    assert node["status"]["addresses"] == [
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "Hostname", "address": "b"},
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
    slice_ = api.create(an_endpoint_slice("slice", service="cart", addresses=["10.0.0.1"], namespace=namespace))
    patched = api.patch(slice_, {"endpoints": [{"addresses": ["10.0.0.2"]}]})
    assert [each["addresses"] for each in patched["endpoints"]] == [["10.0.0.2"]]


def test_containers_are_merged_by_name(api: Api, namespace: str) -> None:
    pod = api.create(a_bare_pod("pod", namespace=namespace))
    patched = api.patch(pod, {"spec": {"containers": [{"name": "main", "image": "newer"}]}})
    [container] = patched["spec"]["containers"]
    assert container == pod["spec"]["containers"][0] | {"image": "newer"}


def test_volumes_keep_only_the_source_that_is_said(api: Api, namespace: str) -> None:
    """``$retainKeys``: of a union, what is not listed goes."""
    pod = with_field(a_bare_pod("pod", namespace=namespace), "spec.volumes", [{"name": "v"}])
    api.create(pod)
    patch = {"spec": {"volumes": [{"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/x"}}]}}
    answer = api.send("PATCH", path_of(pod), patch, content_type=STRATEGIC_PATCH)
    # Volumes cannot be changed; but what is wrong with it shows that one source is left.
    assert answer.code == 422
    assert '+   "HostPath": {' in answer.refusal[2]
    assert "may not specify more than 1 volume type" not in answer.refusal[2]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/merge-patch", ""])
def test_a_patch_of_another_form_is_refused(api: Api, lease: Object, content_type: str) -> None:
    answer = api.send("PATCH", path_of(lease), {}, content_type=content_type)
    assert answer.refusal == (415, "UnsupportedMediaType", "415: Unsupported Media Type")


def test_the_character_set_of_a_patch_does_not_matter(api: Api, lease: Object) -> None:
    answer = api.send("PATCH", path_of(lease), {}, content_type=f"{MERGE_PATCH}; charset=utf-8")
    assert answer.code == 200


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
def test_what_is_not_can_not_be_patched(api: Api, namespace: str, content_type: str) -> None:
    for thing, resource in (
        (a_lease("x", namespace=namespace), "leases.coordination.k8s.io"),
        (a_service("x", namespace=namespace), "services"),
    ):
        answer = api.send("PATCH", path_of(thing), {}, content_type=content_type)
        assert answer.refusal == (404, "NotFound", f'{resource} "x" not found')


OBJECT = "map[string]interface {}"


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        (MERGE_PATCH, b"{", "error decoding patch: unexpected end of JSON input"),
        (MERGE_PATCH, b"[]", f"error decoding patch: json: cannot unmarshal array into Go value of type {OBJECT}"),
        (MERGE_PATCH, b'"x"', f"error decoding patch: json: cannot unmarshal string into Go value of type {OBJECT}"),
        (JSON_PATCH, b"[{", "error decoding patch: unexpected end of JSON input"),
        (
            JSON_PATCH,
            b"{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (STRATEGIC_PATCH, b"{", "unexpected end of JSON input"),
        (STRATEGIC_PATCH, b"[]", f"json: cannot unmarshal array into Go value of type {OBJECT}"),
    ],
)
def test_a_patch_that_is_none_is_a_bad_request(
    api: Api, lease: Object, content_type: str, body: bytes, message: str
) -> None:
    assert api.send("PATCH", path_of(lease), body, content_type=content_type).refusal == (400, "BadRequest", message)


@pytest.mark.parametrize(
    "step",
    [
        {"op": "remove", "path": "/metadata/labels/nothing"},
        {"op": "test", "path": "/metadata/labels/a", "value": "9"},
        {"op": "bend", "path": "/metadata/labels/a"},
        {"op": "add", "path": "/metadata/nothing/a", "value": "1"},
        {"op": "add", "path": "metadata", "value": "1"},
        {"op": "move", "from": "/metadata/labels/nothing", "path": "/metadata/labels/c"},
    ],
)
def test_a_step_that_cannot_be_done_spoils_the_whole_patch(api: Api, lease: Object, step: Object) -> None:
    patch = [{"op": "add", "path": "/metadata/labels/c", "value": "3"}, step]
    answer = api.send("PATCH", path_of(lease), patch, content_type=JSON_PATCH)
    told = "the server rejected our request due to an error in our request"
    assert answer.refusal == (422, "Invalid", told)
    assert api.read(lease) == lease


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        (
            {"spec": {"ports": [{"name": "x"}]}},
            500,
            "map: map[name:x] does not contain declared merge key: port",
        ),
        ({"$patch": "bend"}, 500, "unknown patch type: bend in map: map[$patch:bend]"),
        (
            {"spec": {"ports": "x"}},
            422,
            ' "" is invalid: patch: Invalid value: "map[spec:map[ports:x]]": cannot restore slice from string',
        ),
        (
            {"metadata": {"labels": {"a": 5}}},
            422,
            (
                ' "" is invalid: patch: Invalid value: "map[metadata:map[labels:map[a:5]]]": '
                "cannot convert int64 to string"
            ),
        ),
        (
            {"spec": "x"},
            422,
            ' "" is invalid: patch: Invalid value: "map[spec:x]": cannot restore struct from: string',
        ),
    ],
)
def test_a_strategic_patch_must_fit(api: Api, service: Object, patch: Object, code: int, message: str) -> None:
    answer = api.send("PATCH", path_of(service), patch, content_type=STRATEGIC_PATCH)
    assert answer.refusal == (code, "Invalid" if code == 422 else "", message)


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        ({"$setElementOrder/ports": [{"port": 80}], "ports": [{"port": 80, "name": "z"}]}, ""),
        ({"$setElementOrder/externalIPs": ["192.0.2.7"]}, ""),
        ({"$retainKeys": ["nope"]}, ""),
        ({"ports": [{"port": 80, "$retainKeys": ["port"]}]}, " ports:[map[port:80]]"),
        ({"ports": [{"port": 82, "name": None}]}, " ports:[map[name:<nil> port:82]]"),
        ({"ports": [{"port": 80, "$patch": "delete"}]}, " ports:[map[$patch:delete port:80]]"),
        ({"ports": [{"$patch": "replace"}, {"port": 80}]}, " ports:[map[$patch:replace] map[port:80]]"),
        ({"selector": {"$patch": "replace", "q": "r", "n": None}}, " selector:map[n:<nil> q:r]"),
        (
            {"sessionAffinityConfig": {"clientIP": None, "$patch": "replace"}},
            " sessionAffinityConfig:map[$patch:replace]",
        ),
        ({"sessionAffinityConfig": {"clientIP": {"$patch": "delete"}}}, " sessionAffinityConfig:map[]"),
        ({"ports": None, "selector": {"app": None}}, " ports:<nil> selector:map[app:<nil>]"),
    ],
)
def test_what_is_left_of_a_strategic_patch_is_shown(api: Api, namespace: str, spec: Object, left: str) -> None:
    service = api.create(a_service("cart", namespace=namespace, selector={"app": "cart"}))
    patch, strict = {"spec": {"nope": 1} | spec}, {"fieldValidation": "Strict"}
    answer = api.send("PATCH", path_of(service), patch, content_type=STRATEGIC_PATCH, query=strict)
    problem = 'strict decoding error: unknown field "spec.nope"'
    assert answer.refusal[2] == f' "" is invalid: patch: Invalid value: "map[spec:map[nope:1{left}]]": {problem}'


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ({"spec": "x"}, "json: cannot unmarshal string into Go struct field Service.spec of type v1.ServiceSpec"),
        (
            {"spec": {"ports": [{"port": "x"}]}},
            "json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        ({"kind": "Pod"}, "converting (v1.Pod) to (core.Service): unknown conversion"),
    ],
)
def test_what_a_merge_patch_makes_must_be_of_the_right_types(
    api: Api, service: Object, patch: Object, problem: str
) -> None:
    answer = api.send("PATCH", path_of(service), patch, content_type=MERGE_PATCH)
    assert answer.refusal[:2] == (422, "Invalid")
    # In between comes the whole object as text.
    assert answer.refusal[2].startswith(' "" is invalid: patch: Invalid value: "{')
    assert answer.refusal[2].endswith(problem)


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


def test_many_steps_are_too_many(api: Api, lease: Object) -> None:
    step = {"op": "test", "path": "/metadata/labels/a", "value": "1"}
    answer = api.send("PATCH", path_of(lease), [step] * 10_001, content_type=JSON_PATCH)
    assert answer.refusal[:2] == (413, "RequestEntityTooLarge")
    assert answer.refusal[2].endswith("The allowed maximum operations in a JSON patch is 10000, got 10001")
