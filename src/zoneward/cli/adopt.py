"""``zoneward adopt``: one Service taken over from the built-in controller, without a gap."""

from typing import TYPE_CHECKING

import click

from zoneward.cli.handover_command import HandoverCommand, handover_options
from zoneward.cli.options import Options

if TYPE_CHECKING:
    from zoneward.controller.handover.handover_steps import EndpointsPolicy


@click.command("adopt")
@handover_options
@click.option(
    "--endpoints",
    "endpoints_policy",
    type=click.Choice(["keep", "delete"]),
    default="keep",
    show_default=True,
    help="What to do with the Endpoints object: the running controller keeps it current, or it is deleted.",
)
def command(
    *, options: Options, service: str, timeout: float, dry_run: bool, endpoints_policy: "EndpointsPolicy"
) -> int:
    """Take one Service over from the built-in controller: move its selector to an annotation, write our EndpointSlices,
    then delete those of the built-in controller. Every ready endpoint is in some slice at all times.

    After an interruption at any point, run the same command again to continue. From then on, a running `zoneward
    controller` keeps the slices up to date.

    \b
    zoneward adopt shop/cart --dry-run
    zoneward adopt shop/cart
    """
    from zoneward.cli.handover_command import run_handover
    from zoneward.controller.handover.handover_steps import next_adoption_step

    direction = HandoverCommand(
        run=lambda handover: handover.adopt(endpoints_policy=endpoints_policy),
        next_step=lambda handover: (
            lambda state: next_adoption_step(state, plan=handover.plan, endpoints_policy=endpoints_policy)
        ),
        command="zoneward adopt",
        note="only `zoneward controller` updates its slices from now on",
    )
    return run_handover(service, direction, options=options, timeout=timeout, dry_run=dry_run)
