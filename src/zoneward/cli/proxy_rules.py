"""The rules of a node as text, for ``zoneward proxy --print`` and ``--dry-run``, and their end, for ``--cleanup``."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import click

from zoneward.cli.cluster_input import find_node, load_snapshot
from zoneward.cli.options import Options
from zoneward.cli.output import print_line
from zoneward.client.resources import Key
from zoneward.kube import objects as kube
from zoneward.kube.input_error import InputError
from zoneward.kube.names import PROXY_NAME_LABEL
from zoneward.kube.objects import zone_of
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.kernel.applying import Lost, NftProcess, Refused, Unusable
from zoneward.proxy.kernel.kernel_reading import Incomplete
from zoneward.proxy.kernel.planning import cleanup, planned, whole
from zoneward.proxy.model.claims import granted
from zoneward.proxy.model.node_options import all_node_addresses, layout_options, node_port_addresses
from zoneward.proxy.model.served import Node, Served
from zoneward.proxy.proxy_configuration import ProxyConfiguration
from zoneward.proxy.ruleset.base_rules import LayoutOptions
from zoneward.proxy.ruleset.difference import difference
from zoneward.proxy.ruleset.large_services import TooLarge, served_within
from zoneward.proxy.ruleset.quoting import comment
from zoneward.proxy.ruleset.text import text
from zoneward.routing.configuration import Configuration
from zoneward.routing.selection.endpoint_selection import ZONEWARD
from zoneward.snapshots.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class NodeRules:
    """What the proxy of a node serves, and how its rules are laid out."""

    node: kube.Node
    services: Mapping[Family, Mapping[Key, Served]]
    options: LayoutOptions

    @classmethod
    def from_snapshot(
        cls, name: str, options: Options, configuration: Configuration, settings: ProxyConfiguration
    ) -> Self:
        """Read the snapshot or the cluster that ``options`` name. Raises InputError or a usage error."""
        snapshot = load_snapshot(options)
        node = find_node(snapshot, name)
        layout = layout_options(settings, node)
        return cls(node, _node_services(snapshot, node, layout, configuration, settings), layout)

    def print(self) -> int:
        """Print all rules. Returns the exit status."""
        head = f"Of node {self.node.metadata.name}, zone {zone_of(self.node) or '(none)'}. In place of what there is:"
        print_line(comment(f"{head} nft -f FILE"))
        for family in FAMILIES:
            changes = difference(None, whole(family, self.services[family], options=self.options))
            click.echo(text(replace(changes, replaces=True)), nl=False)
        return 0

    def print_changes(self) -> int:
        """Print what would change in the kernel. Returns the exit status; raises InputError."""
        return asyncio.run(self._print_changes())

    async def _print_changes(self) -> int:
        try:
            async with NftProcess() as kernel:
                for family in FAMILIES:
                    changes = await planned(kernel, family, self.services[family], options=self.options)
                    click.echo(text(changes), nl=False)
        except (Unusable, Refused, Lost, Incomplete) as error:
            raise InputError("the kernel", str(error)) from None
        return 0


def delete_rules(*, quiet: bool) -> int:
    """Delete all tables of ours from the kernel. Returns the exit status; raises InputError."""
    return asyncio.run(_delete_rules(quiet=quiet))


async def _delete_rules(*, quiet: bool) -> int:
    try:
        async with NftProcess() as kernel:
            gone = await cleanup(kernel)
    except (Unusable, Refused, Lost) as error:
        raise InputError("the kernel", str(error)) from None
    if not quiet:
        tables = ", ".join(f"table {family} {name}" for family, name in gone)
        print_line(f"removed {tables}" if gone else "there was nothing of ours", err=True)
    return 0


def _node_services(
    snapshot: Snapshot,
    node: kube.Node,
    options: LayoutOptions,
    configuration: Configuration,
    settings: ProxyConfiguration,
) -> dict[Family, dict[Key, Served]]:
    """What the node serves. What is left out, and why, is printed on standard error."""
    this = Node(name=node.metadata.name, zone=zone_of(node))
    wanted: dict[Family, list[Served]] = {family: [] for family in FAMILIES}
    for service in snapshot.services:
        if (service.metadata.labels or {}).get(PROXY_NAME_LABEL) != settings.proxy_name:
            continue
        where, left_out = f"Service {service.metadata.namespace}/{service.metadata.name}", dict[str, None]()
        try:
            every = served_within(
                settings.max_service_entries,
                service,
                snapshot.slices_of(service),
                node=this,
                consumer=ZONEWARD,
                gates=configuration.gates,
                service_ranges=settings.service_ranges,
                left_out=left_out.setdefault,
            )
        except TooLarge as error:
            _print_note(f"{where} is left out: {error}")
            continue
        for family, each in every.items():
            wanted[family].append(each)
        for what in left_out:
            _print_note(f"{where}: {what}: left out")
    own = node_port_addresses(options, node)
    all_node_addresses(
        node, left_out=lambda each: _print_note(f"Node {this.name}: {each!r} is no IP address: left out")
    )
    return {
        family: granted(some, node_addresses=own.get(family, frozenset()), lost=_print_note)
        for family, some in wanted.items()
    }


def _print_note(text: str) -> None:
    print_line(f"zoneward: {text}", err=True)
