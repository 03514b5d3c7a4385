"""``zoneward proxy``: what a node serves of all Services, kept in its kernel."""

from typing import TYPE_CHECKING, Any, Final

import click

from zoneward.cli.completion import complete_node
from zoneward.cli.daemon_command import (
    DaemonOptions,
    cluster_options,
    import_program,
    lease_namespace,
    log_options,
    setting_options,
)
from zoneward.cli.options import Options, files_option

if TYPE_CHECKING:
    import asyncio

    from zoneward.proxy.proxy_configuration import ProxyConfiguration
    from zoneward.routing.configuration import Configuration


_SETTINGS: Final = {
    "--cluster-cidr CIDR[,CIDR]": "Addresses of the Pods of the cluster, one range for each family. Traffic from other"
    " addresses to Services is masqueraded.",
    "--pod-interface-prefix TEXT": "Instead of --cluster-cidr: the prefix of the names of the interfaces that the Pods"
    " of this node use.",
    "--masquerade-all": "Masquerade all traffic to cluster IPs.",
    "--masquerade-bit N": "The bit of the packet mark for traffic to masquerade, 0 to 31. 14 by default, as in"
    " kube-proxy.",
    "--nodeport-addresses primary|CIDR[,CIDR...]": "Serve node ports on the addresses of the node within these ranges."
    " By default on the addresses in the status of the Node.",
    "--service-cidr CIDR[,CIDR]": "The ranges of cluster IPs. No external IP may be in them, and traffic to their"
    " addresses without a Service is dropped.",
    "--service-proxy-name NAME": "Serve only Services whose label service.kubernetes.io/service-proxy-name has this"
    " value. By default those without the label.",
    "--audit-period DURATION": "How often to compare all elements in the kernel with those that should be there. 15m"
    " by default. Changes of rules or tables are noticed within seconds in any case.",
    "--max-service-entries N": "Number of entries that one Service may have: for each of its ports, its addresses and"
    " its endpoints. A Service with more is not programmed. 250000 by default.",
    "--max-namespace-entries N": "Number of entries that all Services of one namespace may have. The youngest of those"
    " that exceed it are not programmed. 400000 by default.",
    "--max-entries N": "Number of entries that all Services may have. The youngest of those that exceed it are not"
    " programmed. 750000 by default.",
    "--count-connections/--no-count-connections": "Count connections and bytes to Services, for /measured. On by"
    " default.",
    "--lease-namespace NAME": "The namespace of the Lease with which this node reports what is programmed. By default"
    " that of the Pod; outside of a cluster, kube-system.",
    "--listen [HOST]:PORT": "Where to serve /readyz, /metrics, /measured and /debug. 127.0.0.1:10272 by default;"
    " :10272 listens on all addresses, port 0 picks a free one.",
    "--healthz-listen [HOST]:PORT": "Where to serve /healthz and /livez for load balancers. :10256 by default, as in"
    " kube-proxy.",
    "--proxy-mode-listen [HOST]:PORT": "Where to serve /proxyMode, which answers nftables. 127.0.0.1:10249 by default,"
    " as in kube-proxy, and nowhere with --service-proxy-name. Empty: nowhere.",
    "--debug-for-all": "Serve /debug to all clients, not only on loopback addresses.",
}
_FIELDS: Final = {
    "--cluster-cidr": "cluster_cidrs",
    "--pod-interface-prefix": "pod_interfaces",
    "--nodeport-addresses": "node_port_addresses",
    "--service-cidr": "service_cidrs",
    "--service-proxy-name": "proxy_name",
}
"""Settings with other names than their flags."""


