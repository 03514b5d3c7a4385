"""From options to a node's proxy that runs until it is told to end, or to its rules as text."""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import click

from zoneward.cli.clusters import INSECURE
from zoneward.cli.configuring import read_configuration
from zoneward.cli.lasting import by_flags, lease_namespace, log_for, needed, read_option
from zoneward.cli.options import Options
from zoneward.cli.printing import print_line
from zoneward.cli.snapshots import node_in, snapshot_for
from zoneward.client.auth.kubeconfig import load_client_config
from zoneward.daemon.configuration_file import parse_duration, parse_listen_address, parse_optional_listen_address
from zoneward.daemon.log import LogFormat
from zoneward.kube import objects as kube
from zoneward.kube.input_error import ConfigurationError, InputError
from zoneward.kube.names import PROXY_NAME_LABEL
from zoneward.kube.objects import ObjectKey, node_zone
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.netlink.nftables import DumpInterrupted
from zoneward.proxy.kernel.nft_client import KernelOutcomeUnknown, KernelRefused, NftablesUnavailable, NftClient
from zoneward.proxy.kernel.table_syncer import delete_tables, plan_changes
from zoneward.proxy.machine import drop_effective_capability
from zoneward.proxy.model.address_ownership import resolve_ownership
from zoneward.proxy.model.node_service import NodeService, ProxyNode
from zoneward.proxy.proxy_configuration import ProxyConfiguration
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.proxy.ruleset.difference import diff_rulesets
from zoneward.proxy.ruleset.nft_commands import comment_line, render_commands
from zoneward.proxy.ruleset.ruleset_options import all_node_addresses, node_port_addresses, ruleset_options
from zoneward.proxy.ruleset.ruleset_state import full_ruleset
from zoneward.proxy.ruleset.service_size import ServiceTooLarge, node_services_within
from zoneward.routing.configuration import Configuration
from zoneward.routing.selection.endpoint_selection import ZONEWARD
from zoneward.snapshots.cluster_snapshot import Snapshot

