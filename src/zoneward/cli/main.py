"""``zoneward``, also installed as ``kubectl-zoneward``. Commands are imported when they are called."""

import os
import signal
import sys
from importlib import import_module
from platform import python_version
from typing import TYPE_CHECKING, Any, Final

import click

from zoneward import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_COMMANDS: Final = {
    "advise": "Show what to change, ranked, and verified on this cluster.",
    "plan": "Show which endpoints each zone would use, and why.",
    "explain": "Show what happens to a Service, why, and the smallest fixes.",
    "compare": "Show every approach and algorithm side by side.",
    "report": "Show what traffic between zones costs, now and with each setting.",
    "check": "Find what keeps zone aware routing from working.",
    "route": "Show which endpoints the proxy on one node would select.",
    "simulate": "Score algorithms over millions of inputs.",
    "snapshot": "Save a cluster to one file, for -f.",
    "controller": "Run the controller, which writes a cluster's EndpointSlices.",
    "adopt": "Take a Service over from the built-in controller, without a gap.",
    "release": "Give an adopted Service back to the built-in controller.",
    "proxy": "Run the proxy of a node, which programs its kernel.",
    "meter": "Count the traffic of a node to Services, by zone.",
    "sandbox": "Run an API server in memory, for kubectl and for Zoneward.",
    "demo": "Watch the controller at work, without a cluster.",
    "version": "Print the version.",
    "completion": "Print a shell completion script.",
}
"""Every command, which is in the module of its name, with what it does."""
VERSION_TEXT: Final = f"zoneward {__version__} (Python {python_version()})"


class _ReaderGone(Exception):  # noqa: N818 -- no error: the reader of our output has seen enough
    """A broken pipe, under a name that click does not know: it would end the process with status 1."""


class _Commands(click.Group):
    """Knows every command by name and help, and imports only the one that is called: it must start fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002 -- click's signature
        if name not in _COMMANDS:
            return None
        from zoneward.cli.options import offer_near_values

        command = import_module(f"zoneward.cli.{name}").command
        assert isinstance(command, click.Command)
        offer_near_values(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from zoneward.kube.input_error import did_you_mean

            near = did_you_mean(args[0], _COMMANDS)
            raise click.UsageError(f"no such command {args[0]!r}{near}; zoneward --help lists them", ctx) from error

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        from click.shell_completion import CompletionItem

        items = [CompletionItem(name, help=about) for name, about in _COMMANDS.items()]
        return [
            *(item for item in items if item.value.startswith(incomplete)),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderGone from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message=VERSION_TEXT, help="Print the version and exit.")
def cli() -> None:
    """Keep Kubernetes Service traffic in its own zone without overloading anyone.

    Start with `zoneward advise`: it shows what to change in your cluster, and only reads. Without a cluster,
    `zoneward advise --sample` reads a sample one, and `zoneward demo` shows the controller at work.

    `zoneward snapshot --file cluster.json.gz` saves a cluster, and `zoneward advise -f cluster.json.gz` reads it.
    -f also reads what `kubectl get services,nodes,pods,endpointslices,daemonsets -A -o json` prints.
    """


def main() -> None:
    """Run a command. Exit status: 0 done, 2 bad usage or bad input with one line on standard error."""
    from zoneward.cli.completion import COMPLETE_VARIABLE, begin_completion

    if COMPLETE_VARIABLE in os.environ:
        begin_completion()
    # A parent that ignores SIGCHLD passes that on, and the kernel would then forget the exit status of every child.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command with arguments and return its exit status."""
    from zoneward.kube.input_error import InputError

    if sys.stdout is None:
        return _fail("expected standard output to be open, got it closed")
    name = "kubectl zoneward" if os.path.basename(sys.argv[0]).startswith("kubectl-") else "zoneward"  # noqa: PTH119
    try:
        result = cli.main(arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        return _fail(error.format_message())
    except InputError as error:
        return _fail(str(error))
    except click.Abort:
        return 130
    except (_ReaderGone, BrokenPipeError):
        # The interpreter flushes standard output at exit and must not fail there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(f"cannot write the output: {error.strerror}")
    return result if isinstance(result, int) else 0


def _fail(message: str) -> int:
    from zoneward.cli.output import print_line

    print_line(f"zoneward: {' '.join(message.split())}", err=True)
    return 2
