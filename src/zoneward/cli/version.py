"""``zoneward version``."""

import platform

import click

from zoneward import __version__


@click.command("version")
def command() -> None:
    """Print the version."""
    click.echo(version_line())


def version_line() -> str:
    return f"zoneward {__version__} (Python {platform.python_version()})"
