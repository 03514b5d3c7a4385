"""Objects as they are created, read, replaced and deleted, and what the server alone writes into them."""

import re
import time
from datetime import UTC, datetime

import pytest
from tests.builders.objects import (
    a_bare_node,
    a_bare_pod,
    a_core_event,
    a_lease,
    a_namespace,
    a_service,
    a_slice,
    an_event,
)
from tests.contract.api import MERGE_PATCH, Api, Object, collection_of, path_of

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def each_kind(namespace: str) -> list[Object]:
    """One of each; those without a namespace are named after it."""
    return [
        a_service("cart", namespace=namespace),
        a_bare_pod("pod", namespace=namespace),
        a_slice("slice", service="cart", addresses=["10.0.0.1"], namespace=namespace),
        a_lease("lease", namespace=namespace),
        a_core_event("old", namespace=namespace),
        an_event("new", namespace=namespace),
        a_bare_node(f"{namespace}-node"),
        a_namespace(f"{namespace}-more"),
    ]


def version(thing: Object) -> int:
    return int(thing["metadata"]["resourceVersion"])


def without_managers(thing: Object) -> Object:
    metadata = {name: value for name, value in thing["metadata"].items() if name != "managedFields"}
    return thing | {"metadata": metadata}


@pytest.mark.parametrize("index", range(8))
def test_what_was_created_is_what_is_read(api: Api, namespace: str, index: int) -> None:
    thing = each_kind(namespace)[index]
    answer = api.send("POST", collection_of(thing), thing)
    assert answer.code == 201
    read = api.send("GET", path_of(thing))
    assert read.code == 200
    assert read.object == answer.object
    assert (read.object["kind"], read.object["apiVersion"]) == (thing["kind"], thing["apiVersion"])


@pytest.mark.parametrize("index", range(8))
def test_what_was_read_can_be_written_again_and_changes_nothing(api: Api, namespace: str, index: int) -> None:
    api.create(each_kind(namespace)[index])
    before = api.read(each_kind(namespace)[index])
    assert api.replace(before) == before
    assert api.read(before) == before


def test_a_new_object_gets_its_own_metadata(api: Api, namespace: str) -> None:
    earlier = int(time.time())
    metadata = api.create(a_service("cart", namespace=namespace))["metadata"]
    assert UUID.fullmatch(metadata["uid"])
    created = datetime.strptime(metadata["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert earlier - 1 <= created.timestamp() <= time.time() + 1
    assert metadata["resourceVersion"].isdigit()
    assert (metadata["name"], metadata["namespace"]) == ("cart", namespace)
    assert "selfLink" not in metadata


def test_what_clients_say_of_the_servers_metadata_is_ignored(api: Api, namespace: str) -> None:
    thing = a_lease("lease", namespace=namespace)
    thing["metadata"] |= {
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "generation": 7,
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "selfLink": "/somewhere",
    }
    metadata = api.create(thing)["metadata"]
    assert UUID.fullmatch(metadata["uid"])
    assert not metadata["creationTimestamp"].startswith("2001")
    assert metadata["generation"] == 7  # of this alone clients may say what they like, where a kind does not count
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} & metadata.keys()


def test_a_new_object_must_not_have_a_version(api: Api, namespace: str) -> None:
    thing = a_lease("lease", namespace=namespace)
    thing["metadata"]["resourceVersion"] = "1"
    answer = api.send("POST", collection_of(thing), thing)
    assert answer.refusal == (500, "", "resourceVersion should not be set on objects to be created")


def test_versions_grow_over_all_kinds(api: Api, namespace: str) -> None:
    versions = [version(api.create(thing)) for thing in each_kind(namespace)]
    assert versions == sorted(set(versions))
    lease = api.create(a_lease("last", namespace=namespace))
    changed = api.patch(lease, {"spec": {"holderIdentity": "you"}})
    assert versions[-1] < version(lease) < version(changed)


def test_a_name_can_be_made_up(api: Api, namespace: str) -> None:
    thing = a_lease("", namespace=namespace)
    thing["metadata"] = {"generateName": "lease-", "namespace": namespace}
    names = [api.request("POST", collection_of(thing), thing)["metadata"] for _ in range(5)]
    for metadata in names:
        assert re.fullmatch(r"lease-[bcdfghjklmnpqrstvwxz2456789]{5}", metadata["name"])
        assert metadata["generateName"] == "lease-"
    assert len({metadata["name"] for metadata in names}) == 5


def test_the_namespace_may_be_left_to_the_path(api: Api, namespace: str) -> None:
    thing = a_lease("lease", namespace=namespace)
    collection = collection_of(thing)
    del thing["metadata"]["namespace"]
    assert api.request("POST", collection, thing)["metadata"]["namespace"] == namespace


def test_another_namespace_than_the_paths_is_refused(api: Api, namespace: str) -> None:
    thing = a_lease("lease", namespace=namespace)
    answer = api.send("POST", collection_of(thing), a_lease("lease", namespace="default"))
    assert answer.refusal == (
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    )


def test_another_name_than_the_paths_is_refused(api: Api, namespace: str) -> None:
    thing = api.create(a_lease("lease", namespace=namespace))
    other = thing | {"metadata": thing["metadata"] | {"name": "other"}}
    answer = api.send("PUT", path_of(thing), other)
    assert answer.refusal == (
        400,
        "BadRequest",
        "the name of the object (other) does not match the name on the URL (lease)",
    )


def test_a_namespace_that_is_not_gets_no_objects(api: Api, namespace: str) -> None:
    thing = a_lease("lease", namespace=f"{namespace}-none")
    answer = api.send("POST", collection_of(thing), thing)
    assert answer.refusal == (404, "NotFound", f'namespaces "{namespace}-none" not found')


@pytest.mark.parametrize("index", range(8))
def test_replacing_what_is_not_creates_some_kinds_only(api: Api, namespace: str, index: int) -> None:
    thing = each_kind(namespace)[index]
    answer = api.send("PUT", path_of(thing), thing)
    if thing["kind"] in {"Service", "Lease", "Event"}:
        assert answer.code == 201
        assert UUID.fullmatch(answer.object["metadata"]["uid"])
    else:
        assert answer.refusal[:2] == (404, "NotFound")


def test_replacing_takes_away_what_is_not_sent(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace, labels={"a": "1", "b": "2"}))
    sent = without_managers(lease) | {"spec": {}}
    sent["metadata"]["labels"] = {"b": "3"}
    changed = api.replace(sent)
    assert changed["metadata"]["labels"] == {"b": "3"}
    assert changed["spec"] == {}


