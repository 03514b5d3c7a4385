"""``python -m release.shared_files``: writes the man pages and shell completions that the wheel installs.

They are in ``share/``, as they come below the ``share`` of an installation. A wheel is built without the
libraries of the commands, so the files are part of the tree; a test compares them with the commands.
"""

from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from release.man_pages import man_pages
from zoneward.cli import completion  # noqa: F401 -- registers bash
from zoneward.cli.completion import COMPLETE_VARIABLE
from zoneward.cli.main import cli

SHARE: Final = Path(__file__).parents[1] / "share"
_COMPLETIONS: Final = {
    # Each shell loads a file of this name when it first completes the command.
    "bash": "bash-completion/completions/zoneward",
    "zsh": "zsh/site-functions/_zoneward",
    "fish": "fish/vendor_completions.d/zoneward.fish",
}


def shared_files() -> dict[str, str]:
    """The text of each file by its path below ``share``."""
    return {
        **{f"man/man1/{name}": text for name, text in man_pages().items()},
        **{path: _completion(shell) for shell, path in _COMPLETIONS.items()},
    }


def _completion(shell: str) -> str:
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    # As `zoneward completion` prints it.
    return completion_class(cli, {}, "zoneward", COMPLETE_VARIABLE).source() + "\n"


def main() -> None:
    files = shared_files()
    for path in SHARE.rglob("*"):
        if path.is_file() and str(path.relative_to(SHARE)) not in files:
            path.unlink()
    for name, text in files.items():
        path = SHARE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    click.echo(f"wrote {len(files)} files below {SHARE}")


if __name__ == "__main__":
    main()
