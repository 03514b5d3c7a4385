"""Who is told that somebody else was there first, and in which words."""

import pytest
from tests.builders.objects import a_bare_node, a_bare_pod, a_lease, a_service, a_slice
from tests.contract.api import MERGE_PATCH, STRATEGIC_PATCH, Api, Object, collection_of, path_of

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def some_kinds(namespace: str) -> list[tuple[str, Object]]:
    """With how messages name them."""
    return [
        ("services", a_service("cart", namespace=namespace)),
        ("pods", a_bare_pod("cart", namespace=namespace)),
        (
            "endpointslices.discovery.k8s.io",
            a_slice("cart", service="cart", addresses=["10.0.0.1"], namespace=namespace),
        ),
        ("leases.coordination.k8s.io", a_lease("cart", namespace=namespace)),
        ("nodes", a_bare_node(f"{namespace}-cart")),
    ]


@pytest.mark.parametrize("index", range(5))
def test_what_exists_is_not_created_again(api: Api, namespace: str, index: int) -> None:
    resource, thing = some_kinds(namespace)[index]
    api.create(thing)
    answer = api.send("POST", collection_of(thing), thing)
    name = thing["metadata"]["name"]
    assert answer.refusal == (409, "AlreadyExists", f'{resource} "{name}" already exists')
    plural, _, group = resource.partition(".")
    assert answer.object["details"] == {"name": name, **({"group": group} if group else {}), "kind": plural}
    assert answer.object["status"] == "Failure"


@pytest.mark.parametrize("index", range(5))
def test_an_older_version_is_not_written_over_a_newer(api: Api, namespace: str, index: int) -> None:
    resource, thing = some_kinds(namespace)[index]
    old = api.create(thing)
    newer = api.patch(old, {"metadata": {"labels": {"tier": "front"}}})
    name = thing["metadata"]["name"]
    for path in (path_of(old), *([f"{path_of(old)}/status"] if resource in {"services", "pods", "nodes"} else [])):
        answer = api.send("PUT", path, old)
        assert answer.refusal == (
            409,
            "Conflict",
            f'Operation cannot be fulfilled on {resource} "{name}": {MODIFIED}',
        )
    assert api.read(old) == newer


def test_services_and_leases_are_replaced_without_a_version_others_not(api: Api, namespace: str) -> None:
    found = {}
    for resource, thing in some_kinds(namespace):
        api.create(thing)
        found[resource] = api.send("PUT", path_of(thing), thing).code
    assert found == {
        "services": 200,
        "pods": 200,
        "endpointslices.discovery.k8s.io": 200,
        "leases.coordination.k8s.io": 422,
        "nodes": 200,
    }


def test_a_lease_must_say_which_version_it_replaces(api: Api, namespace: str) -> None:
    lease = a_lease("lease", namespace=namespace)
    api.create(lease)
    answer = api.send("PUT", path_of(lease), lease)
    problem = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    assert answer.refusal == (422, "Invalid", f'leases.coordination.k8s.io "lease" is invalid: {problem}')


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
def test_a_patch_that_names_an_older_version_is_refused(api: Api, namespace: str, content_type: str) -> None:
    old = api.create(a_lease("lease", namespace=namespace))
    api.patch(old, {"spec": {"holderIdentity": "you"}})
    patch = {
        "metadata": {"resourceVersion": old["metadata"]["resourceVersion"]},
        "spec": {"holderIdentity": "third"},
    }
    answer = api.send("PATCH", path_of(old), patch, content_type=content_type)
    assert answer.refusal == (
        409,
        "Conflict",
        f'Operation cannot be fulfilled on leases.coordination.k8s.io "lease": {MODIFIED}',
    )


def test_the_object_of_another_uid_is_not_replaced(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace))
    other = lease | {"metadata": lease["metadata"] | {"uid": "other"}}
    answer = api.send("PUT", path_of(lease), other)
    assert answer.refusal[:2] == (409, "Conflict")
    problem = f"Precondition failed: UID in precondition: other, UID in object meta: {lease['metadata']['uid']}"
    assert answer.refusal[2].endswith(problem)


def test_a_patch_for_another_uid_is_refused(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace))
    answer = api.send("PATCH", path_of(lease), {"metadata": {"uid": "other"}}, content_type=MERGE_PATCH)
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.causes[0] == ("metadata.uid", 'Invalid value: "other": field is immutable')


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "uid",
            (
                "the UID in the precondition (1) does not match the UID in record ({}). "
                "The object might have been deleted and then recreated"
            ),
        ),
        (
            "resourceVersion",
            (
                "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({}). "
                "The object might have been modified"
            ),
        ),
    ],
)
def test_another_object_than_the_one_meant_is_not_deleted(api: Api, namespace: str, name: str, problem: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace))
    answer = api.send("DELETE", path_of(lease), {"preconditions": {name: "1"}})
    told = f'Operation cannot be fulfilled on Lease.coordination.k8s.io "lease": {problem}'
    assert answer.refusal == (409, "Conflict", told.format(lease["metadata"][name]))
    assert api.read(lease) == lease
