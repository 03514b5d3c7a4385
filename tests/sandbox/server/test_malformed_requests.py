"""Requests that are none, or nearly none, get an answer or an end, and nothing is written but that."""

import asyncio
import logging

import pytest
from tests.patience import PATIENCE

from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

TOKEN = b"@token@"
GET = b"GET /@token@"
HOST = b"\r\nHost: x\r\n"
AUTHORIZED = HOST + b"Authorization: Bearer @token@\r\n"
DEEP = b'{"a":' * 20_000
KINDS = (b"application/json", b"application/yaml", b"application/vnd.kubernetes.protobuf", b"\xff/\xff")
PATCHES = tuple(
    b"application/" + kind
    for kind in (b"json-patch+json", b"merge-patch+json", b"strategic-merge-patch+json", b"apply-patch+yaml")
)
BODIES = (
    *(b"", b"null", b"[]", b"\xff\xfe", b"&a [*a]", b"- - - : :", b"1e999999"),
    b"[" * 30_000,
    *(b"k8s\x00" + text for text in (b"", b"\x12", b"\x12\x04\x0a", b"\x12\xff", b"\xff" * 50)),
    b'{"metadata":{"name":"a\\ud800"}}',
    b'{"metadata":{"name":"\xff"}}',
    b'{"metadata":{"name":"a","generation":1' + b"0" * 400 + b"}}",
    b'{"metadata":{"name":"a","generation":NaN}}',
    b'{"metadata":[]}',
    b'{"metadata":{"name":"a","ownerReferences":[null],"finalizers":[null]}}',
)
CHANGES = (
    b'[{"op":"copy"}]',
    b'[{"op":"add","path":"/a~2"}]',
    b'{"metadata":' * 500 + b"{}" + b"}" * 500,
    b'{"$patch":1}',
    b'{"metadata":{"$setElementOrder/x":1}}',
)


def posted(body: bytes, kind: bytes, *, method: bytes = b"POST", name: bytes = b"") -> bytes:
    head = b"%s /@token@/api/v1/namespaces%s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n" % (method, name, kind)
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


REQUESTS = [
    b"\r\n\r\n",
    b"\x00\xff\xfe\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9" + HOST + b"\r\n",
    b"GET http://[::1 HTTP/1.1" + HOST + b"\r\n",
    b"GET //[ HTTP/1.1" + AUTHORIZED + b"\r\n",
    b"GET http://a:b@c:999999/ HTTP/1.1" + AUTHORIZED + b"\r\n",
    b"GET ?%zz HTTP/1.1" + AUTHORIZED + b"\r\n",
    b"GET /%ff%fe HTTP/1.1" + AUTHORIZED + b"\r\n",
    b"GET * HTTP/1.1" + AUTHORIZED + b"\r\n",
    b"CONNECT a:b HTTP/1.1" + AUTHORIZED + b"\r\n",
    b"OPTIONS * HTTP/1.1" + AUTHORIZED + b"\r\n",
    GET + b"/" + b"a" * 20_000 + b" HTTP/1.1" + HOST + b"\r\n",
    GET + b"/api/v1/services?limit=%00&continue=%ff HTTP/1.1" + HOST + b"\r\n",
    GET + b"/api/v1/services?limit=" + b"9" * 5_000 + b" HTTP/1.1" + HOST + b"\r\n",
    GET + b"/api/v1/services?continue=" + b"e30" + b" HTTP/1.1" + HOST + b"\r\n",
    GET + b"/api/v1/services?watch=1&resourceVersion=" + b"9" * 5_000 + b" HTTP/1.1" + HOST + b"\r\n",
    GET + b"/api/v1/services?watch=1&timeoutSeconds=1e9 HTTP/1.1" + HOST + b"\r\n",
    GET + b"/api/v1/services?watch=1&timeoutSeconds=" + b"9" * 400 + b" HTTP/1.1" + HOST + b"\r\n",
    GET + b"/api/v1/services?labelSelector=((( HTTP/1.1" + HOST + b"\r\n",
    GET + b"/api/v1/services?fieldSelector=a%3D%3D%3Db HTTP/1.1" + HOST + b"\r\n",
    GET + b"/api/v1/services HTTP/1.1" + HOST + b"Accept: " + b"\xff" * 10 + b"\r\n\r\n",
    GET + b"/api/v1/services HTTP/1.1" + HOST + b"A" * 20_000 + b": x\r\n\r\n",
    GET + b"/api/v1/services HTTP/1.1" + HOST + b"bad header\r\n\r\n",
    b"POST /@token@/api/v1/namespaces HTTP/1.1" + HOST + b"Content-Length: -1\r\n\r\n",
    b"POST /@token@/api/v1/namespaces HTTP/1.1" + HOST + b"Content-Length: 9999\r\n\r\n{",
    b"POST /@token@/api/v1/namespaces HTTP/1.1" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /@token@/api/v1/namespaces HTTP/1.1" + HOST + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
    b"POST /@token@/api/v1/namespaces HTTP/1.1" + HOST + b"Content-Encoding: br\r\nContent-Length: 4\r\n\r\nabcd",
    *(posted(body, kind) for kind in KINDS for body in (*BODIES, DEEP)),
    *(posted(body, kind, method=b"PATCH", name=b"/default") for kind in PATCHES for body in (*BODIES, *CHANGES)),
]


def test_malformed_request_is_answered_or_closed_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> list[bytes]:
        answers = []
        async with SandboxServer(new_registry()) as serving:
            for request in REQUESTS:
                host, _, port = serving.authority.rpartition(":")
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(request.replace(TOKEN, serving.token.encode()))
                writer.write_eof()
                # An earlier watch continues.
                async with asyncio.timeout(PATIENCE):
                    answers.append(await reader.readline())
                writer.close()
        return answers

    with caplog.at_level(logging.WARNING):
        answers = asyncio.run(run())
    errors = [record.getMessage() for record in caplog.records if record.exc_info]
    assert errors == []
    wrong = [(request[:200], answer) for request, answer in zip(REQUESTS, answers, strict=True) if b" 500 " in answer]
    assert wrong == []
