"""The rules of a node as text, for ``zoneward proxy --print`` and ``--dry-run``, and their end, for ``--cleanup``."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import click

from zoneward.cli.cluster_input import find_node, load_snapshot
from zoneward.cli.options import Options
from zoneward.cli.output import print_line
from zoneward.kube import objects as kube
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import ObjectKey, node_zone
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.netlink.nftables import DumpInterrupted
from zoneward.proxy.kernel.nft_client import KernelOutcomeUnknown, KernelRefused, NftablesUnavailable, NftClient
from zoneward.proxy.kernel.table_syncer import delete_tables, plan_changes
from zoneward.proxy.model.node_service import NodeService, ProxyNode, resolve_ownership
from zoneward.proxy.proxy_configuration import (
    ProxyConfiguration,
    all_node_addresses,
    node_port_addresses,
    ruleset_options,
)
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.proxy.ruleset.ruleset import comment_line, diff_rulesets, render_commands
from zoneward.proxy.ruleset.ruleset_state import full_ruleset
from zoneward.proxy.ruleset.service_rules import ServiceTooLarge, node_services_within, set_entries
from zoneward.routing.configuration import Configuration
from zoneward.routing.selection.endpoint_selection import ZONEWARD, proxy_name_of
from zoneward.routing.selection.entry_budget import EntryBudget
from zoneward.snapshots.cluster_snapshot import Snapshot


def print_rules(
    name: str, options: Options, configuration: Configuration, settings: ProxyConfiguration, *, only_changes: bool
) -> int:
    """Print all rules of the node ``name``, or what would change in the kernel. Returns the exit status.

    They are made from the snapshot or the cluster that ``options`` name. Raises InputError or a usage error.
    """
    snapshot = load_snapshot(options)
    node = find_node(snapshot, name)
    layout = ruleset_options(settings, node)
    services = _node_services(snapshot, node, layout, configuration, settings)
    if only_changes:
        asyncio.run(_print_changes(services, layout))
        return 0
    head = f"Of node {name}, zone {node_zone(node) or '(none)'}. In place of what there is:"
    print_line(comment_line(f"{head} nft -f FILE"))
    for family in FAMILIES:
        changes = diff_rulesets(None, full_ruleset(family, services[family], options=layout))
        click.echo(render_commands(replace(changes, replaces_table=True)), nl=False)
    return 0


async def _print_changes(services: Mapping[Family, Mapping[ObjectKey, NodeService]], layout: RulesetOptions) -> None:
    try:
        async with NftClient() as kernel:
            for family in FAMILIES:
                changes = await plan_changes(kernel, family, services[family], options=layout)
                click.echo(render_commands(changes), nl=False)
    except (NftablesUnavailable, KernelRefused, KernelOutcomeUnknown, DumpInterrupted) as error:
        raise InputError("the kernel", str(error)) from None


def delete_rules(*, quiet: bool) -> int:
    """Delete all tables of Zoneward from the kernel. Returns the exit status; raises InputError."""
    return asyncio.run(_delete_rules(quiet=quiet))


async def _delete_rules(*, quiet: bool) -> int:
    try:
        async with NftClient() as kernel:
            gone = await delete_tables(kernel)
    except (NftablesUnavailable, KernelRefused, KernelOutcomeUnknown) as error:
        raise InputError("the kernel", str(error)) from None
    if not quiet:
        tables = ", ".join(f"table {family} {name}" for family, name in gone)
        print_line(f"removed {tables}" if gone else "there were no tables of Zoneward", err=True)
    return 0


def _node_services(
    snapshot: Snapshot,
    node: kube.Node,
    options: RulesetOptions,
    configuration: Configuration,
    settings: ProxyConfiguration,
) -> dict[Family, dict[ObjectKey, NodeService]]:
    """What the node serves. What is left out, and why, is printed on standard error."""
    this = ProxyNode(name=node.metadata.name, zone=node_zone(node))
    wanted: dict[ObjectKey, Mapping[Family, NodeService]] = {}
    budget = EntryBudget(most=settings.max_entries, most_of_namespace=settings.max_namespace_entries)
    for service in snapshot.services:
        if proxy_name_of(service) != settings.proxy_name:
            continue
        where, left_out = f"Service {service.metadata.namespace}/{service.metadata.name}", dict[str, None]()
        try:
            every = node_services_within(
                settings.max_service_entries,
                service,
                snapshot.slices_of(service),
                node=this,
                consumer=ZONEWARD,
                gates=configuration.gates,
                service_ranges=settings.service_ranges,
                left_out=left_out.setdefault,
            )
        except ServiceTooLarge as error:
            _print_note(f"{where} is left out: {error}")
            continue
        key = service.metadata.namespace, service.metadata.name
        wanted[key] = every
        set_entries(budget, key, every)
        for what in left_out:
            _print_note(f"{where}: {what}: left out")
    for key in [key for key in wanted if budget.set_aside(key) is not None]:
        _print_note(f"Service {'/'.join(key)} is left out: {budget.reason(key)}")
        del wanted[key]
    own = node_port_addresses(options, node)
    all_node_addresses(
        node, left_out=lambda address: _print_note(f"Node {this.name}: {address!r} is no IP address: left out")
    )
    return {
        family: resolve_ownership(
            [every[family] for every in wanted.values() if family in every],
            node_addresses=own.get(family, frozenset()),
            on_conflict=_print_note,
        )
        for family in FAMILIES
    }


def _print_note(text: str) -> None:
    print_line(f"zoneward: {text}", err=True)
