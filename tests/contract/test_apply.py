"""Server-side apply: who manages which fields, what happens when two want the same, and how that is told."""

from typing import Any

import pytest
from tests.contract.api import APPLY_PATCH, MERGE_PATCH, Api, Object, collection_of, path_of
from tests.contract.objects import a_bare_node, a_lease, a_service, an_endpoint_slice, with_field


def configuration(namespace: str, *, labels: Object | None = None, **spec: object) -> Object:
    """A Service with one port, and what else is said of it."""
    thing = a_service("cart", namespace=namespace)
    thing["metadata"] = {"name": "cart", "namespace": namespace} | ({"labels": labels} if labels else {})
    thing["spec"] = {"ports": [{"port": 80}], **spec}
    return thing


def managers(thing: Object) -> dict[tuple[str, str], Object]:
    """What each manages, by its name and operation."""
    return {(each["manager"], each["operation"]): each["fieldsV1"] for each in thing["metadata"]["managedFields"]}


PORT = 'k:{"port":80,"protocol":"TCP"}'


def test_what_is_not_is_created(api: Api, namespace: str) -> None:
    thing = configuration(namespace)
    answer = api.send("PATCH", path_of(thing), thing, content_type=APPLY_PATCH, query={"fieldManager": "me"})
    assert answer.code == 201
    assert answer.object["spec"]["type"] == "ClusterIP"
    assert api.read(thing) == answer.object


def test_what_was_applied_is_managed(api: Api, namespace: str) -> None:
    thing = api.apply(configuration(namespace, labels={"a": "1"}), manager="me")
    [entry] = thing["metadata"]["managedFields"]
    assert entry.pop("time") == thing["metadata"]["creationTimestamp"]
    assert entry == {
        "manager": "me",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {"f:ports": {PORT: {".": {}, "f:port": {}}}},
        },
    }


def test_applying_the_same_again_changes_nothing(api: Api, namespace: str) -> None:
    thing = configuration(namespace, labels={"a": "1"})
    assert api.apply(thing, manager="me") == api.apply(thing, manager="me")


def test_applying_changes_what_it_says(api: Api, namespace: str) -> None:
    api.apply(configuration(namespace, labels={"a": "1"}), manager="me")
    answer = api.send(
        "PATCH",
        path_of(configuration(namespace)),
        configuration(namespace, labels={"a": "2", "b": "3"}, sessionAffinity="ClientIP"),
        content_type=APPLY_PATCH,
        query={"fieldManager": "me"},
    )
    assert answer.code == 200
    assert answer.object["metadata"]["labels"] == {"a": "2", "b": "3"}
    assert answer.object["spec"]["sessionAffinity"] == "ClientIP"


def test_what_is_no_longer_applied_goes(api: Api, namespace: str) -> None:
    api.apply(configuration(namespace, labels={"a": "1", "b": "2"}, sessionAffinity="ClientIP"), manager="me")
    thing = api.apply(configuration(namespace, labels={"b": "2"}), manager="me")
    assert thing["metadata"]["labels"] == {"b": "2"}
    # Or goes back to its default.
    assert thing["spec"]["sessionAffinity"] == "None"


def test_what_others_set_stays(api: Api, namespace: str) -> None:
    thing = api.apply(configuration(namespace, labels={"a": "1"}), manager="me")
    api.patch(thing, {"metadata": {"labels": {"b": "2"}}}, fieldManager="you")
    thing = api.apply(configuration(namespace), manager="me")
    assert thing["metadata"]["labels"] == {"b": "2"}


def test_two_can_apply_different_fields(api: Api, namespace: str) -> None:
    api.apply(configuration(namespace, labels={"a": "1"}), manager="me")
    yours = configuration(namespace, labels={"b": "2"})
    del yours["spec"]
    thing = api.apply(yours, manager="you")
    assert thing["metadata"]["labels"] == {"a": "1", "b": "2"}
    assert managers(thing)["you", "Apply"] == {"f:metadata": {"f:labels": {"f:b": {}}}}
    assert managers(thing)["me", "Apply"]["f:metadata"] == {"f:labels": {"f:a": {}}}


