"""Lines for a person, on standard output and on standard error."""

import click

from zoneward.kube.safe_text import printable


def print_line(text: str, *, err: bool = False) -> None:
    """One line, of which nothing steers the terminal."""
    click.echo(printable(text), err=err)
