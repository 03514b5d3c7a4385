"""``zoneward meter``: connections and bytes to Services, counted on a node beside any proxy."""

from typing import TYPE_CHECKING, Any, Final

import click

from zoneward.cli.completion import complete_node
from zoneward.cli.daemon_command import DaemonOptions, cluster_options, import_program, log_options, setting_options

if TYPE_CHECKING:
    import asyncio


_SETTINGS: Final = {
    "--enable-accounting": "Have the kernel count bytes (net.netfilter.nf_conntrack_acct=1). It stays so after the"
    " meter ends. Without it, the meter changes nothing, and counts only connections where the kernel does not count"
    " bytes.",
    "--dump-period DURATION": "How often to read the counters of connections that stay open. 30s by default.",
    "--max-series N": "The most series of zoneward_meter_connections_total: Services times pairs of zones. 20000 by"
    " default.",
    "--max-namespace-entries N": "Number of pairs of an address and a port that all Services of one namespace may"
    " have. The youngest of those that exceed it are not counted. 400000 by default.",
    "--max-entries N": "Number of pairs of an address and a port that all Services may have. The youngest of those"
    " that exceed it are not counted. 750000 by default.",
    "--listen [HOST]:PORT": "Serve /healthz, /readyz, /metrics and /measured there. 127.0.0.1:10274 by default.",
}


@click.command("meter", options_metavar="--node NAME [OPTIONS]")
@click.option(
    "--node", required=True, metavar="NAME", shell_complete=complete_node, help="The Node that the meter runs on."
)
@cluster_options
@setting_options(_SETTINGS)
@log_options
def command(*, node: str, **options: Any) -> int:
    """Count connections and bytes to Services on a node, by the zones where they start and go, until SIGTERM or Ctrl-C.

    It reads connection tracking, and works beside kube-proxy in any mode and beside Zoneward's proxy. It watches
    Services, EndpointSlices and the Node, and writes nothing to the cluster. It needs root or CAP_NET_ADMIN in the
    network namespace of the node.

    \b
    zoneward meter --node worker-a2
    zoneward report --measured http://127.0.0.1:10274/measured
    """
    from zoneward.meter.meter_configuration import SECTION, MeterConfiguration

    daemon = DaemonOptions.of(options)
    _, settings = daemon.settings(SECTION, MeterConfiguration)
    module = import_program("zoneward.meter.meter_program", command="meter")
    access, log = daemon.connect(settings.log_format)

    from zoneward.daemon.program import run_program

    async def work(stop: "asyncio.Event") -> None:
        await module.MeterProgram(access, node=node, settings=settings, log=log).run(stop)

    return run_program(work, name="meter", log=log, access=access)
