"""The man pages and completions that a wheel installs."""

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from release.man_pages import man_pages
from release.shared_files import SHARE, shared_files

from zoneward.cli.main import cli

PAGES = man_pages()


def test_the_files_of_the_tree_are_those_that_the_commands_give() -> None:
    """Else: ``python -m release.shared_files``."""
    files = {str(path.relative_to(SHARE)): path.read_text() for path in SHARE.rglob("*") if path.is_file()}
    assert files == shared_files()


def test_every_command_has_a_page_with_all_of_its_options() -> None:
    context = click.Context(cli, info_name="zoneward", **cli.context_settings)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        text = PAGES[f"zoneward-{name}.1"].replace("\\-", "-")
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert all(flag in text for flag in option.opts), (name, option.opts)
        assert rf"\fBzoneward\-{name}\fR(1)" in PAGES["zoneward.1"]
    assert len(PAGES) == len(cli.list_commands(context)) + 2


@pytest.mark.parametrize("name", PAGES)
def test_no_line_of_a_page_is_a_request_by_mistake(name: str) -> None:
    requests = {line.split()[0] for line in PAGES[name].splitlines() if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".TP", ".PP", ".nf", ".fi"}
    assert re.findall(r"\\(?![-&efR(])", PAGES[name]) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("groff") is None, reason="groff formats man pages, where man is installed")
def test_groff_formats_every_page_without_a_warning(tmp_path: Path) -> None:
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in PAGES]
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", *files], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "Run the proxy of a node" in done.stdout


@pytest.mark.parametrize(
    ("shell", "path"),
    [
        ("bash", "bash-completion/completions/zoneward"),
        ("zsh", "zsh/site-functions/_zoneward"),
        ("fish", "fish/vendor_completions.d/zoneward.fish"),
    ],
)
def test_an_installed_completion_is_what_the_command_prints(shell: str, path: str) -> None:
    assert CliRunner().invoke(cli, ["completion", shell]).output == (SHARE / path).read_text()
