"""``zoneward controller``: the loop that keeps a cluster's EndpointSlices."""

import click


@click.command("controller", options_metavar="(--take-over | --only-marked) [OPTIONS]")
@click.option(
    "--take-over",
    "take_over",
    is_flag=True,
    help="Keep the slices of every Service that has a selector. The built-in controller must be off"
    " (kube-controller-manager --controllers=*,-endpointslice-controller).",
)
@click.option(
    "--only-marked",
    "only_marked",
    is_flag=True,
    help="Keep the slices of Services that `zoneward adopt` marked, and leave all others alone.",
)
@click.option(
    "--keep-built-in-label",
    is_flag=True,
    default=None,
    help="With --take-over: keep the built-in controller's slices instead of replacing them, and give ours its label"
    " (endpointslice.kubernetes.io/managed-by). A built-in controller that still runs is then not noticed.",
)
@click.option("--config", metavar="FILE", help="A ZonewardConfiguration file; flags win over it.")
@click.option("--compat", type=click.Choice(["upstream"]), help="Decide exactly as current Kubernetes does.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="This kubeconfig instead of $KUBECONFIG or ~/.kube/config. Without any, the Pod's service account.",
)
@click.option("--context", metavar="NAME", help="A context of the kubeconfig.")
@click.option("--as", "impersonate", metavar="USER", help="Act as another user.")
@click.option(
    "--endpointslice-updates-batch-period",
    "batch_period",
    metavar="DURATION",
    help="Gather changes of a Service that follow each other within this time, at most 1h. 0s by default.",
)
@click.option(
    "--concurrent-service-endpoint-syncs",
    "concurrent_syncs",
    type=int,
    metavar="N",
    help="How many Services are synced at the same time, 1 to 50. 5 by default.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Write only while holding a Lease, so that several replicas can run. On by default.",
)
@click.option(
    "--leader-elect-lease-duration",
    "lease_duration",
    metavar="DURATION",
    help="How long others wait for a Lease that is not renewed, before they take it. 15s by default.",
)
@click.option(
    "--leader-elect-renew-deadline",
    "renew_deadline",
    metavar="DURATION",
    help="Stop writing when the Lease could not be renewed for this long. 10s by default.",
)
@click.option(
    "--leader-elect-retry-period",
    "retry_period",
    metavar="DURATION",
    help="The longest time between two looks at the Lease, or between two renewals. 2s by default.",
)
@click.option(
    "--leader-elect-resource-namespace",
    "lease_namespace",
    metavar="NAME",
    help="The Lease's namespace. By default the Pod's own; outside of a cluster, kube-system.",
)
@click.option(
    "--leader-elect-resource-name",
    "lease_name",
    metavar="NAME",
    help="The Lease's name. zoneward-controller by default.",
)
@click.option(
    "--listen",
    metavar="[HOST]:PORT",
    help="Where /healthz, /readyz, /metrics and /debug are served. 127.0.0.1:10271 by default; :10271 is all addresses,"
    " port 0 any that is free.",
)
@click.option(
    "--debug-for-all",
    is_flag=True,
    default=None,
    help="Answer /debug to everyone, not only on loopback addresses. It tells which Services there are and where their"
    " Pods run.",
)
@click.option("--predictions", is_flag=True, default=None, help="Add each Service's predicted traffic to /metrics.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="How lines on standard error are written. By default text on a terminal, else json.",
)
@click.option("-v", "--verbose", count=True, help="Debug lines, too.")
@click.option("-q", "--quiet", is_flag=True, help="Only warnings and errors.")
def command(
    *,
    take_over: bool,
    only_marked: bool,
    config: str | None,
    compat: str | None,
    kubeconfig: str | None,
    context: str | None,
    impersonate: str | None,
    verbose: int,
    quiet: bool,
    **settings: object,
) -> int:
    """Follow a cluster and keep its EndpointSlices, until SIGTERM or Ctrl-C.

    One of --take-over and --only-marked is needed, here or as `controller.mode` in the file of --config. `zoneward
    plan -A` shows what it would decide, before and at any time. Several replicas may run: the one that holds the Lease
    writes, and another takes over when it ends.

    Durations are as Go writes them: 500ms, 15s, 1m30s.

    \b
    zoneward controller --take-over --kubeconfig sandbox.kubeconfig
    zoneward controller --only-marked
    """
    if take_over and only_marked:
        raise click.UsageError("--take-over and --only-marked: expected one of them, got both")
    if quiet and verbose:
        raise click.UsageError("-q and -v: expected one of them, got both")
    from zoneward.cli.controlling import Asked, run

    return run(
        Asked(
            mode="take-over" if take_over else "only-marked" if only_marked else None,
            config=config,
            is_upstream=compat == "upstream",
            kubeconfig=kubeconfig,
            context=context,
            impersonate=impersonate,
            verbose=verbose,
            quiet=quiet,
            flags={name: value for name, value in settings.items() if value is not None},
        )
    )
