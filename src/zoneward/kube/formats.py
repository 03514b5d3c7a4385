"""Formats of text in the API: names, labels, keys, addresses and quantities.

Every ``*_problems`` yields upstream's message for each broken rule, nothing for valid text. The rules are those of
``k8s.io/apimachinery/pkg/api/validate/content`` and ``k8s.io/apimachinery/pkg/util/validation/ip.go`` (v1.37).
Lengths are in bytes.

Quantities are exact: ``3920m``, ``4``, ``3.92``, ``1e3``, ``2k``, ``1Ki``. The grammar is the API's own: a signed
decimal number and either a decimal exponent, a decimal suffix (``n u m k M G T P E``) or a binary one (``Ki Mi Gi Ti Pi
Ei``). Values are fractions, so that adding them never loses anything.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from math import ceil
from typing import Final

MAX_NAME_LENGTH: Final = 253
"""Bytes in the name of an object that is a DNS subdomain."""
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_ENDS: Final = "and must start and end with an alphanumeric character"

# --- names ------------------------------------------------------------------------------------------------------------


def label_problems(text: str) -> Iterator[str]:
    """A DNS label (RFC 1123) in lower case, up to 63 bytes."""
    yield from _too_long(text, 63, unit="characters")
    if re.fullmatch(_LABEL, text):
        return
    if re.fullmatch(_SUBDOMAIN, text):
        yield "must not contain dots"
        return
    rule = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
    yield _mismatch(f"{rule}, {_ENDS}", _LABEL, "my-name", "123-abc")


def subdomain_problems(text: str, *, unit: str = "characters") -> Iterator[str]:
    """A DNS subdomain (RFC 1123) in lower case, up to 253 bytes, such as the name of a Node or an EndpointSlice."""
    yield from _too_long(text, MAX_NAME_LENGTH, unit=unit)
    if not re.fullmatch(_SUBDOMAIN, text):
        rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
        yield _mismatch(f"{rule}, {_ENDS}", _SUBDOMAIN, "example.com")


def name_with_suffix(name: str, suffix: str) -> str:
    """A name of an object with a suffix. A long name is cut, so that it does not end with a dot or a hyphen."""
    return name[: MAX_NAME_LENGTH - len(suffix)].rstrip(".-") + suffix


def label_value_problems(text: str) -> Iterator[str]:
    """The value of a label, such as a zone: empty, or up to 63 bytes."""
    yield from _too_long(text, 63)
    if text and not re.fullmatch(_NAME, text):
        rule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'"
        yield _mismatch(f"{rule}, {_ENDS}", f"({_NAME})?", "MyValue", "my_value", "12345")


def qualified_name_problems(text: str) -> Iterator[str]:
    """The key of a label: a name of up to 63 bytes, with an optional prefix of a DNS subdomain and a slash."""
    rule = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
    mismatch = _mismatch(rule, _NAME, "MyName", "my.name", "123-abc")
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        yield f"a valid label key {mismatch} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {problem}" for problem in subdomain_problems(prefix, unit="bytes"))
    if not name:
        yield "name part must be non-empty"
    yield from (f"name part {problem}" for problem in _too_long(name, 63))
    if not re.fullmatch(_NAME, name):
        yield f"name part {mismatch}"


def size(text: str) -> int:
    """Length in bytes, the unit of the API's limits."""
    return len(text.encode(errors="surrogatepass"))


def _too_long(text: str, limit: int, *, unit: str = "bytes") -> Iterator[str]:
    # Upstream counts bytes, and for some names calls them characters.
    if size(text) > limit:
        yield f"must be no more than {limit} {unit}"


def _mismatch(rule: str, pattern: str, *examples: str) -> str:
    # The comma and the double space around "or" are upstream's: people search for the exact message.
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


# --- addresses --------------------------------------------------------------------------------------------------------

Address = IPv4Address | IPv6Address
_LEADING_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F])0+(?=[0-9a-fA-F])")


def parse_address(text: str) -> Address | None:
    """An address as upstream's sloppy parser reads it, with leading zeros; None for anything else and IPv6 zones."""
    try:
        return None if "%" in text else ip_address(_LEADING_ZEROS.sub("", text))
    except ValueError:
        return None


def address_problems(text: str, *, canonical: bool) -> Iterator[str]:
    """At most one problem of an IP address of either family; ``canonical`` requires the form of RFC 5952."""
    address = parse_address(text)
    if address is None:
        yield "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    elif not _is_strict(text):
        yield "must not have leading 0s"
    elif isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        yield "must not be an IPv4-mapped IPv6 address"
    elif canonical and str(address) != text:
        yield f"must be in canonical form ({quoted(str(address))})"


