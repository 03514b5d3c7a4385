"""``zoneward release``: one Service given back to the built-in controller, without a gap."""

import click

from zoneward.cli.handover_command import HandoverCommand, handover_options
from zoneward.cli.options import Options


@click.command("release")
@handover_options
def command(*, options: Options, service: str, timeout: float, dry_run: bool) -> int:
    """Give an adopted Service back: restore its selector, wait for the EndpointSlices of the built-in controller,
    delete Zoneward's, and restore labels and annotations. Every ready endpoint is in some slice at all times.

    After an interruption at any point, run the same command again to continue. A Service that belongs to the built-in
    controller is left unchanged.

    \b
    zoneward release shop/cart --dry-run
    zoneward release shop/cart
    """
    from zoneward.cli.handover_command import run_handover
    from zoneward.controller.handover.handover_steps import next_release_step

    direction = HandoverCommand(
        run=lambda handover: handover.release(),
        next_step=lambda handover: lambda state: next_release_step(state, plan=handover.plan),
        command="zoneward release",
    )
    return run_handover(service, direction, options=options, timeout=timeout, dry_run=dry_run)
