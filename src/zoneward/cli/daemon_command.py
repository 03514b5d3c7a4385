"""What ``controller``, ``proxy`` and ``meter`` share: the options of programs that run until stopped, and their log."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import click

from zoneward.cli.completion import complete_context, complete_files
from zoneward.cli.options import Decorator, add_options
from zoneward.kube.input_error import InputError
from zoneward.kube.settings import Settings

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig
    from zoneward.daemon.log import Log, LogFormat
    from zoneward.routing.configuration import Configuration

_EXTRA: Final = "structlog"
_DEFAULT_NAMESPACE: Final = "kube-system"
_Settings = TypeVar("_Settings", bound=Settings)

_CONFIG: Final = click.option(
    "--config", metavar="FILE", help="A ZonewardConfiguration file; flags override it.", shell_complete=complete_files
)
CLUSTER_OPTIONS: Final = (
    click.option(
        "--kubeconfig",
        metavar="FILE",
        help="Use this kubeconfig instead of $KUBECONFIG or ~/.kube/config. Without any kubeconfig, the service account"
        " of the Pod is used.",
        shell_complete=complete_files,
    ),
    click.option(
        "--context", metavar="NAME", help="Use this context of the kubeconfig.", shell_complete=complete_context
    ),
    click.option("--as", "impersonate", metavar="USER", help="Act as another user."),
)
_LOG: Final = (
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        help="Format of the log on standard error. The default is text on a terminal, otherwise json.",
    ),
    click.option("-v", "--verbose", count=True, help="Log debug lines, too."),
    click.option("-q", "--quiet", is_flag=True, help="Log only warnings and errors."),
)


cluster_options: Final = add_options(_CONFIG, *CLUSTER_OPTIONS)
"""Give a command the options that name a configuration file and a cluster."""
log_options: Final = add_options(*_LOG)
"""Give a command the options of its log."""


def setting_options(settings: Mapping[str, str], fields: Mapping[str, str] = MappingProxyType({})) -> Decorator:
    """Give a command flags for settings, which the configuration file decides without them: what each does, by the flag
    and its value as ``--help`` shows them. ``N`` is a number, and a flag without a value a switch. ``fields``: settings
    by their flags, where their names are different.
    """

    def option(shown: str, about: str) -> Decorator:
        flag, _, value = shown.partition(" ")
        names = (flag, fields[flag]) if flag in fields else (flag,)
        if not value:
            return click.option(*names, is_flag=True, default=None, help=about)
        return click.option(*names, type=int if value == "N" else str, metavar=value, help=about)

    return add_options(*(option(shown, about) for shown, about in settings.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonOptions:
    """The values of `cluster_options` and `log_options`, and the flags that win over the configuration file."""

    config: str | None
    kubeconfig: str | None
    context: str | None
    impersonate: str | None
    verbose: int
    quiet: bool
    flags: Mapping[str, Any]
    """The flags that were given, by field of the program's settings, with values as a file has them."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From what click passes to a command. Raises a usage error for -q with -v."""
        own = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        flags = {name: value for name, value in values.items() if name not in own and value is not None}
        if own["quiet"] and own["verbose"]:
            raise click.UsageError("-q and -v: expected one of them, got both")
        return cls(**own, flags=flags)

    def settings(self, section: str, type_: type[_Settings]) -> "tuple[Configuration, _Settings]":
        """What decisions depend on, and the settings of a program: the configuration file with the flags over it.

        Raises InputError.
        """
        from zoneward.cli.configuration_file import read_program_settings

        parameters = click.get_current_context().command.params
        options = {parameter.name: parameter.opts[0] for parameter in parameters if parameter.name}
        return read_program_settings(self.config, section, type_, self.flags, options)

    def connect(self, log_format: "LogFormat | None") -> "tuple[ClientConfig, Log]":
        """The cluster to work on, and the log. Raises InputError."""
        from zoneward.cli.cluster_input import INSECURE_WARNING
        from zoneward.client.auth.kubeconfig import load_client_config
        from zoneward.daemon.log import LogFormat
        from zoneward.daemon.structured_log import Level, new_log, redirect_logging

        access = load_client_config(
            kubeconfig=self.kubeconfig,
            context=self.context,
            impersonate=self.impersonate,
            environment=os.environ,
        )
        level = Level.WARNING if self.quiet else Level.DEBUG if self.verbose else Level.INFO
        log = new_log(form=log_format or (LogFormat.TEXT if sys.stderr.isatty() else LogFormat.JSON), level=level)
        redirect_logging(log)
        if access.cluster.insecure:
            log.warning(INSECURE_WARNING)
        return access, log


def import_program(module: str, *, command: str) -> ModuleType:
    """The module of a program with all that it needs. Raises InputError where the extra is not installed."""
    from zoneward.extras import how_to_install

    try:
        import_module("zoneward.daemon.structured_log")
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != _EXTRA:
            raise
        expected = f"expected the libraries for it, install them with: {how_to_install('controller')}"
        raise InputError(f"zoneward {command}", f"{expected} (no {error.name} found)") from None


def lease_namespace(access: "ClientConfig", configured: str | None) -> str:
    """Where Leases are: as configured, else the Pod's own namespace, else where the control plane has its own."""
    from zoneward.client.auth.kubeconfig import SERVICE_ACCOUNT

    return configured or (access.namespace if access.source == SERVICE_ACCOUNT else _DEFAULT_NAMESPACE)
