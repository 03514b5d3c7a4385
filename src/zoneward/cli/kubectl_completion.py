"""``kubectl_complete-zoneward``: what kubectl runs to complete a line of ``kubectl zoneward``.

kubectl 1.26 and later look for this name on the PATH, give it the words after ``zoneward`` (the last one is being
typed, and may be empty), and expect a candidate on each line, perhaps with a tab and a description, and at the end
``:NUMBER``, one of cobra's ``ShellCompDirective``.
"""

import sys
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import ShellComplete

from zoneward.kube.safe_text import printable

_FILES: Final = 0
"""ShellCompDirectiveDefault: without candidates, the shell completes files."""
_NO_FILES: Final = 4
"""ShellCompDirectiveNoFileComp."""
_DIRECTORIES: Final = 16
"""ShellCompDirectiveFilterDirs."""
_DIRECTIVES: Final = {"file": _FILES, "dir": _DIRECTORIES}


def main() -> None:
    from zoneward.cli.completion import begin_completion

    begin_completion()
    click.echo(candidates(sys.argv[1:]), nl=False)


def candidates(words: Sequence[str]) -> str:
    """The lines for kubectl. ``words`` are those after ``kubectl zoneward``."""
    from zoneward.cli.main import cli

    *before, incomplete = words or ("",)
    lines, directive = [], _NO_FILES
    for item in ShellComplete(cli, {}, "kubectl zoneward", "").get_completions(before, incomplete):
        if item.type in _DIRECTIVES:
            directive = _DIRECTIVES[item.type]
        else:
            about = " ".join((item.help or "").split())
            lines.append(printable(item.value) + (f"\t{printable(about)}" if about else ""))
    return "".join(f"{line}\n" for line in (*lines, f":{directive}"))
