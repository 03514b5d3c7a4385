"""Option values from a fixed set: the message about any other value offers the nearest ones."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from zoneward.kube.input_error import InputError
from zoneward.kube.near_names import did_you_mean
from zoneward.routing.request.what_if import WHAT_IF_VALUES, find_what_if_value

if TYPE_CHECKING:
    from zoneward.cli.options import Options


class Choice(click.Choice[str]):
    """click's, with near values in its message."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = did_you_mean(str(value), self.choices)
            raise click.BadParameter(error.message.rstrip(".") + near, ctx, param) from error


class WhatIfChoice(click.Choice[str]):
    """A value of ``--what-if``, by any of its names. Completion and help list the values alone."""

    def __init__(self) -> None:
        super().__init__(WHAT_IF_VALUES)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found = find_what_if_value(str(value))
        if found is None:
            raise click.BadParameter(unknown_approach(str(value)), ctx, param)
        return found


def unknown_approach(name: str) -> str:
    """The message about a name that is none of an approach or algorithm."""
    return f"expected one of {', '.join(WHAT_IF_VALUES)}, got {name!r}{did_you_mean(name, WHAT_IF_VALUES)}"


def chosen_approaches(only: Iterable[str], options: "Options") -> tuple[str, ...]:
    """What ``--only`` names, in the default order; all where it names none. ``Auto`` is what the configuration says.

    Raises InputError.
    """
    from zoneward.advice.comparison import COMPARED
    from zoneward.cli.cluster_input import load_configuration

    named = set()
    for name in (name.strip() for names in only for name in names.split(",")):
        found = find_what_if_value(name)
        if found is None:
            raise InputError("--only", unknown_approach(name))
        named.add(load_configuration(options).hints.auto if found == "Auto" else found)
    return tuple(each for each in COMPARED if each in named) if named else COMPARED


def offer_near_values(command: click.Command) -> None:
    """Let every parameter of a command that has a fixed set of values offer near ones."""
    for parameter in command.params:
        if type(parameter.type) is click.Choice:
            parameter.type = Choice(parameter.type.choices, case_sensitive=parameter.type.case_sensitive)