def test_pods_have_a_generation_and_most_others_have_none(api: Api, namespace: str) -> None:
    generations = {thing["kind"]: api.create(thing)["metadata"].get("generation") for thing in each_kind(namespace)}
    assert generations == {
        "Pod": 1,
        "EndpointSlice": 1,
        "Service": None,
        "Lease": None,
        "Event": None,
        "Node": None,
        "Namespace": None,
    }


def test_the_generation_of_a_slice_grows_with_its_content(api: Api, namespace: str) -> None:
    slice_ = api.create(a_slice("slice", service="cart", addresses=["10.0.0.1"], namespace=namespace))
    moved = api.patch(slice_, {"endpoints": [{"addresses": ["10.0.0.2"]}]}, content_type=MERGE_PATCH)
    assert moved["metadata"]["generation"] == 2
    labelled = api.patch(slice_, {"metadata": {"labels": {"tier": "front"}}})
    assert labelled["metadata"]["generation"] == 3
    annotated = api.patch(slice_, {"metadata": {"annotations": {"note": "seen"}}})
    assert annotated["metadata"]["generation"] == 3


def test_the_generation_of_a_pod_grows_with_its_spec(api: Api, namespace: str) -> None:
    pod = api.create(a_bare_pod("pod", namespace=namespace))
    labelled = api.patch(pod, {"metadata": {"labels": {"tier": "front"}}})
    assert labelled["metadata"]["generation"] == 1
    changed = api.patch(pod, {"spec": {"containers": [{"name": "main", "image": "newer"}]}})
    assert changed["metadata"]["generation"] == 2


def test_a_new_object_of_the_same_name_is_another(api: Api, namespace: str) -> None:
    first = api.create(a_lease("lease", namespace=namespace))
    api.delete(first)
    second = api.create(a_lease("lease", namespace=namespace))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_dry_run_answers_and_does_nothing(api: Api, namespace: str, method: str) -> None:
    before = api.create(a_lease("lease", namespace=namespace))
    changed: Object = {"spec": {"holderIdentity": "you"}}
    path, body = {
        "POST": (collection_of(before), a_lease("other", namespace=namespace)),
        "PUT": (path_of(before), before | changed),
        "PATCH": (path_of(before), changed),
        "DELETE": (path_of(before), None),
    }[method]
    content_type = MERGE_PATCH if method == "PATCH" else "application/json"
    answer = api.send(method, path, body, content_type=content_type, query={"dryRun": "All"})
    assert answer.code == (201 if method == "POST" else 200)
    if method in {"PUT", "PATCH"}:
        assert answer.object["spec"] == {"holderIdentity": "you"}
        assert answer.object["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    if method == "POST":
        assert UUID.fullmatch(answer.object["metadata"]["uid"])
        assert "resourceVersion" not in answer.object["metadata"]
    assert api.get(collection_of(before))["items"] == [
        {name: value for name, value in before.items() if name not in {"kind", "apiVersion"}}
    ]