def test_two_can_agree_on_a_field(api: Api, namespace: str) -> None:
    for manager in ("me", "you"):
        thing = api.apply(configuration(namespace, labels={"a": "1"}), manager=manager)
    assert managers(thing)["me", "Apply"] == managers(thing)["you", "Apply"]
    thing = api.apply(configuration(namespace), manager="me")
    assert thing["metadata"]["labels"] == {"a": "1"}
    thing = api.apply(configuration(namespace), manager="you")
    assert "labels" not in thing["metadata"]


def test_items_of_a_list_have_managers_of_their_own(api: Api, namespace: str) -> None:
    first, second = configuration(namespace), configuration(namespace)
    first["spec"] = {"ports": [{"name": "http", "port": 80}]}
    second["spec"] = {"ports": [{"name": "more", "port": 81}]}
    api.apply(first, manager="me")
    thing = api.apply(second, manager="you")
    assert [port["port"] for port in thing["spec"]["ports"]] == [80, 81]
    second["spec"] = {"ports": [{"name": "other", "port": 82}]}
    thing = api.apply(second, manager="you")
    assert [port["port"] for port in thing["spec"]["ports"]] == [80, 82]


# --- conflicts --------------------------------------------------------------------------------------------------------


def test_a_field_of_another_is_a_conflict(api: Api, namespace: str) -> None:
    api.apply(configuration(namespace, sessionAffinity="ClientIP"), manager="me")
    thing = configuration(namespace, sessionAffinity="None")
    answer = api.send("PATCH", path_of(thing), thing, content_type=APPLY_PATCH, query={"fieldManager": "you"})
    assert answer.object == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "me": .spec.sessionAffinity',
        "reason": "Conflict",
        "details": {
            "causes": [
                {"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".spec.sessionAffinity"}
            ]
        },
        "code": 409,
    }


def test_conflicts_are_listed_by_manager(api: Api, namespace: str) -> None:
    api.apply(configuration(namespace, labels={"a": "1", "b": "1"}), manager="me")
    thing = configuration(namespace, labels={"c": "1"})
    del thing["spec"]
    api.apply(thing, manager="third")
    thing = configuration(namespace, labels={"a": "2", "b": "2", "c": "2"})
    answer = api.send("PATCH", path_of(thing), thing, content_type=APPLY_PATCH, query={"fieldManager": "you"})
    assert answer.refusal == (
        409,
        "Conflict",
        (
            'Apply failed with 3 conflicts: conflicts with "me":\n- .metadata.labels.a\n- .metadata.labels.b\n'
            'conflicts with "third":\n- .metadata.labels.c'
        ),
    )


def test_a_conflict_with_an_update_tells_its_version(api: Api, namespace: str) -> None:
    thing = api.apply(configuration(namespace), manager="me")
    api.patch(thing, {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}, fieldManager="kubectl-edit")
    thing = with_field(configuration(namespace), "spec.ports[0].targetPort", 9090)
    answer = api.send("PATCH", path_of(thing), thing, content_type=APPLY_PATCH, query={"fieldManager": "me"})
    told = 'conflict with "kubectl-edit" using v1: .spec.ports[port=80,protocol="TCP"].targetPort'
    assert answer.refusal == (409, "Conflict", f"Apply failed with 1 conflict: {told}")


def test_force_takes_the_field_over(api: Api, namespace: str) -> None:
    api.apply(configuration(namespace, sessionAffinity="ClientIP"), manager="me")
    thing = api.apply(configuration(namespace, sessionAffinity="None"), manager="you", force=True)
    assert thing["spec"]["sessionAffinity"] == "None"
    assert "f:sessionAffinity" in managers(thing)["you", "Apply"]["f:spec"]
    assert "f:sessionAffinity" not in managers(thing)["me", "Apply"]["f:spec"]


