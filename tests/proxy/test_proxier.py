"""Changes that a node sees reach its tables, and a Service is pending until the kernel has its latest change."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.patience import PATIENCE
from tests.proxy.background import in_background
from tests.proxy.model.test_node_cache import CART, known, node, service, slice_

from zoneward.client.backoff import Backoff
from zoneward.kube.objects import ObjectKey, Service
from zoneward.netlink.messages import Family
from zoneward.proxy.kernel.table_syncer import ProgrammedTransaction, TableSyncer
from zoneward.proxy.model.node_cache import NodeCache
from zoneward.proxy.model.node_service import NodeService
from zoneward.proxy.proxier import BURST, CALM, GATHERED, Proxier
from zoneward.proxy.reporter import Reporter
from zoneward.proxy.ruleset.service_rules import ServiceTooLarge
from zoneward.routing.selection.entry_budget import EntryBudget

MOST = 20
"""Entries of one Service."""
SOON = 0.005
NOW = datetime(2026, 11, 21, 12, 0, 10, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _selection_is_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lets other tasks run after a time, in which a busy machine may not select even one Service."""
    monkeypatch.setattr("zoneward.proxy.proxier._SLICE_SECONDS", math.inf)


class Table:
    """Takes Services, and programs them when a test calls ``done``."""

    def __init__(self) -> None:
        self.waiting: dict[ObjectKey, NodeService | None] = {}

    def set_service(self, service: ObjectKey, served: NodeService | None) -> None:
        self.waiting[service] = served

    def is_pending(self, service: ObjectKey) -> bool:
        return service in self.waiting

    def done(self) -> ProgrammedTransaction:
        services, self.waiting = self.waiting, {}
        return ProgrammedTransaction(services, 1, 0.001)


class Here(Reporter):
    """A node's proxier with two such tables."""

    def __init__(self, budget: EntryBudget | None = None) -> None:
        self.time = 0.0
        self.set_aside: list[tuple[ObjectKey, str]] = []
        self.left_out: list[ObjectKey] = []
        self.after: list[tuple[ObjectKey, NodeService | None, NodeService | None]] = []
        self.too_large: list[tuple[ObjectKey, str]] = []
        self.lost: list[tuple[Family, ObjectKey, tuple[str, ...]]] = []
        self.sync_seconds: list[float] = []
        self.programming_seconds: list[float] = []
        self.pauses: list[float] = []
        self.table, self.other = Table(), Table()
        self.known: NodeCache = known(
            max_entries=MOST, on_service=lambda key, trigger: self.loop.service_changed(key, trigger)
        )
        self.loop: Proxier = Proxier(
            self.known,
            budget=budget,
            reporter=self,
            on_programmed=lambda *change: self.after.append(change),
            clock=lambda: self.time,
            sleep=self._sleep,
            now=lambda: NOW + timedelta(seconds=self.time),
        )
        self.loop.tables.update({"ip": cast(TableSyncer, self.table), "ip6": cast(TableSyncer, self.other)})

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def service_synced(self, seconds: float) -> None:
        self.sync_seconds.append(seconds)

    def endpoints_programmed(self, seconds: float) -> None:
        self.programming_seconds.append(seconds)

    def service_too_large(self, service: ObjectKey, error: ServiceTooLarge) -> None:
        self.too_large.append((service, str(error)))

    def service_set_aside(self, service: ObjectKey, why: str) -> None:
        self.set_aside.append((service, why))

    def addresses_contested(self, family: Family, service: ObjectKey, what: tuple[str, ...]) -> None:
        self.lost.append((family, service, what))

    def selection_failed(self, service: ObjectKey, _why: str) -> None:
        self.left_out.append(service)

    def list(self) -> None:
        """List everything: a Service, a slice and the Node."""
        self.known.services.put(service())
        self.known.slices.put(slice_("one", "10.0.0.1"))
        self.known.nodes.put(node("a"))
        self.known.services.retain_only({CART})
        self.known.slices.retain_only({("shop", "one")})
        self.known.nodes.retain_only({("", "n1")})

    async def selected(self) -> None:
        self.list()
        await self.loop.all_selected.wait()

    async def programmed(self) -> None:
        await self.selected()
        self.loop.transaction_done("ip", self.table.done())


@asynccontextmanager
async def running_proxier(budget: EntryBudget | None = None) -> AsyncIterator[Here]:
    here = Here(budget)
    async with in_background(here.loop.run()):
        yield here


async def turned() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_nothing_is_programmed_before_everything_was_listed() -> None:
    async with running_proxier() as here:
        here.known.services.put(service())
        here.known.services.retain_only({CART})
        await turned()
        assert not here.table.waiting
        assert not here.loop.all_selected.is_set()
        assert here.loop.pending_since() is None
        await here.selected()
        assert list(here.table.waiting) == [CART]


