"""TLS contexts: the trusted authorities and the client certificate; and the files that have them, or a token, which
other programs replace at run time.
"""

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from zoneward.client.auth.client_config import ClientConfig, PemReference
from zoneward.kube.input_error import InputError
from zoneward.kube.input_files import read_regular

_OPEN_FILES: Final = Path("/proc/self/fd")
PEM_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_UTC_TIME: Final = 0x17
_VERSION: Final = 0xA0


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A chain and its key, both PEM. ``location``: the field they come from."""

    chain: bytes
    key: bytes = field(repr=False)
    location: str = field(default="client-certificate", compare=False)


class TlsContexts:
    """The context for a client certificate; the same object until the certificate or the authorities change.

    The pool of connections uses the context as a key.
    """

    def __init__(self, access: ClientConfig) -> None:
        cluster = access.cluster
        self._source, self._insecure = access.source, cluster.insecure
        self._location = cluster.ca.location if cluster.ca else ""
        self._ca = PemReader(cluster.ca, source=access.source) if cluster.ca else None
        self._made: tuple[tuple[bytes | None, ClientCertificate | None], ssl.SSLContext] | None = None

    def context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        """The context. Raises InputError for an invalid certificate or key, unless there is an earlier context.

        The two files of a pair are replaced one after the other: in between, the old pair is used.
        """
        wanted = (self._ca.read() if self._ca else None, certificate)
        if self._made and self._made[0] == wanted:
            return self._made[1]
        try:
            context = self._new(*wanted)
        except InputError:
            if self._made is None:
                raise
            return self._made[1]
        self._made = (wanted, context)
        return context

    def _new(self, ca: bytes | None, certificate: ClientCertificate | None) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cadata=None if ca is None else authorities(ca))
        except (ssl.SSLError, ValueError) as error:
            raise InputError(
                self._source, self._location, f"expected certificates in PEM, got {_problem(error)}"
            ) from None
        context.hostname_checks_common_name = False
        # As in Go: intermediate authorities can be trusted, and those of older clusters fail the strict checks.
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
        context.set_alpn_protocols(["http/1.1"])
        if self._insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            self._load_certificate(certificate, context)
        return context

    def _load_certificate(self, certificate: ClientCertificate, context: ssl.SSLContext) -> None:
        try:
            with ExitStack() as files:
                chain = files.enter_context(secret_file(certificate.chain))
                key = files.enter_context(secret_file(certificate.key))
                # Without a password, OpenSSL would prompt for one at the terminal and block.
                context.load_cert_chain(chain, key, password="")
        except (OSError, ValueError) as error:
            expected = "expected a certificate and its key in PEM, the key without a passphrase"
            raise InputError(self._source, certificate.location, f"{expected}, got {_problem(error)}") from None


def authorities(pem: bytes) -> str:
    """Only the certificates: the ssl module takes ASCII, and files have comments. Raises ValueError without any."""
    blocks = PEM_CERTIFICATE.findall(pem)
    if not blocks:
        raise ValueError("none")
    return b"\n".join(blocks).decode("ascii")


@contextmanager
def secret_file(data: bytes) -> Iterator[str]:
    """A path at which OpenSSL can read a secret within the ``with`` block. On Linux it is never written to a disk.

    Elsewhere it is a temporary file that only its owner can read.
    """
    if hasattr(os, "memfd_create") and _OPEN_FILES.is_dir():
        with open(os.memfd_create("zoneward", os.MFD_CLOEXEC), "wb", buffering=0) as file:  # noqa: PTH123
            file.write(data)
            yield str(_OPEN_FILES / str(file.fileno()))
        return
    with tempfile.NamedTemporaryFile(prefix="zoneward-") as named:
        named.write(data)
        named.flush()
        yield named.name


def _problem(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(error) or type(error).__name__


# --- the expiry of a client certificate, which the standard library does not read -------------------------------------


def certificate_expiry(pem: bytes) -> datetime | None:
    """The end of the first certificate's validity (RFC 5280 § 4.1); None if it cannot be read."""
    block = PEM_CERTIFICATE.search(pem)
    try:
        return _not_after(ssl.PEM_cert_to_DER_cert(block[0].decode())) if block else None
    except (ValueError, IndexError):
        return None


def _not_after(der: bytes) -> datetime:
    _, certificate, _ = _element(der)
    _, rest, _ = _element(certificate)
    tag, _, following = _element(rest)
    if tag == _VERSION:  # absent from v1 certificates
        rest = following
    for _ in ("serial number", "signature algorithm", "issuer"):
        _, _, rest = _element(rest)
    _, validity, _ = _element(rest)
    _, _, rest = _element(validity)
    tag, time, _ = _element(rest)
    text = time.decode("ascii")
    # A year of two digits: 50 and later are 19xx.
    year = ("19" if text[:2] >= "50" else "20") if tag == _UTC_TIME else ""
    return datetime.strptime(year + text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _element(der: bytes) -> tuple[int, bytes, bytes]:
    """Tag and content of the first element, and the bytes after it."""
    length, start = der[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start], "big")
    return der[0], der[start : start + length], der[start + length :]


# --- files that other programs replace --------------------------------------------------------------------------------


_LARGEST = 1 << 20


class RotatedFile:
    """The bytes of a file, read again when it changes. While it is missing or unreadable, the last bytes are used.

    A check costs a ``stat``. It follows links, so that an update of a mounted volume, for which Kubernetes points the
    link ``..data`` at another directory, is a change of inode.
    """

    def __init__(self, path: str, *, location: str, source: str) -> None:
        self._path, self._location, self._source = path, location, source
        self._seen: tuple[int, ...] | None = None
        self._bytes: bytes | None = None

    def read(self) -> bytes:
        """The bytes. Raises InputError if the file cannot be read and never could."""
        try:
            status = os.stat(self._path)  # noqa: PTH116 -- called for every request
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != self._seen:
                data = read_regular(self._path, most=_LARGEST)[:_LARGEST]
                self._seen, self._bytes = seen, data
        except (OSError, ValueError) as error:
            if self._bytes is None:
                problem = error.strerror if isinstance(error, OSError) else error
                raise InputError(
                    self._source, self._location, f"expected a readable file {self._path}, got: {problem}"
                ) from None
        return self._bytes or b""


class PemReader:
    """The bytes of a `PemReference`, read again when its file changes."""

    def __init__(self, pem: PemReference, *, source: str) -> None:
        self._data = pem.data
        self._file = RotatedFile(pem.path or "", location=pem.location, source=source)

    def read(self) -> bytes:
        """Raises InputError."""
        return self._file.read() if self._data is None else self._data
