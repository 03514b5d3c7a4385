import re

import click
import pytest
from tests.cli.running import Commands

from zoneward.cli.main import cli
from zoneward.cli.options import GroupedCommand


def grouped() -> list[str]:
    context = click.Context(cli)
    commands = ((name, cli.get_command(context, name)) for name in cli.list_commands(context))
    return [name for name, command in commands if isinstance(command, GroupedCommand)]


@pytest.mark.parametrize("name", grouped())
def test_every_option_is_in_one_group(zoneward: Commands, name: str) -> None:
    text = zoneward(name, "--help").out
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert len(re.findall(rf"^  .*{re.escape(parameter.opts[0])}\b(?!-)", text, re.MULTILINE)) >= 1
    headings = re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)
    assert headings[0] in ("Options", "Datasets")
    assert len(headings) == len(set(headings))
    assert {"Cluster or files", "Output"} <= set(headings)


def test_options_that_many_commands_have_follow_those_of_the_command(zoneward: Commands) -> None:
    text = zoneward("route", "--help").out
    first, _, rest = text.partition("Cluster or files:")
    assert "--node" in first
    assert "--kubeconfig" in rest
