"""``zoneward version``."""

import platform

import click

from zoneward import __version__


@click.command("version")
def command() -> None:
    """Print the version."""
    print_version()


def print_version() -> None:
    click.echo(f"zoneward {__version__} (Python {platform.python_version()})")