_LISTS: Final = ("cluster_cidrs", "node_port_addresses", "service_cidrs")
_OPTIONS: Final = {
    "proxy.clusterCIDRs": "--cluster-cidr",
    "proxy.podInterfacePrefix": "--pod-interface-prefix",
    "proxy.masqueradeBit": "--masquerade-bit",
    "proxy.nodePortAddresses": "--nodeport-addresses",
    "proxy.serviceCIDRs": "--service-cidr",
    "proxy.auditPeriod": "--audit-period",
    "proxy.maxServiceEntries": "--max-service-entries",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says. ``flags``: those that were given, by field of `ProxyConfiguration`."""

    node: str
    files: tuple[str, ...]
    sample: bool
    does: Literal["run", "print", "dry-run", "cleanup"]
    config: str | None
    kubeconfig: str | None
    context: str | None
    impersonate: str | None
    verbose: int
    quiet: bool
    flags: Mapping[str, Any]


def run(asked: Asked) -> int:
    """The exit status: 0 after SIGTERM or SIGINT, or when all is told; 1 where a part fails or the server refuses what
    nothing goes without. Raises InputError or a usage error before anything is changed."""
    configuration, settings = _settings(asked)
    if asked.does == "cleanup":
        return asyncio.run(_clean_up(asked))
    if asked.does != "run":
        return _tell(asked, configuration, settings)
    program = needed("zoneward.proxy.proxy_program", by="proxy")
    access = load_client_config(
        kubeconfig=asked.kubeconfig, context=asked.context, impersonate=asked.impersonate, environment=os.environ
    )
    log = log_for(quiet=asked.quiet, verbose=asked.verbose, form=settings.log_format)
    if access.cluster.insecure:
        log.warning(INSECURE)
    try:
        # In the first thread, while there is no other.
        drop_effective_capability()
    except OSError as error:
        log.warning("CAP_NET_ADMIN is not set aside", error=str(error))

    from zoneward.daemon.program import run_program

    async def work(stop: asyncio.Event) -> None:
        proxy = program.ProxyProgram(
            access,
            node=asked.node,
            configuration=configuration,
            settings=settings,
            lease_namespace=lease_namespace(access, settings.lease_namespace),
            log=log,
        )
        try:
            await proxy.run(stop)
        except NftablesUnavailable as error:
            raise InputError("the kernel", str(error)) from None

    return run_program(work, name="proxy", log=log, error_message=str)


# --- rules as text ----------------------------------------------------------------------------------------------------


def _tell(asked: Asked, configuration: Configuration, settings: ProxyConfiguration) -> int:
    snapshot = snapshot_for(
        Options(
            files=asked.files,
            sample=asked.sample,
            context=asked.context,
            kubeconfig=asked.kubeconfig,
            impersonate=asked.impersonate,
        )
    )
    node = node_in(snapshot, asked.node)
    options = ruleset_options(settings, node)
    found = _served(snapshot, node, options, configuration, settings, note=_note)
    if asked.does == "print":
        head = f"Of node {asked.node}, zone {node_zone(node) or '(none)'}. In place of what there is: nft -f FILE"
        print_line(comment_line(head))
        for family in FAMILIES:
            changes = diff_rulesets(None, full_ruleset(family, found[family], options=options))
            click.echo(render_commands(replace(changes, replaces_table=True)), nl=False)
        return 0
    return asyncio.run(_differences(found, options))


def _served(
    snapshot: Snapshot,
    node: kube.Node,
    options: RulesetOptions,
    configuration: Configuration,
    settings: ProxyConfiguration,
    *,
    note: Callable[[str], None],
) -> dict[Family, dict[ObjectKey, NodeService]]:
    """``note`` is told what is not served, and why."""
    this = ProxyNode(name=node.metadata.name, zone=node_zone(node))
    asked: dict[Family, list[NodeService]] = {family: [] for family in FAMILIES}
    for service in snapshot.services:
        if (service.metadata.labels or {}).get(PROXY_NAME_LABEL) != settings.proxy_name:
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
            note(f"{where} is left out: {error}")
            continue
        for family, each in every.items():
            asked[family].append(each)
        for what in left_out:
            note(f"{where}: {what}: left out")
    own = node_port_addresses(options, node)
    all_node_addresses(node, left_out=lambda each: note(f"Node {this.name}: {each!r} is no IP address: left out"))
    return {
        family: resolve_ownership(some, node_addresses=own.get(family, frozenset()), on_conflict=note)
        for family, some in asked.items()
    }


def _note(text: str) -> None:
    print_line(f"zoneward: {text}", err=True)


async def _differences(found: dict[Family, dict[ObjectKey, NodeService]], options: RulesetOptions) -> int:
    try:
        async with NftClient() as kernel:
            for family in FAMILIES:
                click.echo(
                    render_commands(await plan_changes(kernel, family, found[family], options=options)), nl=False
                )
    except (NftablesUnavailable, KernelRefused, KernelOutcomeUnknown, DumpInterrupted) as error:
        raise InputError("the kernel", str(error)) from None
    return 0


async def _clean_up(asked: Asked) -> int:
    try:
        async with NftClient() as kernel:
            gone = await delete_tables(kernel)
    except (NftablesUnavailable, KernelRefused, KernelOutcomeUnknown) as error:
        raise InputError("the kernel", str(error)) from None
    if not asked.quiet:
        tables = ", ".join(f"table {family} {name}" for family, name in gone)
        print_line(f"removed {tables}" if gone else "there was nothing of ours", err=True)
    return 0


# --- options ----------------------------------------------------------------------------------------------------------


def _settings(asked: Asked) -> tuple[Configuration, ProxyConfiguration]:
    configuration, settings = Configuration(), ProxyConfiguration()
    if asked.config is not None:
        read = read_configuration(asked.config)
        configuration, settings = read.configuration, read.proxy
    flags = dict(asked.flags)
    if "audit_period" in flags:
        flags["audit_period"] = read_option("--audit-period", parse_duration, flags["audit_period"])
    for name, option in (("listen", "--listen"), ("healthz_listen", "--healthz-listen")):
        if name in flags:
            flags[name] = read_option(option, parse_listen_address, flags[name])
    if "proxy_mode_listen" in flags:
        flags["proxy_mode_listen"] = read_option(
            "--proxy-mode-listen", parse_optional_listen_address, flags["proxy_mode_listen"]
        )
    if "log_format" in flags:
        flags["log_format"] = LogFormat(flags["log_format"])
    for name in _LISTS:
        if name in flags:
            flags[name] = tuple(part.strip() for part in flags[name].split(",") if part.strip())
    try:
        return configuration, replace(settings, **flags)
    except ConfigurationError as error:
        raise InputError(by_flags(str(error), _OPTIONS)) from None