def test_an_update_takes_a_field_over_without_asking(api: Api, namespace: str) -> None:
    thing = api.apply(configuration(namespace, labels={"a": "1"}), manager="me")
    thing = api.patch(thing, {"metadata": {"labels": {"a": "2"}}}, content_type=MERGE_PATCH, fieldManager="you")
    assert managers(thing)["you", "Update"] == {"f:metadata": {"f:labels": {"f:a": {}}}}
    assert "f:metadata" not in managers(thing)["me", "Apply"]


def test_the_same_value_is_no_conflict(api: Api, namespace: str) -> None:
    thing = api.create(configuration(namespace, sessionAffinity="ClientIP"))
    thing = api.apply(configuration(namespace, sessionAffinity="ClientIP"), manager="me")
    assert "f:sessionAffinity" in managers(thing)["me", "Apply"]["f:spec"]


def test_an_older_version_is_a_conflict_too(api: Api, namespace: str) -> None:
    old = api.apply(configuration(namespace), manager="me")["metadata"]["resourceVersion"]
    api.apply(configuration(namespace, labels={"a": "1"}), manager="me")
    thing = with_field(configuration(namespace), "metadata.resourceVersion", old)
    answer = api.send("PATCH", path_of(thing), thing, content_type=APPLY_PATCH, query={"fieldManager": "me"})
    assert answer.refusal[:2] == (409, "Conflict")


# --- who manages what -------------------------------------------------------------------------------------------------


def test_a_creation_is_managed_too(api: Api, namespace: str) -> None:
    lease = a_lease("lease", namespace=namespace, labels={"a": "1"})
    answer = api.send("POST", collection_of(lease), lease, query={"fieldManager": "me"})
    assert managers(answer.object) == {
        ("me", "Update"): {
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:holderIdentity": {}},
        }
    }
    assert answer.object["metadata"]["managedFields"][0]["apiVersion"] == "coordination.k8s.io/v1"


@pytest.mark.parametrize(
    ("agent", "manager"),
    [("kubectl/v1.36.3 (linux/amd64) kubernetes/abc", "kubectl"), ("Mozilla", "Mozilla"), ("", "unknown")],
)
def test_a_client_that_says_no_name_is_called_by_its_program(
    api: Api, namespace: str, agent: str, manager: str
) -> None:
    lease = a_lease("lease", namespace=namespace)
    answer = api.send("POST", collection_of(lease), lease, headers={"User-Agent": agent})
    assert list(managers(answer.object)) == [(manager, "Update")]


def test_each_update_takes_what_it_changes(api: Api, namespace: str) -> None:
    lease = a_lease("lease", namespace=namespace)
    created = api.send("POST", collection_of(lease), lease, query={"fieldManager": "me"}).object
    changed = api.replace(with_field(created, "spec.leaseDurationSeconds", 5), fieldManager="you")
    assert managers(changed) == {
        ("me", "Update"): {"f:spec": {"f:holderIdentity": {}}},
        ("you", "Update"): {"f:spec": {"f:leaseDurationSeconds": {}}},
    }
    changed = api.replace(with_field(changed, "spec.holderIdentity", "you"), fieldManager="you")
    assert managers(changed) == {
        ("you", "Update"): {"f:spec": {"f:holderIdentity": {}, "f:leaseDurationSeconds": {}}},
    }


def test_what_is_taken_away_is_managed_by_nobody(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace, labels={"a": "1", "b": "2"}))
    lease = api.patch(lease, {"metadata": {"labels": {"a": None}}}, fieldManager="you")
    assert list(managers(lease)) == [("unknown", "Update")]
    assert managers(lease)["unknown", "Update"]["f:metadata"] == {"f:labels": {".": {}, "f:b": {}}}


