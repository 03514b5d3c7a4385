"""Syncs the wanted Services of one family to a table in the kernel, as kube-proxy's ``syncProxyRules`` does.

The flow of `TableSyncer`:

1. **Read.** `_take_over_table` reads the table in the kernel, whichever program wrote it, and keeps its correct parts.
2. **Batch.** `PendingServices.next_batch` returns the Services of the next transaction.
3. **Difference.** `RulesetState` returns the elements, chains and sets that change.
4. **Transaction.** `TableWriter` applies it. No connection ever sees a partial change.
5. **Failure.** If the kernel refuses a transaction, the syncer retries each of its Services alone, so that one that
   cannot be programmed does not block the others. If the outcome is unknown, it backs off and reads the table again.
6. **Audit.** Every two seconds a cheap check, every 15 minutes a full one. It repairs changes of other programs.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from zoneward.client.backoff import Backoff
from zoneward.daemon.log import raised_at
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.netlink.nftables import DumpInterrupted, parse_field_types
from zoneward.proxy.kernel.nft_client import KernelClient, KernelOutcomeUnknown, KernelRefused
from zoneward.proxy.kernel.pending_services import Batch, PendingServices
from zoneward.proxy.kernel.table_reader import (
    ChainRules,
    TamperDetector,
    find_table,
    find_wrong_chains,
    read_rules,
    read_slots,
    read_table,
    scratch_table,
)
from zoneward.proxy.kernel.table_writer import TableWriter
from zoneward.proxy.model.node_service import NodeService, ServiceKey
from zoneward.proxy.reporter import Reporter
from zoneward.proxy.ruleset.base_rules import TABLE, RulesetOptions, base_chains, base_sets
from zoneward.proxy.ruleset.ruleset import Ruleset, RulesetChanges, count_differences, merge_changes
from zoneward.proxy.ruleset.ruleset_state import RulesetState
from zoneward.proxy.ruleset.service_rules import EndpointSlots, ServiceParts, assign_slots, service_rules

_OUR_TABLES: Final = (TABLE, scratch_table(TABLE))
BACKOFF: Final = Backoff(initial=0.1, cap=5.0)
"""After a table could not be read or written."""


@dataclass(frozen=True, slots=True)
class ProgrammedTransaction:
    """One transaction that the kernel accepted: the wanted versions of its Services (None: deleted), the number of
    elements added or removed, and the seconds that the kernel took."""

    services: Mapping[ServiceKey, NodeService | None]
    elements: int
    seconds: float


class TableListener(Protocol):
    """Gets the results of a `TableSyncer`; `zoneward.proxy.proxier.Proxier` is one."""

    def transaction_done(self, family: Family, done: ProgrammedTransaction) -> None: ...
    def service_refused(self, family: Family, service: ServiceKey, why: str) -> None: ...


class TableSyncer:
    """Syncs the table of one family. Call `set_service` for all Services, then `run`; then for each one that changes.

    Anything else in an existing table is removed after all Services are programmed. A Service that the kernel refuses
    is retried when it changes, and at each audit; one whose transactions are lost only at an audit, because each
    attempt delays all others.

    ``check_period``: seconds between two cheap checks for tampering; ``audit_period``: between two full audits.
    """

    def __init__(
        self,
        kernel: KernelClient,
        family: Family,
        *,
        options: RulesetOptions,
        listener: TableListener | None = None,
        reporter: Reporter | None = None,
        check_period: float = 2.0,
        audit_period: float = 900.0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._kernel, self._family, self._options = kernel, family, options
        self._listener, self._reporter = listener, reporter or Reporter()
        self._check_period, self._audit_period = check_period, audit_period
        self._services = PendingServices(on_refused=self._report_refusal)
        self._slots: dict[ServiceKey, EndpointSlots] = {}
        self._state: RulesetState | None = None
        """None: the state of the kernel is unknown."""
        self._was_known = False
        """Whether the state of the kernel was known until another program changed it."""
        self._writer = TableWriter(kernel, clock=clock)
        self._detector = TamperDetector(kernel, family)
        self._rules: ChainRules = {}
        self._is_check_due = self._is_audit_due = False
        self._has_work = asyncio.Event()
        self._is_synced = asyncio.Event()

    # --- wanted Services ----------------------------------------------------------------------------------------------

    def set_service(self, service: ServiceKey, wanted: NodeService | None) -> None:
        """Record the wanted version of a Service; None: it was deleted, or is not served in this family."""
        if self._services.set_service(service, wanted):
            self._wake()

    def request_audit(self) -> None:
        """Request a full comparison with the kernel, and the repair of differences."""
        self._is_audit_due = True
        self._wake()

    @property
    def options(self) -> RulesetOptions:
        return self._options

    @options.setter
    def options(self, options: RulesetOptions) -> None:
        if options != self._options:
            self._options = options
            self._forget_state()
            self._wake()

    def is_pending(self, service: ServiceKey) -> bool:
        """Whether the kernel may not have the wanted version of a Service yet."""
        return self._state is None or self._services.is_pending(service)

    async def wait_until_synced(self) -> None:
        """Wait until the kernel has accepted or refused the wanted version of every Service."""
        await self._is_synced.wait()

    @property
    def refused_services(self) -> Mapping[ServiceKey, str]:
        """The Services that the kernel refuses, and the reasons. Their last accepted rules stay."""
        return self._services.refused

    @property
    def element_count(self) -> int:
        return self._writer.element_counts.total()

    def _wake(self) -> None:
        self._is_synced.clear()
        self._has_work.set()

    def _forget_state(self, *, was_known: bool = False) -> None:
        self._state, self._was_known = None, was_known

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until cancelled. Raises NftablesUnavailable if rules cannot be programmed on this machine."""
        ticking = asyncio.create_task(self._tick())
        failures = 0
        try:
            while True:
                await self._has_work.wait()
                self._has_work.clear()
                try:
                    await self._sync()
                except (KernelOutcomeUnknown, KernelRefused, DumpInterrupted) as error:
                    self._reporter.kernel_failed(str(error))
                    self._has_work.set()
                    failures += 1
                    await asyncio.sleep(BACKOFF.delay(failures))
                else:
                    failures = 0
                    self._is_synced.set()
        finally:
            ticking.cancel()
            with suppress(asyncio.CancelledError):
                await ticking

    async def _tick(self) -> None:
        """Wake the loop when a check or an audit is due."""
        period, until_audit = min(self._check_period, self._audit_period), self._audit_period
        while True:
            await asyncio.sleep(period)
            until_audit -= period
            self._is_check_due = True
            if until_audit <= 0:
                until_audit, self._is_audit_due = self._audit_period, True
            self._has_work.set()

    async def _sync(self) -> None:
        """Work until nothing is pending."""
        try:
            while True:
                state = self._state
                if state is None:
                    await self._take_over_table()
                elif self._is_audit_due:
                    await self._audit(state)
                elif self._is_check_due:
                    self._is_check_due = False
                    if not await self._is_untouched(state):
                        # Never cleared here: an audit may have become due meanwhile.
                        self._is_audit_due = True
                elif self._services.pending:
                    await self._sync_batch(state)
                else:
                    return
        except BaseException:
            # Also on cancellation: the outcome of a transaction is unknown.
            self._forget_state()
            raise

    # --- 1. read the table --------------------------------------------------------------------------------------------

    async def _take_over_table(self) -> None:
        """Start from the table in the kernel, if it exists."""
        options, was_known = self._options, self._was_known
        self._was_known = self._is_audit_due = False
        foreign = await self._detector.count_foreign_transactions()
        present = await read_table(self._kernel, self._family, TABLE, base_sets(self._family))
        state = RulesetState(self._family, TABLE, options, present=present)
        self._read_slots(present)
        first = state.start()
        if was_known and (present is None or first.replaces_table):
            self._reporter.rules_repaired(self._family, "table", 1)
        self._services.start_over()
        if not (first.replaces_table and await self._replace_table(state, first)):
            await self._apply({}, [first])
        while self._services.pending and options is self._options:
            await self._sync_batch(state)
            await asyncio.sleep(0)
        if options is not self._options:
            return
        await self._repair_rules(state)
        await self._apply({}, [state.remove_leftovers()])
        if options is not self._options:
            return
        self._detector.mark_checked(foreign)
        self._state = state

    def _read_slots(self, present: Ruleset | None) -> None:
        """Read the slots of endpoints from the kernel, so that they keep them."""
        self._writer.reset(present, base_sets(self._family))
        if present is None:
            return
        for service, wanted in self._services.wanted.items():
            if service not in self._slots:
                slots = read_slots(present, wanted)
                if slots:
                    self._slots[service] = slots

    async def _replace_table(self, state: RulesetState, first: RulesetChanges) -> bool:
        """Replace a table that serves traffic, atomically, so that no traffic is interrupted.

        Returns whether the kernel accepted it. Services that are too large for one transaction follow later.
        """
        batch = self._services.first_batch()
        is_done = False
        try:
            is_done = await self._try_batch(state, batch, first) is None
        finally:
            if not is_done:
                # Deleted Services are recorded nowhere else.
                self._services.put_back(batch)
        return is_done

    # --- 2. to 5.: one transaction ------------------------------------------------------------------------------------

    async def _sync_batch(self, state: RulesetState) -> None:
        """Program the next batch; if the kernel refuses it, each of its Services alone."""
        batch = self._services.next_batch()
        try:
            why = await self._try_batch(state, batch)
            if why is None:
                return
            if state is self._state and not await self._is_untouched(state):
                # The table may be wrong instead of the batch.
                self._services.put_back(batch)
                self._is_audit_due = True
                return
            for service, parts in batch.items():
                alone = why if len(batch) == 1 else await self._try_batch(state, {service: parts})
                if alone is not None:
                    self._services.refuse(service, alone)
        except BaseException as error:
            self._services.put_back(batch)
            if isinstance(error, KernelOutcomeUnknown):
                self._services.mark_lost(batch, str(error))
            raise

    async def _try_batch(self, state: RulesetState, batch: Batch, *first: RulesetChanges) -> str | None:
        """Program a batch, after the changes ``first`` of the same transaction. Returns None, or the reason why the
        kernel refuses it; then nothing has changed."""
        slots_before = {service: self._slots.get(service) for service in batch}
        full_ruleset = self._services.whole_services(batch)
        state.set_savepoint()
        self._services.in_flight = batch
        try:
            changes = [self._change(state, service, parts) for service, parts in batch.items()]
            await self._apply(self._services.programmed_services(full_ruleset), [*first, *changes])
        except KernelRefused as error:
            state.roll_back()
            for service, slots in slots_before.items():
                if slots is None:
                    self._slots.pop(service, None)
                else:
                    self._slots[service] = slots
            return str(error)
        finally:
            self._services.in_flight = {}
        self._services.mark_programmed(batch, full_ruleset)
        return None

    def _change(self, state: RulesetState, service: ServiceKey, parts: ServiceParts) -> RulesetChanges:
        """The changes of the table for a Service.

        An internal error counts as a refusal of the Service, which is reported and retried, and does not block the
        others.
        """
        try:
            before = self._slots.get(service, {})
            slots = assign_slots(parts, before)
            is_whole = parts == self._services.wanted_parts(service)
            self._slots[service] = slots if is_whole else {**before, **slots}
            if not parts:
                self._slots.pop(service, None)
            return state.set_service(service, service_rules(parts, slots, self._options))
        except Exception as error:
            raise KernelRefused(f"internal error: {type(error).__name__}: {error} ({raised_at(error)})") from error

    async def _apply(
        self, services: Mapping[ServiceKey, NodeService | None], changes: Sequence[RulesetChanges]
    ) -> None:
        """Apply one transaction; ``services``: those whose wanted version it programs."""
        merged = merge_changes(changes)
        seconds = await self._writer.apply(merged)
        if self._listener is not None and (services or merged):
            done = ProgrammedTransaction(services, merged.element_count, seconds)
            self._listener.transaction_done(self._family, done)

    def _report_refusal(self, service: ServiceKey, why: str) -> None:
        if self._listener is not None:
            self._listener.service_refused(self._family, service, why)

    # --- 6. audit -----------------------------------------------------------------------------------------------------

    async def _audit(self, state: RulesetState) -> None:
        self._is_audit_due = False
        foreign = await self._detector.count_foreign_transactions()
        expected = state.full_ruleset()
        present = await read_table(self._kernel, self._family, TABLE, expected.sets)
        wrong = None if present is None else count_differences(present, expected)
        if wrong is None or wrong:
            # A table that has to be replaced is reported by `_take_over_table`.
            for what, count in (wrong or {}).items():
                self._reporter.rules_repaired(self._family, what, count)
            self._forget_state(was_known=True)
            return
        await self._repair_rules(state)
        self._detector.mark_checked(foreign)
        self._services.retry_refused()

    async def _repair_rules(self, state: RulesetState) -> None:
        """Rewrite the chains whose rules are not the ones that their names determine."""
        expected = state.declarations()
        live = await read_rules(self._kernel, self._family, TABLE)
        wrong = await find_wrong_chains(
            self._kernel, self._family, TABLE, live=live, chains=expected.chains, sets=expected.sets
        )
        if wrong:
            self._reporter.rules_repaired(self._family, "rules", len(wrong))
            rewritten = {name: expected.chains[name] for name in wrong}
            await self._writer.apply(RulesetChanges(family=self._family, table=TABLE, rewritten_chains=rewritten))
            live = await read_rules(self._kernel, self._family, TABLE)
        self._rules = live

    async def _is_untouched(self, state: RulesetState) -> bool:
        return await self._detector.is_untouched(
            chains=state.chain_names,
            base_chains=base_chains(self._family, self._options),
            rules=self._rules,
            element_counts={
                name: self._writer.element_counts[name]
                for name, declared in base_sets(self._family).items()
                if parse_field_types(declared.spec) is not None
            },
        )


