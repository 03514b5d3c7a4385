"""Changes of a table put to the kernel, in the order in which they harm no packet, and how much there is then."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from zoneward.proxy.kernel.element_batch import batch
from zoneward.proxy.kernel.nft_client import Kernel, Lost, Refused
from zoneward.proxy.ruleset.difference import apart
from zoneward.proxy.ruleset.nft_commands import text
from zoneward.proxy.ruleset.ruleset import Changes, Declared, Ruleset


class TableWriter:
    """Of one table. ``numbers`` are those of its elements by set, for sets that only we fill."""

    def __init__(self, kernel: Kernel, *, clock: Callable[[], float]) -> None:
        self._kernel, self._clock = kernel, clock
        self._declared: Mapping[str, Declared] = {}
        self.numbers: Counter[str] = Counter()

    def begin(self, present: Ruleset | None, declared: Mapping[str, Declared]) -> None:
        """What there is, and the sets that there will be."""
        self._declared = declared
        self.numbers = Counter()
        if present is not None:
            self.numbers.update({name: len(some) for name, some in present.elements.items()})

    async def apply(self, changes: Changes) -> float:
        """The seconds that the kernel took. Raises Refused, and then nothing has changed, or Lost."""
        ahead, rest, behind = apart(changes)
        seconds = await self._sent(ahead)
        try:
            seconds += await self._sent(rest)
        except Refused:
            gone = frozenset(ahead.chains), frozenset(ahead.sets)
            try:
                await self._sent(replace(ahead, chains={}, sets={}, gone_chains=gone[0], gone_sets=gone[1]))
            except Refused as error:
                raise Lost(str(error)) from error
            raise
        try:
            seconds += await self._sent(behind)
        except Refused as error:
            # Then it is not as we know it to be.
            raise Lost(str(error)) from error
        numbers = self.numbers
        if changes.replaces:
            numbers.clear()
        for name, some in changes.removed.items():
            numbers[name] -= len(some)
        for name, some in changes.added.items():
            numbers[name] += len(some)
        return seconds

    async def _sent(self, changes: Changes) -> float:
        """One transaction."""
        if not changes:
            return 0.0
        found = batch(changes, self._declared)
        commands = text(changes) if found is None else ""
        begun = self._clock()
        if found is None:
            await self._kernel.run(commands)
        else:
            try:
                await self._kernel.send(found)
            except Refused:
                # Its reason is a number; nft says which element it is.
                await self._kernel.run(text(changes))
        return self._clock() - begun
