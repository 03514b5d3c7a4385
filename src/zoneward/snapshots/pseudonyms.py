"""Pseudonyms in the order of the real names, because decisions break ties by name.

A pseudonym is the kind with the index of the name among all of its kind, with leading zeros, so that pseudonyms sort as
the originals do. No pseudonym is a real name, and equal input gives equal pseudonyms.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import count, islice
from typing import Final, Literal, Protocol

from zoneward.snapshots.public_values import is_public_place

NameKind = Literal[
    "namespace",
    "service",
    "pod",
    "node",
    "host",
    "owner",
    "workload",
    "claim",
    "volume",
    "lease",
    "key",
    "value",
    "uid",
    "address",
    "port",
    "protocol",
    "zone",
    "region",
    "unknown",
]
_PLACES: Final = ("zone", "region")
_OCTETS: Final = range(100, 256)
"""Octets with three digits, so that addresses sort as text."""
_GROUPS: Final = range(0x1000, 0x10000)
"""Groups of an IPv6 address with four digits."""
_HASHES: Final = ("0", "g")
"""The name of a planned slice ends in a hash, whose first character is between these."""


class NameMap(Protocol):
    """Maps names to pseudonyms."""

    def name(self, kind: NameKind, text: str) -> str: ...
    def slice(self, service: str, text: str) -> str: ...


class NameCollector:
    """Collects all names by kind, and returns them unchanged."""

    def __init__(self) -> None:
        self._names: defaultdict[NameKind, set[str]] = defaultdict(set)
        self._slices: defaultdict[str, set[str]] = defaultdict(set)

    def name(self, kind: NameKind, text: str) -> str:
        self._names[kind].add(text)
        return text

    def slice(self, service: str, text: str) -> str:
        """The name of an EndpointSlice; ``service`` is the name of its Service, or empty."""
        self._slices[service].add(text)
        return text

    def pseudonyms(self) -> "Pseudonyms":
        """A pseudonym for each collected name."""
        real = {name for names in (*self._names.values(), *self._slices.values()) for name in names} - {""}
        names: dict[NameKind, dict[str, str]] = {}
        for kind, texts in self._names.items():
            texts.discard("")
            if kind in _PLACES and all(map(is_public_place, texts)):
                # Keep all or none, so that they keep their order.
                names[kind] = {text: text for text in texts}
            elif kind == "address":
                names[kind] = _addresses(texts, real)
            elif kind == "uid":
                names[kind] = dict(zip(sorted(texts), _free(_uids(), real), strict=False))
            else:
                prefix = "example.com/protocol-" if kind == "protocol" else f"{kind}-"
                names[kind] = _numbered(prefix, texts, real)
        slices: dict[str, dict[str, str]] = {}
        for service, texts in self._slices.items():
            pseudonym = names.get("service", {}).get(service, "")
            slices[service] = _slice_names(service, pseudonym, texts - {""}, real)
        return Pseudonyms(names, slices)


class Pseudonyms:
    """The pseudonyms of the names in a `NameCollector`. An empty name stays empty."""

    def __init__(self, names: dict[NameKind, dict[str, str]], slices: dict[str, dict[str, str]]) -> None:
        self._names, self._slices = names, slices

    def name(self, kind: NameKind, text: str) -> str:
        return self._names[kind][text] if text else text

    def slice(self, service: str, text: str) -> str:
        return self._slices[service][text] if text else text


def _numbered(prefix: str, texts: Collection[str], real: Collection[str]) -> dict[str, str]:
    digits = len(str(len(texts)))
    while True:
        pseudonyms = (f"{prefix}{index:0{digits}}" for index in range(1, 10**digits))
        free = list(islice(_free(pseudonyms, real), len(texts)))
        if len(free) == len(texts):
            return dict(zip(sorted(texts), free, strict=True))
        # Too many pseudonyms are real names.
        digits += 1


def _free(pseudonyms: Iterable[str], real: Collection[str]) -> Iterator[str]:
    return (pseudonym for pseudonym in pseudonyms if pseudonym not in real)


def _uids() -> Iterator[str]:
    return (f"00000000-0000-4000-8000-{index:012x}" for index in count(1))


# --- EndpointSlices ---------------------------------------------------------------------------------------------------


def _slice_names(service: str, pseudonym: str, texts: Collection[str], real: Collection[str]) -> dict[str, str]:
    """Names of the slices of one Service: if two slices have the same address, the first by name wins.

    Therefore they also keep their order relative to planned slices, which have the name of the Service with a hyphen
    and a hash.
    """
    if not pseudonym:
        return _numbered("slice-", texts, real)
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(_slice_prefix(text, f"{service}-", pseudonym), []).append(text)
    return {text: name for prefix, group in groups.items() for text, name in _numbered(prefix, group, real).items()}


def _slice_prefix(text: str, service_prefix: str, pseudonym: str) -> str:
    if not text.startswith(service_prefix):
        return f"a-slice-of-{pseudonym}-" if text < service_prefix else f"z-slice-of-{pseudonym}-"
    rest = text.removeprefix(service_prefix)
    first, last = _HASHES
    if rest < first:
        return f"{pseudonym}--"
    return f"{pseudonym}-a" if rest < last else f"{pseudonym}-z"


# --- addresses --------------------------------------------------------------------------------------------------------


def _addresses(texts: Iterable[str], real: Collection[str]) -> dict[str, str]:
    """Addresses of the same family; a domain name in an FQDN slice becomes another domain name."""
    parts: dict[str, list[str]] = {"IPv4": [], "IPv6": [], "FQDN": []}
    for text in texts:
        is_number = text.replace(".", "").isdecimal()
        parts["IPv6" if ":" in text else "IPv4" if is_number else "FQDN"].append(text)
    pseudonyms = dict(zip(sorted(parts["IPv4"]), _free(_ipv4(), real), strict=False))
    pseudonyms.update(zip(sorted(parts["IPv6"]), _free(_ipv6(), real), strict=False))
    real_names = {name.removesuffix(".example.com") for name in real}
    for text, name in _numbered("name-", parts["FQDN"], real_names).items():
        pseudonyms[text] = f"{name}.example.com"
    return pseudonyms


def _ipv4() -> Iterator[str]:
    """3.8 million private addresses, then public ones."""
    return (
        f"{first}.{second}.{third}.{fourth}"
        for first in range(10, 100)
        for second in _OCTETS
        for third in _OCTETS
        for fourth in _OCTETS
    )


def _ipv6() -> Iterator[str]:
    """Private addresses in the form of RFC 5952."""
    return (f"fd00::{high:x}:{low:x}" for high in _GROUPS for low in _GROUPS)