@click.command("proxy", options_metavar="--node NAME [OPTIONS]")
@click.option(
    "--node",
    metavar="NAME",
    shell_complete=complete_node,
    help="The Node that the proxy runs on. Required, except with --cleanup.",
)
@files_option(
    "With --print or --dry-run: read a snapshot (file, directory, or - for standard input) instead of the cluster."
    " May be repeated."
)
@click.option(
    "--sample", is_flag=True, help="With --print or --dry-run: use the sample cluster that comes with Zoneward."
)
@click.option("--print", "is_print", is_flag=True, help="Print all rules as text that `nft -f` loads, and exit.")
@click.option(
    "--dry-run", is_flag=True, help="Print what would change in the rules of the kernel, change nothing, and exit."
)
@click.option("--cleanup", is_flag=True, help="Delete all rules of Zoneward from the kernel, and exit.")
@cluster_options
@setting_options(_SETTINGS, _FIELDS)
@log_options
def command(
    *,
    node: str | None,
    files: tuple[str, ...],
    sample: bool,
    is_print: bool,
    dry_run: bool,
    cleanup: bool,
    **options: Any,
) -> int:
    """Program the kernel of a node (nftables) to do what `zoneward route --node NAME` shows, until SIGTERM or Ctrl-C.

    It watches Services, EndpointSlices and the Node, and honors zones, hints, slice groups and weights. It replaces
    kube-proxy, or serves only the Services that are labelled for it. The rules stay in the kernel when it stops. It
    needs root or CAP_NET_ADMIN, except with --print.

    Durations have the format of Go: 500ms, 15s, 1m30s.

    \b
    zoneward proxy --node worker-a2
    zoneward proxy --node worker-a2 --sample --print
    """
    from zoneward.proxy.proxy_configuration import SECTION, ProxyConfiguration

    for name in ("cluster_cidrs", "node_port_addresses", "service_cidrs"):
        if options[name] is not None:
            options[name] = _parse_list(options[name])
    daemon = DaemonOptions.of(options)
    if is_print + dry_run + cleanup > 1:
        raise click.UsageError("--print, --dry-run and --cleanup: expected one of them")
    if node is None and not cleanup:
        raise click.UsageError("expected --node, the name of the Node that the proxy runs on")
    if (files or sample) and not (is_print or dry_run):
        option = "-f" if files else "--sample"
        raise click.UsageError(f"{option}: expected --print or --dry-run with it: a running proxy reads a cluster")
    configuration, settings = daemon.settings(SECTION, ProxyConfiguration)
    if node is None or cleanup:
        from zoneward.cli.proxy_rules import delete_rules

        return delete_rules(quiet=daemon.quiet)
    if not (is_print or dry_run):
        return _run(node, daemon, configuration, settings)
    from zoneward.cli.proxy_rules import print_rules

    snapshot_options = Options(
        files=files,
        sample=sample,
        context=daemon.context,
        kubeconfig=daemon.kubeconfig,
        impersonate=daemon.impersonate,
    )
    return print_rules(node, snapshot_options, configuration, settings, only_changes=dry_run)


def _run(node: str, options: DaemonOptions, configuration: "Configuration", settings: "ProxyConfiguration") -> int:
    """Return the exit status: 0 after SIGTERM or SIGINT, 1 where a part fails or the API server refuses a request that
    the proxy cannot work without. Raises InputError or a usage error before anything is changed."""
    module = import_program("zoneward.proxy.proxy_program", command="proxy")
    access, log = options.connect(settings.log_format)

    from zoneward.daemon.program import run_program
    from zoneward.kube.input_error import InputError
    from zoneward.proxy.kernel.nft_client import NftablesUnavailable
    from zoneward.proxy.machine import drop_effective_capability

    try:
        # Before there is a second thread: capabilities belong to threads.
        drop_effective_capability()
    except OSError as error:
        log.warning("failed to drop CAP_NET_ADMIN", error=str(error))

    async def work(stop: "asyncio.Event") -> None:
        program = module.ProxyProgram(
            access,
            node=node,
            configuration=configuration,
            settings=settings,
            lease_namespace=lease_namespace(access, settings.lease_namespace),
            log=log,
        )
        try:
            await program.run(stop)
        except NftablesUnavailable as error:
            raise InputError("the kernel", str(error)) from None

    return run_program(work, name="proxy", log=log, access=access)


def _parse_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