# --- without a syncer -------------------------------------------------------------------------------------------------


async def plan_changes(
    kernel: KernelClient,
    family: Family,
    services: Mapping[ServiceKey, NodeService],
    *,
    options: RulesetOptions,
) -> RulesetChanges:
    """The transaction that would make the kernel's table serve these Services (``--dry-run``). It writes nothing.

    It does not compare the rules of chains, because that requires writing: their names are compared instead. Raises
    KernelOutcomeUnknown, KernelRefused or DumpInterrupted.
    """
    present = await read_table(kernel, family, TABLE, base_sets(family))
    state = RulesetState(family, TABLE, options, present=present)
    changes = [state.start()]
    for service in sorted(services):
        one = (services[service],)
        slots = read_slots(present, *one) if present is not None else {}
        changes.append(state.set_service(service, service_rules(one, assign_slots(one, slots), options)))
    return merge_changes([*changes, state.remove_leftovers()])


async def delete_tables(kernel: KernelClient) -> tuple[tuple[Family, str], ...]:
    """Delete all tables of Zoneward (``--cleanup``), and return those that existed.

    Raises KernelOutcomeUnknown or KernelRefused.
    """
    names = [(family, name) for family in FAMILIES for name in _OUR_TABLES]
    tables = tuple([name for name in names if await find_table(kernel, *name) is not None])
    if tables:
        await kernel.run_commands("".join(f"delete table {family} {name}\n" for family, name in tables))
    return tables
