"""Who is refused because somebody else was there first, and with which message."""

import pytest
from tests.contract.api import MERGE_PATCH, STRATEGIC_PATCH, Api, Object, collection_of, path_of
from tests.contract.kinds import new

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
RESOURCES = {
    "Service": "services",
    "Pod": "pods",
    "EndpointSlice": "endpointslices.discovery.k8s.io",
    "Endpoints": "endpoints",
    "Lease": "leases.coordination.k8s.io",
    "Node": "nodes",
}
"""As messages name them."""


@pytest.mark.parametrize("kind", RESOURCES)
def test_existing_object_is_not_created_again_and_stale_update_is_refused(api: Api, namespace: str, kind: str) -> None:
    obj, resource = new(kind, namespace), RESOURCES[kind]
    old, name = api.create(obj), obj["metadata"]["name"]
    answer = api.send("POST", collection_of(obj), obj)
    assert answer.refusal == (409, "AlreadyExists", f'{resource} "{name}" already exists')
    plural, _, group = resource.partition(".")
    assert answer.object["details"] == {"name": name, **({"group": group} if group else {}), "kind": plural}
    newer = api.patch(old, {"metadata": {"labels": {"tier": "front"}}})
    conflict = (409, "Conflict", f'Operation cannot be fulfilled on {resource} "{name}": {MODIFIED}')
    for subresource in ("", "status") if kind in {"Service", "Pod", "Node"} else ("",):
        assert api.send("PUT", path_of(old, subresource), old).refusal == conflict
    for content_type in (MERGE_PATCH, STRATEGIC_PATCH):
        patch = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"], "labels": {"tier": "back"}}}
        assert api.send("PATCH", path_of(old), patch, content_type=content_type).refusal == conflict
    assert api.read(old) == newer


@pytest.mark.parametrize("kind", RESOURCES)
def test_only_a_lease_must_say_which_version_it_replaces(api: Api, namespace: str, kind: str) -> None:
    obj = new(kind, namespace)
    api.create(obj)
    answer = api.send("PUT", path_of(obj), obj)
    if kind == "Lease":
        assert answer.refusal[:2] == (422, "Invalid")
        assert answer.refusal[2].endswith("metadata.resourceVersion: Invalid value: 0: must be specified for an update")
    else:
        assert answer.code == 200


@pytest.mark.parametrize(
    ("method", "change", "problem"),
    [
        (
            "PUT",
            {"metadata": {"uid": "other"}},
            "Precondition failed: UID in precondition: other, UID in object meta: {uid}",
        ),
        (
            "DELETE",
            {"preconditions": {"uid": "1"}},
            "does not match the UID in record ({uid})",
        ),
        (
            "DELETE",
            {"preconditions": {"resourceVersion": "1"}},
            "does not match the ResourceVersion in record ({resourceVersion})",
        ),
    ],
)
def test_precondition_of_a_deletion_protects_other_objects(
    api: Api, namespace: str, method: str, change: Object, problem: str
) -> None:
    lease = api.create(new("Lease", namespace))
    body = lease | {"metadata": lease["metadata"] | change["metadata"]} if method == "PUT" else change
    answer = api.send(method, path_of(lease), body)
    assert answer.refusal[:2] == (409, "Conflict")
    assert problem.format(**lease["metadata"]) in answer.refusal[2]
    assert api.read(lease) == lease
