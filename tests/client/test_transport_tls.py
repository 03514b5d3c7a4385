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

from zoneward.client.api_errors import (
    CallFailed,
    TlsProblem,
    Unreachable,
)
from zoneward.client.auth.client_config import ClientConfig, UserInfo

# --- TLS --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def _tls_get(access: ClientConfig, **server: Any) -> bytes | CallFailed:
    """A GET to a server with TLS of which ``access`` has all but the address."""

    async def run() -> bytes | CallFailed:
        async with served(ok, **server) as found:
            here = replace(access, cluster=replace(access.cluster, server=found.url))
            async with transport(here) as client:
                try:
                    return await client.get(PODS)
                except CallFailed as error:
                    return error

    return asyncio.run(run())


def test_a_server_is_believed_by_the_authority_of_the_cluster_alone(authority: trustme.CA) -> None:
    tls = server_side(authority.issue_cert(HOST))
    anywhere = access_to("https://h")
    assert isinstance(_tls_get(trusting(anywhere, authority), tls=tls), bytes)
    for access in (trusting(anywhere, trustme.CA()), anywhere):
        error = _tls_get(access, tls=tls)
        assert isinstance(error, TlsProblem)
        assert error.message == "the server's certificate is from an authority that the kubeconfig does not name"
    assert isinstance(_tls_get(access_to("https://h", insecure=True), tls=tls), bytes)


def test_an_authority_in_the_middle_of_a_chain_can_be_trusted(authority: trustme.CA) -> None:
    middle = authority.create_child_ca()
    assert isinstance(
        _tls_get(trusting(access_to("https://h"), middle), tls=server_side(middle.issue_cert(HOST))), bytes
    )


def test_the_name_in_the_certificate_counts_unless_the_kubeconfig_names_another(authority: trustme.CA) -> None:
    tls = server_side(authority.issue_cert("api.internal", common_name=HOST))
    error = _tls_get(trusting(access_to("https://h"), authority), tls=tls)
    assert isinstance(error, TlsProblem)
    assert error.message.startswith("the server's certificate is for another name: ")
    assert isinstance(
        _tls_get(trusting(access_to("https://h", tls_server_name="api.internal"), authority), tls=tls), bytes
    )


def test_a_name_that_is_only_the_common_name_of_a_certificate_does_not_count(authority: trustme.CA) -> None:
    tls = server_side(authority.issue_cert(common_name="api.internal"))
    access = trusting(access_to("https://h", tls_server_name="api.internal"), authority)
    error = _tls_get(access, tls=tls)
    assert isinstance(error, TlsProblem)
    assert error.message.startswith("the server's certificate is for another name: ")


def test_an_expired_server_and_one_of_tomorrow_are_told(authority: trustme.CA) -> None:
    past, future = datetime(2001, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    trusted = trusting(access_to("https://h"), authority)
    for start, said_ in ((past, "has expired"), (future, "is not valid yet; compare the clocks")):
        certificate = authority.issue_cert(HOST, not_before=start, not_after=start.replace(year=start.year + 1))
        error = _tls_get(trusted, tls=server_side(certificate))
        assert isinstance(error, TlsProblem)
        assert error.message == f"the server's certificate {said_}"
        assert not error.sent


async def test_a_server_without_tls_is_told_and_tls_problems_are_not_tried_again() -> None:
    time = Time()
    async with served(ok) as server:
        access = access_to(server.url.replace("http:", "https:"), insecure=True)
        async with transport(access, time=time) as client:
            error = await said(client.get(PODS))
    assert isinstance(error, TlsProblem)
    assert error.message == "the server does not speak TLS: is its address http:// instead of https://?"
    assert time.pauses == []


def test_a_client_certificate_is_shown_and_a_bad_one_is_refused(authority: trustme.CA) -> None:
    async def who(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert")
        return web.json_response(shown.get("subjectAltName") if shown else None)

    async def run(user: UserInfo) -> object:
        tls = server_side(authority.issue_cert(HOST), clients=authority)
        async with (
            served(who, tls=tls) as server,
            transport(trusting(access_to(server.url, user=user), authority)) as client,
        ):
            try:
                return json.loads(await client.get(PODS))
            except CallFailed as error:
                return error

    assert asyncio.run(run(UserInfo())) is None
    assert asyncio.run(run(showing(authority.issue_cert("jane.example")))) == [["DNS", "jane.example"]]


def test_a_server_that_refuses_the_client_certificate_is_told(authority: trustme.CA) -> None:
    past = datetime(2001, 1, 1, tzinfo=UTC)
    stranger = trustme.CA().issue_cert("eve.example")
    expired = authority.issue_cert("jane.example", not_before=past, not_after=past.replace(year=2002))

    async def run(certificate: trustme.LeafCert) -> CallFailed:
        tls = server_side(authority.issue_cert(HOST), clients=authority)
        async with refusing_clients(tls) as port:
            access = access_to(f"https://{HOST}:{port}", user=showing(certificate))
            async with transport(trusting(access, authority)) as client:
                return await said(client.get(PODS))

    for certificate, words in ((stranger, "alert unknown ca"), (expired, "alert certificate expired")):
        error = asyncio.run(run(certificate))
        assert isinstance(error, TlsProblem)
        assert error.sent
        assert error.message.startswith("the server refuses our side of TLS: ")
        assert words in error.message


# --- proxies ----------------------------------------------------------------------------------------------------------


def test_a_tunnel_is_asked_for_by_the_proxy_of_the_kubeconfig_and_of_the_environment(authority: trustme.CA) -> None:
    heads: list[str] = []

    async def run(**how: Any) -> None:
        tls = server_side(authority.issue_cert("api.example"))
        async with served(ok, tls=tls) as server:

            async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                heads.append(await tunnel(reader, writer, to=server.port))

            async with speaking(talk) as port:
                proxy = f"http://me:word@{HOST}:{port}"
                access = trusting(access_to("https://api.example:6443"), authority)
                if how["by"] == "kubeconfig":
                    access = replace(access, cluster=replace(access.cluster, proxy=proxy))
                else:
                    access = replace(access, environment={"HTTPS_PROXY": proxy})
                async with transport(access) as client:
                    for _ in range(2):
                        assert json.loads(await client.get(PODS)) == {"path": PODS}
                await asyncio.sleep(0.01)

    for by in ("kubeconfig", "environment"):
        heads.clear()
        asyncio.run(run(by=by))
        assert len(heads) == 1, by
        assert heads[0].startswith("CONNECT api.example:6443 HTTP/1.1\r\n")
        assert "Proxy-Authorization: Basic bWU6d29yZA==" in heads[0]
        assert "Bearer" not in heads[0]


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
                assert error.message.startswith(message)
                assert not error.sent
