"""Programs the rules of a node in its namespace, as the proxy does, without its control loop."""

import asyncio
from collections.abc import Iterable
from typing import Self

from e2e.nodes import Namespace, kernel_of

from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.model.node_service import NodeService
from zoneward.proxy.ruleset.base_rules import TABLE, RulesetOptions
from zoneward.proxy.ruleset.ruleset import RulesetChanges, merge_changes, render_commands, split_changes
from zoneward.proxy.ruleset.ruleset_state import RulesetState
from zoneward.proxy.ruleset.service_rules import EndpointSlots, assign_slots, service_rules


class NodeRules:
    """Enter the block to begin. The rules stay when it is left; they go with the namespace."""

    def __init__(self, namespace: Namespace, *, options: RulesetOptions | None = None) -> None:
        self._kernel = kernel_of(namespace)
        self._options = options or RulesetOptions()
        self._runner = asyncio.Runner()
        self._kept = {family: RulesetState(family, TABLE, self._options) for family in FAMILIES}
        self._slots: dict[tuple[Family, str, str], EndpointSlots] = {}

    def __enter__(self) -> Self:
        self._runner.__enter__()
        self._runner.run(self._kernel.__aenter__())
        self._run("".join(render_commands(state.start()) for state in self._kept.values()))
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._kernel.__aexit__())
        self._runner.close()

    def serve(self, services: Iterable[NodeService]) -> None:
        """Services as they are now. Raises Refused."""
        changes: dict[Family, list[RulesetChanges]] = {}
        for service in services:
            key = service.family, service.namespace, service.name
            slots = self._slots[key] = assign_slots((service,), self._slots.get(key, {}))
            put = self._kept[service.family].set_service(key[1:], service_rules((service,), slots, self._options))
            changes.setdefault(service.family, []).append(put)
        for change in changes.values():
            for transaction in split_changes(merge_changes(change)):
                self._run(render_commands(transaction))

    def _run(self, commands: str) -> None:
        if commands:
            self._runner.run(self._kernel.run_commands(commands))
