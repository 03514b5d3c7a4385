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

    def assign(self) -> None:
        """Give a pseudonym to each collected name."""
        real = {text for texts in self._texts.values() for text in texts}
        for kind, texts in self._texts.items():
            if kind in ("zone", "region") and all(map(is_public_place, texts)):
                # Keep all or none, so that they keep their order.
                self._pseudonyms[kind] = {text: text for text in texts}
                continue
            groups = defaultdict[str, list[str]](list)
            for text in sorted(texts):
                groups[_form(kind, text)].append(text)
            self._pseudonyms[kind] = {
                text: pseudonym
                for form, group in groups.items()
                for text, pseudonym in zip(group, _free(form, len(group), real), strict=True)
            }


def _form(kind: str, text: str) -> str:
    """The form of the pseudonyms of a name: a key of `_SERIES`, or text with a place for the index."""
    match kind:
        case "address" if ":" in text:
            return "IPv6"
        case "address" if text.replace(".", "").isdecimal():
            return "IPv4"
        case "address":
            # A domain name in an FQDN slice becomes another domain name.
            return "name-{}.example.com"
        case "protocol":
            return "example.com/protocol-{}"
        case _:
            return f"{kind}-{{}}"


def _free(form: str, length: int, real: Collection[str]) -> list[str]:
    """The first pseudonyms of a form that are no real names."""
    if form in _SERIES:
        series = _SERIES[form]()
    else:
        stem = form.partition("{")[0]
        digits = len(str(length + sum(name.startswith(stem) for name in real)))
        series = (form.format(f"{index:0{digits}}") for index in count(1))
    return list(islice((name for name in series if name not in real), length))


def _ipv4() -> Iterator[str]:
    """3.8 million private addresses, then public ones."""
    return (".".join(map(str, octets)) for octets in product(range(10, 100), _OCTETS, _OCTETS, _OCTETS))


def _ipv6() -> Iterator[str]:
    """Private addresses in the form of RFC 5952."""
    return (f"fd00::{high:x}:{low:x}" for high in _GROUPS for low in _GROUPS)


def _uids() -> Iterator[str]:
    return (f"00000000-0000-4000-8000-{index:012x}" for index in count(1))


_SERIES: Final[dict[str, Callable[[], Iterator[str]]]] = {"IPv4": _ipv4, "IPv6": _ipv6, "uid-{}": _uids}
