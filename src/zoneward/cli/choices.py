"""Option values from a fixed set: the message about any other value offers the nearest ones."""

from typing import Any, Final

import click

from zoneward.kube.near_names import did_you_mean
from zoneward.routing.request.what_if import WHAT_IF_VALUES, find_what_if_value

_MOST_LISTED: Final = 15
"""Values that a message lists; of more, it names only near ones."""


class Choice(click.Choice[str]):
    """click's, with near values in its message."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = did_you_mean(str(value), self.choices)
            message = error.message.rstrip(".")
            if len(self.choices) > _MOST_LISTED and near:
                message = f"expected one of {len(self.choices)} values, got {value!r}"
            raise click.BadParameter(message + near, ctx, param) from error


class WhatIfChoice(click.Choice[str]):
    """A value of ``--what-if``, by any of its names. Completion and help list the values alone."""

    def __init__(self) -> None:
        super().__init__(WHAT_IF_VALUES)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        known = find_what_if_value(str(value))
        if known is None:
            raise click.BadParameter(unknown_approach(str(value)), ctx, param)
        return known


def unknown_approach(name: str) -> str:
    """The message about a name that is none of an approach or algorithm."""
    return f"expected one of {', '.join(WHAT_IF_VALUES)}, got {name!r}{did_you_mean(name, WHAT_IF_VALUES)}"


def offer_near_values(command: click.Command) -> None:
    """Let every parameter of a command that has a fixed set of values offer near ones."""
    for parameter in command.params:
        if type(parameter.type) is click.Choice:
            parameter.type = Choice(parameter.type.choices, case_sensitive=parameter.type.case_sensitive)
