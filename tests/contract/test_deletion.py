"""Deletion: immediate and delayed, of dependents, and its answers."""

import time
from collections.abc import Callable

import pytest
from tests.builders.objects import a_bare_pod, a_lease, a_namespace, a_node, a_pod, a_service, with_field
from tests.contract.api import MERGE_PATCH, Api, Object, collection_of, path_of
from tests.contract.kinds import KINDS, new
from tests.patience import PATIENCE

FINALIZER = "zoneward.example/wait"


def until(met: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < limit, "not in time"
        time.sleep(0.02)


def exists(api: Api, obj: Object) -> bool:
    return api.send("GET", path_of(obj)).code == 200


def with_finalizer(obj: Object) -> Object:
    return with_field(obj, "metadata.finalizers", [FINALIZER])


def without_finalizers(api: Api, obj: Object) -> None:
    api.patch(obj, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_is_a_status(api: Api, namespace: str, kind: str) -> None:
    created = api.create(new(kind, namespace))
    answer = api.send("DELETE", path_of(created))
    assert answer.code == 200
    if kind in {"Service", "Pod", "Namespace"}:
        # A real server answers with the object.
        assert answer.object["kind"] in ("Status", kind)
        return
    group, _, _ = created["apiVersion"].rpartition("/")
    details = {
        "name": created["metadata"]["name"],
        "kind": collection_of(created).rpartition("/")[2],
        "uid": created["metadata"]["uid"],
    }
    assert answer.object == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details | ({"group": group} if group else {}),
    }


@pytest.fixture
def running(api: Api, namespace: str) -> Object:
    """A pod on a node, where a kubelet would have to confirm its end."""
    api.create(a_node(node := f"{namespace}-node"))
    pod = a_pod("it", node=node, ips=["10.1.0.1"], namespace=namespace)
    return api.create(with_field(pod, "spec.terminationGracePeriodSeconds", 30))


@pytest.mark.parametrize(
    ("body", "query", "grace"),
    [(None, {}, 30), ({"gracePeriodSeconds": 5}, {}, 5), (None, {"gracePeriodSeconds": "5"}, 5)],
)
def test_running_pod_is_deleted_after_its_grace_period(
    api: Api, running: Object, body: Object | None, query: dict[str, str], grace: int
) -> None:
    answer = api.send("DELETE", path_of(running), body, query=query)
    pod = api.read(running)
    assert (answer.code, answer.object) == (200, pod)
    assert pod["metadata"]["deletionGracePeriodSeconds"] == grace
    assert pod["metadata"]["deletionTimestamp"] > pod["metadata"]["creationTimestamp"]


def test_pod_without_a_node_is_deleted_at_once(api: Api, namespace: str, running: Object) -> None:
    bare = api.create(a_bare_pod("bare", namespace=namespace))
    api.patch(running, {"status": {"phase": "Succeeded"}}, subresource="status")
    for pod in (bare, running):
        api.request("DELETE", path_of(pod))
        assert not exists(api, pod)


def test_watches_see_a_pod_end(api: Api, running: Object) -> None:
    query = {"resourceVersion": running["metadata"]["resourceVersion"], "fieldSelector": "metadata.name=it"}
    with api.watch(collection_of(running), query) as watch:
        api.request("DELETE", path_of(running))
        api.request("DELETE", path_of(running), {"gracePeriodSeconds": 0})
        events = [watch.next()]
        while events[-1]["type"] != "DELETED":
            events.append(watch.next())
    assert [event["type"] for event in events[:-1]] == ["MODIFIED"] * (len(events) - 1)
    # The second request may be seen by itself.
    seconds = [event["object"]["metadata"]["deletionGracePeriodSeconds"] for event in events]
    assert (seconds[0], set(seconds[1:])) == (30, {0})


def test_an_object_waits_for_its_finalizers(api: Api, namespace: str) -> None:
    lease = api.create(with_finalizer(a_lease("it", namespace=namespace)))
    answer = api.send("DELETE", path_of(lease))
    waiting = api.read(lease)
    assert (answer.code, answer.object) == (200, waiting)
    assert waiting["metadata"]["deletionGracePeriodSeconds"] == 0
    # Until then its name is taken, and it can change.
    answer = api.send("POST", collection_of(lease), a_lease("it", namespace=namespace))
    message = 'object is being deleted: leases.coordination.k8s.io "it" already exists'
    assert answer.refusal == (409, "AlreadyExists", message)
    assert api.patch(lease, {"spec": {"holderIdentity": "you"}})["spec"]["holderIdentity"] == "you"
    without_finalizers(api, lease)
    assert not exists(api, lease)


def test_a_selection_is_deleted(api: Api, namespace: str, leases: str) -> None:
    for name, tier in (("a", "front"), ("b", "back"), ("c", "front")):
        api.create(a_lease(name, namespace=namespace, labels={"tier": tier}))
    for query, deleted, left in (
        ({"labelSelector": "tier=front"}, ["a", "c"], ["b"]),
        ({"fieldSelector": "metadata.name!=b"}, [], ["b"]),
        ({}, ["b"], []),
    ):
        answer = api.request("DELETE", leases, query=query)
        assert answer["kind"] == "LeaseList"
        assert sorted(lease["metadata"]["name"] for lease in answer["items"]) == deleted
        assert [lease["metadata"]["name"] for lease in api.get(leases)["items"]] == left


def owned_by(owner: Object, obj: Object) -> Object:
    metadata = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    return with_field(obj, "metadata.ownerReferences", [reference | {"uid": metadata["uid"]}])


@pytest.mark.parametrize("options", [{}, {"propagationPolicy": "Background"}])
def test_dependents_are_deleted_with_their_owner(api: Api, namespace: str, options: Object) -> None:
    owner = api.create(a_lease("owner", namespace=namespace))
    child = api.create(owned_by(owner, a_lease("child", namespace=namespace)))
    api.request("DELETE", path_of(owner), options)
    assert not exists(api, owner)
    until(lambda: not exists(api, child))


def test_dependent_of_two_owners_is_kept_with_the_other(api: Api, namespace: str) -> None:
    first, second = (api.create(a_lease(name, namespace=namespace)) for name in ("first", "second"))
    child = owned_by(first, a_lease("child", namespace=namespace))
    other = owned_by(second, a_lease("child", namespace=namespace))["metadata"]["ownerReferences"]
    child["metadata"]["ownerReferences"] += other
    api.create(child)
    api.delete(first)
    until(lambda: len(api.read(child)["metadata"]["ownerReferences"]) == 1)
    api.delete(second)
    until(lambda: not exists(api, child))


def test_deleting_a_namespace_deletes_its_content(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("it", namespace=namespace))
    service = api.create(a_service("it", namespace=namespace))
    answer = api.send("DELETE", path_of(a_namespace(namespace)))
    assert answer.object["status"] == {"phase": "Terminating"}
    until(lambda: not exists(api, a_namespace(namespace)))
    assert not exists(api, lease)
    assert not exists(api, service)


def test_terminating_namespace_refuses_new_objects(api: Api, namespace: str) -> None:
    lease = api.create(with_finalizer(a_lease("it", namespace=namespace)))
    api.request("DELETE", path_of(a_namespace(namespace)))
    answer = api.send("POST", collection_of(lease), a_lease("new", namespace=namespace))
    problem = f"unable to create new content in namespace {namespace} because it is being terminated"
    message = f'leases.coordination.k8s.io "new" is forbidden: {problem}'
    assert answer.refusal == (403, "Forbidden", message)
    [cause] = answer.object["details"]["causes"]
    assert cause == {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    # Existing objects may change, so that their finalizers can be removed.
    until(lambda: "deletionTimestamp" in api.read(lease)["metadata"])
    without_finalizers(api, lease)
    assert not exists(api, lease)


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_built_in_namespaces_cannot_be_deleted(api: Api, name: str) -> None:
    answer = api.send("DELETE", f"/api/v1/namespaces/{name}")
    message = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert answer.refusal == (403, "Forbidden", message)
