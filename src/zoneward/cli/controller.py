"""``zoneward controller``: manages a cluster's EndpointSlices."""

import os
import socket
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from zoneward.cli.daemon_command import (
    DaemonOptions,
    cluster_options,
    import_program,
    lease_namespace,
    log_options,
    setting_options,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection

    from zoneward.controller.context import FiguresSource
    from zoneward.controller.controller_configuration import ControllerConfiguration
    from zoneward.routing.configuration import Configuration


_SETTINGS: Final = {
    "--endpointslice-updates-batch-period DURATION": "Batch changes of a Service within this time, at most 1h. 0s by"
    " default.",
    "--concurrent-service-endpoint-syncs N": "Number of Services that are synced at the same time, 1 to 50. 5 by"
    " default.",
    "--leader-elect/--no-leader-elect": "Write only while holding a Lease, so that several replicas can run. On by"
    " default.",
    "--leader-elect-lease-duration DURATION": "How long other replicas wait before they take over a Lease that is not"
    " renewed. 15s by default.",
    "--leader-elect-renew-deadline DURATION": "Stop writing when the Lease could not be renewed for this long. 10s by"
    " default.",
    "--leader-elect-retry-period DURATION": "The longest time between two attempts to acquire or renew the Lease. 2s"
    " by default.",
    "--leader-elect-resource-namespace NAME": "The namespace of the Lease. By default that of the Pod; outside of a"
    " cluster, kube-system.",
    "--leader-elect-resource-name NAME": "The name of the Lease. zoneward-controller by default.",
    "--listen [HOST]:PORT": "Where to serve /healthz, /readyz, /metrics and /debug. 127.0.0.1:10271 by default; :10271"
    " listens on all addresses, port 0 picks a free one.",
    "--debug-for-all": "Serve /debug to all clients, not only on loopback addresses. It shows which Services exist and"
    " where their Pods run.",
    "--predictions": "Add the predicted traffic of each Service to /metrics.",
}
_FIELDS: Final = {
    "--endpointslice-updates-batch-period": "batch_period",
    "--concurrent-service-endpoint-syncs": "concurrent_syncs",
    "--leader-elect-lease-duration": "lease_duration",
    "--leader-elect-renew-deadline": "renew_deadline",
    "--leader-elect-retry-period": "retry_period",
    "--leader-elect-resource-namespace": "lease_namespace",
    "--leader-elect-resource-name": "lease_name",
}
"""Settings with other names than their flags."""


@click.command("controller", options_metavar="(--overlay | --only-marked | --take-over) [OPTIONS]")
@click.option(
    "--overlay",
    "overlay",
    is_flag=True,
    help="Set the hints in the slices that the built-in controller writes, by an admission policy. Write no slices."
    " The cluster needs Kubernetes 1.36 or newer and the policy (zoneward plan -o overlay).",
)
@click.option(
    "--take-over",
    "take_over",
    is_flag=True,
    help="Write the slices of every Service that has a selector. The built-in controller must be"
    " off (kube-controller-manager --controllers=*,-endpointslice-controller).",
)
@click.option(
    "--only-marked",
    "only_marked",
    is_flag=True,
    help="Write the slices of the Services that `zoneward adopt` marked, and of no others.",
)
@click.option(
    "--keep-built-in-label",
    is_flag=True,
    default=None,
    help="With --take-over: keep the slices of the built-in controller instead of replacing them,"
    " and give Zoneward's slices its label (endpointslice.kubernetes.io/managed-by). Zoneward then cannot"
    " detect a built-in controller that still runs.",
)
@cluster_options
@click.option("--compat", type=click.Choice(["upstream"]), help="Decide exactly as current Kubernetes does.")
@setting_options(_SETTINGS, _FIELDS)
@log_options
def command(*, overlay: bool, take_over: bool, only_marked: bool, compat: str | None, **options: Any) -> int:
    """Watch a cluster and keep its EndpointSlices up to date, or the hints in them, until SIGTERM or Ctrl-C.

    One of --overlay, --only-marked and --take-over is required, here or as `controller.mode` in the file of --config.
    `zoneward plan -A --with overlay` and `--with controller` show at any time what the controller would decide. Several
    replicas may run: the one that holds the Lease writes, and another one takes over when it stops.

    Durations have the format of Go: 500ms, 15s, 1m30s.

    \b
    zoneward controller --overlay
    zoneward controller --only-marked
    zoneward controller --take-over --kubeconfig sandbox.kubeconfig
    """
    modes = {"overlay": overlay, "only-marked": only_marked, "take-over": take_over}
    given = [mode for mode, is_given in modes.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"--{' and --'.join(given)}: expected one of them, got {len(given)}")
    mode = given[0] if given else None
    return _run(DaemonOptions.of({**options, "mode": mode}), is_upstream=compat == "upstream")


def _run(options: DaemonOptions, *, is_upstream: bool) -> int:
    """Return the exit status: 0 after SIGTERM or SIGINT, 1 if a part fails or the API server refuses a request that
    the controller cannot work without. Raises InputError or a usage error before anything is served."""
    module = import_program("zoneward.controller.controller_program", command="controller")
    configuration, settings = _settings(options, is_upstream=is_upstream)
    configuration, figures = with_demand_file(configuration)
    access, log = options.connect(settings.log_format)

    from zoneward.daemon.program import run_program

    async def work(stop: "asyncio.Event") -> None:
        from zoneward.advice.decisions import decisions_document
        from zoneward.advice.json_value import as_document, to_json

        program = module.ControllerProgram(
            access,
            configuration=configuration,
            settings=settings,
            lease=(
                lease_namespace(access, settings.leader_election.lease_namespace),
                settings.leader_election.lease_name,
            ),
            instance=os.environ.get("POD_NAME") or socket.gethostname(),
            log=log,
            to_json=lambda plan: to_json(as_document("Plan", decisions_document([plan]))),
            figures=figures,
        )
        await program.run(stop)

    return run_program(work, name="controller", log=log, access=access)


def _settings(options: DaemonOptions, *, is_upstream: bool) -> "tuple[Configuration, ControllerConfiguration]":
    from zoneward.controller.controller_configuration import SECTION, ControllerConfiguration, Mode
    from zoneward.slices.overlay import overlay_configuration

    configuration, settings = options.settings(SECTION, ControllerConfiguration)
    if settings.mode is None:
        raise click.UsageError(
            "expected one of --overlay, --only-marked and --take-over, or `controller.mode` in --config"
        )
    if is_upstream and settings.mode is not Mode.TAKE_OVER:
        raise click.UsageError(
            f"--compat=upstream: expected the mode {Mode.TAKE_OVER}, got {settings.mode},"
            " in which Zoneward's slices need a separate label"
        )
    configuration = replace(configuration, keep_built_in_label=settings.keep_built_in_label)
    if settings.mode is Mode.OVERLAY:
        return overlay_configuration(configuration), settings
    return configuration.as_upstream() if is_upstream else configuration, settings


def with_demand_file(configuration: "Configuration") -> "tuple[Configuration, FiguresSource | None]":
    """The demand of `demand.file`: parts of zones for all Services, or figures, which are read again each time.

    Raises InputError for a file that cannot be read now. Amounts count however small they are.
    """
    import asyncio

    from zoneward.cli.known_demand import read_demand_file
    from zoneward.controller.context import FiguresSource, FiguresUnavailable
    from zoneward.kube.demand import DemandFigures
    from zoneward.kube.input_error import InputError

    demand, name = configuration.demand, configuration.demand.file
    if demand.source != "file" or name is None:
        return configuration, None
    said = read_demand_file(name)
    if not isinstance(said, DemandFigures):
        return replace(configuration, demand=replace(demand, source="cpu", zones=said)), None

    async def read(nodes: "Collection[str]") -> DemandFigures:
        try:
            figures = await asyncio.to_thread(read_demand_file, name, nodes=nodes)
        except InputError as error:
            raise FiguresUnavailable(str(error)) from None
        if not isinstance(figures, DemandFigures):
            raise FiguresUnavailable(f"{name}: expected figures of Services, as at the start, got parts of zones")
        return figures

    # A file always counts as current.
    return replace(configuration, demand=replace(demand, min_traffic=Fraction(0))), FiguresSource(read, window=0.0)
