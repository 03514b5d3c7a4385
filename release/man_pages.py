"""The man pages: ``zoneward(1)`` and one page for each command, made from what ``--help`` prints.

The text is man(7), see groff_man(7). A page bears no date, so that it changes only when the command does.
"""

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Final

import click

from zoneward import __version__
from zoneward.cli.main import cli

_NAME: Final = "zoneward"
_STATUS: Final = (
    ("0", "The command is done."),
    ("1", "A part of the controller, the proxy or the meter failed, or the API server refuses a necessary request."),
    ("2", "Bad usage or bad input, with one line on standard error."),
    ("130", "It was interrupted."),
)
_KUBECONFIG: Final = "The kubeconfig files that are read, as kubectl reads them. The default is ~/.kube/config."


def man_pages() -> dict[str, str]:
    """The text of each page by the name of its file. ``man kubectl zoneward`` shows that of ``zoneward``."""
    context = click.Context(cli, info_name=_NAME, **cli.context_settings)
    # One line about each command, as `zoneward --help` lists them.
    about = {item.value: item.help or "" for item in cli.shell_complete(context, "") if item.type == "plain"}
    pages = {f"{_NAME}.1": _whole_page(context, about)}
    for name in about:
        pages[f"{_NAME}-{name}.1"] = _lines(
            _head(f"{_NAME}-{name}", about[name]), _body(*_command(context, name)), _see_also((_NAME,))
        )
    # A copy, and no .so line: that would need the folder above to be one of man's.
    pages[f"kubectl-{_NAME}.1"] = pages[f"{_NAME}.1"]
    return pages


def _command(context: click.Context, name: str) -> tuple[click.Command, click.Context]:
    command = cli.get_command(context, name)
    assert command is not None
    # With the settings of the program: they have the names of the help option.
    return command, click.Context(command, context, name, **{**cli.context_settings, **command.context_settings})


def _whole_page(context: click.Context, commands: dict[str, str]) -> str:
    def listed() -> Iterator[str]:
        yield ".SH COMMANDS"
        for name, about in commands.items():
            yield from (".TP", rf"\fB{_escaped(f'{_NAME}-{name}')}\fR(1)", _escaped(about))
        yield from (".SH ENVIRONMENT", ".TP", r"\fBKUBECONFIG\fR", _escaped(_KUBECONFIG), ".SH EXIT STATUS")
        for status, about in _STATUS:
            yield from (".TP", status, _escaped(about))

    names = (*(f"{_NAME}-{name}" for name in commands), "kubectl")
    return _lines(_head(_NAME, cli.get_short_help_str(limit=100)), _body(cli, context), listed(), _see_also(names))


def _head(name: str, about: str) -> Iterator[str]:
    yield rf'.TH "{_escaped(name.upper())}" "1" "" "zoneward {__version__}" "Zoneward"'
    yield from (".SH NAME", rf"{_escaped(name)} \- {_escaped(about.rstrip('.'))}")


def _body(command: click.Command, context: click.Context) -> Iterator[str]:
    pieces = " ".join(command.collect_usage_pieces(context))
    yield from (".SH SYNOPSIS", rf"\fB{_escaped(context.command_path)}\fR {_escaped(pieces)}", ".SH DESCRIPTION")
    for index, paragraph in enumerate(re.split(r"\n\s*\n", inspect.cleandoc(command.help or "").partition("\f")[0])):
        if index:
            yield ".PP"
        if paragraph.startswith("\b"):
            yield from (".nf", *map(_text, paragraph.splitlines()[1:]), ".fi")
        else:
            yield _text(" ".join(paragraph.split()))
    yield ".SH OPTIONS"
    for parameter in command.get_params(context):
        # click 8.5 lists arguments too; the synopsis has them.
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)):
            yield from (".TP", rf"\fB{_escaped(record[0])}\fR", _text(" ".join(record[1].split())))


def _see_also(names: Iterable[str]) -> Iterator[str]:
    yield from (".SH SEE ALSO", ",\n".join(rf"\fB{_escaped(name)}\fR(1)" for name in names))


def _text(text: str) -> str:
    """Escaped, with what is between backquotes in bold."""
    return re.sub(r"`([^`]+)`", r"\\fB\1\\fR", _escaped(text, quotes=True))


def _escaped(text: str, *, quotes: bool = False) -> str:
    """As it is: a backslash, a minus sign and a quote are none to roff, and a line may begin with a full stop."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("^", r"\(ha")
    escaped = escaped.replace("~", r"\(ti")
    if not quotes:
        escaped = escaped.replace("`", r"\(ga")
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


def _lines(*parts: Iterable[str]) -> str:
    return "".join(f"{line}\n" for part in parts for line in part)
