"""``zoneward proxy``: what a node serves of all Services, kept in its kernel."""

import click


@click.command("proxy", options_metavar="--node NAME [OPTIONS]")
@click.option("--node", metavar="NAME", help="The Node that this one is the proxy of. Needed, but for --cleanup.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="PATH",
    help="With --print or --dry-run: a snapshot (file, directory, or - for standard input) in place of the cluster."
    " May be repeated.",
)
@click.option("--sample", is_flag=True, help="With --print or --dry-run: the sample cluster that comes with Zoneward.")
@click.option("--print", "is_print", is_flag=True, help="Write all rules as text that `nft -f` loads, and end.")
@click.option("--dry-run", is_flag=True, help="Write what would change in the kernel's rules, change nothing, and end.")
@click.option("--cleanup", is_flag=True, help="Remove all rules of ours from the kernel, and end.")
@click.option("--config", metavar="FILE", help="A ZonewardConfiguration file; flags win over it.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="This kubeconfig instead of $KUBECONFIG or ~/.kube/config. Without any, the Pod's service account.",
)
@click.option("--context", metavar="NAME", help="A context of the kubeconfig.")
@click.option("--as", "impersonate", metavar="USER", help="Act as another user.")
@click.option(
    "--cluster-cidr",
    "cluster_cidrs",
    metavar="CIDR[,CIDR]",
    help="Addresses of the cluster's Pods, one range for each family. What comes to Services from elsewhere is"
    " masqueraded.",
)
@click.option(
    "--pod-interface-prefix",
    "pod_interfaces",
    metavar="TEXT",
    help="In place of --cluster-cidr: how the names of interfaces begin by which this node's Pods send.",
)
@click.option(
    "--masquerade-all", is_flag=True, default=None, help="Masquerade all traffic to addresses inside of the cluster."
)
@click.option(
    "--masquerade-bit",
    type=int,
    metavar="N",
    help="The bit of the packet mark that says to masquerade, 0 to 31. 14 by default, as kube-proxy's.",
)
@click.option(
    "--nodeport-addresses",
    "node_port_addresses",
    metavar="primary|CIDR[,CIDR...]",
    help="Serve node ports on addresses of the node within these ranges. By default on the addresses that the Node"
    " is known by.",
)
@click.option(
    "--service-cidr",
    "service_cidrs",
    metavar="CIDR[,CIDR]",
    help="Addresses of Services. None of them is an external IP, and traffic to those that no Service has is dropped.",
)
@click.option(
    "--service-proxy-name",
    "proxy_name",
    metavar="NAME",
    help="Serve only Services with this in the label service.kubernetes.io/service-proxy-name. By default those without"
    " the label.",
)
@click.option(
    "--audit-period",
    metavar="DURATION",
    help="How often all elements in the kernel are compared with what they should be. 15m by default. That rules or"
    " tables of ours were changed is noticed within seconds in any case.",
)
@click.option(
    "--max-service-entries",
    type=int,
    metavar="N",
    help="Entries that one Service may take: for each of its ports, its addresses and its endpoints. One with more is"
    " not programmed. 250000 by default.",
)
@click.option(
    "--count-connections/--no-count-connections",
    default=None,
    help="Count new connections to each endpoint, for /measured. On by default.",
)
@click.option(
    "--lease-namespace",
    metavar="NAME",
    help="Where this node's Lease is, which says what is programmed. By default the Pod's own namespace; outside of a"
    " cluster, kube-system.",
)
@click.option(
    "--listen",
    metavar="[HOST]:PORT",
    help="Where /readyz, /metrics, /measured and /debug are served. 127.0.0.1:10272 by default; :10272 is all"
    " addresses, port 0 any that is free.",
)
@click.option(
    "--healthz-listen",
    metavar="[HOST]:PORT",
    help="Where /healthz and /livez are served, which load balancers ask. :10256 by default, as kube-proxy's.",
)
@click.option(
    "--proxy-mode-listen",
    metavar="[HOST]:PORT",
    help="Where /proxyMode is served, which answers nftables. 127.0.0.1:10249 by default, as kube-proxy's, but with"
    " --service-proxy-name; empty: nowhere.",
)
@click.option("--debug-for-all", is_flag=True, default=None, help="Answer /debug to everyone, not only on loopback.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="How lines on standard error are written. By default text on a terminal, else json.",
)
@click.option("-v", "--verbose", count=True, help="Debug lines, too.")
@click.option("-q", "--quiet", is_flag=True, help="Only warnings and errors.")
def command(
    *,
    node: str | None,
    files: tuple[str, ...],
    sample: bool,
    is_print: bool,
    dry_run: bool,
    cleanup: bool,
    config: str | None,
    kubeconfig: str | None,
    context: str | None,
    impersonate: str | None,
    verbose: int,
    quiet: bool,
    **settings: object,
) -> int:
    """Program a node's kernel (nftables) to do what `zoneward route --node NAME` says, until SIGTERM or Ctrl-C.

    Services, EndpointSlices and the Node are followed; zones, hints, slice groups and weights are honored. It takes the
    place of kube-proxy, or serves only Services that are labelled for it. The rules stay in the kernel when it ends.
    Root, or CAP_NET_ADMIN, is needed, but for --print.

    Durations are as Go writes them: 500ms, 15s, 1m30s.

    \b
    zoneward proxy --node worker-a2
    zoneward proxy --node worker-a2 --sample --print
    """
    if quiet and verbose:
        raise click.UsageError("-q and -v: expected one of them, got both")
    if is_print + dry_run + cleanup > 1:
        raise click.UsageError("--print, --dry-run and --cleanup: expected one of them")
    if node is None and not cleanup:
        raise click.UsageError("expected --node, the name of the Node that this one is the proxy of")
    if (files or sample) and not (is_print or dry_run):
        option = "-f" if files else "--sample"
        raise click.UsageError(f"{option}: expected --print or --dry-run with it; the rules that run are a cluster's")
    from zoneward.cli.proxying import Asked, run

    return run(
        Asked(
            node=node or "",
            files=files,
            sample=sample,
            does="print" if is_print else "dry-run" if dry_run else "cleanup" if cleanup else "run",
            config=config,
            kubeconfig=kubeconfig,
            context=context,
            impersonate=impersonate,
            verbose=verbose,
            quiet=quiet,
            flags={name: value for name, value in settings.items() if value is not None},
        )
    )
