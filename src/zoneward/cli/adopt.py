"""``zoneward adopt``: one Service taken over from the built-in controller, without a gap."""

from typing import TYPE_CHECKING

import click

from zoneward.cli.handing_over import Way, handing_over_options
from zoneward.cli.options import Options

if TYPE_CHECKING:
    from zoneward.controller.handover.handover_steps import EndpointsPolicy


@click.command("adopt")
@handing_over_options
@click.option(
    "--endpoints",
    "endpoints_policy",
    type=click.Choice(["keep", "delete"]),
    default="keep",
    show_default=True,
    help="What becomes of the Endpoints object: kept current by the running controller, or deleted.",
)
def command(
    *, options: Options, service: str, timeout: float, dry_run: bool, endpoints_policy: "EndpointsPolicy"
) -> int:
    """Take one Service over from the built-in controller: its selector moves into an annotation, our EndpointSlices
    come, then those of the built-in controller go. At no moment is a ready endpoint in none of them.

    Cut off anywhere, the same command goes on. A running `zoneward controller` keeps the slices from then on.

    \b
    zoneward adopt shop/cart --dry-run
    zoneward adopt shop/cart
    """
    from zoneward.cli.handing_over import hand_over
    from zoneward.controller.handover.handover_steps import next_adoption_step

    way = Way(
        run=lambda adopting: adopting.adopt(endpoints_policy=endpoints_policy),
        following=lambda adopting: (
            lambda there: next_adoption_step(there, plan=adopting.plan, endpoints_policy=endpoints_policy)
        ),
        again="zoneward adopt",
        after="nobody but `zoneward controller` keeps its slices current from now on",
    )
    return hand_over(service, way, options=options, timeout=timeout, dry_run=dry_run)
