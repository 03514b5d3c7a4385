"""What holds for every request: who may ask, which paths, methods and forms there are, and what clients discover."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from tests.builders.objects import a_lease, a_service, with_field
from tests.contract.api import MERGE_PATCH, Api, collection_of, path_of

SERVICES = "/api/v1/namespaces/default/services"
NOT_ALLOWED = (405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
NOT_FOUND = (404, "NotFound", "the server could not find the requested resource")
LIMIT = 3 * 1024 * 1024
"""Bytes that a body may have."""


@contextmanager
def somebody(api: Api, *, token: str) -> Iterator[Api]:
    """Who knows where the server is, and nothing else: an address may hold a secret."""
    parts = urlsplit(api.address)
    user = Api(f"{parts.scheme}://{parts.netloc}", token, api.authority)
    yield user
    user.close()


def test_only_clients_with_the_token_get_answers(api: Api) -> None:
    with somebody(api, token="wrong") as stranger, somebody(api, token="") as nobody:
        for method, path in (("GET", SERVICES), ("POST", SERVICES), ("GET", "/api"), ("GET", "/version")):
            body = a_service("cart") if method == "POST" else None
            assert stranger.send(method, path, body).refusal == (401, "Unauthorized", "Unauthorized")
            # Without a token: not known, or known as anonymous, who has no permissions.
            if path != "/version":
                assert nobody.send(method, path, body).code in {401, 403}


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
def test_health_checks_need_no_token(api: Api, path: str) -> None:
    with somebody(api, token="") as nobody:
        for client in (api, nobody):
            answer = client.send("GET", path)
            assert (answer.code, answer.body) == (200, b"ok")


@pytest.mark.parametrize("path", ["/nothing", "/apis/nothing.example/v1", "/apis/nothing.example/v1/nothings"])
def test_a_path_outside_of_the_api_is_not_found(api: Api, path: str) -> None:
    answer = api.send("GET", path)
    assert (answer.code, answer.body) == (404, b"404 page not found\n")


@pytest.mark.parametrize(
    ("method", "path", "refusal"),
    [
        ("GET", "/api/v1/nothings", NOT_FOUND),
        ("GET", "/api/v1/namespaces/default/nothings/x", NOT_FOUND),
        ("GET", "/api/v1/namespaces/default/pods/x/nothing", NOT_FOUND),
        ("GET", "/api/v1/namespaces/default/nodes", NOT_FOUND),
        ("GET", "/apis/discovery.k8s.io/v1/nothings", NOT_FOUND),
        ("GET", "/api/v9/pods", NOT_FOUND),
        ("PUT", SERVICES, NOT_ALLOWED),
        ("PATCH", SERVICES, NOT_ALLOWED),
        ("POST", f"{SERVICES}/cart", NOT_ALLOWED),
        ("DELETE", "/api/v1/namespaces", NOT_ALLOWED),
        ("POST", "/api/v1/services", NOT_ALLOWED),
    ],
)
def test_unknown_resource_or_method_is_refused(api: Api, method: str, path: str, refusal: tuple[int, str, str]) -> None:
    assert api.send(method, path, {} if method in {"PUT", "POST", "PATCH"} else None).refusal == refusal


def test_a_refusal_is_a_status(api: Api) -> None:
    answer = api.send("GET", f"{SERVICES}/nothing")
    assert list(answer.object.items()) == [
        ("kind", "Status"),
        ("apiVersion", "v1"),
        ("metadata", {}),
        ("status", "Failure"),
        ("message", 'services "nothing" not found'),
        ("reason", "NotFound"),
        ("details", {"name": "nothing", "kind": "services"}),
        ("code", 404),
    ]
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("accept", "code"),
    [
        ("*/*", 200),
        ("", 200),
        ("text/html,application/json;q=0.5", 200),
        ("application/nothing, */*;q=0.1", 200),
        ("text/html", 406),
        ("application/json;as=Nothing;v=v1;g=meta.k8s.io", 406),
    ],
)
def test_clients_get_json_or_nothing(api: Api, accept: str, code: int) -> None:
    answer = api.send("GET", SERVICES, headers={"Accept": accept})
    assert (answer.code, answer.headers["content-type"]) == (code, "application/json")
    if code == 406:
        assert answer.refusal[1] == "NotAcceptable"
        assert "application/json" in answer.refusal[2]


@pytest.mark.parametrize("body", [b'{"a":', b"", b"[]", b'"x"', b'{"kind":"Service","apiVersion":"v1"} x'])
def test_a_body_that_is_no_object_is_a_bad_request(api: Api, body: bytes) -> None:
    assert api.send("POST", SERVICES, body).refusal[:2] == (400, "BadRequest")


def test_a_body_is_json_unless_it_says_otherwise(api: Api, namespace: str) -> None:
    lease = a_lease("lease", namespace=namespace)
    path = collection_of(lease)
    answer = api.send("POST", path, lease, content_type="text/plain")
    assert answer.refusal[:2] == (415, "UnsupportedMediaType")
    for name, content_type in (("a", ""), ("b", "application/json; charset=utf-8")):
        assert api.send("POST", path, with_field(lease, "metadata.name", name), content_type=content_type).code == 201


def test_any_text_round_trips(api: Api, namespace: str) -> None:
    text = '\u00e9 \U0001f600 \u2028 <&> " \\ \n \t \x00'
    lease = api.create(with_field(a_lease("lease", namespace=namespace), "metadata.annotations", {"a": text}))
    assert api.read(lease)["metadata"]["annotations"] == {"a": text}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_a_body_that_is_too_long_is_refused(api: Api, namespace: str, method: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace))
    body = with_field(a_lease("lease", namespace=namespace), "metadata.annotations", {"a": "x" * LIMIT})
    path = collection_of(lease) if method == "POST" else path_of(lease)
    answer = api.send(method, path, body, content_type=MERGE_PATCH if method == "PATCH" else "application/json")
    assert answer.refusal == (413, "RequestEntityTooLarge", f"Request entity too large: limit is {LIMIT}")


def test_groups_are_listed_with_their_versions(api: Api) -> None:
    listed = api.get("/apis")
    assert (listed["kind"], listed["apiVersion"]) == ("APIGroupList", "v1")
    groups = {group["name"]: group for group in listed["groups"]}
    for name in ("coordination.k8s.io", "discovery.k8s.io", "events.k8s.io"):
        version = {"groupVersion": f"{name}/v1", "version": "v1"}
        assert groups[name] == {"name": name, "versions": [version], "preferredVersion": version}


@pytest.mark.parametrize(
    ("path", "plural", "kind", "short", "has_status"),
    [
        ("/api/v1", "endpoints", "Endpoints", ["ep"], False),
        ("/api/v1", "events", "Event", ["ev"], False),
        ("/api/v1", "namespaces", "Namespace", ["ns"], True),
        ("/api/v1", "nodes", "Node", ["no"], True),
        ("/api/v1", "pods", "Pod", ["po"], True),
        ("/api/v1", "services", "Service", ["svc"], True),
        ("/apis/coordination.k8s.io/v1", "leases", "Lease", None, False),
        ("/apis/discovery.k8s.io/v1", "endpointslices", "EndpointSlice", None, False),
        ("/apis/events.k8s.io/v1", "events", "Event", ["ev"], False),
    ],
)
def test_a_kind_has_its_names_and_verbs(
    api: Api, path: str, plural: str, kind: str, short: list[str] | None, has_status: bool
) -> None:
    resources = {resource_["name"]: resource_ for resource_ in api.get(path)["resources"]}
    resource = resources[plural]
    assert (resource["kind"], resource["singularName"], resource.get("shortNames")) == (kind, kind.lower(), short)
    assert resource["namespaced"] == (plural not in {"namespaces", "nodes"})
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(resource["verbs"])
    # Namespaces cannot be deleted many at a time.
    assert ("deletecollection" in resource["verbs"]) == (plural != "namespaces")
    assert (f"{plural}/status" in resources) == has_status


def test_the_version_is_one_that_clients_can_compare(api: Api) -> None:
    version = api.get("/version")
    assert version["major"] == "1"
    assert version["gitVersion"].startswith(f"v1.{api.minor}.")
