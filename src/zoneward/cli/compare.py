"""``zoneward compare``: every approach and algorithm side by side for each Service."""

import sys
from typing import Final

import click

from zoneward.cli.options import Options, planning_options, table_width, tell, wants_color

_SORTS: Final = ("name", "gain", "score", "in-zone", "overload")


@click.command("compare")
@planning_options(what_if=False)
@click.option("--only", "only", multiple=True, metavar="NAME[,NAME...]", help="Only these approaches and algorithms.")
@click.option(
    "--sort",
    type=click.Choice(_SORTS),
    default="name",
    show_default=True,
    help="Order of Services: by what the best of each would gain over today, by its score, by its traffic in zone,"
    " or by today's worst overload.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
def command(*, options: Options, only: tuple[str, ...], sort: str, output: str) -> None:
    """Show every approach and algorithm side by side for each Service: traffic in its zone, overload, slices, what
    would be written, and the score of KEP-2004; the best is marked, and a total stands at the end.

    \b
    zoneward compare --sample
    zoneward compare -f cluster.json -n shop --sort gain
    zoneward compare -f cluster.json --only local,PreferSameZone -o csv
    """
    from zoneward.cli.comparing import compare_for

    compared = compare_for(options, only=only, sort=sort)
    tell(options, compared.notes)
    if output == "table":
        from zoneward.report.comparison_report import comparison_table
        from zoneward.report.terminal_text import render_text

        width = table_width()
        text = render_text(comparison_table(compared.comparisons, width=width), color=wants_color(options), width=width)
        click.echo(text, nl=False, color=True)
    elif output == "json":
        from zoneward.report.comparison_report import comparison_document
        from zoneward.report.plan_json import to_json

        sys.stdout.buffer.write(to_json(comparison_document(compared.comparisons)))
    else:
        from zoneward.report.comparison_report import comparison_csv

        sys.stdout.buffer.write(comparison_csv(compared.comparisons).encode())
