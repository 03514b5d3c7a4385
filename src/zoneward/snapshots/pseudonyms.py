"""Pseudonyms in the order of the real names, because decisions break ties by name.

A pseudonym is the kind with the index of the name among all of its kind, with leading zeros, so that pseudonyms sort as
the originals do. No pseudonym is a real name, and equal input gives equal pseudonyms.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from itertools import count, islice, product
from typing import Final

_OCTETS: Final = range(100, 256)
"""Octets with three digits, so that addresses sort as text."""
_GROUPS: Final = range(0x1000, 0x10000)
"""Groups of an IPv6 address with four digits."""
_HASHES: Final = ("0", "g")
"""The name of a planned slice ends in a hash, whose first character is between these."""
_SLICES_OF: Final = "slices of "

_COMPASS: Final = "(?:north|south|east|west|central|northeast|northwest|southeast|southwest)"
_CLOUDS: Final = re.compile(
    rf"(?:af|ap|ca|cn|eu|il|me|mx|sa|us)-(?:gov-)?{_COMPASS}-[0-9][a-z]?"  # Amazon's
    rf"|(?:africa|asia|australia|europe|me|northamerica|southamerica|us)-{_COMPASS}[0-9]{{1,2}}(?:-[a-z])?"  # Google's
    rf"|(?:{_COMPASS})?(?:us|uk|europe|asia|australia|india|japan|korea)(?:{_COMPASS})?[0-9]?(?:-[1-3])?"  # Azure's
    r"|(?:zone-?)?(?:[a-z]|[0-9]{1,2})",
    re.ASCII,
)


def is_public_place(name: str) -> bool:
    """Whether this is the zone or region of a cloud, or a name that says nothing, such as ``zone-a``."""
    return _CLOUDS.fullmatch(name) is not None


class Pseudonyms:
    """Collects names by kind and returns them unchanged; after `assign`, returns the pseudonyms of these names.

    An empty name stays empty.
    """

    def __init__(self) -> None:
        self._texts = defaultdict[str, set[str]](set)
        self._pseudonyms: dict[str, dict[str, str]] = {}

    def name(self, kind: str, text: str) -> str:
        if not text:
            return text
        if self._pseudonyms:
            return self._pseudonyms[kind][text]
        self._texts[kind].add(text)
        return text

    def slice(self, service: str, text: str) -> str:
        """The name of an EndpointSlice; ``service`` is the name of its Service, or empty."""
        return self.name(_SLICES_OF + service, text)

    def assign(self) -> None:
        """Give a pseudonym to each collected name."""
        real = {text for texts in self._texts.values() for text in texts}
        # Names of slices begin with the pseudonyms of their Services.
        for kind, texts in sorted(self._texts.items(), key=lambda item: item[0] != "service"):
            if kind in ("zone", "region") and all(map(is_public_place, texts)):
                # Keep all or none, so that they keep their order.
                self._pseudonyms[kind] = {text: text for text in texts}
                continue
            groups = defaultdict[str, list[str]](list)
            for text in sorted(texts):
                groups[self._form(kind, text)].append(text)
            self._pseudonyms[kind] = {
                text: pseudonym
                for form, group in groups.items()
                for text, pseudonym in zip(group, _free(form, len(group), real), strict=True)
            }

    def _form(self, kind: str, text: str) -> str:
        """The form of a pseudonym: a key of `_SERIES`, or text with a place for the index."""
        if kind == "address":
            # A domain name in an FQDN slice becomes another domain name.
            family = "IPv4" if text.replace(".", "").isdecimal() else "name-{}.example.com"
            return "IPv6" if ":" in text else family
        if kind == "protocol":
            return "example.com/protocol-{}"
        if not kind.startswith(_SLICES_OF):
            return f"{kind}-{{}}"
        service = kind.removeprefix(_SLICES_OF)
        pseudonym = self._pseudonyms.get("service", {}).get(service)
        return "slice-{}" if pseudonym is None else _slice_form(service, pseudonym, text)


def _free(form: str, length: int, real: Collection[str]) -> list[str]:
    """The first pseudonyms of a form that are no real names."""
    if form in _SERIES:
        return list(islice((name for name in _SERIES[form]() if name not in real), length))
    digits = len(str(length))
    while True:
        names = (form.format(f"{index:0{digits}}") for index in range(1, 10**digits))
        free = list(islice((name for name in names if name not in real), length))
        if len(free) == length:
            return free
        # Too many pseudonyms are real names.
        digits += 1


def _ipv4() -> Iterator[str]:
    """3.8 million private addresses, then public ones."""
    return (".".join(map(str, octets)) for octets in product(range(10, 100), _OCTETS, _OCTETS, _OCTETS))


def _ipv6() -> Iterator[str]:
    """Private addresses in the form of RFC 5952."""
    return (f"fd00::{high:x}:{low:x}" for high in _GROUPS for low in _GROUPS)


def _uids() -> Iterator[str]:
    return (f"00000000-0000-4000-8000-{index:012x}" for index in count(1))


_SERIES: Final[dict[str, Callable[[], Iterator[str]]]] = {"IPv4": _ipv4, "IPv6": _ipv6, "uid-{}": _uids}


def _slice_form(service: str, pseudonym: str, text: str) -> str:
    """For a slice of one Service: if two slices have the same address, the first by name wins.

    Therefore they also keep their order relative to planned slices, which have the name of the Service with a hyphen
    and a hash.
    """
    prefix, (first, last) = f"{service}-", _HASHES
    if not text.startswith(prefix):
        return f"a-slice-of-{pseudonym}-{{}}" if text < prefix else f"z-slice-of-{pseudonym}-{{}}"
    rest = text.removeprefix(prefix)
    if rest < first:
        return f"{pseudonym}--{{}}"
    return f"{pseudonym}-a{{}}" if rest < last else f"{pseudonym}-z{{}}"
