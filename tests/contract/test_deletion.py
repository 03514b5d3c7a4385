"""Deletion: what goes at once, what waits, what follows, and what the answer is."""

import time
from collections.abc import Callable

import pytest
from tests.builders.objects import (
    a_bare_node,
    a_bare_pod,
    a_lease,
    a_namespace,
    a_node,
    a_pod,
    a_service,
    a_slice,
    an_event,
    with_field,
)
from tests.contract.api import MERGE_PATCH, Api, Object, collection_of, path_of

FINALIZER = "zoneward.example/wait"
PATIENCE = 20.0
"""Seconds that controllers may take: the collector of a real control plane needs one or two."""


def until(met: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < limit, "not in time"
        time.sleep(0.02)


def exists(api: Api, thing: Object) -> bool:
    return api.send("GET", path_of(thing)).code == 200


def with_finalizer(thing: Object) -> Object:
    return with_field(thing, "metadata.finalizers", [FINALIZER])


def without_finalizers(api: Api, thing: Object) -> None:
    api.patch(thing, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)


# --- answers ----------------------------------------------------------------------------------------------------------


def test_the_answer_is_a_status_for_most_kinds(api: Api, namespace: str) -> None:
    for thing, group, plural in (
        (a_lease("it", namespace=namespace), "coordination.k8s.io", "leases"),
        (an_event("it", namespace=namespace), "events.k8s.io", "events"),
        (
            a_slice("it", service="cart", addresses=["10.0.0.1"], namespace=namespace),
            "discovery.k8s.io",
            "endpointslices",
        ),
        (a_bare_node(f"{namespace}-it"), "", "nodes"),
    ):
        created = api.create(thing)
        details = {"name": thing["metadata"]["name"], "kind": plural, "uid": created["metadata"]["uid"]}
        assert api.send("DELETE", path_of(thing)).object == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details | ({"group": group} if group else {}),
        }


def test_the_answer_is_the_object_for_some(api: Api, namespace: str) -> None:
    for thing in (
        a_service("it", namespace=namespace),
        a_bare_pod("it", namespace=namespace),
        a_namespace(f"{namespace}-it"),
    ):
        created = api.create(thing)
        answer = api.send("DELETE", path_of(thing))
        assert (answer.code, answer.object["kind"]) == (200, thing["kind"])
        assert answer.object["metadata"]["uid"] == created["metadata"]["uid"]


# --- grace ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def running(api: Api, namespace: str) -> Object:
    """A pod on a node, where a kubelet would have to confirm its end."""
    api.create(a_node(node := f"{namespace}-node"))
    pod = a_pod("it", node=node, ips=["10.1.0.1"], namespace=namespace)
    return api.create(with_field(pod, "spec.terminationGracePeriodSeconds", 30))


def test_a_running_pod_is_given_time(api: Api, running: Object) -> None:
    answer = api.send("DELETE", path_of(running))
    assert answer.code == 200
    pod = api.read(running)
    assert answer.object == pod
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert pod["metadata"]["deletionTimestamp"] > pod["metadata"]["creationTimestamp"]
    assert pod["metadata"]["generation"] == 2


@pytest.mark.parametrize("where", ["body", "query"])
def test_the_time_can_be_said(api: Api, running: Object, where: str) -> None:
    if where == "body":
        api.request("DELETE", path_of(running), {"gracePeriodSeconds": 5})
    else:
        api.request("DELETE", path_of(running), query={"gracePeriodSeconds": "5"})
    assert api.read(running)["metadata"]["deletionGracePeriodSeconds"] == 5


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_goes_at_once(api: Api, running: Object, phase: str) -> None:
    api.patch(running, {"status": {"phase": phase}}, subresource="status")
    api.request("DELETE", path_of(running))
    assert not exists(api, running)


def test_a_pod_on_no_node_goes_at_once(api: Api, namespace: str) -> None:
    pod = api.create(a_bare_pod("it", namespace=namespace))
    answer = api.send("DELETE", path_of(pod))
    assert answer.object["metadata"]["deletionGracePeriodSeconds"] == 0
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


# --- finalizers -------------------------------------------------------------------------------------------------------


def test_an_object_waits_for_its_finalizers(api: Api, namespace: str) -> None:
    lease = api.create(with_finalizer(a_lease("it", namespace=namespace)))
    answer = api.send("DELETE", path_of(lease))
    waiting = api.read(lease)
    assert (answer.code, answer.object) == (200, waiting)
    assert waiting["metadata"]["deletionGracePeriodSeconds"] == 0
    again = api.send("DELETE", path_of(lease))
    assert (again.code, again.object) == (200, waiting)
    without_finalizers(api, lease)
    assert not exists(api, lease)