async def test_a_service_is_pending_until_the_kernel_has_its_latest_change() -> None:
    async with running_proxier() as here:
        await here.selected()
        first = here.table.done()
        here.known.slices.put(slice_("one", "10.0.0.1", "10.0.0.2", version=2))
        await turned()
        here.time = 2.0
        here.loop.transaction_done("ip", first)
        assert here.loop.is_pending(CART)
        assert here.loop.pending_since() == 2.0
        here.loop.transaction_done("ip", here.table.done())
        assert not here.loop.is_pending(CART)
        assert here.loop.pending_since() is None
        assert sum(here.sync_seconds) == pytest.approx(2.0)
        # The old value is what the kernel had.
        (_, none, one), (_, before, after) = here.after
        assert (none, before) == (None, one)
        assert [len(served.ports[0].cluster_endpoints) for served in (one, after) if served] == [1, 2]
        # A change without effect on this node is not pending.
        here.known.slices.put(slice_("one", "10.0.0.1", "10.0.0.2", version=3))
        await turned()
        assert not here.table.waiting
        assert not here.loop.is_pending(CART)


async def test_programming_time_counts_from_the_trigger_time_of_a_slice_after_the_start() -> None:
    async with running_proxier() as here:
        await here.programmed()
        for version, second in ((2, 9), (3, 12)):
            here.time = 5.0
            changed = slice_("one", *["10.0.0.1", "10.0.0.2", "10.0.0.3"][:version], version=version)
            trigger = f"2026-11-21T12:00:{second:02}Z"
            here.loop.service_changed(CART, trigger)
            here.known.slices.put(changed)
            await turned()
            here.loop.transaction_done("ip", here.table.done())
        assert here.programming_seconds == [3.0]


async def test_each_family_is_pending_until_its_own_kernel_table_has_the_change() -> None:
    async with running_proxier() as here:
        await here.selected()
        here.time = 3.0
        here.known.services.put(service(2, clusterIPs=["10.96.0.1", "fd00::1"], ipFamilies=["IPv4", "IPv6"]))
        await turned()
        here.loop.transaction_done("ip", here.table.done())
        assert here.loop.pending_since("ip") is None
        assert here.loop.pending_since("ip6") == 3.0
        here.time = 5.0
        assert (here.loop.pending_since(), here.loop.waiting_seconds()) == (3.0, 2.0)
        here.loop.transaction_done("ip6", here.other.done())
        assert here.loop.pending_since() is None


async def test_an_error_in_one_service_does_not_hold_up_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_proxier() as here:
        node_services, mail = here.known.node_services, ("shop", "mail")

        def served(key: ObjectKey) -> object:
            if key == mail:
                raise ZeroDivisionError
            return node_services(key)

        monkeypatch.setattr(here.known, "node_services", served)
        monkeypatch.setattr("zoneward.proxy.proxier.BACKOFF", Backoff(initial=20 * SOON, cap=300.0))
        here.loop.service_changed(mail)
        await here.selected()
        assert list(here.table.waiting) == [CART]
        assert not here.loop.is_pending(mail)
        assert here.loop.failed_selections == {mail}
        # It is tried again, though nothing changes.
        monkeypatch.setattr(here.known, "node_services", node_services)
        async with asyncio.timeout(PATIENCE):
            while here.loop.failed_selections:
                await asyncio.sleep(SOON)
        assert here.left_out == [mail]


async def test_endless_changes_are_gathered_and_a_few_are_programmed_at_once() -> None:
    async with running_proxier() as here:
        await here.selected()
        rounds = 0
        while not here.pauses:
            here.loop.service_changed(CART)
            await turned()
            rounds += 1
        # What was listed took one or two.
        assert BURST - 2 <= rounds <= BURST
        assert here.pauses == [GATHERED]
        here.time += 1.0
        for _ in range(int(CALM)):
            here.loop.service_changed(CART)
            await turned()
        assert here.pauses == [GATHERED]


async def test_an_address_of_another_service_is_programmed_once_that_one_is_gone() -> None:
    async with running_proxier() as here:
        thief = service(clusterIP="10.96.0.9", clusterIPs=["10.96.0.9"], externalIPs=["10.96.0.1"])
        here.list()
        here.known.services.put(replace(thief, metadata=replace(thief.metadata, namespace="a")))
        await turned()
        external_ips = {key: served and served.external_ips for key, served in here.table.waiting.items()}
        assert external_ips == {("a", "cart"): (), CART: ()}
        assert here.lost == [("ip", ("a", "cart"), ("10.96.0.1 of shop/cart",))]
        assert here.loop.conflicts["ip"] == {("a", "cart"): ("10.96.0.1 of shop/cart",)}
        here.time = 7.0
        here.loop.transaction_done("ip", here.table.done())
        here.known.services.retain_only({("a", "cart")})
        await turned()
        external_ips = {key: served and served.external_ips for key, served in here.table.waiting.items()}
        assert external_ips == {("a", "cart"): ("10.96.0.1",), CART: None}
        assert here.lost[1:] == [("ip", ("a", "cart"), ())]
        assert here.loop.conflicts["ip"] == {}


