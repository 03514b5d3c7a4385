"""``zoneward completion``."""

import click
from click.shell_completion import get_completion_class

from zoneward.cli.main import cli


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a completion script for a shell.

    \b
    bash:  source <(zoneward completion bash)
    zsh:   source <(zoneward completion zsh)
    fish:  zoneward completion fish | source
    """
    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(cli, {}, "zoneward", "_ZONEWARD_COMPLETE").source())
