"""Writes changes of a table to the kernel, in an order that loses no packet, and counts the table's elements.

nft reads all sets before each transaction, and takes ten times as long for one as the kernel does. So frequent changes,
which change only elements, are sent as netlink messages. Changes of chains and sets use nft, and so do changes that the
kernel refused, because nft reports the reason. The numbers are those of ``linux/netfilter/nfnetlink.h``.
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from zoneward.netlink.messages import ACKNOWLEDGE, GENERIC, REQUEST, encode_message, nested, string_attribute
from zoneward.netlink.nftables import (
    DEL_ELEMENTS,
    ELEMENTS,
    FAMILY_NUMBERS,
    NEW_ELEMENTS,
    SET,
    SUBSYSTEM,
    TABLE,
    ElementWriter,
    parse_field_types,
)
from zoneward.proxy.kernel.nft_client import KernelClient, KernelOutcomeUnknown, KernelRefused
from zoneward.proxy.ruleset.ruleset import Ruleset, RulesetChanges, SetDeclaration, render_commands, split_changes


class TableWriter:
    """Writes to one table. ``element_counts``: the number of elements by set, of sets that only the proxy fills."""

    def __init__(self, kernel: KernelClient, *, clock: Callable[[], float]) -> None:
        self._kernel, self._clock = kernel, clock
        self._declared: Mapping[str, SetDeclaration] = {}
        self.element_counts: Counter[str] = Counter()

    def reset(self, present: Ruleset | None, declared: Mapping[str, SetDeclaration]) -> None:
        """Start from the present table. ``declared``: the sets that it will have."""
        self._declared = declared
        self.element_counts = Counter()
        if present is not None:
            self.element_counts.update({name: len(elements) for name, elements in present.elements.items()})

    async def apply(self, changes: RulesetChanges) -> float:
        """Apply changes, and return the seconds that the kernel took. Raises KernelRefused, and then nothing has
        changed, or KernelOutcomeUnknown."""
        ahead, rest, behind = split_changes(changes)
        seconds = await self._sent(ahead)
        try:
            seconds += await self._sent(rest)
        except KernelRefused:
            gone = frozenset(ahead.chains), frozenset(ahead.sets)
            try:
                await self._sent(replace(ahead, chains={}, sets={}, deleted_chains=gone[0], deleted_sets=gone[1]))
            except KernelRefused as error:
                raise KernelOutcomeUnknown(str(error)) from error
            raise
        try:
            seconds += await self._sent(behind)
        except KernelRefused as error:
            # The table is not in the expected state.
            raise KernelOutcomeUnknown(str(error)) from error
        counts = self.element_counts
        if changes.replaces_table:
            counts.clear()
        for name, elements in changes.removed_elements.items():
            counts[name] -= len(elements)
        for name, elements in changes.added_elements.items():
            counts[name] += len(elements)
        return seconds

    async def _sent(self, changes: RulesetChanges) -> float:
        """Send one transaction, and return its seconds."""
        if not changes:
            return 0.0
        batch = encode_transaction(changes, self._declared)
        commands = render_commands(changes) if batch is None else ""
        started_at = self._clock()
        if batch is None:
            await self._kernel.run_commands(commands)
        else:
            try:
                await self._kernel.send_batch(batch)
            except KernelRefused:
                # The netlink error is only a number; nft reports the element.
                await self._kernel.run_commands(render_commands(changes))
        return self._clock() - started_at


BEGIN, END = 16, 17
_CREATE: Final = 0x400
_AT_ONCE: Final = 500
"""The maximum number of elements in one message, which has to fit into 64 KiB."""


def encode_transaction(changes: RulesetChanges, declared: Mapping[str, SetDeclaration]) -> bytes | None:
    """One transaction as netlink messages; None if it is empty, or changes more than elements. ``declared``: the
    table's sets."""
    if changes.creates_table or changes.sets or changes.chains or changes.rewritten_chains:
        return None
    if changes.deleted_chains or changes.deleted_sets:
        return None
    messages: list[tuple[int, int, bytes]] = []
    for kind, flags, elements_by_set in (
        (DEL_ELEMENTS, 0, changes.removed_elements),
        (NEW_ELEMENTS, _CREATE, changes.added_elements),
    ):
        for name, changed in elements_by_set.items():
            parts = parse_field_types(declared[name].spec) if name in declared else None
            if parts is None:
                return None
            writer = ElementWriter(changes.family, parts)
            # The kernel deletes elements by key.
            elements = changed.items() if kind == NEW_ELEMENTS else ((key, "") for key in changed)
            where = string_attribute(TABLE, changes.table) + string_attribute(SET, name)
            try:
                messages += [(kind, flags, where + list_) for list_ in _lists(writer, elements)]
            except (OSError, ValueError, KeyError, struct.error):
                # The element is invalid; nft reports the reason.
                return None
    if not messages:
        return None
    family = FAMILY_NUMBERS[changes.family]
    encoded = [encode_message(BEGIN, REQUEST, struct.pack(">BBH", 0, 0, SUBSYSTEM))]
    for index, (kind, flags, body) in enumerate(messages):
        if index == len(messages) - 1:
            # Request a single answer: the transaction is applied as a whole or not at all.
            flags |= ACKNOWLEDGE
        encoded.append(encode_message(SUBSYSTEM << 8 | kind, flags | REQUEST, GENERIC.pack(family, 0, 0) + body))
    encoded.append(encode_message(END, REQUEST, struct.pack(">BBH", 0, 0, SUBSYSTEM)))
    return b"".join(encoded)


def _lists(writer: ElementWriter, elements: Iterable[tuple[str, str]]) -> Iterable[bytes]:
    remaining = iter(elements)
    while batch := [writer.write(key, value) for key, value in islice(remaining, _AT_ONCE)]:
        yield nested(ELEMENTS, batch)