async def test_other_tasks_get_their_turn_while_many_services_are_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneward.proxy.proxier._SLICE_SECONDS", 0.0)
    async with running_proxier() as here:
        await here.selected()
        shared = [f"198.51.100.{host}" for host in range(10)]
        for index in range(20):
            address = f"10.96.1.{index}"
            one = service(clusterIP=address, clusterIPs=[address], externalIPs=shared)
            here.known.services.put(replace(one, metadata=replace(one.metadata, name=f"s{index}")))
        turns = 0
        while len(here.table.waiting) < 21:
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 20


# --- Services that are too large --------------------------------------------------------------------------------------


async def test_a_service_that_grows_too_large_keeps_what_it_had_except_endpoints_that_are_gone() -> None:
    async with running_proxier() as here:

        async def with_endpoints(version: int, *endpoints: str) -> list[str] | None:
            """The endpoints that are programmed, or None without a change."""
            here.known.slices.put(slice_("one", *endpoints, version=version))
            await turned()
            if not here.table.waiting:
                return None
            done = here.table.done()
            here.loop.transaction_done("ip", done)
            served = done.services[CART]
            assert served is not None
            return [endpoint.address for endpoint in served.ports[0].cluster_endpoints]

        await here.programmed()
        assert await with_endpoints(2, "10.0.0.1", "10.0.0.2", "10.0.0.3")
        many = [f"10.0.1.{host}" for host in range(MOST)]
        assert await with_endpoints(3, "10.0.0.1", "10.0.0.3", *many) == ["10.0.0.1", "10.0.0.3"]
        assert await with_endpoints(4, "10.0.0.1", "10.0.0.3", *many, "10.0.2.1") is None
        assert await with_endpoints(5, "10.0.0.3", *many) == ["10.0.0.3"]
        ((service, why),) = here.too_large
        assert service == CART
        assert "entries in IPv4" in why
        assert here.loop.too_large.keys() == {CART}
        assert here.loop.pending_since() is None
        assert await with_endpoints(6, "10.0.0.3", "10.0.0.4") == ["10.0.0.3", "10.0.0.4"]
        assert not here.loop.too_large


async def test_a_namespace_whose_services_change_again_and_again_waits_and_others_do_not() -> None:
    async with running_proxier(EntryBudget(most=1000, most_of_namespace=30)) as here:
        await here.programmed()
        other = service(clusterIP="10.96.0.9", clusterIPs=["10.96.0.9"])
        changes = 0
        while not here.loop.is_pending(CART):
            changes += 1
            here.known.slices.put(slice_("one", "10.0.0.1", f"10.0.0.{changes + 1}", version=changes + 1))
            await turned()
            here.table.done()
        # 4 entries each; the last one waits for those that are owed.
        assert changes == 9
        here.known.services.put(replace(other, metadata=replace(other.metadata, namespace="other")))
        await turned()
        assert list(here.table.waiting) == [("other", "cart")]
        assert here.loop.pending_since() == 0.0
        here.time = 1.0
        async with asyncio.timeout(PATIENCE):
            while CART not in here.table.waiting:
                await asyncio.sleep(SOON)


# --- Services that exceed a budget ------------------------------------------------------------------------------------


def named(name: str, host: int, created: str, **spec: Any) -> Service:
    """A Service without endpoints: 2 entries, and one for each external IP."""
    address = f"10.96.1.{host}"
    one = service(2 if spec else 1, clusterIP=address, clusterIPs=[address], **spec)
    return replace(one, metadata=replace(one.metadata, name=name, creation_timestamp=created))


async def test_the_youngest_services_beyond_a_budget_are_not_programmed_until_there_is_room() -> None:
    async with running_proxier(EntryBudget(most=100, most_of_namespace=6)) as here:
        await here.programmed()
        old, young = named("old", 1, "2026-01-01T00:00:00Z"), named("young", 2, "2026-01-02T00:00:00Z")
        here.known.services.put(young)
        here.known.services.put(old)
        await turned()
        # CART has no creation time, so it is the youngest, and has 3 entries.
        assert {key: served is not None for key, served in here.table.done().services.items()} == {
            ("shop", "young"): True,
            ("shop", "old"): True,
            CART: False,
        }
        assert here.loop.set_aside == {CART: "namespace"}
        assert here.set_aside == [(CART, here.loop.budget.reason(CART))]
        assert here.loop.budget.used == 4
        here.time = 1.0
        here.known.services.put(named("old", 1, "2026-01-01T00:00:00Z", externalIPs=["198.51.100.1"]))
        await turned()
        assert list(here.table.done().services) == [("shop", "old")]
        here.time = 2.0
        here.known.services.retain_only({CART, ("shop", "young")})
        await turned()
        done = here.table.done().services
        assert (done["shop", "old"], done[CART] is not None) == (None, True)
        assert not here.loop.set_aside
        assert len(here.set_aside) == 1


async def test_a_service_that_is_refused_at_once_is_not_pending() -> None:
    async with running_proxier() as here:

        class Refusing(Table):
            def set_service(self, service: ObjectKey, served: NodeService | None) -> None:  # noqa: ARG002 -- as a table has it
                here.loop.service_refused("ip", service, "rejected")

        here.loop.tables["ip"] = cast(TableSyncer, Refusing())
        await here.selected()
        assert here.loop.pending_since() is None
