"""``zoneward adopt``: one Service taken over from the built-in controller, without a gap."""

from typing import TYPE_CHECKING

import click

from zoneward.cli.handover_command import Way, handing_over_options
from zoneward.cli.options import Options

if TYPE_CHECKING:
    from zoneward.controller.handover.adoption import Legacy


@click.command("adopt")
@handing_over_options
@click.option(
    "--endpoints",
    "legacy",
    type=click.Choice(["keep", "delete"]),
    default="keep",
    show_default=True,
    help="What becomes of the Endpoints object: kept current by the running controller, or deleted.",
)
def command(*, options: Options, service: str, timeout: float, dry_run: bool, legacy: "Legacy") -> int:
    """Take one Service over from the built-in controller: its selector moves into an annotation, our EndpointSlices
    come, then those of the built-in controller go. At no moment is a ready endpoint in none of them.

    Cut off anywhere, the same command goes on. A running `zoneward controller` keeps the slices from then on.

    \b
    zoneward adopt shop/cart --dry-run
    zoneward adopt shop/cart
    """
    from zoneward.cli.handover_command import hand_over
    from zoneward.controller.handover.adoption import next_adoption

    way = Way(
        run=lambda adopting: adopting.adopt(legacy=legacy),
        following=lambda adopting: lambda there: next_adoption(there, plan=adopting.plan, legacy=legacy),
        again="zoneward adopt",
        after="nobody but `zoneward controller` keeps its slices current from now on",
    )
    return hand_over(service, way, options=options, timeout=timeout, dry_run=dry_run)
