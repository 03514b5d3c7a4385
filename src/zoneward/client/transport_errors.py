"""Translates the errors of aiohttp and ssl to those of `api_errors`; no other module handles them."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import aiohttp

from zoneward.client.api_errors import CallFailed, TimedOut, TlsProblem, Unreachable

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
    except aiohttp.InvalidURL as error:
        # The text may have a password.
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
