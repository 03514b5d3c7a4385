"""Real servers on loopback for the tests of the client: with or without TLS, behind a proxy, and misbehaving."""

import asyncio
import atexit
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import trustme
from aiohttp import web

from zoneward.client.auth.client_config import ClientConfig, ClusterInfo, PemReference, UserInfo

HOST = "127.0.0.1"


@dataclass
class Served:
    """A server that runs. ``seen`` has each request, ``peers`` the port it came from."""

    port: int
    is_tls: bool
    seen: list[web.BaseRequest] = field(default_factory=list)
    peers: list[int] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http{'s' * self.is_tls}://{HOST}:{self.port}"


@asynccontextmanager
async def served(
    handler: Callable[[Any], Awaitable[web.StreamResponse]], *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Served]:
    """A server that answers every request with ``handler``."""

    async def recorded(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        server.seen.append(request)
        server.peers.append(request.transport.get_extra_info("peername")[1])
        return await handler(request)

    server = Served(0, tls is not None)
    runner = web.ServerRunner(web.Server(recorded), shutdown_timeout=0)
    listener = await start(runner, tls=tls)
    server.port = listener.getsockname()[1]
    try:
        yield server
    finally:
        await stop(runner, listener)


_TURNS_OF_ACCEPTING = 4
"""Turns of the event loop in which an accepted connection becomes one of the server's, and one to spare."""


async def start(runner: web.BaseRunner, *, tls: ssl.SSLContext | None = None) -> socket.socket:
    """Listen on a free port. Returns the socket for `stop`."""
    await runner.setup()
    listener = socket.create_server((HOST, 0))
    await web.SockSite(runner, listener, ssl_context=tls).start()
    return listener


async def stop(runner: web.BaseRunner, listener: socket.socket) -> None:
    """End a server and all of its connections.

    asyncio and aiohttp leave a connection open that is accepted just before they stop listening, and aiohttp one whose
    client does not read.
    """
    assert runner.server is not None
    asyncio.get_running_loop().remove_reader(listener)
    for _ in range(_TURNS_OF_ACCEPTING):
        await asyncio.sleep(0)
    transports = [connection.transport for connection in runner.server.connections]
    await runner.cleanup()
    for transport in transports:
        if transport is not None:
            transport.abort()
    await asyncio.sleep(0)


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def speaking(talk: Talk, *, port: int = 0) -> AsyncIterator[int]:
    """The port of a server that calls ``talk`` with each connection and then closes it."""
    talking: set[asyncio.Task[Any]] = set()

    async def talked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talking.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await talk(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(talked, HOST, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in talking:
            task.cancel()
        await asyncio.gather(*talking, return_exceptions=True)


@asynccontextmanager
async def refusing_clients(tls: ssl.SSLContext) -> AsyncIterator[int]:
    """The port of a server that ends one connection over the client's certificate, and says so as OpenSSL does.

    asyncio's own servers drop the connection before the alert is out.
    """

    def serve() -> None:
        connection, _ = listening.accept()
        with connection.dup() as duplicate:
            with suppress(ssl.SSLError), tls.wrap_socket(connection, server_side=True):
                raise AssertionError("the client was let in")
            # Closed with bytes unread, the connection would be reset, and the alert might be lost on the way.
            duplicate.shutdown(socket.SHUT_WR)
            while duplicate.recv(1 << 16):
                pass

    with socket.create_server((HOST, 0)) as listening:
        serving = asyncio.create_task(asyncio.to_thread(serve))
        yield listening.getsockname()[1]
        await serving


async def tunnel(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, to: int, on_head: Callable[[str], None]
) -> None:
    """Play a proxy that leads every CONNECT to one port."""

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while block := await source.read(1 << 16):
                target.write(block)
        finally:
            target.close()

    on_head((await reader.readuntil(b"\r\n\r\n")).decode())
    far_reader, far_writer = await asyncio.open_connection(HOST, to)
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))


@cache
def refused_port() -> int:
    """A port of this machine at which no process listens. It stays bound, so that none can take it."""
    bound = socket.socket()
    atexit.register(bound.close)
    bound.bind((HOST, 0))
    port: int = bound.getsockname()[1]
    return port


def access_to(url: str, *, user: UserInfo | None = None, **cluster: Any) -> ClientConfig:
    """An access without a user, unless one is given, in an environment without variables."""
    return ClientConfig(
        cluster=ClusterInfo(server=url, **cluster), user=user or UserInfo(), context="here", source="kubeconfig.yaml"
    )


def trusting(access: ClientConfig, authority: trustme.CA) -> ClientConfig:
    ca = PemReference("certificate-authority-data", data=authority.cert_pem.bytes())
    return replace(access, cluster=replace(access.cluster, ca=ca))


def server_side(certificate: trustme.LeafCert, *, clients: trustme.CA | None = None) -> ssl.SSLContext:
    """A server's TLS; with ``clients`` it asks for a client certificate of this authority, but does not require one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def showing(certificate: trustme.LeafCert, **user: Any) -> UserInfo:
    """A user with a client certificate."""
    return UserInfo(
        certificate=PemReference("client-certificate-data", data=certificate.cert_chain_pems[0].bytes()),
        key=PemReference("client-key-data", data=certificate.private_key_pem.bytes()),
        **user,
    )


def json_status(status: int, reason: str, message: str, **more: Any) -> web.Response:
    """An answer of an API server that is an error."""
    headers = more.pop("headers", None)
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    body |= {"code": status, "reason": reason, "message": message}
    return web.json_response(body | more, status=status, headers=headers)
