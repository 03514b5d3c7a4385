"""The status is written only through its subresource, which writes nothing else."""

import pytest
from tests.builders.objects import a_bare_pod, a_lease, a_service
from tests.contract.api import MERGE_PATCH, Api, Object, path_of
from tests.contract.kinds import new
from tests.contract.test_answers import NOT_ALLOWED, NOT_FOUND

CONDITION: Object = {
    "type": "example.com/Tested",
    "status": "True",
    "reason": "Tested",
    "message": "it was",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
STATUS: dict[str, Object] = {
    "Service": {"conditions": [CONDITION]},
    "Pod": {"phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}], "qosClass": "BestEffort"},
    "Node": {"allocatable": {"cpu": "4"}},
}
SPEC: dict[str, Object] = {
    "Service": {"sessionAffinity": "ClientIP"},
    "Pod": {"activeDeadlineSeconds": 5},
    "Node": {"unschedulable": True},
}


@pytest.mark.parametrize("kind", STATUS)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_each_path_writes_its_own_part(api: Api, namespace: str, kind: str, method: str) -> None:
    before = api.create(new(kind, namespace))
    change = {"status": STATUS[kind], "spec": SPEC[kind]}
    if method == "PUT":
        after = api.replace(before | {**change, "spec": before["spec"] | SPEC[kind]}, subresource="status")
    else:
        after = api.patch(before, change, subresource="status", content_type=MERGE_PATCH)
    assert after["spec"] == before["spec"]
    assert after["status"] == before["status"] | STATUS[kind]
    assert api.read(before) == after
    again = api.patch(before, {"status": STATUS[kind]}, subresource="status", content_type=MERGE_PATCH)
    assert again == after
    labels = before["metadata"].get("labels", {}) | {"tier": "front"}
    if method == "PUT":
        rest = api.replace(after | {"status": {}, "metadata": after["metadata"] | {"labels": labels}})
    else:
        patch = {"status": {"phase": None, "conditions": None}, "metadata": {"labels": labels}}
        rest = api.patch(before, patch, content_type=MERGE_PATCH)
    assert rest["status"] == after["status"]
    assert rest["metadata"]["labels"]["tier"] == "front"


@pytest.mark.parametrize(("kind", "is_kept"), [("Service", False), ("Pod", False), ("Node", True)])
def test_only_a_new_node_has_the_status_that_was_sent(api: Api, namespace: str, kind: str, is_kept: bool) -> None:
    obj = new(kind, namespace) | {"status": STATUS[kind]}
    created = api.request("POST", path_of(obj).rpartition("/")[0], obj)["status"]
    assert (created | STATUS[kind] == created) == is_kept


@pytest.mark.parametrize(
    ("type_", "ingress", "cause"),
    [
        (
            "LoadBalancer",
            {"ip": "x"},
            ("[0].ip", 'Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'),
        ),
        ("ClusterIP", {"ip": "192.0.2.1"}, ("", "Forbidden: may only be used when `spec.type` is 'LoadBalancer'")),
    ],
)
def test_a_wrong_status_is_refused(
    api: Api, namespace: str, type_: str, ingress: Object, cause: tuple[str, str]
) -> None:
    service = api.create(a_service("cart", namespace=namespace, type=type_))
    status = {"loadBalancer": {"ingress": [ingress]}}
    answer = api.send("PATCH", path_of(service, "status"), {"status": status}, content_type=MERGE_PATCH)
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.causes[0] == (f"status.loadBalancer.ingress{cause[0]}", cause[1])


def test_unknown_path_is_refused(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace))
    for method in ("GET", "PUT", "PATCH"):
        answer = api.send(method, path_of(lease, "status"), lease if method != "GET" else None)
        assert answer.refusal == NOT_FOUND
    pod = api.create(a_bare_pod("pod", namespace=namespace))
    for method in ("POST", "DELETE"):
        answer = api.send(method, path_of(pod, "status"), pod)
        assert answer.refusal == NOT_ALLOWED
