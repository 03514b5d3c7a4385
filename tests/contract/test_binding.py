"""A scheduler says where a pod runs."""

import time

import pytest
from tests.contract.api import Api, Object, path_of
from tests.contract.objects import ZONE, a_bare_node, a_bare_pod

REGION = "topology.kubernetes.io/region"


def a_binding(name: str, node: str, **metadata: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name} | metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


@pytest.fixture
def pod(api: Api, namespace: str) -> Object:
    return api.create(a_bare_pod("cart", namespace=namespace, labels={"app": "cart"}))


def wait_for_admission(api: Api, namespace: str, node: str) -> None:
    """Until a Pod there would get the Node's labels: a server learns of its Nodes by a watch of its own."""
    pod = a_bare_pod("would-be", namespace=namespace)
    pod["spec"]["nodeName"] = node
    for _ in range(100):
        created = api.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod, query={"dryRun": "All"})
        if ZONE in (created["metadata"].get("labels") or {}):
            return
        time.sleep(0.05)


def test_a_pod_is_put_on_a_node(api: Api, namespace: str, pod: Object) -> None:
    node = api.create(a_bare_node(f"{namespace}-node", labels={ZONE: "a", REGION: "r"}))["metadata"]["name"]
    wait_for_admission(api, namespace, node)
    binding = a_binding("cart", node, labels={"bound": "yes"}, annotations={"by": "tests"})
    answer = api.send("POST", path_of(pod, "binding"), binding)
    success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    assert (answer.code, answer.object) == (201, success)
    bound = api.read(pod)
    assert bound["spec"] == pod["spec"] | {"nodeName": node}
    labels = {"app": "cart", "bound": "yes", ZONE: "a", REGION: "r"}
    assert (bound["metadata"]["labels"], bound["metadata"]["annotations"]) == (labels, {"by": "tests"})
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    for field in ("uid", "generation"):
        assert bound["metadata"][field] == pod["metadata"][field]
    assert bound["metadata"]["resourceVersion"] != pod["metadata"]["resourceVersion"]


def test_a_watch_is_told_of_it(api: Api, namespace: str, pod: Object) -> None:
    query = {"resourceVersion": pod["metadata"]["resourceVersion"], "fieldSelector": "spec.nodeName=nowhere"}
    with api.watch(f"/api/v1/namespaces/{namespace}/pods", query) as watch:
        api.request("POST", path_of(pod, "binding"), a_binding("cart", "nowhere"))
        assert watch.take(1) == [("ADDED", "cart")]


def test_a_dry_run_binds_nobody(api: Api, pod: Object) -> None:
    answer = api.send("POST", path_of(pod, "binding"), a_binding("cart", "nowhere"), query={"dryRun": "All"})
    assert (answer.code, answer.object["status"]) == (201, "Success")
    assert api.read(pod) == pod


def test_a_pod_is_bound_once(api: Api, pod: Object) -> None:
    api.request("POST", path_of(pod, "binding"), a_binding("cart", "first"))
    answer = api.send("POST", path_of(pod, "binding"), a_binding("cart", "second"))
    problem = 'pod cart is already assigned to node "first"'
    message = f'Operation cannot be fulfilled on pods/binding "cart": {problem}'
    assert answer.refusal == (409, "Conflict", message)
    assert answer.object["details"] == {"name": "cart", "kind": "pods/binding"}


NOT_THE_NAME = "name in URL does not match name in Binding object"
NOT_THE_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"


@pytest.mark.parametrize(
    ("posted", "refusal"),
    [
        pytest.param(a_binding("other", "n"), (400, "BadRequest", NOT_THE_NAME), id="another name"),
        pytest.param({"target": {"name": "n"}}, (400, "BadRequest", NOT_THE_NAME), id="no name"),
        pytest.param(
            a_binding("cart", "n", namespace="other"), (400, "BadRequest", NOT_THE_NAMESPACE), id="another namespace"
        ),
    ],
)
def test_what_is_no_binding_of_the_pod_is_refused(
    api: Api, pod: Object, posted: Object, refusal: tuple[int, str, str]
) -> None:
    assert api.send("POST", path_of(pod, "binding"), posted).refusal == refusal
    assert api.read(pod) == pod


def test_a_pod_that_is_not_there_is_not_found(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/nobody/binding"
    answer = api.send("POST", path, a_binding("nobody", "nowhere"))
    assert answer.refusal == (404, "NotFound", 'pods "nobody" not found')


@pytest.mark.parametrize("validation", ["Warn", "Strict"])
def test_fields_that_a_binding_has_not_are_told(api: Api, pod: Object, validation: str) -> None:
    posted = a_binding("cart", "nowhere") | {"spec": {}}
    answer = api.send("POST", path_of(pod, "binding"), posted, query={"fieldValidation": validation})
    if validation == "Warn":
        assert (answer.code, answer.warnings) == (201, ('unknown field "spec"',))
    else:
        assert answer.code == 400
        assert answer.object["message"].endswith('strict decoding error: unknown field "spec"')


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_a_binding_is_only_posted(api: Api, pod: Object, method: str) -> None:
    answer = api.send(method, path_of(pod, "binding"), a_binding("cart", "nowhere"))
    assert (answer.code, answer.object["reason"]) == (405, "MethodNotAllowed")


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
def test_a_namespace_is_only_put_to_be_finalized(api: Api, namespace: str, method: str) -> None:
    answer = api.send(method, f"/api/v1/namespaces/{namespace}/finalize", {})
    assert (answer.code, answer.object["reason"]) == (405, "MethodNotAllowed")


def test_the_subresource_is_listed(api: Api) -> None:
    listed = {each["name"]: each for each in api.get("/api/v1")["resources"]}
    assert listed["pods/binding"] == {
        "name": "pods/binding",
        "singularName": "",
        "namespaced": True,
        "kind": "Binding",
        "verbs": ["create"],
    }


def test_the_subresource_is_listed_with_all_others(api: Api) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    (core,) = api.send("GET", "/api", headers={"Accept": accept}).object["items"]
    (pods,) = (each for each in core["versions"][0]["resources"] if each["resource"] == "pods")
    (binding,) = (each for each in pods["subresources"] if each["subresource"] == "binding")
    kind = {"group": "", "version": "", "kind": "Binding"}
    assert binding == {"subresource": "binding", "responseKind": kind, "verbs": ["create"]}