_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_USUAL: Final = re.compile(rf"(?!127\.|169\.254\.)(?:2[01][0-9]|22[0-3]|1[0-9]{{2}}|[1-9][0-9]?)(?:\.{_BYTE}){{3}}")
"""An IPv4 address of a host without leading zeros."""


def endpoint_address(text: str) -> str | None:
    """The canonical form of an address, which an API server requires in an EndpointSlice; None for an address that it
    refuses there.

    The status of a Pod may have any IPv6 form, and loopback, link-local and unspecified addresses.
    """
    return text if _USUAL.fullmatch(text) else _canonical(text)


@lru_cache(maxsize=1 << 14)
def _canonical(text: str) -> str | None:
    address = parse_address(text)
    if address is None or (isinstance(address, IPv6Address) and address.ipv4_mapped is not None):
        return None
    return None if any(destination_problems(text, address)) else str(address)


def _is_strict(text: str) -> bool:
    # `parse_address` also accepts leading zeros, which C libraries read as octal.
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def destination_problems(text: str, address: Address) -> Iterator[str]:
    """Reasons why other nodes cannot send traffic to an address (upstream's ``ValidateEndpointIP``).

    Multicast beyond the link is accepted, which upstream calls probably a bug.
    """
    if address.is_unspecified:
        yield f"may not be unspecified ({text})"
    if address.is_loopback:
        yield "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    if address.is_link_local:
        yield "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    if _is_link_local_multicast(address.packed):
        yield "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"


def _is_link_local_multicast(packed: bytes) -> bool:
    if len(packed) == 4:
        return packed[:3] == b"\xe0\x00\x00"
    # The low half of the second byte is the scope, the high half has flags (RFC 4291 § 2.7).
    return packed[0] == 0xFF and packed[1] & 0x0F == 2


# --- quotes -----------------------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """Text as a Go string literal, as in upstream's messages."""
    return '"' + "".join(map(_literal, text)) + '"'


def _literal(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    if code in range(7, 14):
        return "\\" + "abtnvfr"[code - 7]
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# --- quantities -------------------------------------------------------------------------------------------------------


_NUMBER: Final = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+)|([a-zA-Z]{0,2}))", re.ASCII)
_LARGEST_EXPONENT: Final = 1000
"""An API server takes any. Beyond this one, what is added and compared is the same as at it."""
_MOST_DIGITS: Final = 4000
"""Digits behind the point that are read, and digits before it, beyond which a number counts as that large."""
_SUFFIXES: Final = {"": Fraction(1)}
for _power, _suffix in enumerate("num", start=-3):
    _SUFFIXES[_suffix] = Fraction(1000) ** _power
for _power, _suffix in enumerate("kMGTPE", start=1):
    _SUFFIXES[_suffix] = Fraction(1000) ** _power
    _SUFFIXES[f"{_suffix.upper()}i"] = Fraction(1024) ** _power


@lru_cache(maxsize=4096)
def parse_quantity(text: str | int | float) -> Fraction:
    """The exact value of a quantity. Raises ValueError, with what was expected, where it is none.

    A number without quotes in YAML or JSON arrives as int or float; the shortest text that reads back as the same float
    is what its author wrote.
    """
    written = repr(text) if isinstance(text, float) else str(text)
    match = _NUMBER.fullmatch(written)
    if match is None or (match[4] is not None and match[4] not in _SUFFIXES):
        raise ValueError(f"expected a quantity such as 4, 3920m, 3.92 or 1e3, got {written!r}")
    sign, digits, exponent, suffix = match.groups()
    scale = _SUFFIXES[suffix] if exponent is None else Fraction(10) ** _bounded(exponent)
    whole, _, part = digits.partition(".")
    whole = whole.lstrip("0") or "0"
    if len(whole) > _MOST_DIGITS:
        whole, part = "9" * _MOST_DIGITS, ""
    value = Fraction(f"{whole}.{part[:_MOST_DIGITS]}" if part else whole) * scale
    return -value if sign == "-" else value


def _bounded(exponent: str) -> int:
    sign, digits = exponent[:1].strip("+0123456789"), exponent.lstrip("+-").lstrip("0") or "0"
    value = int(digits) if len(digits) <= len(str(_LARGEST_EXPONENT)) else _LARGEST_EXPONENT
    return min(value, _LARGEST_EXPONENT) * (-1 if sign else 1)


def in_milli(value: Fraction) -> int:
    """A quantity in thousandths, rounded up as Kubernetes does (``Quantity.MilliValue``)."""
    return ceil(value * 1000)
