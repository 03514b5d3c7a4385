"""``zoneward version``."""

import click

from zoneward.cli.main import VERSION_TEXT


@click.command("version")
def command() -> None:
    """Print the version."""
    click.echo(VERSION_TEXT)
