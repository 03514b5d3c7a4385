"""Sends requests to one API server: credentials, connections, timeouts and retries."""

import asyncio
import platform
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Final, TypeVar

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import BytesPayload
from multidict import CIMultiDict
from yarl import URL

from zoneward import __version__
from zoneward.client.api_errors import (
    ApiError,
    CallFailed,
    NoCredentials,
    SilentConnection,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    WritesSuspended,
    api_error,
)
from zoneward.client.auth.client_config import ClientConfig
from zoneward.client.auth.credentials import Credentials, Identity, impersonation_headers
from zoneward.client.auth.tls import TlsContexts
from zoneward.client.backoff import Backoff
from zoneward.client.http_connection import (
    is_loopback,
    iter_blocks,
    iter_lines,
    open_socket,
    proxy_for,
    read_body,
    translate_errors,
)
from zoneward.kube.input_error import InputError

_Result = TypeVar("_Result")
TIME_LIMIT: Final = 60.0
"""Seconds for a call with all its retries, unless the caller sets another limit; an API server has the same one."""
CONNECT_TIME_LIMIT: Final = 10.0
_BUFFER: Final = 1 << 22
"""Bytes of an answer that are buffered. A page of a list has millions: with aiohttp's default of 64 KiB, the socket is
paused and resumed for each block.
"""
_IDLE_CONNECTION: Final = 60.0
"""Seconds for which an idle connection is kept open; API servers keep one for 90 s."""
_LONGEST_ERROR: Final = 1 << 16
MAX_PAGE: Final = 64 << 20
"""Bytes of an answer to a write, or to a list with a ``limit``: four kinds are listed at once, one page of each at a
time. 500 Pods have 10 MB. A page of 500 EndpointSlices with 1,000 endpoints each has 125 MB, and is requested again
with fewer; one object has at most 9 MB, if JSON escapes all of its characters."""
MAX_ANSWER: Final = 2 << 30
"""Bytes of any other answer: 150,000 Pods of 14 kB each."""
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""A server that cannot send metadata alone answers with the whole object."""
BACKOFF: Final = Backoff(initial=0.25, cap=8.0, jitter=0.5)
_RETRIED_STATUSES: Final = frozenset((500, 502, 503, 504))
_NO_QUERY: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Which failed calls are sent again, and after how long.

    ``attempts`` counts the first one too.
    """

    attempts: int = 5
    backoff: Backoff = BACKOFF

    def pause(self, error: CallFailed, *, failed: int, is_repeatable: bool, chance: float) -> float | None:
        """Seconds until the next attempt after ``failed`` ones; None if there is no further attempt.

        ``is_repeatable``: the call is idempotent. Other calls are sent again only if they were certainly not done:
        nothing was sent, or the server was overloaded (429). ``chance``, from 0 to 1, spreads clients that failed
        together: over half of the pause, or after the time that the server asked for.
        """
        if failed >= self.attempts or not _is_temporary(error, is_repeatable=is_repeatable):
            return None
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        return self.backoff.delay(failed, random=chance, retry_after=retry_after)


