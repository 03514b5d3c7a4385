"""A table of one family on a kernel in memory, and everything that it reports."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from tests.patience import PATIENCE
from tests.proxy.background import in_background
from tests.proxy.drawn_services import key, node_service, one_port
from tests.proxy.kernel.fake_kernel import FakeKernel

from zoneward.netlink.messages import Family
from zoneward.proxy.kernel.table_reader import scratch_table
from zoneward.proxy.kernel.table_syncer import ProgrammedTransaction, TableSyncer
from zoneward.proxy.model.node_service import Backend, NodeService, ServiceKey
from zoneward.proxy.reporter import Reporter
from zoneward.proxy.ruleset.base_rules import TABLE, RulesetOptions
from zoneward.proxy.ruleset.ruleset_state import full_ruleset

OPTIONS: Final = RulesetOptions(pod_cidrs={"ip": "10.0.0.0/24", "ip6": "fd00::/64"})
SOON: Final = 0.005
"""Seconds between checks of the kernel."""


def a_service(index: int, *endpoints: int, **more: Any) -> NodeService:
    """A Service with endpoints on port 8080."""
    targets = tuple(Backend(f"10.0.1.{endpoint}", 8080) for endpoint in endpoints)
    ports = more.pop("ports", (one_port(*targets),))
    return node_service(*ports, name=f"s{index}", cluster_ip=f"10.96.{index // 256}.{index % 256}", **more)


class Proxy(Reporter):
    """A table on a kernel in memory, and everything that it reported."""

    def __init__(
        self,
        kernel: FakeKernel,
        *,
        options: RulesetOptions = OPTIONS,
        look_every: float = SOON,
        audit_every: float = 3600.0,
    ) -> None:
        self.kernel = kernel
        self.programmed: list[ProgrammedTransaction] = []
        self.refused: list[tuple[ServiceKey, str]] = []
        self.repairs: list[tuple[str, int]] = []
        self.trouble: list[str] = []
        self.table = TableSyncer(
            kernel,
            "ip",
            options=options,
            listener=self,
            reporter=self,
            check_period=look_every,
            audit_period=audit_every,
        )

    def transaction_done(self, _family: Family, done: ProgrammedTransaction) -> None:
        """Transactions without Services do not matter here."""
        if done.services:
            self.programmed.append(done)

    def service_refused(self, _family: Family, service: ServiceKey, why: str) -> None:
        self.refused.append((service, why))

    def rules_repaired(self, _family: Family, what: str, count: int) -> None:
        self.repairs.append((what, count))

    def kernel_failed(self, why: str) -> None:
        self.trouble.append(why)

    def put(self, *every: NodeService) -> None:
        for served in every:
            self.table.set_service(key(served), served)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(SOON)

    def has(self, *every: NodeService, options: RulesetOptions = OPTIONS) -> bool:
        """Whether the kernel has exactly what these Services need, in any slots."""
        wanted = full_ruleset("ip", {key(served): served for served in every}, options=options)
        kernel = self.kernel
        if ("ip", TABLE) not in kernel.tables or ("ip", scratch_table(TABLE)) in kernel.tables:
            return False
        chains = {name: chain.rules for name, chain in wanted.chains.items()}
        hooks = {name: chain.hook for name, chain in wanted.chains.items() if chain.hook}
        table = kernel.tables["ip", TABLE]
        return (
            kernel.chains("ip", TABLE) == chains
            and table.hooks == hooks
            and table.sets.keys() == wanted.sets.keys()
            and unslotted(kernel.elements("ip", TABLE)) == unslotted(wanted.elements)
            and self.table.element_count == sum(map(len, wanted.elements.values()))
        )

    def written(self) -> list[str]:
        """Transactions that the kernel accepted, except those of the scratch table."""
        return [
            transaction for transaction in self.kernel.transactions if f" {scratch_table(TABLE)}" not in transaction
        ]


def unslotted(elements: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Elements without the order of slots, which depends on history; the number of slots of an endpoint does not."""
    comparable: dict[str, Any] = {}
    for name, entries in elements.items():
        if name.endswith("endpoints"):
            comparable[name] = Counter((key.rpartition(" . ")[0], value) for key, value in entries.items())
        else:
            # Chains of affinity are named by what is in them, which has the order of slots.
            comparable[name] = {key: re.sub("-[A-Z2-7]{12}-.*", "", value) for key, value in entries.items()}
    return {name: content for name, content in comparable.items() if content}


@asynccontextmanager
async def running(proxy: Proxy) -> AsyncIterator[Proxy]:
    async with in_background(proxy.table.run()):
        yield proxy


def a_proxy(**more: Any) -> AbstractAsyncContextManager[Proxy]:
    """A running table on an empty kernel."""
    return running(Proxy(FakeKernel(), **more))


async def settled(proxy: Proxy) -> None:
    async with asyncio.timeout(PATIENCE):
        await proxy.table.wait_until_synced()


async def restarted(kernel: FakeKernel, before: list[NodeService], after: list[NodeService], **more: Any) -> Proxy:
    """A table that takes over what another one left."""
    async with running(Proxy(kernel)) as first:
        first.put(*before)
        await settled(first)
    kernel.transactions.clear()
    proxy = Proxy(kernel, **more)
    proxy.put(*after)
    async with running(proxy):
        await settled(proxy)
    return proxy
