"""The answers themselves: codes, headers and forms, whatever they are about."""

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


# --- who asks ---------------------------------------------------------------------------------------------------------


@contextmanager
def somebody(api: Api, *, token: str) -> Iterator[Api]:
    """Who knows where the server is, and nothing else: an address may hold a secret."""
    parts = urlsplit(api.address)
    user = Api(f"{parts.scheme}://{parts.netloc}", token, api.authority)
    yield user
    user.close()


def test_a_wrong_token_is_nobodys(api: Api) -> None:
    with somebody(api, token="wrong") as stranger:
        for path in (SERVICES, "/api", "/version"):
            answer = stranger.send("GET", path)
            assert answer.refusal == (401, "Unauthorized", "Unauthorized")
            assert answer.object["kind"] == "Status"


def test_nobody_may_do_nothing(api: Api) -> None:
    """Without a token: not known (401), or known as anonymous, who has no rights (403)."""
    with somebody(api, token="") as nobody:
        for method, path in (("GET", SERVICES), ("POST", SERVICES), ("GET", "/api")):
            answer = nobody.send(method, path, a_service("cart") if method == "POST" else None)
            assert (answer.code, answer.object["kind"]) in {(401, "Status"), (403, "Status")}


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
def test_health_checks_need_no_token(api: Api, path: str) -> None:
    with somebody(api, token="") as nobody:
        for each in (api, nobody):
            answer = each.send("GET", path)
            assert (answer.code, answer.body) == (200, b"ok")
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"


# --- paths and methods ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/nothing", "/apis/nothing.example/v1", "/apis/nothing.example/v1/nothings"])
def test_a_path_outside_of_the_api_is_not_found(api: Api, path: str) -> None:
    answer = api.send("GET", path)
    assert (answer.code, answer.body) == (404, b"404 page not found\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nothings",
        "/api/v1/namespaces/default/nothings",
        "/api/v1/namespaces/default/nothings/x",
        "/api/v1/namespaces/default/pods/x/nothing",
        "/api/v1/namespaces/default/nodes",
        "/apis/discovery.k8s.io/v1/nothings",
        "/api/v9/pods",
    ],
)
def test_a_resource_that_is_not_is_not_found(api: Api, path: str) -> None:
    answer = api.send("GET", path)
    assert answer.refusal == NOT_FOUND
    assert answer.headers["content-type"] == "application/json"
    assert answer.object["details"] == {}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", SERVICES),
        ("PATCH", SERVICES),
        ("POST", f"{SERVICES}/cart"),
        ("DELETE", "/api/v1/namespaces"),
        ("POST", "/api/v1/services"),
        ("DELETE", "/api/v1/services"),
        ("OPTIONS", SERVICES),
        ("POST", "/version"),
    ],
)
def test_a_method_that_does_not_fit_is_not_allowed(api: Api, method: str, path: str) -> None:
    assert api.send(method, path, {} if method in {"PUT", "POST", "PATCH"} else None).refusal == NOT_ALLOWED


# --- what is asked for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "accept",
    ["*/*", "", "application/json", "text/html,application/json;q=0.5", "application/nothing, */*;q=0.1"],
)
def test_json_is_for_all_who_take_it(api: Api, accept: str) -> None:
    answer = api.send("GET", SERVICES, headers={"Accept": accept})
    assert (answer.code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.object["kind"] == "ServiceList"


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "image/*"])
def test_who_takes_nothing_that_there_is_gets_nothing(api: Api, accept: str) -> None:
    answer = api.send("GET", SERVICES, headers={"Accept": accept})
    assert answer.refusal[:2] == (406, "NotAcceptable")
    assert "application/json" in answer.refusal[2]
    assert answer.headers["content-type"] == "application/json"


def test_a_form_that_is_not_is_not_acceptable(api: Api) -> None:
    answer = api.send("GET", SERVICES, headers={"Accept": "application/json;as=Nothing;v=v1;g=meta.k8s.io"})
    assert answer.refusal[:2] == (406, "NotAcceptable")
    assert answer.refusal[2].startswith("only the following media types are accepted: application/json")


# --- what is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", [b'{"a":', b"", b"[]", b'"x"', b"nonsense", b'{"kind":"Service","apiVersion":"v1"} x', b"kind: Service"]
)
def test_a_body_that_is_no_object_is_a_bad_request(api: Api, body: bytes) -> None:
    assert api.send("POST", SERVICES, body).refusal[:2] == (400, "BadRequest")


def test_a_body_of_another_form_is_refused(api: Api) -> None:
    answer = api.send("POST", SERVICES, a_service("cart"), content_type="text/plain")
    assert answer.refusal[:2] == (415, "UnsupportedMediaType")
    start = "the body of the request was in an unknown format - accepted media types include: application/json"
    assert answer.refusal[2].startswith(start)


@pytest.mark.parametrize("content_type", ["", "application/json; charset=utf-8"])
def test_a_body_is_json_if_nothing_else_is_said(api: Api, content_type: str) -> None:
    answer = api.send("POST", SERVICES, a_service("cart"), content_type=content_type, query={"dryRun": "All"})
    assert answer.code == 201


def test_any_text_comes_back_as_it_was(api: Api, namespace: str) -> None:
    text = '\u00e9 \U0001f600 \u2028 <&> " \\ \n \t \x00'
    lease = with_field(a_lease("lease", namespace=namespace), "metadata.annotations", {"a": text})
    api.create(lease)
    assert api.read(lease)["metadata"]["annotations"] == {"a": text}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_a_body_that_is_too_long_is_refused(api: Api, namespace: str, method: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace))
    body = with_field(a_lease("lease", namespace=namespace), "metadata.annotations", {"a": "x" * LIMIT})
    path = collection_of(lease) if method == "POST" else path_of(lease)
    content_type = MERGE_PATCH if method == "PATCH" else "application/json"
    answer = api.send(method, path, body, content_type=content_type)
    assert answer.refusal == (413, "RequestEntityTooLarge", f"Request entity too large: limit is {LIMIT}")


def test_a_refusal_has_the_form_of_all_answers(api: Api) -> None:
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
