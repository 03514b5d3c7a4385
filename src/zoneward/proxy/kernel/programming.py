"""What a node serves, kept in its kernel: changes gathered into transactions, and mended when one of them fails.

A transaction holds at most 500 Services, each as a whole, or some ports of one that is large, each of these as a whole.
So no connection ever meets half of a change, and nobody waits for long. Where the kernel refuses one, its Services are
tried each alone, so that one that cannot be programmed holds up no other; where nobody knows what became of one, the
table is read again and what differs is written, and the Services that it had come after all others, few at a time.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Final, ParamSpec

from zoneward.client.backoff import Backoff
from zoneward.daemon.log import raised_at
from zoneward.netlink.messages import Family
from zoneward.proxy.kernel.applying import Kernel, Lost, Refused
from zoneward.proxy.kernel.kernel_elements import fields
from zoneward.proxy.kernel.kernel_reading import Incomplete
from zoneward.proxy.kernel.present import read_table, slots_there
from zoneward.proxy.kernel.watch import Expected, Watch
from zoneward.proxy.kernel.writing import TableWriter
from zoneward.proxy.model.served import ObjectKey, Served
from zoneward.proxy.ruleset.base_rules import TABLE, LayoutOptions, base_chains, base_sets
from zoneward.proxy.ruleset.difference import differences, merged
from zoneward.proxy.ruleset.kept_ruleset import KeptRuleset
from zoneward.proxy.ruleset.large_services import Parts, next_parts, size
from zoneward.proxy.ruleset.layout import Slots, portion, slots_of
from zoneward.proxy.ruleset.rule_comparison import Rules, differing, read_rules
from zoneward.proxy.ruleset.ruleset import Changes, Ruleset

_P = ParamSpec("_P")
AT_ONCE: Final = 500
"""Services in one transaction."""
MOST_ENTRIES: Final = 20_000
"""Entries (`zoneward.proxy.ruleset.large_services`) in one transaction: the kernel's process takes a tenth of a
second."""
MOST_LOST: Final = 4
"""Transactions of a Service that may be lost one after the other until it is set aside: with others, with few others,
and twice alone."""
_AT_ONCE_AGAIN: Final = 20
"""Services in one transaction, of those that a lost one had."""
LOOK_EVERY: Final = 2.0
AUDIT_EVERY: Final = 900.0
BACKOFF: Final = Backoff(initial=0.1, cap=5.0)
"""After a table could not be read or written."""


@dataclass(frozen=True, slots=True)
class Programmed:
    """One transaction that the kernel took: the Services as they were put (None: gone), how many elements came or went,
    and the kernel's seconds."""

    services: Mapping[ObjectKey, Served | None]
    elements: int
    seconds: float


def _refusing(change: Callable[_P, Changes]) -> Callable[_P, Changes]:
    """A mistake in the program counts as a refusal: the Service is set aside, told of and tried again, as if the kernel
    did not take it, and holds up no other."""

    @wraps(change)
    def changed(*given: _P.args, **named: _P.kwargs) -> Changes:
        try:
            return change(*given, **named)
        except Exception as error:
            raise Refused(f"a mistake in the program: {type(error).__name__}: {error} ({raised_at(error)})") from error

    return changed


def _nobody(*_: object) -> None:
    pass


