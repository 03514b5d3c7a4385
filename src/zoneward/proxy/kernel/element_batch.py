"""Changes of elements alone as one transaction in the kernel's own words.

nft reads all sets before each transaction, and takes ten times as long for one as the kernel does. So what happens all
the time goes past it; what makes or takes away chains and sets is for nft, and so is what the kernel refuses: its words
say why. The numbers are those of ``linux/netfilter/nfnetlink.h``.
"""

import struct
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from zoneward.netlink.messages import GENERIC, HEADER, nested, text
from zoneward.netlink.nftables import FAMILY_NUMBERS, SUBSYSTEM
from zoneward.netlink.nftables_elements import (
    DEL_ELEMENTS,
    ELEMENTS,
    NEW_ELEMENTS,
    SET,
    TABLE,
    ElementWriter,
    fields,
)
from zoneward.proxy.ruleset.ruleset import Changes, Declared

BEGIN, END = 16, 17
_REQUEST, _ACKNOWLEDGE, _CREATE = 0x1, 0x4, 0x400
_AT_ONCE: Final = 500
"""Elements in one message: they have to fit into 64 KiB."""


def batch(changes: Changes, declared: Mapping[str, Declared]) -> bytes | None:
    """One transaction; None where there is more to do than elements, or nothing. ``declared``: sets of the table."""
    if changes.is_new or changes.sets or changes.chains or changes.rewritten:
        return None
    if changes.gone_chains or changes.gone_sets:
        return None
    messages: list[tuple[int, int, bytes]] = []
    for kind, flags, every in ((DEL_ELEMENTS, 0, changes.removed), (NEW_ELEMENTS, _CREATE, changes.added)):
        for name, some in every.items():
            parts = fields(declared[name]) if name in declared else None
            if parts is None:
                return None
            writer = ElementWriter(changes.family, parts)
            # The kernel finds what goes by its key.
            elements = some.items() if kind == NEW_ELEMENTS else ((key, "") for key in some)
            where = text(TABLE, changes.table) + text(SET, name)
            try:
                messages += [(kind, flags, where + each) for each in _lists(writer, elements)]
            except (OSError, ValueError, KeyError, struct.error):
                # It is none that a kernel could have: nft says what is wrong with it.
                return None
    if not messages:
        return None
    family = FAMILY_NUMBERS[changes.family]
    found = [_message(BEGIN, 0, struct.pack(">BBH", 0, 0, SUBSYSTEM))]
    for number, (kind, flags, body) in enumerate(messages):
        if number == len(messages) - 1:
            # One answer is enough: it comes when all is done, or none.
            flags |= _ACKNOWLEDGE
        found.append(_message(SUBSYSTEM << 8 | kind, flags, GENERIC.pack(family, 0, 0) + body))
    found.append(_message(END, 0, struct.pack(">BBH", 0, 0, SUBSYSTEM)))
    return b"".join(found)


def _lists(writer: ElementWriter, elements: Iterable[tuple[str, str]]) -> Iterable[bytes]:
    every = iter(elements)
    while some := [writer.element(key, value) for key, value in islice(every, _AT_ONCE)]:
        yield nested(ELEMENTS, some)


def _message(kind: int, flags: int, body: bytes) -> bytes:
    return HEADER.pack(HEADER.size + len(body), kind, flags | _REQUEST, 1, 0) + body + b"\0" * (-len(body) % 4)
