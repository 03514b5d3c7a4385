"""``zoneward sandbox``: an API server in this process, for people without a cluster and for tests."""

from pathlib import Path
from typing import Any

import click

from zoneward.cli.completion import complete_files
from zoneward.cli.options import files_option


@click.command("sandbox")
@files_option(
    "Start with these objects: file, directory, or - for standard input (YAML or JSON, also gzip). May be repeated."
)
@click.option("--sample", is_flag=True, help="Start with the sample cluster that comes with Zoneward.")
@click.option(
    "--save",
    type=Path,
    metavar="FILE",
    shell_complete=complete_files,
    help="Save all objects to this file (JSON; .gz compresses) while they change and at the end. -f reads it again.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    metavar="NUMBER",
    help="The port to listen on; 0 picks a free one.",
)
@click.option(
    "--listen",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. On an address other than loopback, the token is all that a client needs.",
)
@click.option(
    "--write-kubeconfig",
    "kubeconfig",
    type=Path,
    metavar="FILE",
    shell_complete=complete_files,
    help="Write a kubeconfig as soon as the sandbox is ready.",
)
@click.option(
    "--play",
    metavar="FILE",
    shell_complete=complete_files,
    help="Run a play: workloads whose Pods start, become ready and stop, as the file describes.",
)
@click.option(
    "--feature-gates",
    "gates",
    multiple=True,
    metavar="GATE=BOOL",
    help="Be an API server with these gates, as in"
    " TopologyAwareHints=false,PreferSameTrafficDistribution=false: hints that a stored"
    " EndpointSlice does not already have are dropped. May be repeated.",
)
@click.option(
    "--with-builtin-controller",
    "built_in",
    is_flag=True,
    help="Run an EndpointSlice controller that decides and labels as the built-in one of Kubernetes, so that adopt and"
    " release can be tried. It needs the extra `controller`.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no notes on standard error.")
def command(**values: Any) -> None:
    """Run an API server in memory for kubectl and every command of Zoneward: Services, Nodes, Pods,
    EndpointSlices, Endpoints, Events, Leases and Namespaces. Ctrl-C or SIGTERM ends it.

    \b
    zoneward sandbox --sample --write-kubeconfig sandbox.kubeconfig
    zoneward sandbox -f cluster.json.gz --save cluster.json.gz
    zoneward sandbox --sample --with-builtin-controller --write-kubeconfig sandbox.kubeconfig
    zoneward sandbox --play rollout.yaml
    """
    if values["sample"] and values["files"]:
        raise click.UsageError("-f and --sample: expected one of them, got both")
    from zoneward.cli.sandbox_run import SandboxOptions, run_sandbox

    run_sandbox(SandboxOptions(**values))
