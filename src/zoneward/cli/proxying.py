"""From options to a node's proxy that runs until it is told to end, or to its rules as text."""

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from zoneward.cli.configuring import read_configuration
from zoneward.cli.options import Options
from zoneward.cli.snapshots import snapshot_for
from zoneward.daemon.go_duration import seconds_of
from zoneward.daemon.listening import listen_of
from zoneward.daemon.log import LogFormat
from zoneward.kube.input_error import InputError
from zoneward.kube.names import PROXY_NAME_LABEL
from zoneward.kube.objects import zone_of
from zoneward.proxy.applying import Lost, NftProcess, Refused, Unusable
from zoneward.proxy.base_rules import LayoutOptions
from zoneward.proxy.capability import set_aside
from zoneward.proxy.difference import difference
from zoneward.proxy.kernel_reading import Incomplete
from zoneward.proxy.node_options import layout_options
from zoneward.proxy.planning import cleanup, planned, whole
from zoneward.proxy.served import FAMILIES, Family, Node, Served, served
from zoneward.proxy.settings import ProxySettings
from zoneward.proxy.text import text
from zoneward.routing.configuration import Configuration, ConfigurationError
from zoneward.routing.rules import listed
from zoneward.routing.selection import ZONEWARD
from zoneward.sources.api_errors import CallFailed
from zoneward.sources.in_cluster import SERVICE_ACCOUNT
from zoneward.sources.kubeconfig import find_access
from zoneward.sources.resources import Key
from zoneward.sources.snapshot import Snapshot

if TYPE_CHECKING:
    from zoneward.daemon.log import Log
    from zoneward.sources.access import Access

