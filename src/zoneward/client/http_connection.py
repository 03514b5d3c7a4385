"""HTTP below the transport: opens connections, reads the bodies of answers, and translates the errors of aiohttp.

A machine or load balancer that dies, or a firewall that drops its state, does not close connections. A watch, which
only reads, would wait until its own timeout. So the kernel probes the other end: it sends an empty packet after 15 s of
silence, and ends the connection if there is no answer.
"""

import asyncio
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from zoneward.client.api_errors import AnswerTooLarge, CallFailed, SilentConnection, TimedOut, TlsProblem, Unreachable

MAX_LINE: Final = 128 << 20
"""Bytes of a line, which has one object: etcd accepts 1.5 MB by default, and JSON escapes take up to six bytes for
one."""
_BLOCK: Final = 1 << 20
"""Bytes that are decompressed at once: gzip can expand one byte to a thousand."""
_GZIP: Final = 16 + zlib.MAX_WBITS


async def iter_blocks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The decompressed body of an answer. Raises Unreachable if it cannot be decompressed."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise Unreachable(f"expected an answer uncompressed or in gzip, got {encoding[:20]!r}")
    decompressor = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    is_begun = False
    while block := await response.content.readany():
        is_begun = True
        if decompressor is None:
            yield block
            continue
        while block and not decompressor.eof:
            try:
                decompressed = decompressor.decompress(block, _BLOCK)
            except zlib.error as error:
                raise Unreachable(f"expected an answer in gzip, got it corrupt ({error})") from None
            if decompressed:
                yield decompressed
            block = decompressor.unconsumed_tail
    if decompressor is not None and is_begun and not decompressor.eof:
        raise Unreachable("the connection broke off in the middle of an answer")


async def read_body(response: aiohttp.ClientResponse, *, limit: int) -> bytes:
    """The whole body. Raises AnswerTooLarge for more than ``limit`` bytes after decompression."""
    blocks: list[bytes] = []
    size = 0
    async for block in iter_blocks(response):
        size += len(block)
        if size > limit:
            raise AnswerTooLarge(f"expected an answer of at most {limit >> 20:,} MiB, got more")
        blocks.append(block)
    return b"".join(blocks)


async def iter_lines(content: aiohttp.StreamReader, *, idle: float) -> AsyncGenerator[bytes, None]:
    """The lines without their line breaks; empty lines are skipped.

    Raises AnswerTooLarge for a line of more than `MAX_LINE` bytes, SilentConnection when nothing arrives for
    ``idle`` seconds, Unreachable when the body breaks off: a line without a line break is incomplete.
    """
    unfinished: list[bytes] = []
    size = 0
    idle_timer = _IdleTimer(content, idle)
    try:
        with translate_errors(limit=idle):
            while block := await idle_timer.wait_for(content.readany()):
                first, *others = block.split(b"\n")
                unfinished.append(first)
                size += len(first)
                if size > MAX_LINE:
                    raise AnswerTooLarge(f"expected lines of at most {MAX_LINE >> 20} MiB, got a longer one")
                if not others:
                    continue
                others.insert(0, b"".join(unfinished))
                unfinished = [others.pop()]
                size = len(unfinished[0])
                for line in others:
                    if line:
                        yield line
    finally:
        idle_timer.cancel()
    if any(unfinished):
        raise Unreachable("the connection broke off in the middle of a line")


class _IdleTimer:
    """Ends a body on which nothing arrives. One timer serves all blocks: a watch has thousands a second, and almost
    none is late.
    """

    def __init__(self, content: aiohttp.StreamReader, idle: float) -> None:
        self._content, self._idle = content, idle
        self._loop = asyncio.get_running_loop()
        self._waiting_since: float | None = None
        """None while no caller waits for a block."""
        self._timer = self._loop.call_later(idle, self._check)

    async def wait_for(self, block: Awaitable[bytes]) -> bytes:
        self._waiting_since = self._loop.time()
        try:
            return await block
        finally:
            self._waiting_since = None

    def cancel(self) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        left = self._idle if self._waiting_since is None else self._waiting_since + self._idle - self._loop.time()
        if left <= 0:
            self._content.set_exception(SilentConnection(f"nothing came for {self._idle:.3g} s"))
        else:
            self._timer = self._loop.call_later(left, self._check)


# --- opening connections ----------------------------------------------------------------------------------------------


_PORTS: Final = {"http": 80, "https": 443}
KEEPALIVE_IDLE: Final = 15
"""Seconds of silence before the first keepalive probe."""
KEEPALIVE_INTERVAL: Final = 5
"""Seconds between two probes."""
KEEPALIVE_PROBES: Final = 3
UNANSWERED_LIMIT: Final = KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_PROBES
"""Seconds after which a connection ends whose other end does not answer."""
_OPTIONS: Final = (
    ("TCP_KEEPIDLE", KEEPALIVE_IDLE),
    ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL),
    ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ("TCP_USER_TIMEOUT", UNANSWERED_LIMIT * 1000),
)
"""Linux names. A platform that lacks one uses its default."""


