"""Requests to a real server on loopback: what is sent, what comes back, and what is never waited for."""

import asyncio
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from tests.client.calling import IDLE, PODS, drip, hang, in_turn, leaping, ok, said, transport
from tests.client.serving import HOST, Served, access_to, json_status, refused_port, served, speaking

from zoneward.client import api_errors as errors
from zoneward.client.auth.client_config import ClientConfig, ExecPluginConfig, ImpersonationConfig, UserInfo
from zoneward.client.transport import Transport


async def test_a_get_carries_path_query_and_who_we_are_and_gives_the_body() -> None:
    async with served(ok) as server:
        user = UserInfo(token="t", impersonation=ImpersonationConfig(user="jane", groups=("a", "b")))
        access = access_to(f"{server.url}/k8s/c-1", user=user)
        async with transport(access) as client:
            body = await client.get(PODS, {"labelSelector": "a=b,c in (d)", "continue": "x+/="})
        (request,) = server.seen
        assert json.loads(body)["path"] == request.path_qs
        assert request.path == f"/k8s/c-1{PODS}"
        assert dict(request.query) == {"labelSelector": "a=b,c in (d)", "continue": "x+/="}
        headers = request.headers
        assert (headers["Authorization"], headers["Accept"]) == ("Bearer t", "application/json")
        assert headers["User-Agent"].startswith("zoneward/")
        assert headers.getall("Impersonate-Group") == ["a", "b"]


async def test_a_write_carries_body_content_type_and_query_and_may_ask_for_metadata_alone() -> None:
    bodies = []

    async def kept(request: web.BaseRequest) -> web.Response:
        bodies.append(await request.read())
        return web.Response(body=b"done", status=201)

    query, content_type = {"fieldManager": "zoneward"}, "application/merge-patch+json"
    async with served(kept) as server, transport(access_to(server.url)) as client:
        assert await client.send("PATCH", PODS, b"{}", content_type=content_type, query=query) == b"done"
        await client.send("PUT", PODS, b"", metadata_only=True)
    patch, put = server.seen
    assert (patch.method, patch.headers["Content-Type"], dict(patch.query)) == ("PATCH", content_type, query)
    assert bodies == [b"{}", b""]
    assert patch.headers["Accept"] == "application/json"
    assert put.headers["Accept"] == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


async def test_answers_come_compressed_unless_the_kubeconfig_says_otherwise_and_streams_never() -> None:
    async def compressed(request: web.BaseRequest) -> web.Response:
        if request.headers["Accept-Encoding"] != "gzip":
            return web.Response(body=b"plain\n")
        return web.Response(body=gzip.compress(b"packed" * 1000), headers={"Content-Encoding": "gzip"})

    async with served(compressed) as server:
        async with transport(access_to(server.url)) as client:
            assert await client.get(PODS) == b"packed" * 1000
            async with client.stream(PODS, {}, idle=IDLE) as lines:
                assert [line async for line in lines] == [b"plain"]
        async with transport(access_to(server.url, is_compressed=False)) as client:
            assert await client.get(PODS) == b"plain\n"


async def test_a_redirect_is_refused_and_the_token_does_not_go_along() -> None:
    async def redirect(_: web.BaseRequest) -> web.Response:
        return web.Response(status=307, headers={"Location": f"{elsewhere.url}/login"})

    async with served(ok) as elsewhere, served(redirect) as server:
        async with transport(access_to(server.url, user=UserInfo(token="t"))) as client:
            for call in (client.get(PODS), client.send("PUT", PODS, b"{}", idempotent=True)):
                error = await said(call)
                assert str(error) == f"expected the API server, got a redirect to {elsewhere.url}/login"
        assert elsewhere.seen == []


async def test_a_redirect_to_an_address_that_is_not_utf_8_is_an_error_of_the_call() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: /caf\xe9\r\nContent-Length: 0\r\n\r\n")

    async with speaking(talk) as port, transport(access_to(f"http://{HOST}:{port}")) as client:
        assert str(await said(client.get(PODS))) == "expected the API server, got a redirect to /caf?"


