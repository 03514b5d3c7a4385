"""``zoneward demo``: the controller at work on a small cluster that lives for forty seconds, all in this process."""

import click

from zoneward.cli.completion import complete_files


@click.command("demo")
@click.option(
    "--speed",
    type=click.FloatRange(0.25, 100),
    default=1.0,
    show_default=True,
    metavar="NUMBER",
    help="Speed factor of the script.",
)
@click.option("--plain", is_flag=True, help="Print lines, as without a terminal.")
@click.option(
    "--save",
    metavar="FILE",
    shell_complete=complete_files,
    help="Save the cluster as it is at the end (JSON), for -f of other commands.",
)
def command(*, speed: float, plain: bool, save: str | None) -> int:
    """Watch the controller at work, without a cluster: an API server in memory, a shop in three zones, and a script
    that scales, rolls out, takes a zone down and brings it back. It ends after forty seconds; Ctrl-C ends it sooner.
    It writes only to its own API server, which only this process can use.

    \b
    zoneward demo
    zoneward demo --speed 4 --plain
    """
    from pathlib import Path

    from zoneward.cli.demo_run import run_demo

    return run_demo(speed=speed, plain=plain, save=None if save is None else Path(save))
