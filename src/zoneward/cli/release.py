"""``zoneward release``: one Service given back to the built-in controller, without a gap."""

import click

from zoneward.cli.handing_over import Way, handing_over_options
from zoneward.cli.options import Options


@click.command("release")
@handing_over_options
def command(*, options: Options, service: str, timeout: float, dry_run: bool) -> int:
    """Give an adopted Service back: its selector returns, the EndpointSlices of the built-in controller are awaited,
    then ours go, and labels and annotations are as they were. At no moment is a ready endpoint in none of them.

    Cut off anywhere, the same command goes on. A Service that is the built-in controller's is left as it is.

    \b
    zoneward release shop/cart --dry-run
    zoneward release shop/cart
    """
    from zoneward.cli.handing_over import hand_over
    from zoneward.controller.handover.handover_steps import next_release_step

    way = Way(
        run=lambda adopting: adopting.release(),
        following=lambda adopting: lambda there: next_release_step(there, plan=adopting.plan),
        again="zoneward release",
    )
    return hand_over(service, way, options=options, timeout=timeout, dry_run=dry_run)