async def test_a_token_is_never_sent_in_the_clear_to_another_machine() -> None:
    async with served(ok) as server:
        access = access_to("http://api.example", user=UserInfo(token="t"), proxy=server.url)
        async with transport(access) as client:
            await client.get(PODS)
        (request,) = server.seen
        assert request.headers["Host"] == "api.example"
        assert "Authorization" not in request.headers


async def test_no_cookie_is_kept() -> None:
    async def cookie(_: web.BaseRequest) -> web.Response:
        return web.Response(headers={"Set-Cookie": "a=b; Path=/"})

    # aiohttp would keep none of an address without a name.
    async with served(cookie) as server, transport(access_to(server.url.replace(HOST, "localhost"))) as client:
        await client.get(PODS)
        await client.get(PODS)
        assert "Cookie" not in server.seen[1].headers


KINDS = {
    400: errors.ApiError,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.Gone,
    422: errors.Invalid,
    429: errors.TooManyRequests,
    **dict.fromkeys((500, 503), errors.ServerFault),
}


@pytest.mark.parametrize(("code", "kind"), KINDS.items())
async def test_an_error_has_its_kind_and_all_that_the_server_said(code: int, kind: type[errors.ApiError]) -> None:
    details = {"name": "p", "retryAfterSeconds": 3, "causes": [{"field": "spec"}]}
    answer = in_turn(lambda: json_status(code, "Because", "of this", details=details))
    async with served(answer) as server, transport(access_to(server.url)) as client:
        error = await said(client.get(PODS, {"watch": "1"}))
    assert isinstance(error, errors.ApiError)
    assert type(error) is kind
    assert (error.status, error.reason, error.message, str(error)) == (code, "Because", "of this", "of this")
    assert (error.retry_after, error.details) == (3.0, details)
    assert (error.method, error.path, error.query) == ("GET", PODS, {"watch": "1"})


async def test_an_error_that_is_no_status_is_told_in_its_own_words_and_never_at_length() -> None:
    texts = {"<h1>Bad\n gateway</h1>": "<h1>Bad gateway</h1>", "x" * 9999: "x" * 500, "": "the server answered 502"}
    pages = [lambda text=text: web.Response(status=502, text=text) for text in texts]
    async with served(in_turn(*pages)) as server, transport(access_to(server.url)) as client:
        assert [str(await said(client.get(PODS))) for _ in pages] == list(texts.values())


async def test_nobody_listening_an_unknown_name_and_something_else_listening_are_unreachable() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")

    async with speaking(talk) as other:
        for address, message, is_sent in (
            (f"http://{HOST}:{refused_port()}", "no connection: ", False),
            ("http://nowhere.invalid", "cannot resolve nowhere.invalid: ", False),
            ("https://api..example:6443", "the address of the server or of the proxy is not valid", False),
            (f"http://{HOST}:{other}", "the answer is not from an API server", True),
        ):
            async with transport(access_to(address)) as client:
                error = await said(client.get(PODS))
            assert isinstance(error, errors.Unreachable)
            assert error.message.startswith(message)
            assert error.sent is is_sent


async def test_a_server_that_never_answers_or_never_ends_is_left_in_time() -> None:
    for talk in (hang, drip):
        late = leaping(talk, seconds=50.0)
        async with speaking(late) as port, transport(access_to(f"http://{HOST}:{port}")) as client:
            error = await said(client.get(PODS, timeout=50.0))
            assert isinstance(error, errors.TimedOut)
            assert error.message == "no complete answer within 50 s"
            assert error.sent


async def test_a_handshake_that_never_comes_to_an_end_is_left_in_time_and_nothing_was_sent() -> None:
    async with (
        speaking(hang) as port,
        transport(access_to(f"https://{HOST}:{port}", insecure=True), connect_time_limit=0.1) as client,
    ):
        error = await said(client.get(PODS))
        assert isinstance(error, errors.TimedOut)
        assert not error.sent


