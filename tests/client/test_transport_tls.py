"""Whom a transport believes, whom it shows itself to, and through which proxy."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import trustme
from aiohttp import web
from tests.client.calling import PODS, Time, ok, said, transport
from tests.client.serving import (
    HOST,
    access_to,
    refused_port,
    refusing_clients,
    served,
    server_side,
    showing,
    speaking,
    trusting,
    tunnel,
)

from zoneward.client.api_errors import TlsProblem, Unreachable
from zoneward.client.auth.client_config import ClientConfig, UserInfo


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


ANYWHERE = access_to("https://h")  # all but the address


async def _get(access: ClientConfig, **server: Any) -> str:
    """The TLS error of a GET to a server with TLS before anything is sent; empty if it succeeds."""
    async with served(ok, **server) as running:
        here = replace(access, cluster=replace(access.cluster, server=running.url))
        async with transport(here) as client:
            try:
                await client.get(PODS)
            except TlsProblem as error:
                return error.message if not error.sent else "something was sent"
    return ""


async def test_a_server_is_believed_by_the_authority_of_the_cluster_alone(authority: trustme.CA) -> None:
    tls = server_side(authority.issue_cert(HOST))
    assert await _get(trusting(ANYWHERE, authority), tls=tls) == ""
    for access in (trusting(ANYWHERE, trustme.CA()), ANYWHERE):
        message = await _get(access, tls=tls)
        assert message == "the server's certificate is from an authority that the kubeconfig does not name"
    assert await _get(access_to("https://h", insecure=True), tls=tls) == ""
    middle = authority.create_child_ca()
    assert await _get(trusting(ANYWHERE, middle), tls=server_side(middle.issue_cert(HOST))) == ""


async def test_the_name_in_the_certificate_counts_unless_the_kubeconfig_names_another(authority: trustme.CA) -> None:
    tls = server_side(authority.issue_cert("api.internal", common_name=HOST))
    another = "the server's certificate is for another name: "
    assert (await _get(trusting(ANYWHERE, authority), tls=tls)).startswith(another)
    internal = trusting(access_to("https://h", tls_server_name="api.internal"), authority)
    assert await _get(internal, tls=tls) == ""
    only_common_name = server_side(authority.issue_cert(common_name="api.internal"))
    assert (await _get(internal, tls=only_common_name)).startswith(another)


async def test_certificates_that_have_expired_or_are_not_valid_yet_are_reported(authority: trustme.CA) -> None:
    for year, problem in ((2001, "has expired"), (2100, "is not valid yet; compare the clocks")):
        start, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
        tls = server_side(authority.issue_cert(HOST, not_before=start, not_after=end))
        assert await _get(trusting(ANYWHERE, authority), tls=tls) == f"the server's certificate {problem}"


async def test_a_server_without_tls_is_reported_and_tls_problems_are_not_retried() -> None:
    time = Time()
    async with served(ok) as server:
        access = access_to(server.url.replace("http:", "https:"), insecure=True)
        async with transport(access, time=time) as client:
            error = await said(client.get(PODS))
    assert isinstance(error, TlsProblem)
    assert error.message == "the server does not speak TLS: is its address http:// instead of https://?"
    assert time.pauses == []


async def test_a_client_certificate_is_shown(authority: trustme.CA) -> None:
    async def who(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert")
        return web.json_response(shown.get("subjectAltName") if shown else None)

    tls = server_side(authority.issue_cert(HOST), clients=authority)
    async with served(who, tls=tls) as server:
        for user, seen in (
            (UserInfo(), None),
            (showing(authority.issue_cert("jane.example")), [["DNS", "jane.example"]]),
        ):
            async with transport(trusting(access_to(server.url, user=user), authority)) as client:
                assert json.loads(await client.get(PODS)) == seen


async def test_a_server_that_refuses_the_client_certificate_is_told(authority: trustme.CA) -> None:
    past = datetime(2001, 1, 1, tzinfo=UTC)
    stranger = trustme.CA().issue_cert("eve.example")
    expired = authority.issue_cert("jane.example", not_before=past, not_after=past.replace(year=2002))
    for certificate, words in ((stranger, "alert unknown ca"), (expired, "alert certificate expired")):
        tls = server_side(authority.issue_cert(HOST), clients=authority)
        async with refusing_clients(tls) as port:
            access = access_to(f"https://{HOST}:{port}", user=showing(certificate))
            async with transport(trusting(access, authority)) as client:
                error = await said(client.get(PODS))
        assert isinstance(error, TlsProblem)
        assert error.sent
        assert error.message.startswith("the server refuses the client's side of TLS: ")
        assert words in error.message


@pytest.mark.parametrize("named_by", ["kubeconfig", "environment"])
async def test_a_tunnel_is_asked_for_by_the_proxy_of_the_kubeconfig_and_of_the_environment(
    authority: trustme.CA, named_by: str
) -> None:
    heads: list[str] = []
    async with served(ok, tls=server_side(authority.issue_cert("api.example"))) as server:

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await tunnel(reader, writer, to=server.port, on_head=heads.append)

        async with speaking(talk) as port:
            proxy = f"http://me:word@{HOST}:{port}"
            access = trusting(access_to("https://api.example:6443"), authority)
            if named_by == "kubeconfig":
                access = replace(access, cluster=replace(access.cluster, proxy=proxy))
            else:
                access = replace(access, environment={"HTTPS_PROXY": proxy})
            async with transport(access) as client:
                for _ in range(2):
                    assert json.loads(await client.get(PODS)) == {"path": PODS}
    (head,) = heads
    assert head.startswith("CONNECT api.example:6443 HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic bWU6d29yZA==" in head
    assert "Bearer" not in head


async def test_a_proxy_that_is_not_there_or_refuses_is_told_and_nothing_was_sent(authority: trustme.CA) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    gone = refused_port()
    async with speaking(refuse) as refusing:
        for port, message in (
            (gone, f"no connection to the proxy {HOST}:{gone}: "),
            (refusing, "the proxy answered 407 Proxy Authentication Required"),
        ):
            access = trusting(access_to("https://api.example", proxy=f"http://{HOST}:{port}"), authority)
            async with transport(access) as client:
                error = await said(client.send("POST", PODS, b""))
                assert isinstance(error, Unreachable)
                assert (error.message[: len(message)], error.sent) == (message, False)
