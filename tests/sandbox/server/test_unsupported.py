"""What the sandbox does not support is refused in one line, which says what to use instead."""

from collections.abc import Iterator

import pytest
from tests.contract.api import APPLY_PATCH, JSON_PATCH, Api, Object
from tests.sandbox.server.running_sandbox import run_sandbox

from zoneward.sandbox.server.persistence import new_registry

PROTOBUF = "application/vnd.kubernetes.protobuf"
ORPHAN = {"propagationPolicy": "Orphan"}
SERVICES = "/api/v1/namespaces/default/services"
SERVICE = f"{SERVICES}/kubernetes"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with run_sandbox(new_registry()) as sandbox_:
        yield sandbox_.api


@pytest.mark.parametrize(
    ("method", "path", "content_type", "accept", "query", "code", "what"),
    [
        ("PATCH", SERVICE, APPLY_PATCH, "", {}, 415, "server-side apply: use kubectl apply without --server-side"),
        ("PATCH", SERVICE, JSON_PATCH, "", {}, 415, "JSON patch: use a merge patch or a strategic merge patch"),
        ("POST", SERVICES, PROTOBUF, "", {}, 415, "bodies in protobuf: send JSON, as kubectl create -f does"),
        ("PUT", SERVICE, PROTOBUF, "", {}, 415, "bodies in protobuf: send JSON, as kubectl create -f does"),
        ("DELETE", SERVICE, PROTOBUF, "", {}, 415, "bodies in protobuf: send JSON, as kubectl create -f does"),
        ("GET", SERVICE, "", PROTOBUF, {}, 406, "answers in protobuf: accept application/json"),
        ("DELETE", SERVICE, "", "", ORPHAN, 422, "deletion in the foreground and orphans: delete in the background"),
    ],
)
def test_it_is_refused_in_one_line(
    api: Api, method: str, path: str, content_type: str, accept: str, query: dict[str, str], code: int, what: str
) -> None:
    body = b"k8s\0x" if content_type else None
    headers = {"Accept": accept} if accept else {}
    answer = api.send(method, path, body, content_type=content_type, headers=headers, query=query)
    assert (answer.code, answer.object["kind"]) == (code, "Status")
    assert answer.object["message"] == f"the sandbox does not support {what}, or use a real cluster, KWOK or kind"


def namespace_in_protobuf(name: str) -> bytes:
    """As ``kubectl create namespace`` sends it."""

    def field(tag: int, value: bytes) -> bytes:
        return bytes([tag << 3 | 2, len(value) & 0x7F | 0x80, len(value) >> 7]) + value

    metadata = field(1, name.encode()) + field(2, b"") + field(3, b"")
    return b"k8s\0" + field(1, field(1, b"v1") + field(2, b"Namespace")) + field(2, field(1, metadata) + field(2, b""))


def test_namespace_in_protobuf_is_accepted_for_kubectl(api: Api) -> None:
    for name in ("shop", "s" * 63):
        answer = api.send("POST", "/api/v1/namespaces", namespace_in_protobuf(name), content_type=PROTOBUF)
        assert (answer.code, answer.object["metadata"]["name"]) == (201, name)


def test_fields_have_no_descriptions(api: Api) -> None:
    schemas = api.get("/openapi/v3/api/v1")["components"]["schemas"]
    schema: Object = next(value for name, value in schemas.items() if name.endswith("Service"))
    assert schema["description"].startswith("The sandbox does not support descriptions of fields (kubectl explain): ")
