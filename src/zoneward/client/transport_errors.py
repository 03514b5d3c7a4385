"""Turns the errors of aiohttp and ssl into those of `api_errors`; no other module knows them."""

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
    """Raises Unreachable, TlsProblem or TimedOut (``limit``: of how many seconds) for what is raised inside.

    ``server`` is what the other end should be, ``authorities`` what names the ones whose certificates are accepted.
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
        # aiohttp wraps what is raised while a body is written.
        if isinstance(error.__cause__, CallFailed):
            raise error.__cause__ from None
        if isinstance(error.__cause__, ssl.SSLError):
            raise TlsProblem(_word_tls_error(error, authorities)) from error
        raise Unreachable(f"the connection broke off: {_word_os_error(error)}") from error
    except aiohttp.ClientPayloadError as error:
        raise Unreachable("the connection broke off in the middle of an answer") from error
    except aiohttp.InvalidURL as error:
        # It may hold a password.
        raise Unreachable("the address of the server or of the proxy is not valid", sent=False) from error
    except aiohttp.ClientError as error:
        # The text of some has the whole URL, where a token may be.
        words = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
        raise Unreachable(f"the answer is not from {server}: {' '.join(words.split())}") from error


def _word_tls_error(error: Exception, authorities: str) -> str:
    """What is wrong with TLS. The chain of causes ends at OpenSSL's error; aiohttp's own SSLErrors are empty."""
    found: BaseException = error
    while found.__cause__ is not None:
        found = found.__cause__
    if isinstance(found, ssl.SSLCertVerificationError):
        if found.verify_code == _EXPIRED:
            return "the server's certificate has expired"
        if found.verify_code == _NOT_YET_VALID:
            return "the server's certificate is not valid yet; compare the clocks"
        if found.verify_code in _WRONG_NAMES:
            # Names the name that was expected: "Hostname mismatch, certificate is not valid for 'localhost'."
            return f"the server's certificate is for another name: {found.verify_message.rstrip('.').lower()}"
        if found.verify_code in _UNKNOWN_ISSUERS:
            return f"the server's certificate is from an authority that {authorities} does not name"
        return f"the server's certificate is not accepted: {found.verify_message}"
    reason = (found.reason if isinstance(found, ssl.SSLError) else None) or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return "the server does not speak TLS: is its address http:// instead of https://?"
    words = reason.lower().replace("_", " ")
    if "alert" in words:
        return f"the server refuses our side of TLS: {words}"
    return f"TLS failed: {words}"


def _word_os_error(error: Exception) -> str:
    inner = getattr(error, "os_error", None) or error
    return (getattr(inner, "strerror", None) or str(inner) or "no reason given").lower()
