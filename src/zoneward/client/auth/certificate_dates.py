"""Until when a certificate is valid. The standard library tells that of no certificate of our own."""

import re
import ssl
from datetime import UTC, datetime
from typing import Final

PEM_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_UTC_TIME: Final = 0x17
_VERSION: Final = 0xA0


def certificate_expiry(pem: bytes) -> datetime | None:
    """The end of the first certificate's validity (RFC 5280 § 4.1); None for what can't be read."""
    block = PEM_CERTIFICATE.search(pem)
    try:
        return _not_after(ssl.PEM_cert_to_DER_cert(block[0].decode())) if block else None
    except (ValueError, IndexError):
        return None


def _not_after(der: bytes) -> datetime:
    _, certificate, _ = _element(der)
    _, rest, _ = _element(certificate)
    tag, _, behind = _element(rest)
    if tag == _VERSION:  # of v1 certificates it is left out
        rest = behind
    for _ in ("serial number", "signature algorithm", "issuer"):
        _, _, rest = _element(rest)
    _, validity, _ = _element(rest)
    _, _, rest = _element(validity)
    tag, time, _ = _element(rest)
    text = time.decode("ascii")
    # Two digits of a year: 50 and later are of the last century.
    year = ("19" if text[:2] >= "50" else "20") if tag == _UTC_TIME else ""
    return datetime.strptime(year + text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _element(der: bytes) -> tuple[int, bytes, bytes]:
    """Tag, content and what follows of the first element."""
    length, start = der[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start], "big")
    return der[0], der[start : start + length], der[start + length :]