def test_a_name_is_taken_until_the_object_is_gone(api: Api, namespace: str) -> None:
    lease = api.create(with_finalizer(a_lease("it", namespace=namespace)))
    api.request("DELETE", path_of(lease))
    answer = api.send("POST", collection_of(lease), a_lease("it", namespace=namespace))
    told = 'object is being deleted: leases.coordination.k8s.io "it" already exists'
    assert answer.refusal == (409, "AlreadyExists", told)
    without_finalizers(api, lease)


# --- many at once -----------------------------------------------------------------------------------------------------


def test_a_selection_is_deleted(api: Api, namespace: str) -> None:
    for name, tier in (("a", "front"), ("b", "back"), ("c", "front")):
        api.create(a_lease(name, namespace=namespace, labels={"tier": tier}))
    path = collection_of(a_lease("", namespace=namespace))
    deleted = api.request("DELETE", path, query={"labelSelector": "tier=front"})
    assert deleted["kind"] == "LeaseList"
    assert sorted(each["metadata"]["name"] for each in deleted["items"]) == ["a", "c"]
    assert [each["metadata"]["name"] for each in api.get(path)["items"]] == ["b"]
    api.request("DELETE", path, query={"fieldSelector": "metadata.name!=b"})
    assert [each["metadata"]["name"] for each in api.get(path)["items"]] == ["b"]
    api.request("DELETE", path)
    assert api.get(path)["items"] == []


def test_namespaces_are_deleted_one_by_one(api: Api) -> None:
    answer = api.send("DELETE", "/api/v1/namespaces", query={"labelSelector": "nothing=here"})
    told = "the server does not allow this method on the requested resource"
    assert answer.refusal == (405, "MethodNotAllowed", told)


# --- owners -----------------------------------------------------------------------------------------------------------


def owned_by(owner: Object, thing: Object, **more: bool) -> Object:
    metadata = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    return with_field(thing, "metadata.ownerReferences", [reference | {"uid": metadata["uid"]} | more])


@pytest.fixture
def family(api: Api, namespace: str) -> tuple[Object, Object]:
    """An owner, and a dependent that blocks its deletion in the foreground."""
    owner = api.create(a_lease("owner", namespace=namespace))
    child = api.create(owned_by(owner, a_lease("child", namespace=namespace), blockOwnerDeletion=True))
    return owner, child


@pytest.mark.parametrize("options", [{}, {"propagationPolicy": "Background"}])
def test_what_an_owner_has_follows_it(api: Api, family: tuple[Object, Object], options: Object) -> None:
    owner, child = family
    api.request("DELETE", path_of(owner), options)
    assert not exists(api, owner)
    until(lambda: not exists(api, child))


def test_who_has_two_owners_stays_with_the_other(api: Api, namespace: str) -> None:
    first, second = (api.create(a_lease(name, namespace=namespace)) for name in ("first", "second"))
    child = owned_by(first, a_lease("child", namespace=namespace))
    other = owned_by(second, a_lease("child", namespace=namespace))["metadata"]["ownerReferences"]
    child["metadata"]["ownerReferences"] += other
    api.create(child)
    api.delete(first)
    until(lambda: len(api.read(child)["metadata"]["ownerReferences"]) == 1)
    api.delete(second)
    until(lambda: not exists(api, child))


# --- namespaces -------------------------------------------------------------------------------------------------------


def test_a_namespace_takes_its_content_along(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("it", namespace=namespace))
    service = api.create(a_service("it", namespace=namespace))
    answer = api.send("DELETE", path_of(a_namespace(namespace)))
    assert answer.object["status"] == {"phase": "Terminating"}
    until(lambda: not exists(api, a_namespace(namespace)))
    assert not exists(api, lease)
    assert not exists(api, service)


def test_a_namespace_that_ends_takes_nothing_new(api: Api, namespace: str) -> None:
    lease = api.create(with_finalizer(a_lease("it", namespace=namespace)))
    api.request("DELETE", path_of(a_namespace(namespace)))
    answer = api.send("POST", collection_of(lease), a_lease("new", namespace=namespace))
    problem = f"unable to create new content in namespace {namespace} because it is being terminated"
    told = f'leases.coordination.k8s.io "new" is forbidden: {problem}'
    assert answer.refusal == (403, "Forbidden", told)
    [cause] = answer.object["details"]["causes"]
    assert cause == {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    # What is there may still change: how else would its finalizers go.
    until(lambda: "deletionTimestamp" in api.read(lease)["metadata"])
    without_finalizers(api, lease)
    assert not exists(api, lease)


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_some_namespaces_stay(api: Api, name: str) -> None:
    answer = api.send("DELETE", f"/api/v1/namespaces/{name}", query={"dryRun": "All"})
    told = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert answer.refusal == (403, "Forbidden", told)
