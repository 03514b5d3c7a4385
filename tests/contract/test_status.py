"""The status has a door of its own: through it nothing else goes, and it goes through no other."""

import pytest
from tests.builders.objects import a_bare_node, a_bare_pod, a_lease, a_namespace, a_service
from tests.contract.api import MERGE_PATCH, Api, Object, collection_of, path_of

STATUS: dict[str, Object] = {
    "Service": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}},
    "Pod": {"phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}], "qosClass": "BestEffort"},
    "Node": {"allocatable": {"cpu": "4"}},
    "Namespace": {"phase": "Active", "conditions": [{"type": "Tested", "status": "True", "lastTransitionTime": None}]},
}
SPEC: dict[str, Object] = {
    "Service": {"sessionAffinity": "ClientIP"},
    "Pod": {"activeDeadlineSeconds": 5},
    "Node": {"unschedulable": True},
    "Namespace": {"finalizers": []},
}
KINDS = tuple(STATUS)


def new(kind: str, namespace: str) -> Object:
    things = {
        "Service": a_service("cart", namespace=namespace),
        "Pod": a_bare_pod("cart", namespace=namespace),
        "Node": a_bare_node(f"{namespace}-node"),
        "Namespace": a_namespace(f"{namespace}-more"),
    }
    if kind == "Service":
        things[kind]["spec"]["type"] = "LoadBalancer"
    return things[kind]


@pytest.mark.parametrize("kind", ["Service", "Pod", "Namespace"])
def test_a_new_object_has_not_the_status_that_was_sent(api: Api, namespace: str, kind: str) -> None:
    thing = new(kind, namespace)
    created = api.request("POST", collection_of(thing), thing | {"status": STATUS[kind]})
    status = created["status"]
    assert not {"ingress", "podIP", "conditions"} & {*status, *status.get("loadBalancer", {})}


def test_a_new_node_has_the_status_that_was_sent(api: Api, namespace: str) -> None:
    created = api.request("POST", "/api/v1/nodes", new("Node", namespace) | {"status": STATUS["Node"]})
    assert created["status"]["allocatable"] == {"cpu": "4"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_the_status_is_set_alone(api: Api, namespace: str, kind: str, method: str) -> None:
    before = api.create(new(kind, namespace))
    change = {"status": STATUS[kind], "spec": SPEC[kind]}
    if method == "PUT":
        after = api.replace(before | {**change, "spec": before["spec"] | SPEC[kind]}, subresource="status")
    else:
        after = api.patch(before, change, subresource="status", content_type=MERGE_PATCH)
    assert after["spec"] == before["spec"]
    assert after["status"] == before["status"] | STATUS[kind]
    assert api.read(before) == after


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_the_status_is_not_set_with_the_rest(api: Api, namespace: str, kind: str, method: str) -> None:
    before = api.create(new(kind, namespace))
    change = {"status": STATUS[kind], "metadata": {"labels": {"tier": "front"}}}
    if method == "PUT":
        labels = before["metadata"].get("labels", {}) | {"tier": "front"}
        after = api.replace(before | {**change, "metadata": before["metadata"] | {"labels": labels}})
    else:
        after = api.patch(before, change, content_type=MERGE_PATCH)
    assert after["status"] == before["status"]
    assert after["metadata"]["labels"]["tier"] == "front"


@pytest.mark.parametrize("kind", KINDS)
def test_a_status_that_does_not_change_keeps_its_version(api: Api, namespace: str, kind: str) -> None:
    before = api.create(new(kind, namespace))
    once = api.patch(before, {"status": STATUS[kind]}, subresource="status", content_type=MERGE_PATCH)
    twice = api.patch(before, {"status": STATUS[kind]}, subresource="status", content_type=MERGE_PATCH)
    assert once == twice


@pytest.mark.parametrize("kind", ["Service", "Pod", "Node"])
def test_labels_go_with_a_status_but_for_some_kinds(api: Api, namespace: str, kind: str) -> None:
    """What each kind takes along differs; this says how."""
    before = api.create(new(kind, namespace))
    patch = {"metadata": {"labels": {"tier": "front"}, "annotations": {"seen": "yes"}}}
    after = api.patch(before, patch, subresource="status")["metadata"]
    found = ("tier" in after.get("labels", {}), "seen" in after.get("annotations", {}))
    assert found == {"Service": (True, True), "Pod": (True, True), "Node": (True, True)}[kind]


def test_a_status_that_cannot_be_is_refused(api: Api, namespace: str) -> None:
    before = api.create(new("Service", namespace))
    wrong: Object = {"loadBalancer": {"ingress": [{"ip": "x"}]}}
    answer = api.send("PATCH", path_of(before, "status"), {"status": wrong}, content_type=MERGE_PATCH)
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.causes[0] == (
        "status.loadBalancer.ingress[0].ip",
        'Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    )


def test_kinds_without_status_have_no_such_path(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace))
    for method in ("GET", "PUT", "PATCH"):
        answer = api.send(method, path_of(lease, "status"), lease if method != "GET" else None)
        assert answer.refusal == (404, "NotFound", "the server could not find the requested resource")


def test_a_status_cannot_be_created_or_deleted(api: Api, namespace: str) -> None:
    pod = api.create(a_bare_pod("pod", namespace=namespace))
    for method in ("POST", "DELETE"):
        answer = api.send(method, path_of(pod, "status"), pod)
        told = "the server does not allow this method on the requested resource"
        assert answer.refusal == (405, "MethodNotAllowed", told)