def test_a_status_is_managed_apart(api: Api, namespace: str) -> None:
    node = api.create(a_bare_node(f"{namespace}-node", labels={"a": "1"}))
    moment = "2026-01-01T00:00:00Z"
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": moment, "lastTransitionTime": moment}
    node = api.patch(node, {"status": {"conditions": [condition]}}, subresource="status", fieldManager="kubelet")
    [entry] = [each for each in node["metadata"]["managedFields"] if each["manager"] == "kubelet"]
    assert (entry["operation"], entry["subresource"]) == ("Update", "status")
    fields: Object = {f"f:{name}": {} for name in condition}
    assert entry["fieldsV1"] == {"f:status": {"f:conditions": {".": {}, 'k:{"type":"Ready"}': {".": {}} | fields}}}


def test_a_status_can_be_applied(api: Api, namespace: str) -> None:
    node = api.create(a_bare_node(f"{namespace}-node"))
    condition: dict[str, Any] = {"type": "Tested", "status": "True"}
    applied: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node["metadata"]["name"]},
        "spec": {"unschedulable": True},
        "status": {"conditions": [condition]},
    }
    applied.pop("spec")
    node = api.apply(applied, manager="me", subresource="status")
    assert [each["type"] for each in node["status"]["conditions"]] == ["Tested"]
    [entry] = [each for each in node["metadata"]["managedFields"] if each["manager"] == "me"]
    assert (entry["operation"], entry["subresource"]) == ("Apply", "status")
    del applied["status"]
    assert "conditions" not in api.apply(applied, manager="me", subresource="status")["status"]


def test_who_sends_an_empty_list_owns_it(api: Api, namespace: str) -> None:
    slice_ = an_endpoint_slice("slice", service="cart", addresses=[], namespace=namespace) | {"ports": None}
    created = api.request("POST", collection_of(slice_), slice_, query={"fieldManager": "me"})
    assert "f:endpoints" in managers(created)["me", "Update"]
    assert "f:ports" not in managers(created)["me", "Update"]
    assert (created["endpoints"], created["ports"]) == (None, None)


def test_lists_without_keys_belong_to_one_manager(api: Api, namespace: str) -> None:
    slice_ = an_endpoint_slice("slice", service="cart", addresses=["10.0.0.1"], namespace=namespace)
    applied = api.apply(slice_, manager="me")
    assert managers(applied)["me", "Apply"]["f:endpoints"] == {}
    other = an_endpoint_slice("slice", service="cart", addresses=["10.0.0.2"], namespace=namespace)
    answer = api.send("PATCH", path_of(other), other, content_type=APPLY_PATCH, query={"fieldManager": "you"})
    assert answer.refusal == (409, "Conflict", 'Apply failed with 1 conflict: conflict with "me": .endpoints')


def test_managers_can_be_forgotten(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace))
    lease = api.patch(lease, {"metadata": {"managedFields": [{}]}}, content_type=MERGE_PATCH)
    assert "managedFields" not in lease["metadata"]
    # From then on nobody counts, until somebody applies.
    lease = api.patch(lease, {"spec": {"holderIdentity": "you"}}, content_type=MERGE_PATCH)
    assert "managedFields" not in lease["metadata"]
    lease = api.apply(a_lease("lease", namespace=namespace, holder="you"), manager="me")
    assert set(managers(lease)) == {("before-first-apply", "Update"), ("me", "Apply")}


def test_managers_cannot_be_taken_away(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace))
    assert api.patch(lease, {"metadata": {"managedFields": None}}, content_type=MERGE_PATCH) == lease


def test_what_has_no_fields_of_its_own_has_no_managers(api: Api, namespace: str) -> None:
    assert "managedFields" not in api.create(a_bare_node(f"{namespace}-node"))["metadata"]