def _knowing(token: str) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    async def answer(request: web.BaseRequest) -> web.Response:
        await request.read()
        known = request.headers.get("Authorization") == f"Bearer {token}"
        return web.Response(body=b"line\n") if known else json_status(401, "Unauthorized", "Unauthorized")

    return answer


def _login(tmp_path: Path, status: str = '{"token": "t\'$N\'"}') -> UserInfo:
    command = tmp_path / "login"
    document = f'{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {status}}}'
    command.write_text(f"#!/bin/sh\necho >> {tmp_path}/runs; N=$(wc -l < {tmp_path}/runs)\necho '{document}'\n")
    command.chmod(0o755)
    plugin = ExecPluginConfig(api_version="client.authentication.k8s.io/v1", command=str(command), interactive="Never")
    return UserInfo(name="u", exec_plugin=plugin)


async def test_a_401_runs_the_plugin_again_once_for_reads_writes_and_streams(tmp_path: Path) -> None:
    async def stream(client: Transport) -> bytes:
        async with client.stream(PODS, {}, idle=IDLE) as lines:
            return b"".join([line async for line in lines]) + b"\n"

    calls: tuple[Callable[[Transport], Awaitable[bytes]], ...] = (
        lambda client: client.get(PODS),
        lambda client: client.send("POST", PODS, b"{}"),
        stream,
    )
    for call in calls:
        for known in ("t2", "t3"):
            (tmp_path / "runs").unlink(missing_ok=True)
            async with served(_knowing(known)) as server, transport(_with_path(server, _login(tmp_path))) as client:
                if known == "t2":
                    assert await call(client) == b"line\n"
                else:
                    assert isinstance(await said(call(client)), errors.Unauthorized)
            assert (len((tmp_path / "runs").read_text()), len(server.seen)) == (2, 2)


def _with_path(server: Served, user: UserInfo) -> ClientConfig:
    return replace(access_to(server.url, user=user), environment={"PATH": os.environ["PATH"]})


async def test_logging_in_takes_nothing_of_the_time_of_the_call(tmp_path: Path) -> None:
    def clock() -> float:
        return 100.0 * (tmp_path / "runs").exists()

    async with served(_knowing("t1")) as server, transport(_with_path(server, _login(tmp_path)), clock=clock) as client:
        assert await client.get(PODS, timeout=50.0) == b"line\n"


async def test_a_plugin_that_fails_is_no_crash_but_a_failed_call_that_was_not_sent(tmp_path: Path) -> None:
    async with served(ok) as server, transport(_with_path(server, _login(tmp_path, "{}"))) as client:
        error = await said(client.get(PODS))
    assert server.seen == []
    assert isinstance(error, errors.NoCredentials)
    assert not error.sent


def test_no_command_starts_with_the_client_on_board_and_a_kubeconfig_is_read_without_it() -> None:
    code = "import sys, zoneward.cli.main, zoneward.client.auth.kubeconfig; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _body(body: bytes, encoding: str) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    return in_turn(lambda: web.Response(body=body, headers={"Content-Encoding": encoding}))


async def test_an_answer_that_is_too_large_is_given_up_before_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneward.client.transport.MAX_PAGE", 1 << 20)
    large = b" " * (4 << 20)
    for answer in (_body(large, "identity"), _body(gzip.compress(large), "gzip")):
        async with served(answer) as server, transport(access_to(server.url)) as client:
            with pytest.raises(errors.AnswerTooLarge, match=r"^expected an answer of at most 1 MiB, got more$"):
                await client.get(PODS, {"limit": "500"})


async def test_what_cannot_be_unpacked_is_told() -> None:
    cut_short = gzip.compress(b"x" * 100)[:-9]
    for answer in (_body(b"no gzip", "gzip"), _body(cut_short, "gzip"), _body(b"x", "br")):
        async with served(answer) as server, transport(access_to(server.url)) as client:
            assert isinstance(await said(client.get(PODS)), errors.Unreachable)
