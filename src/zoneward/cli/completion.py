"""``zoneward completion``, and how bash completes."""

import os
from typing import Final

import click
from click.shell_completion import BashComplete, add_completion_class, get_completion_class, split_arg_string

from zoneward.cli.cluster_completion import COMPLETE_VARIABLE

_BASH: Final = r"""%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" type value word prefix=
    word="${line##*[[:space:]]}"
    [[ $word == -*=* ]] && word="${word#*=}"
    # bash splits words at colons, which names of contexts have, and replaces only what is after the last one.
    [[ $COMP_WORDBREAKS == *:* && $word == *:* ]] && prefix="${word%%:*}:"
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"$prefix"}") ;;
        esac
    done < <(COMP_LINE="$line" %(complete_var)s=bash_complete "$1" 2>/dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


@add_completion_class
class LineComplete(BashComplete):
    """It gets the line as it was typed, for bash has its own view of what a word is."""

    name = "bash"
    source_template = _BASH

    @staticmethod
    def _check_version() -> None:
        """click would start a bash for this, before each answer."""

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_LINE", "")
        words = split_arg_string(line)[1:]
        return (words, "") if not words or line[-1:].isspace() else (words[:-1], words[-1])


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a completion script for a shell. It completes commands, options and values, and the namespaces, Services,
    nodes and contexts of the cluster or of the files on the line.

    \b
    bash:  source <(zoneward completion bash)
    zsh:   source <(zoneward completion zsh)
    fish:  zoneward completion fish | source

    `kubectl zoneward` needs none of these: kubectl runs kubectl_complete-zoneward, which is installed beside zoneward.
    """
    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(ctx.find_root().command, {}, "zoneward", COMPLETE_VARIABLE).source())