def test_what_is_applied_after_a_creation_without_it_is_no_conflict(api: Api, namespace: str) -> None:
    api.create(a_lease("lease", namespace=namespace))
    lease = a_lease("lease", namespace=namespace, labels={"a": "1"})
    del lease["spec"]
    assert managers(api.apply(lease, manager="me"))["me", "Apply"] == {"f:metadata": {"f:labels": {"f:a": {}}}}


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_manager_must_be_named(api: Api, namespace: str) -> None:
    thing = configuration(namespace)
    answer = api.send("PATCH", path_of(thing), thing, content_type=APPLY_PATCH)
    problem = "fieldManager: Required value: is required for apply patch"
    assert answer.refusal == (422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {problem}')


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"force": "true"}, "force: Forbidden: may not be specified for non-apply patch"),
        ({"fieldManager": "x" * 129}, "fieldManager: Too long: may not be more than 128 bytes"),
        ({"fieldManager": "a\nb"}, 'fieldManager: Invalid value: "a\\nb": invalid character U+000A (at position 1)'),
    ],
)
def test_options_that_make_no_sense_are_refused(api: Api, namespace: str, query: dict[str, str], problem: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace))
    answer = api.send("PATCH", path_of(lease), {}, content_type=MERGE_PATCH, query=query)
    assert answer.refusal == (422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {problem}')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "Pod"}, "invalid object type: /v1, Kind=Pod"),
        ({"apiVersion": "v2"}, "invalid object type: /v2, Kind=Service"),
        ({"metadata": {"name": "other"}}, "the name of the object (other) does not match the name on the URL (cart)"),
        ({"metadata": {"name": "cart", "managedFields": []}}, "metadata.managedFields must be nil"),
    ],
)
def test_only_the_object_of_the_path_can_be_applied(api: Api, namespace: str, change: Object, message: str) -> None:
    path = path_of(api.apply(configuration(namespace), manager="me"))
    answer = api.send(
        "PATCH", path, configuration(namespace) | change, content_type=APPLY_PATCH, query={"fieldManager": "me"}
    )
    assert answer.refusal == (400, "BadRequest", message)


@pytest.mark.parametrize(
    ("ports", "problem"),
    [
        ("x", ".spec.ports: expected list, got &{x}"),
        ([{"port": 80}, {"port": 80}], '.spec.ports: duplicate entries for key [port=80,protocol="TCP"]'),
    ],
)
def test_what_is_applied_must_fit_the_schema(api: Api, namespace: str, ports: object, problem: str) -> None:
    thing = configuration(namespace, ports=ports)
    answer = api.send("PATCH", path_of(thing), thing, content_type=APPLY_PATCH, query={"fieldManager": "me"})
    told = f"failed to create typed patch object ({namespace}/cart; /v1, Kind=Service): {problem}"
    assert answer.refusal == (500, "", told)


def test_what_is_applied_is_judged_like_all_else(api: Api, namespace: str) -> None:
    thing = configuration(namespace, type="Internal")
    answer = api.send("PATCH", path_of(thing), thing, content_type=APPLY_PATCH, query={"fieldManager": "me"})
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.causes[0][0] == "spec.type"


def test_applied_objects_may_be_written_in_yaml(api: Api, namespace: str) -> None:
    text = "apiVersion: v1\nkind: Service\nmetadata:\n  name: cart\nspec:\n  ports: [port: 80]\n"
    path = path_of(configuration(namespace))
    answer = api.send("PATCH", path, text.encode(), content_type=APPLY_PATCH, query={"fieldManager": "me"})
    assert answer.code == 201
    answer = api.send("PATCH", path, b"a: [", content_type=APPLY_PATCH, query={"fieldManager": "me"})
    assert answer.refusal[:2] == (400, "BadRequest")
    assert answer.refusal[2].startswith("error decoding YAML: ")


def test_a_dry_run_applies_nothing(api: Api, namespace: str) -> None:
    thing = configuration(namespace)
    query = {"fieldManager": "me", "dryRun": "All"}
    assert api.send("PATCH", path_of(thing), thing, content_type=APPLY_PATCH, query=query).code == 201
    assert api.send("GET", path_of(thing)).code == 404
