"""``zoneward release``: one Service given back to the built-in controller, without a gap."""

import click

from zoneward.cli.handover_command import HandoverCommand, handover_options
from zoneward.cli.options import Options


@click.command("release")
@handover_options
def command(*, options: Options, service: str, timeout: float, dry_run: bool) -> int:
    """Give an adopted Service back: its selector returns, the EndpointSlices of the built-in controller are awaited,
    then ours go, and labels and annotations are as they were. At no moment is a ready endpoint in none of them.

    Cut off anywhere, the same command goes on. A Service that is the built-in controller's is left as it is.

    \b
    zoneward release shop/cart --dry-run
    zoneward release shop/cart
    """
    from zoneward.cli.handover_command import run_handover
    from zoneward.controller.handover.adoption import next_release

    direction = HandoverCommand(
        run=lambda adopting: adopting.release(),
        next_step=lambda adopting: lambda state: next_release(state, plan=adopting.plan),
        command="zoneward release",
    )
    return run_handover(service, direction, options=options, timeout=timeout, dry_run=dry_run)
