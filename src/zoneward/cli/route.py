"""``zoneward route``: what the proxy on one node would select."""

import sys

import click

from zoneward.cli.options import Options, planning_options, table_width, tell, wants_color


@click.command("route")
@planning_options()
@click.option("--node", required=True, metavar="NAME", help="The node whose proxy is asked.")
@click.option("--as-is", is_flag=True, help="Use the slices as they are in the snapshot, not as planned.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def command(*, options: Options, node: str, as_is: bool, output: str) -> None:
    """Show what the proxy on a node would select for every Service port, and by which rule.

    \b
    zoneward route --sample --node worker-a2
    zoneward route -f cluster.json --node n1 --what-if PreferSameNode --consumer zone-hints
    """
    from zoneward.cli.planning import plan_for
    from zoneward.cli.routing import route_of
    from zoneward.report.plan_json import to_json
    from zoneward.report.route_report import route_table

    planned = plan_for(options)
    route = route_of(planned, node=node, as_is=as_is)
    tell(options, planned.notes)
    if output == "json":
        sys.stdout.buffer.write(to_json(route))
    else:
        from zoneward.report.terminal_text import render_text

        width = table_width()
        text = render_text(route_table(route, width=width), color=wants_color(options), width=width)
        click.echo(text, nl=False, color=True)