def _is_temporary(error: CallFailed, *, is_repeatable: bool) -> bool:
    if isinstance(error, TooManyRequests):
        return True
    if isinstance(error, ApiError):
        return is_repeatable and error.status in _RETRIED_STATUSES
    # A retry does not repair TLS or credentials, and a call that timed out has no time left.
    return isinstance(error, Unreachable) and (is_repeatable or not error.sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None = None
    content_type: str | None = None
    is_compressed: bool = True
    is_repeatable: bool = True
    metadata_only: bool = False
    may_send: Callable[[], bool] = lambda: True


class _Body(BytesPayload):
    """A body that is sent only while ``may_send`` allows it.

    Between the start of a write and its first byte, the event loop runs other tasks, and a connection may have to be
    opened. A process that is suspended meanwhile may resume after another replica has become the leader.
    """

    def __init__(self, call: _Call) -> None:
        super().__init__(call.body or b"")
        self._may_send = call.may_send

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if not self._may_send():
            raise WritesSuspended
        await super().write_with_length(writer, content_length)


class Transport:
    """Calls the API server of ``access`` within an ``async with`` block.

    Every method raises a subclass of ``CallFailed``: ApiError for an answer that is not a success, Unreachable,
    TlsProblem, TimedOut, NoCredentials. After a 401 the request is sent once more if there are other credentials, from
    another run of the plugin or another read of the token file. Redirects are never followed.
    """

    def __init__(
        self,
        access: ClientConfig,
        *,
        retries: RetryPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        is_terminal: bool | None = None,
        connect_time_limit: float = CONNECT_TIME_LIMIT,
    ) -> None:
        """``clock`` counts seconds, ``now`` is the time of day. ``is_terminal``: plugins may ask at standard input."""
        if is_terminal is None:
            is_terminal = sys.stdin is not None and sys.stdin.isatty()
        cluster = access.cluster
        self.access = access
        self._retries = retries or RetryPolicy()
        self._clock, self._sleep, self._chance, self._now = clock, sleep, chance, now
        self._credentials = Credentials(access, now=now, is_terminal=is_terminal)
        self._tls = TlsContexts(access) if cluster.server.startswith("https:") else None
        # Like kubectl, send no token over plain HTTP, except to this machine, where a sandbox may have no TLS.
        self._may_send_token = self._tls is not None or is_loopback(URL(cluster.server).host or "")
        self._proxy = cluster.proxy or proxy_for(cluster.server, access.environment)
        self._headers = [
            ("Accept", "application/json"),
            ("User-Agent", f"zoneward/{__version__} ({platform.system()}; {platform.machine()})"),
            *impersonation_headers(access.user.impersonation),
        ]
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_time_limit)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "Transport":
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(keepalive_timeout=_IDLE_CONNECTION, socket_factory=open_socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
            skip_auto_headers=("Content-Type",),
            read_bufsize=_BUFFER,
            auto_decompress=False,
        )
        # When a connection breaks off, aiohttp would send PUT and DELETE again over a new one, although the first
        # request may have been done. There is no public option for it; a test shows that this one works.
        self._session._retry_connection = False  # noqa: SLF001
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def get(self, path: str, query: Mapping[str, str] = _NO_QUERY, *, timeout: float | None = None) -> bytes:
        """The body of the answer. ``timeout``: seconds for everything, retries included."""
        call = _Call(method="GET", path=path, query=query, is_compressed=self.access.cluster.is_compressed)
        return await self._call(call, TIME_LIMIT if timeout is None else timeout)

    async def send(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] = _NO_QUERY,
        idempotent: bool = False,
        once: bool = False,
        metadata_only: bool = False,
        may_send: Callable[[], bool] = lambda: True,
        timeout: float | None = None,
    ) -> bytes:
        """Send a write. Unless ``idempotent``, retry only what was certainly not done. ``timeout`` as in `get`.

        ``once``: no retry except after a 401, for callers that decide again what to write.
        ``metadata_only``: the answer may be only the metadata, which saves both sides the JSON of the object.
        ``may_send`` is called at each attempt, before the body is sent; if it returns False, WritesSuspended is raised.
        After a failure with ``CallFailed.sent`` or 5xx, the write may have been done.
        """
        call = _Call(
            method=method,
            path=path,
            query=query,
            body=body,
            content_type=content_type,
            is_repeatable=idempotent,
            metadata_only=metadata_only,
            may_send=may_send,
        )
        return await self._call(call, TIME_LIMIT if timeout is None else timeout, once=once)

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], *, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of a watch, without their line breaks; empty lines are skipped.

        Ends with the answer. Raises, while opening, ApiError for a status other than 200; while opening and reading,
        SilentConnection when no byte arrives for ``idle`` seconds (while opening: `TIME_LIMIT`, if that is shorter),
        and Unreachable when the connection breaks off.
        Only a 401 is retried.
        """
        call = _Call(method="GET", path=path, query=query, is_compressed=False)
        response = await self._attempt(lambda identity: self._open_stream(call, identity, idle))
        try:
            if (encoding := response.headers.get("Content-Encoding", "identity")) != "identity":
                raise Unreachable(f"expected an uncompressed stream, got {encoding[:20]!r}")
            async with aclosing(iter_lines(response.content, idle=idle)) as lines:
                yield lines
        finally:
            response.close()

    async def _call(self, call: _Call, limit: float, *, once: bool = False) -> bytes:
        # An interactive login may take minutes; it has its own time limits.
        await self._credentials.current()
        deadline = self._clock() + limit
        failed = 0
        while True:
            try:
                left = deadline - self._clock()
                return await self._attempt(partial(self._read, call, limit=limit, left=left))
            except CallFailed as error:
                if once:
                    raise
                failed += 1
                pause = self._retries.pause(
                    error, failed=failed, is_repeatable=call.is_repeatable, chance=self._chance()
                )
                if pause is None or self._clock() + pause >= deadline:
                    raise
            await self._sleep(pause)

    async def _attempt(self, send: Callable[[Identity], Awaitable[_Result]]) -> _Result:
        """Send once, or twice if the server refused the credentials (401) and there are others."""
        identity = await self._credentials.current()
        try:
            return await send(identity)
        except Unauthorized:
            other = await self._credentials.replacement_for(identity)
            if other is None:
                raise
            return await send(other)

    async def _read(self, call: _Call, identity: Identity, *, limit: float, left: float) -> bytes:
        """``left`` are the seconds that remain of ``limit``, which errors name."""
        is_whole = call.method == "GET" and "limit" not in call.query
        with translate_errors(limit=limit):
            async with asyncio.timeout(left), await self._request(call, identity) as response:
                return await read_body(response, limit=MAX_ANSWER if is_whole else MAX_PAGE)

    async def _open_stream(self, call: _Call, identity: Identity, idle: float) -> aiohttp.ClientResponse:
        limit = min(idle, TIME_LIMIT)
        try:
            async with asyncio.timeout(limit):
                return await self._request(call, identity)
        except TimeoutError:
            raise SilentConnection(f"no answer within {limit:.3g} s") from None

    async def _request(self, call: _Call, identity: Identity) -> aiohttp.ClientResponse:
        """The response, whose body is not read yet. Raises ApiError and the errors of aiohttp."""
        assert self._session is not None, "a Transport is entered before it is used"
        headers = CIMultiDict(self._headers)
        headers["Accept-Encoding"] = "gzip" if call.is_compressed else "identity"
        if identity.authorization and self._may_send_token:
            headers["Authorization"] = identity.authorization
        if call.metadata_only:
            headers["Accept"] = _METADATA
        if call.content_type:
            headers["Content-Type"] = call.content_type
        try:
            context = self._tls.context(identity.certificate) if self._tls else True
        except InputError as error:
            raise NoCredentials(error) from error
        with translate_errors(limit=self._timeout.sock_connect or 0):
            response = await self._session.request(
                call.method,
                URL(self.access.cluster.server + call.path),
                params=call.query,
                data=_Body(call) if call.body else None,
                headers=headers,
                ssl=context,
                server_hostname=self.access.cluster.tls_server_name,
                proxy=self._proxy,
                allow_redirects=False,
            )
            if response.status // 100 == 2:
                return response
            async with response:
                raise await self._read_error(call, response)

    async def _read_error(self, call: _Call, response: aiohttp.ClientResponse) -> ApiError:
        body = b""
        if response.status // 100 == 3:
            location = response.headers.get("Location", "nowhere")
            # aiohttp decodes bytes that are not UTF-8 as surrogates.
            body = f"expected the API server, got a redirect to {location}".encode(errors="replace")
        else:
            async for block in iter_blocks(response):
                body += block[:_LONGEST_ERROR]
                if len(body) >= _LONGEST_ERROR:
                    break
        return api_error(
            response.status,
            body,
            retry_after=self._retry_after(response.headers.get("Retry-After")),
            method=call.method,
            path=call.path,
            query=call.query,
        )

    def _retry_after(self, text: str | None) -> float | None:
        """The seconds of the header, a number or a time (RFC 9110 § 10.2.3). None for anything else."""
        if text is None:
            return None
        if text.strip().isdecimal():
            return float(text)
        try:
            return max(0.0, (parsedate_to_datetime(text) - self._now()).total_seconds())
        except (ValueError, TypeError, OverflowError):
            return None
