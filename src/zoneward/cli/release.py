"""``zoneward release``: one Service given back to the built-in controller, or all Services taken out of the overlay."""

import asyncio
from typing import TYPE_CHECKING, Final

import click

from zoneward.cli.handover_command import HandoverCommand, handover_options, service_argument
from zoneward.cli.options import Options
from zoneward.cli.output import Note, print_line, print_notes
from zoneward.kube.input_error import InputError

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig
    from zoneward.client.transport import Transport

_NO_PORT: Final = "127.0.0.1:0"
_STOP_IT: Final = "Stop it, or use --scale-down NAMESPACE/DEPLOYMENT"


@click.command("release")
@service_argument(is_required=False)
@click.option("--overlay", is_flag=True, help="Take all Services out of the overlay, instead of one that was adopted.")
@click.option(
    "--scale-down",
    metavar="NAMESPACE/DEPLOYMENT",
    help="With --overlay: scale the controller's Deployment to 0 first, so that it does not continue.",
)
@handover_options
def command(
    *,
    options: Options,
    service: str | None,
    overlay: bool,
    scale_down: str | None,
    timeout: float,
    dry_run: bool,
) -> int:
    """Give an adopted Service back: restore its selector, wait for the EndpointSlices of the built-in controller,
    delete Zoneward's, and restore labels and annotations. Every ready endpoint is in some slice at all times.

    With --overlay, take all Services out of the overlay: remove its hints and its ConfigMaps. The built-in controller
    then writes the hints that a Service asks Kubernetes for. Stop the controller first, or use --scale-down.

    After an interruption at any point, run the same command again to continue. A Service that belongs to the built-in
    controller is left unchanged.

    \b
    zoneward release shop/cart --dry-run
    zoneward release shop/cart
    zoneward release --overlay --scale-down zoneward-system/zoneward-controller
    """
    if overlay:
        if service is not None:
            raise click.UsageError(f"--overlay: expected no Service, got {service!r}: it takes all out of the overlay")
        return _release_overlay(options, timeout=timeout, dry_run=dry_run, scale_down=scale_down)
    if service is None:
        raise click.UsageError("expected [NAMESPACE/]SERVICE, or --overlay")
    if scale_down is not None:
        raise click.UsageError("--scale-down: expected --overlay with it")
    from zoneward.cli.handover_command import run_handover
    from zoneward.controller.handover.handover_steps import next_release_step

    direction = HandoverCommand(
        run=lambda handover: handover.release(),
        next_step=lambda handover: lambda state: next_release_step(state, plan=handover.plan),
        command="zoneward release",
    )
    return run_handover(service, direction, options=options, timeout=timeout, dry_run=dry_run)


def _release_overlay(options: Options, *, timeout: float, dry_run: bool, scale_down: str | None) -> int:
    from zoneward.cli.cluster_input import call_cluster, failed_calls, find_cluster
    from zoneward.routing.phrases import counted

    access, _ = find_cluster(options)
    services = call_cluster(access, _services_in_overlay)
    if dry_run:
        for namespace, name in services:
            print_line(f"Service {namespace}/{name}: would leave the overlay")
        return 0
    if scale_down is not None:
        call_cluster(access, lambda transport: _scale_down(transport, scale_down))
        print_notes(options, [Note(f"Deployment {scale_down}: scaled to 0")])
    if services:
        with failed_calls(access):
            home = scale_down.partition("/")[0] if scale_down else None
            asyncio.run(_run_until_released(access, options, timeout=timeout, namespace=home))
    print_line(f"{counted(len(services), 'Service')} left the overlay" if services else "no Service is in the overlay")
    return 0


async def _services_in_overlay(transport: "Transport") -> list[tuple[str, str]]:
    from zoneward.client.list_pager import ListScope, list_all
    from zoneward.client.resources import CONFIG_MAPS
    from zoneward.kube.names import OVERLAY_CONFIG_MAP
    from zoneward.slices.overlay import service_of_entry

    scope = ListScope(field_selector=f"metadata.name={OVERLAY_CONFIG_MAP}")
    config_maps = await list_all(transport, CONFIG_MAPS, scope)
    return sorted(
        {
            (config_map.metadata.namespace, service_of_entry(entry))
            for config_map in config_maps
            for entry in config_map.data or ()
        }
    )


async def _scale_down(transport: "Transport", deployment: str) -> None:
    namespace, _, name = deployment.partition("/")
    if not (namespace and name) or "/" in name:
        raise click.UsageError(f"--scale-down: expected NAMESPACE/DEPLOYMENT, got {deployment!r}")
    await transport.send(
        "PATCH",
        f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
        b'{"spec":{"replicas":0}}',
        content_type="application/merge-patch+json",
        idempotent=True,
    )


async def _lease_namespace(access: "ClientConfig", options: Options) -> str | None:
    """Where the controller that made the overlay has its Lease, which nobody else may hold meanwhile; None: unknown.

    Raises InputError if there are several such Leases: every tenant can create one.
    """
    from zoneward.cli.cluster_input import controller_lease_name
    from zoneward.client.api_errors import CallFailed
    from zoneward.client.optional_objects import list_controller_leases
    from zoneward.client.transport import Transport

    name = controller_lease_name(options)
    try:
        async with Transport(access) as transport:
            leases = await list_controller_leases(transport, name=name)
    except CallFailed:
        return None
    namespaces = sorted(lease.metadata.namespace for lease in leases)
    if len(namespaces) > 1:
        raise InputError(
            f"Lease {name}",
            f"expected one, got one in each of {', '.join(namespaces)}: use --scale-down, or --config with"
            " controller.leaderElection.resourceNamespace",
        )
    return namespaces[0] if namespaces else None


async def _run_until_released(
    access: "ClientConfig", options: Options, *, timeout: float, namespace: str | None
) -> None:
    """Run the controller in the mode in which every Service leaves the overlay, until all have.

    ``namespace`` is that of the controller; None: the one with its Lease.
    """
    import os
    import socket

    from zoneward.advice.shell_commands import in_cluster
    from zoneward.cli.configuration_file import read_program_settings
    from zoneward.cli.daemon_command import import_program, lease_namespace
    from zoneward.controller.controller_configuration import SECTION, ControllerConfiguration
    from zoneward.daemon.log import LogFormat
    from zoneward.daemon.structured_log import Level, new_log
    from zoneward.slices.overlay import overlay_configuration

    module = import_program("zoneward.controller.controller_program", command="release --overlay")
    flags = {"mode": "overlay", "listen": _NO_PORT}
    configuration, settings = read_program_settings(options.config, SECTION, ControllerConfiguration, flags, {})
    namespace = settings.leader_election.lease_namespace or namespace or await _lease_namespace(access, options)
    program = module.ControllerProgram(
        access,
        configuration=overlay_configuration(configuration),
        settings=settings,
        lease=(
            lease_namespace(access, namespace),
            settings.leader_election.lease_name,
        ),
        instance=os.environ.get("POD_NAME") or socket.gethostname(),
        log=new_log(form=LogFormat.TEXT, level=Level.WARNING if options.quiet else Level.INFO),
        to_json=lambda _plan: b"",
        is_releasing=True,
    )
    try:
        async with asyncio.timeout(timeout):
            await program.run(asyncio.Event())
    except TimeoutError:
        retry = in_cluster("zoneward release --overlay", options.cluster_words)
        raise InputError(
            "release --overlay",
            f"not finished within {timeout:g} s. Does a controller still run? {_STOP_IT}; to continue: {retry}",
        ) from None