class FamilyTable:
    """The table of one family. `put` all that is served, and `run`; then `put` what changes.

    What a found table has besides goes as soon as it runs. ``on_refused`` is told of a Service that the kernel does not
    take, and why; it is tried again when it changes, and at each `audit`. One for which nobody answers in time is tried
    again at an audit alone: it takes the time of all others. ``on_mended`` is told what somebody else had
    changed (``table``, ``chains``, ``sets``, ``elements``, ``rules``), and how many. Every ``look_every`` seconds a
    cheap look tells whether somebody did, every ``audit_every`` a thorough one.
    """

    def __init__(
        self,
        kernel: Kernel,
        family: Family,
        *,
        table: str = TABLE,
        options: LayoutOptions,
        on_programmed: Callable[[Programmed], None] = _nobody,
        on_refused: Callable[[ObjectKey, str], None] = _nobody,
        on_mended: Callable[[str, int], None] = _nobody,
        on_trouble: Callable[[str], None] = _nobody,
        look_every: float = LOOK_EVERY,
        audit_every: float = AUDIT_EVERY,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._kernel, self._family, self._table, self._options = kernel, family, table, options
        self._on_programmed, self._on_refused = on_programmed, on_refused
        self._on_mended, self._on_trouble = on_mended, on_trouble
        self._look_every, self._audit_every = look_every, audit_every
        self._served: dict[ObjectKey, Served] = {}
        self._slots: dict[ObjectKey, Slots] = {}
        self._waiting: dict[ObjectKey, None] = {}
        self._under_way: Mapping[ObjectKey, Served | None] = {}
        self._refused: dict[ObjectKey, str] = {}
        self._there: dict[ObjectKey, Parts] = {}
        """Services as they were programmed since the table was read."""
        self._accepted: dict[ObjectKey, Parts] = {}
        """Services as the kernel last had them as a whole."""
        self._aside: dict[ObjectKey, Parts] = {}
        """What is programmed of Services that were refused, in place of what is served."""
        self._lost: dict[ObjectKey, int] = {}
        """How many transactions in a row were lost that had the Service."""
        self._kept: KeptRuleset | None = None
        """None: what the kernel has is not known."""
        self._known = False
        """What the kernel has was known until somebody else changed it."""
        self._writer = TableWriter(kernel, clock=clock)
        self._watch = Watch(kernel, family, table)
        self._rules: Rules = {}
        self._is_due_look = self._is_due_audit = False
        self._something = asyncio.Event()
        self._settled = asyncio.Event()

    # --- what is served -----------------------------------------------------------------------------------------------

    def put(self, service: ObjectKey, served: Served | None) -> None:
        """A Service as it is now; None: it is gone, or not served in this family."""
        if self._served.get(service) == served:
            return
        if served is None:
            self._served.pop(service, None)
        else:
            self._served[service] = served
        if served is None:
            self._lost.pop(service, None)
        if service in self._lost and service in self._aside:
            self._on_refused(service, self._refused[service])
            return
        self._aside.pop(service, None)
        self._waiting[service] = None
        self._wake()

    def audit(self) -> None:
        """Compare everything with the kernel, and mend what differs."""
        self._is_due_audit = True
        self._wake()

    @property
    def options(self) -> LayoutOptions:
        return self._options

    @options.setter
    def options(self, options: LayoutOptions) -> None:
        if options != self._options:
            self._options = options
            self._forget()
            self._wake()

    def waits(self, service: ObjectKey) -> bool:
        """Whether the kernel may have a Service otherwise than it was put, and that will be mended."""
        return self._kept is None or service in self._waiting or service in self._under_way

    async def settled(self) -> None:
        """Until everything that was put is in the kernel, or was refused."""
        await self._settled.wait()

    @property
    def refused(self) -> Mapping[ObjectKey, str]:
        """Services that the kernel does not take, and why. What it took of them before is still there."""
        return MappingProxyType(self._refused)

    @property
    def elements(self) -> int:
        """How many the table has."""
        return self._writer.numbers.total()

    def _wake(self) -> None:
        self._settled.clear()
        self._something.set()

    def _forget(self, *, known: bool = False) -> None:
        self._kept, self._known = None, known

    # --- to the kernel ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled. Raises Unusable where rules cannot be programmed here at all."""
        ticking = asyncio.create_task(self._tick())
        failures = 0
        try:
            while True:
                await self._something.wait()
                self._something.clear()
                try:
                    await self._turn()
                except (Lost, Refused, Incomplete) as error:
                    self._on_trouble(str(error))
                    self._something.set()
                    failures += 1
                    await asyncio.sleep(BACKOFF.delay(failures))
                else:
                    failures = 0
                    self._settled.set()
        finally:
            ticking.cancel()
            with suppress(asyncio.CancelledError):
                await ticking

    async def _tick(self) -> None:
        until_audit = self._audit_every
        while True:
            await asyncio.sleep(min(self._look_every, self._audit_every))
            until_audit -= min(self._look_every, self._audit_every)
            self._is_due_look = True
            if until_audit <= 0:
                until_audit, self._is_due_audit = self._audit_every, True
            self._something.set()

    async def _turn(self) -> None:
        """Until nothing is left to do."""
        try:
            while True:
                kept = self._kept
                if kept is None:
                    await self._begin()
                elif self._is_due_audit:
                    await self._audit(kept)
                elif self._is_due_look:
                    self._is_due_look = False
                    if not await self._watch.is_untouched(self._expected(kept)):
                        # Only ever set here: an audit may have become due meanwhile.
                        self._is_due_audit = True
                elif self._waiting:
                    await self._step(kept)
                else:
                    return
        except BaseException:
            # Also where one is cancelled: nobody knows what became of a transaction.
            self._forget()
            raise

    # --- start --------------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Start from what the kernel has, whatever that is."""
        options, known, self._known, self._is_due_audit = self._options, self._known, False, False
        others = await self._watch.others()
        declared = base_sets(self._family, options)
        present = await read_table(self._kernel, self._family, self._table, declared)
        kept = KeptRuleset(self._family, self._table, options, present=present)
        self._recall(present)
        first = kept.begin()
        if known:
            self._tell_mended(present, first)
        self._there.clear()
        for service in [each for each in self._refused if each not in self._lost]:
            self._again(service)
        self._waiting = dict.fromkeys(sorted({*self._served, *self._waiting}))
        if not (first.replaces and await self._replaced(kept, first)):
            await self._program({}, [first])
        while self._waiting and options is self._options:
            await self._step(kept)
            await asyncio.sleep(0)
        if options is not self._options:
            return
        await self._mend_rules(kept, tell=True)
        await self._program({}, [kept.tidy()])
        if options is not self._options:
            return
        self._watch.seen(others)
        self._kept = kept

    def _recall(self, present: Ruleset | None) -> None:
        """What there is."""
        self._writer.begin(present, base_sets(self._family, self._options))
        if present is None:
            return
        for service, served in self._served.items():
            if service not in self._slots:
                there = slots_there(present, served)
                if there:
                    self._slots[service] = there

    async def _replaced(self, kept: KeptRuleset, first: Changes) -> bool:
        """Put another table in the place of one that serves: all of it in the same moment, so that nobody misses it."""
        some = {service: self._wanted(service) for service in self._waiting}
        # What is too large for one transaction comes after.
        some = {each: parts for each, parts in some.items() if next_parts((), parts, most=MOST_ENTRIES) == parts}
        before = self._waiting
        self._waiting = {each: None for each in before if each not in some}
        kept.mark()
        try:
            await self._program(
                self._reported(some), [first, *[self._change(kept, service, parts) for service, parts in some.items()]]
            )
        except BaseException as error:
            # Those that are gone stand nowhere else.
            self._waiting = before | self._waiting
            if not isinstance(error, Refused):
                raise
            kept.take_back()
            return False
        self._take(some)
        return True

    def _tell_mended(self, present: Ruleset | None, first: Changes) -> None:
        if present is None or first.replaces:
            self._on_mended("table", 1)

    async def _mend_rules(self, kept: KeptRuleset, *, tell: bool) -> None:
        """Write the rules of those chains again that are not as their names say."""
        whole = kept.whole()
        live = await read_rules(self._kernel, self._family, self._table)
        wrong = await differing(
            self._kernel, self._family, self._table, live=live, chains=whole.chains, sets=whole.sets
        )
        if wrong:
            if tell:
                self._on_mended("rules", len(wrong))
            rewritten = {name: whole.chains[name] for name in wrong}
            await self._writer.apply(Changes(family=self._family, table=self._table, rewritten=rewritten))
            live = await read_rules(self._kernel, self._family, self._table)
        self._rules = live

    # --- audit --------------------------------------------------------------------------------------------------------

    async def _audit(self, kept: KeptRuleset) -> None:
        self._is_due_audit = False
        others = await self._watch.others()
        whole = kept.whole()
        present = await read_table(self._kernel, self._family, self._table, whole.sets)
        wrong = None if present is None else differences(present, whole)
        if wrong is None or wrong:
            # Where the table has to be made anew, that is told when it is.
            for what, number in (wrong or {}).items():
                self._on_mended(what, number)
            self._forget(known=True)
            return
        await self._mend_rules(kept, tell=True)
        self._watch.seen(others)
        for service in tuple(self._refused):
            self._again(service)
            self._waiting[service] = None

    def _again(self, service: ObjectKey) -> None:
        """Try one that was refused again."""
        del self._refused[service]
        self._aside.pop(service, None)

    def _expected(self, kept: KeptRuleset) -> Expected:
        return Expected(
            chains=kept.chain_names,
            entered=base_chains(self._family, self._options),
            rules=self._rules,
            numbers={
                name: self._writer.numbers[name]
                for name, declared in base_sets(self._family, self._options).items()
                if fields(declared) is not None
            },
        )

    # --- changes ------------------------------------------------------------------------------------------------------

    async def _step(self, kept: KeptRuleset) -> None:
        """One transaction of what waits; where it is refused, one for each Service."""
        some = self._next()
        for service in some:
            del self._waiting[service]
        try:
            why = await self._tried(kept, some)
            if why is None:
                return
            if kept is self._kept and not await self._watch.is_untouched(self._expected(kept)):
                # It may be right, in a table that is not.
                self._waiting = dict.fromkeys(some) | self._waiting
                self._is_due_audit = True
                return
            for service, parts in some.items():
                alone = why if len(some) == 1 else await self._tried(kept, {service: parts})
                if alone is not None:
                    self._refuse(service, alone)
        except BaseException as error:
            self._waiting = dict.fromkeys(some) | self._waiting
            if isinstance(error, Lost):
                self._blame(some, str(error))
            raise

    def _next(self) -> dict[ObjectKey, Parts]:
        """What waits, as much as goes into one transaction: the kernel goes through all sets to add one."""
        some: Sequence[ObjectKey] = [each for each in self._waiting if each not in self._lost]
        number, room, found = AT_ONCE, MOST_ENTRIES, dict[ObjectKey, Parts]()
        if not some:
            least = min(self._lost[each] for each in self._waiting)
            some = [each for each in self._waiting if self._lost[each] == least]
            number = _AT_ONCE_AGAIN if least == 1 else 1
        for service in some[:number]:
            there, parts = self._toward(service)
            room -= min(MOST_ENTRIES, sum(map(size, (*there, *parts))))
            if found and room < 0:
                break
            found[service] = parts
        return found

    def _toward(self, service: ObjectKey) -> tuple[Parts, Parts]:
        """A Service as it is there, and as the next transaction makes it."""
        there = self._there.get(service, ())
        return there, next_parts(there, self._wanted(service), most=MOST_ENTRIES)

    def _wanted(self, service: ObjectKey) -> Parts:
        served = self._served.get(service)
        return self._aside.get(service, () if served is None else (served,))

    async def _tried(self, kept: KeptRuleset, some: Mapping[ObjectKey, Parts]) -> str | None:
        """None, or why the kernel does not take these Services; then everything is as before."""
        before = {service: self._slots.get(service) for service in some}
        kept.mark()
        self._under_way = {service: self._served.get(service) for service in some}
        whole = {service: parts for service, parts in some.items() if parts == self._wanted(service)}
        try:
            await self._program(
                self._reported(whole), [self._change(kept, service, parts) for service, parts in some.items()]
            )
        except Refused as error:
            kept.take_back()
            for service, slots in before.items():
                if slots is None:
                    self._slots.pop(service, None)
                else:
                    self._slots[service] = slots
            return str(error)
        finally:
            self._under_way = {}
        self._take(whole)
        for service in some.keys() - whole.keys():
            self._there[service] = some[service]
            # After all others.
            self._waiting[service] = None
        return None

    def _take(self, whole: Mapping[ObjectKey, Parts]) -> None:
        """The kernel has these Services as they were wanted."""
        for service, parts in whole.items():
            self._there[service] = self._accepted[service] = parts
            if not parts:
                del self._there[service], self._accepted[service]
            if service not in self._aside:
                self._refused.pop(service, None)
                self._lost.pop(service, None)

    def _reported(self, some: Mapping[ObjectKey, Parts]) -> dict[ObjectKey, Served | None]:
        return {service: self._served.get(service) for service in some if service not in self._aside}

    def _refuse(self, service: ObjectKey, why: str) -> None:
        """Set one aside: what the kernel took of it before stays, or comes back."""
        is_first = service not in self._aside
        self._aside[service] = self._accepted.get(service, ()) if is_first else ()
        if self._there.get(service, ()) != self._aside[service]:
            self._waiting[service] = None
        self._refused[service] = why
        self._on_refused(service, why)

    def _blame(self, some: Mapping[ObjectKey, Parts], why: str) -> None:
        """A transaction was lost, which may be the fault of a Service that it had."""
        for service in some:
            self._lost[service] = self._lost.get(service, 0) + 1
            if len(some) == 1 and self._lost[service] >= MOST_LOST:
                self._refuse(service, why)

    async def _program(self, some: Mapping[ObjectKey, Served | None], changes: Sequence[Changes]) -> None:
        whole = merged(changes)
        seconds = await self._writer.apply(whole)
        if some or whole:
            self._on_programmed(Programmed(some, whole.size, seconds))

    @_refusing
    def _change(self, kept: KeptRuleset, service: ObjectKey, parts: Parts) -> Changes:
        before = self._slots.get(service, {})
        there = slots_of(parts, before)
        if parts == self._wanted(service):
            self._slots[service] = there
        else:
            self._slots[service] = {**before, **there}
        if not parts:
            self._slots.pop(service, None)
        return kept.put(service, portion(parts, there, self._options))