_EXTRA: Final = ("prometheus_client", "structlog")
_FAILED: Final = 1
_SIGNALLED: Final = 128
_USUAL_NAMESPACE: Final = "kube-system"
_MOST_SHOWN: Final = 900
_LISTS: Final = ("cluster_cidrs", "node_port_addresses", "service_cidrs")
_OPTIONS: Final = {
    "proxy.clusterCIDRs": "--cluster-cidr",
    "proxy.podInterfacePrefix": "--pod-interface-prefix",
    "proxy.masqueradeBit": "--masquerade-bit",
    "proxy.nodePortAddresses": "--nodeport-addresses",
    "proxy.serviceCIDRs": "--service-cidr",
    "proxy.auditPeriod": "--audit-period",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says. ``flags``: those that were given, by the name of the field of `ProxySettings`."""

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
    _running()
    access = find_access(
        kubeconfig=asked.kubeconfig, context=asked.context, impersonate=asked.impersonate, environment=os.environ
    )
    log = _log(asked, settings)
    try:
        # In the first thread, while there is no other.
        set_aside()
    except OSError as error:
        log.warning("CAP_NET_ADMIN is not set aside", error=str(error))
    try:
        asyncio.run(_until_stopped(asked.node, access, configuration, settings, log))
    except KeyboardInterrupt:
        return 130
    except CallFailed as error:
        log.error("the proxy ends: the server refuses it", error=str(error))
        return _FAILED
    except Unusable as error:
        raise InputError("the kernel", str(error)) from None
    except (InputError, click.ClickException):
        raise
    except Exception as error:
        where = "".join(traceback.format_exception(error))[-_MOST_SHOWN:]
        log.error("the proxy ends: a part of it failed", error=f"{type(error).__name__}: {error}", where=where)
        return _FAILED
    return 0


async def _until_stopped(
    node: str, access: "Access", configuration: Configuration, settings: ProxySettings, log: "Log"
) -> None:
    stop = asyncio.Event()

    def told(number: int) -> None:
        if stop.is_set():
            log.warning("ends at once", signal=signal.Signals(number).name)
            os._exit(_SIGNALLED + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told, number)
    is_pod = access.source == SERVICE_ACCOUNT
    proxy = _running().NodeProxy(
        access,
        node=node,
        configuration=configuration,
        settings=settings,
        lease_namespace=settings.lease_namespace or (access.namespace if is_pod else _USUAL_NAMESPACE),
        log=log,
    )
    await proxy.run(stop)


# --- rules as text ----------------------------------------------------------------------------------------------------


def _tell(asked: Asked, configuration: Configuration, settings: ProxySettings) -> int:
    snapshot = snapshot_for(
        Options(
            files=asked.files,
            sample=asked.sample,
            context=asked.context,
            kubeconfig=asked.kubeconfig,
            impersonate=asked.impersonate,
        )
    )
    node = next((each for each in snapshot.nodes if each.metadata.name == asked.node), None)
    if node is None:
        known = listed(tuple(sorted(each.metadata.name for each in snapshot.nodes))) or "there are none"
        raise InputError(
            "--node", f"expected one of the {len(snapshot.nodes)} Nodes in the snapshot ({known}), got {asked.node!r}"
        )
    found = _served(snapshot, Node(name=asked.node, zone=zone_of(node)), configuration, settings)
    options = layout_options(settings, node)
    if asked.does == "print":
        click.echo(f"# Of node {asked.node}, zone {zone_of(node) or '(none)'}. In place of what there is: nft -f FILE")
        for family in FAMILIES:
            changes = difference(None, whole(family, found[family], options=options))
            click.echo(text(replace(changes, replaces=True)), nl=False)
        return 0
    return asyncio.run(_differences(found, options))


def _served(
    snapshot: Snapshot, node: Node, configuration: Configuration, settings: ProxySettings
) -> dict[Family, dict[Key, Served]]:
    found: dict[Family, dict[Key, Served]] = {family: {} for family in FAMILIES}
    for service in snapshot.services:
        if (service.metadata.labels or {}).get(PROXY_NAME_LABEL) != settings.proxy_name:
            continue
        slices = snapshot.slices_of(service)
        for each in served(service, slices, node=node, consumer=ZONEWARD, gates=configuration.gates):
            found[each.family][each.namespace, each.name] = each
    return found


async def _differences(found: dict[Family, dict[Key, Served]], options: LayoutOptions) -> int:
    try:
        async with NftProcess() as kernel:
            for family in FAMILIES:
                click.echo(text(await planned(kernel, family, found[family], options=options)), nl=False)
    except (Unusable, Refused, Lost, Incomplete) as error:
        raise InputError("the kernel", str(error)) from None
    return 0


async def _clean_up(asked: Asked) -> int:
    try:
        async with NftProcess() as kernel:
            gone = await cleanup(kernel)
    except (Unusable, Refused, Lost) as error:
        raise InputError("the kernel", str(error)) from None
    if not asked.quiet:
        tables = ", ".join(f"table {family} {name}" for family, name in gone)
        click.echo(f"removed {tables}" if gone else "there was nothing of ours", err=True)
    return 0


# --- options ----------------------------------------------------------------------------------------------------------


def _running() -> ModuleType:
    """The module with all that a proxy needs. Raises InputError where the extra is not installed."""
    try:
        from zoneward.daemon import logs  # noqa: F401 -- both need it
        from zoneward.proxy import running
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        expected = "expected the libraries for it, install them with: pip install 'zoneward[controller]'"
        raise InputError("zoneward proxy", f"{expected} (no {error.name} found)") from None
    return running


def _settings(asked: Asked) -> tuple[Configuration, ProxySettings]:
    configuration, settings = Configuration(), ProxySettings()
    if asked.config is not None:
        read = read_configuration(asked.config)
        configuration, settings = read.configuration, read.proxy
    flags = dict(asked.flags)
    if "audit_period" in flags:
        flags["audit_period"] = _read("--audit-period", seconds_of, flags["audit_period"])
    for name, option in (("listen", "--listen"), ("healthz_listen", "--healthz-listen")):
        if name in flags:
            flags[name] = _read(option, listen_of, flags[name])
    if "log_format" in flags:
        flags["log_format"] = LogFormat(flags["log_format"])
    for name in _LISTS:
        if name in flags:
            flags[name] = tuple(part.strip() for part in flags[name].split(",") if part.strip())
    try:
        return configuration, replace(settings, **flags)
    except ConfigurationError as error:
        raise InputError(_by_flags(str(error))) from None


def _by_flags(text: str) -> str:
    """What is wrong with settings, with the names that the command line has for them: the file alone was well."""
    for key, option in _OPTIONS.items():
        text = text.replace(key, option)
    return text


def _read(option: str, read: Any, text: str) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None


def _log(asked: Asked, settings: ProxySettings) -> "Log":
    from zoneward.daemon.logs import Level, new_log, take_over_logging

    level = Level.WARNING if asked.quiet else Level.DEBUG if asked.verbose else Level.INFO
    form = settings.log_format or (LogFormat.TEXT if sys.stderr.isatty() else LogFormat.JSON)
    log = new_log(form=form, level=level)
    take_over_logging(log)
    return log
