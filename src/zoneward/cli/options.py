"""Options that several commands share, and what they come to."""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, Literal

import click

from zoneward.cli.printing import print_line
from zoneward.routing.request.what_if import WHAT_IF_VALUES
from zoneward.routing.selection.endpoint_selection import CONSUMERS, ZONEWARD

Color = Literal["auto", "always", "never"]
TABLE_WIDTH: Final = 100
_WIDEST: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for on the command line, the same for every command that plans."""

    files: tuple[str, ...] = ()
    sample: bool = False
    context: str | None = None
    kubeconfig: str | None = None
    impersonate: str | None = None
    namespace: str | None = None
    all_namespaces: bool = False
    selector: str | None = None
    services: tuple[str, ...] = ()
    upstream: bool = False
    config: str | None = None
    what_if: str | None = None
    consumer: str = ZONEWARD.name
    color: Color = "auto"
    quiet: bool = False
    verbose: int = 0


_FILES_HELP: Final = (
    "A snapshot: file, directory, or - for standard input (YAML or JSON, also gzip). May be repeated. Without it the"
    " cluster of the current context is read."
)
_WHAT_IF_HELP: Final = "As if every selected Service asked for it: " + ", ".join(WHAT_IF_VALUES)
_WHAT_IF: Final = click.option(
    "--what-if", type=click.Choice(WHAT_IF_VALUES), metavar="VALUE", help=_WHAT_IF_HELP + "."
)
_CONSUMERS_HELP: Final = "; ".join(f"{consumer.name}: {consumer.about}" for consumer in CONSUMERS.values())
_READING: Final = (
    click.option("-f", "--filename", "files", multiple=True, metavar="PATH", help=_FILES_HELP),
    click.option("--sample", is_flag=True, help="Use the sample cluster that comes with Zoneward."),
    click.option("--context", metavar="NAME", help="A context of the kubeconfig, where no snapshot is given."),
    click.option("--kubeconfig", metavar="FILE", help="This kubeconfig instead of $KUBECONFIG or ~/.kube/config."),
    click.option("--as", "impersonate", metavar="USER", help="Act as another user."),
    click.option("-n", "--namespace", metavar="NAME", help="Only Services in this namespace."),
    click.option("-A", "--all-namespaces", is_flag=True, help="Services in all namespaces. The default for snapshots;"
                 " of a cluster, the namespace of the context is read."),
    click.option("-l", "--selector", metavar="LABELS", help="Only Services with these labels (app=web,tier!=cache)."),
)  # fmt: skip
_DECIDING: Final = (
    _WHAT_IF,
    click.option("--consumer", type=click.Choice(list(CONSUMERS)), default=ZONEWARD.name, show_default=True,
                 help=f"The kind of proxy on the nodes. {_CONSUMERS_HELP}."),
    click.option("--compat", type=click.Choice(["upstream"]), help="Decide exactly as current Kubernetes does."),
    click.option("--config", metavar="FILE", help="A ZonewardConfiguration file; flags win over it."),
    click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
                 help="Colour in tables; NO_COLOR is obeyed."),
)  # fmt: skip
_TELLING: Final = (
    click.option("-q", "--quiet", is_flag=True, help="No notes on standard error."),
    click.option("-v", "--verbose", count=True, help="More notes on standard error."),
)
_SERVICES: Final = click.argument("services", nargs=-1, metavar="[[NAMESPACE/]SERVICE]...")


_Decorate = Callable[[Callable[..., Any]], Callable[..., Any]]


def planning_options(*, what_if: bool = True) -> _Decorate:
    """Give a command the options of `Options`; it receives them as one ``options``.

    ``what_if`` is off for a command that asks about every approach anyway.
    """
    deciding = _DECIDING if what_if else tuple(option for option in _DECIDING if option is not _WHAT_IF)
    return _options(*_READING, *deciding, *_TELLING, _SERVICES)


def reading_options() -> _Decorate:
    """The same for a command that reads a cluster and decides nothing: where from, which Services, which notes."""
    return _options(*_READING, *_TELLING, _SERVICES)


def _options(*options: _Decorate) -> _Decorate:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def with_options(*, all_namespaces: bool, namespace: str | None, compat: str | None = None, **rest: Any) -> Any:
            if all_namespaces and namespace is not None:
                raise click.UsageError("-n and -A: expected one of them, got both")
            own = {name: rest.pop(name) for name in list(rest) if name not in Options.__dataclass_fields__}
            asked = Options(namespace=namespace, all_namespaces=all_namespaces, upstream=compat == "upstream", **rest)
            return function(options=asked, **own)

        wrapped: Callable[..., Any] = with_options
        for option in reversed(options):
            wrapped = option(wrapped)
        return wrapped

    return decorate


@dataclass(frozen=True, slots=True)
class Note:
    """A line for standard error; ``verbose`` ones only where more is asked for."""

    text: str
    verbose: bool = False


def tell(options: Options, notes: Iterable[Note]) -> None:
    """Print notes on standard error, as far as they are wanted."""
    for note in notes:
        if not options.quiet and (not note.verbose or options.verbose):
            print_line(f"zoneward: {note.text}", err=True)


def wants_color(options: Options) -> bool:
    """Whether tables are coloured: as asked, else on a terminal without NO_COLOR."""
    if options.color != "auto":
        return options.color == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def table_width(*, wide: bool = False) -> int:
    """Columns for a table: those of the terminal, else 100; a wide one never gets less than it needs."""
    if sys.stdout.isatty():
        return os.get_terminal_size(sys.stdout.fileno()).columns or TABLE_WIDTH
    return _WIDEST if wide else TABLE_WIDTH
