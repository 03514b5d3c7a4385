"""Made-up names for real ones, in the same order: what is chosen by the order of names is chosen as before.

NameMap are numbered by their place among all of their kind, with as many digits each, so that as text they sort as the
originals do. No made-up name is one that stood for something in the original, and equal input gives equal names.
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
_FORMS: Final[dict[NameKind, str]] = {
    "namespace": "namespace-",
    "service": "service-",
    "pod": "pod-",
    "node": "node-",
    "host": "host-",
    "owner": "owner-",
    "workload": "workload-",
    "claim": "claim-",
    "volume": "volume-",
    "lease": "lease-",
    "key": "key-",
    "port": "port-",
    "zone": "zone-",
    "region": "region-",
    "unknown": "unknown-",
    "value": "value-",
    "protocol": "example.com/protocol-",
}
_PLACES: Final = ("zone", "region")
_OCTETS: Final = range(100, 256)
"""Octets with three digits, so that addresses sort as text."""
_GROUPS: Final = range(0x1000, 0x10000)
"""Groups of an IPv6 address with four digits."""
_HASHES: Final = ("0", "g")
"""A slice that is made up later ends in a hash, whose first character lies between these."""


class NameMap(Protocol):
    """Asked for every name in turn, what it is to be."""

    def name(self, kind: NameKind, text: str) -> str: ...
    def slice(self, service: str, text: str) -> str: ...


class NameCollector:
    """Every name that there is, by kind; it returns what it is given."""

    def __init__(self) -> None:
        self._names: defaultdict[NameKind, set[str]] = defaultdict(set)
        self._slices: defaultdict[str, set[str]] = defaultdict(set)

    def name(self, kind: NameKind, text: str) -> str:
        """A name that is empty stays so, and stands for nothing."""
        self._names[kind].add(text)
        return text

    def slice(self, service: str, text: str) -> str:
        """The name of an EndpointSlice of a Service; ``service`` is empty where it says it has none."""
        self._slices[service].add(text)
        return text

    def pseudonyms(self) -> "Pseudonyms":
        """One for each name that was gathered."""
        real = {name for names in (*self._names.values(), *self._slices.values()) for name in names} - {""}
        names: dict[NameKind, dict[str, str]] = {}
        for kind, texts in self._names.items():
            texts.discard("")
            if kind in _PLACES and all(map(is_public_place, texts)):
                # All or none: they keep their order among each other.
                names[kind] = {text: text for text in texts}
            elif kind == "address":
                names[kind] = _addresses(texts, real)
            elif kind == "uid":
                names[kind] = dict(zip(sorted(texts), _free(_uids(), real), strict=False))
            else:
                names[kind] = _numbered(_FORMS[kind], texts, real)
        slices: dict[str, dict[str, str]] = {}
        for service, texts in self._slices.items():
            made_up = names.get("service", {}).get(service, "")
            slices[service] = _slice_names(service, made_up, texts - {""}, real)
        return Pseudonyms(names, slices)


class Pseudonyms:
    """What stands for what. Made by `NameCollector`, and asked the same questions."""

    def __init__(self, names: dict[NameKind, dict[str, str]], slices: dict[str, dict[str, str]]) -> None:
        self._names, self._slices = names, slices

    def name(self, kind: NameKind, text: str) -> str:
        return self._names[kind][text] if text else text

    def slice(self, service: str, text: str) -> str:
        return self._slices[service][text] if text else text


def _numbered(form: str, texts: Collection[str], real: Collection[str]) -> dict[str, str]:
    digits = len(str(len(texts)))
    while True:
        made_up = (f"{form}{number:0{digits}}" for number in range(1, 10**digits))
        free = list(islice(_free(made_up, real), len(texts)))
        if len(free) == len(texts):
            return dict(zip(sorted(texts), free, strict=True))
        # Too many numbers are real names.
        digits += 1


def _free(made_up: Iterable[str], real: Collection[str]) -> Iterator[str]:
    return (each for each in made_up if each not in real)


def _uids() -> Iterator[str]:
    return (f"00000000-0000-4000-8000-{number:012x}" for number in count(1))


# --- EndpointSlices ---------------------------------------------------------------------------------------------------


def _slice_names(service: str, made_up: str, texts: Collection[str], real: Collection[str]) -> dict[str, str]:
    """Names of the slices of one Service. Where two slices have the same address, the first by name counts.

    So they also keep their place among slices that a plan makes up: those are called like the Service with a hyphen and
    a hash, and whoever sorts before or behind all of these still does.
    """
    if not made_up:
        return _numbered("slice-", texts, real)
    prefix = f"{service}-"
    forms: dict[str, list[str]] = {}
    for text in texts:
        forms.setdefault(_slice_form(text, prefix, made_up), []).append(text)
    return {text: name for form, part in forms.items() for text, name in _numbered(form, part, real).items()}


def _slice_form(text: str, prefix: str, made_up: str) -> str:
    if not text.startswith(prefix):
        return f"a-slice-of-{made_up}-" if text < prefix else f"z-slice-of-{made_up}-"
    rest = text.removeprefix(prefix)
    first, last = _HASHES
    if rest < first:
        return f"{made_up}--"
    return f"{made_up}-a" if rest < last else f"{made_up}-z"


# --- addresses --------------------------------------------------------------------------------------------------------


def _addresses(texts: Iterable[str], real: Collection[str]) -> dict[str, str]:
    """Addresses of the same family; what is none, in a slice of domain names, becomes a domain name."""
    parts: dict[str, list[str]] = {"IPv4": [], "IPv6": [], "FQDN": []}
    for text in texts:
        is_number = text.replace(".", "").isdecimal()
        parts["IPv6" if ":" in text else "IPv4" if is_number else "FQDN"].append(text)
    found = dict(zip(sorted(parts["IPv4"]), _free(_ipv4(), real), strict=False))
    found.update(zip(sorted(parts["IPv6"]), _free(_ipv6(), real), strict=False))
    for text, name in _numbered("name-", parts["FQDN"], {each.removesuffix(".example.com") for each in real}).items():
        found[text] = f"{name}.example.com"
    return found


def _ipv4() -> Iterator[str]:
    """Private addresses, 3.8 million of them, and then some that are not."""
    return (
        f"{first}.{second}.{third}.{fourth}"
        for first in range(10, 100)
        for second in _OCTETS
        for third in _OCTETS
        for fourth in _OCTETS
    )


def _ipv6() -> Iterator[str]:
    """Private addresses as RFC 5952 spells them."""
    return (f"fd00::{high:x}:{low:x}" for high in _GROUPS for low in _GROUPS)