def open_socket(address: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """A socket, not connected yet, for an address as ``socket.getaddrinfo`` returns it."""
    family, kind, protocol = address[:3]
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        option = getattr(socket, name, None)
        if option is not None:
            opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened


def proxy_for(server: str, environment: Mapping[str, str]) -> str | None:
    """The HTTP proxy for a server, by the rules of Go's ``httpproxy``.

    It reads ``HTTPS_PROXY`` or ``HTTP_PROXY`` and ``NO_PROXY``, in upper or lower case. None for this machine, and if
    the proxy does not speak HTTP.
    """
    parts = urlsplit(server)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    proxy = _variable(environment, f"{parts.scheme}_proxy")
    excluded = filter(None, map(str.strip, _variable(environment, "no_proxy").lower().split(",")))
    if not proxy or is_loopback(host) or any(_matches(pattern, host, port) for pattern in excluded):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    return proxy if urlsplit(proxy).scheme in _PORTS else None


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name, "")


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _matches(pattern: str, host: str, port: int) -> bool:
    if pattern == "*":
        return True
    try:
        return ip_address(host) in ip_network(pattern, strict=False)
    except ValueError:
        pass
    name, colon, wanted_port = pattern.rpartition(":")
    if colon and wanted_port.isdecimal() and "]" not in wanted_port:
        if int(wanted_port) != port:
            return False
        pattern = name.strip("[]")
    # A name includes its subdomains; a leading dot or *. means only the subdomains.
    if pattern.startswith(("*.", ".")):
        return host.endswith(pattern.removeprefix("*"))
    return host == pattern or host.endswith(f".{pattern}")


# --- errors of aiohttp and ssl ----------------------------------------------------------------------------------------


_EXPIRED: Final = 10
_NOT_YET_VALID: Final = 9
_WRONG_NAMES: Final = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH."""
_UNKNOWN_ISSUERS: Final = (2, 18, 19, 20, 21)


@contextmanager
def translate_errors(
    *, limit: float, server: str = "an API server", authorities: str = "the kubeconfig"
) -> Iterator[None]:
    """Raises Unreachable, TlsProblem or TimedOut (``limit``: the time limit in seconds) for errors raised inside.

    ``server`` is what the other end should be, ``authorities`` where the accepted certificate authorities are named.
    """
    try:
        yield
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
        raise TlsProblem(_word_tls_error(error, authorities), sent=False) from error
    except aiohttp.ClientHttpProxyError as error:
        raise Unreachable(f"the proxy answered {error.status} {error.message}", sent=False) from error
    except aiohttp.ClientProxyConnectionError as error:
        raise Unreachable(
            f"no connection to the proxy {error.host}:{error.port}: {_word_os_error(error)}", sent=False
        ) from error
    except aiohttp.ClientConnectorDNSError as error:
        raise Unreachable(f"cannot resolve {error.host}: {_word_os_error(error)}", sent=False) from error
    except aiohttp.ClientConnectorError as error:
        raise Unreachable(f"no connection: {_word_os_error(error)}", sent=False) from error
    except aiohttp.ConnectionTimeoutError as error:
        raise TimedOut("no connection in time", sent=False) from error
    except TimeoutError as error:
        raise TimedOut(f"no complete answer within {limit:.3g} s") from error
    except aiohttp.ClientConnectionError as error:
        # aiohttp wraps errors that are raised while a body is written.
        if isinstance(error.__cause__, CallFailed):
            raise error.__cause__ from None
        if isinstance(error.__cause__, ssl.SSLError):
            raise TlsProblem(_word_tls_error(error, authorities)) from error
        raise Unreachable(f"the connection broke off: {_word_os_error(error)}") from error
    except aiohttp.ClientPayloadError as error:
        raise Unreachable("the connection broke off in the middle of an answer") from error
    except (aiohttp.InvalidURL, UnicodeError) as error:
        # UnicodeError: a host with an empty or a long label. The text of the other may have a password.
        raise Unreachable("the address of the server or of the proxy is not valid", sent=False) from error
    except aiohttp.ClientError as error:
        # The text of some errors has the whole URL, which may have a token.
        words = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
        raise Unreachable(f"the answer is not from {server}: {' '.join(words.split())}") from error


def _word_tls_error(error: Exception, authorities: str) -> str:
    """What is wrong with TLS. The chain of causes ends at OpenSSL's error; aiohttp's own SSLErrors are empty."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        if cause.verify_code == _EXPIRED:
            return "the server's certificate has expired"
        if cause.verify_code == _NOT_YET_VALID:
            return "the server's certificate is not valid yet; compare the clocks"
        if cause.verify_code in _WRONG_NAMES:
            # The message has the expected name: "Hostname mismatch, certificate is not valid for 'localhost'."
            return f"the server's certificate is for another name: {cause.verify_message.rstrip('.').lower()}"
        if cause.verify_code in _UNKNOWN_ISSUERS:
            return f"the server's certificate is from an authority that {authorities} does not name"
        return f"the server's certificate is not accepted: {cause.verify_message}"
    reason = (cause.reason if isinstance(cause, ssl.SSLError) else None) or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return "the server does not speak TLS: is its address http:// instead of https://?"
    words = reason.lower().replace("_", " ")
    if "alert" in words:
        return f"the server refuses the client's side of TLS: {words}"
    return f"TLS failed: {words}"


def _word_os_error(error: Exception) -> str:
    inner = getattr(error, "os_error", None) or error
    return (getattr(inner, "strerror", None) or str(inner) or "no reason given").lower()
