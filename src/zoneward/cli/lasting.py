"""What the commands of daemons share: the libraries that they need, their options and their log."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import click

from zoneward.client.auth.in_cluster import SERVICE_ACCOUNT
from zoneward.daemon.log import LogFormat
from zoneward.kube.input_error import InputError

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig
    from zoneward.daemon.log import Log

_EXTRA: Final = "structlog"
_USUAL_NAMESPACE: Final = "kube-system"


def needed(module: str, *, by: str) -> ModuleType:
    """A module with all that a command needs. Raises InputError where the extra is not installed."""
    try:
        import_module("zoneward.daemon.structured_log")
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != _EXTRA:
            raise
        expected = "expected the libraries for it, install them with: pip install 'zoneward[controller]'"
        raise InputError(f"zoneward {by}", f"{expected} (no {error.name} found)") from None


# --- options ----------------------------------------------------------------------------------------------------------


def by_flags(text: str, options: Mapping[str, str]) -> str:
    """What is wrong with settings, with the names that the command line has for them: the file alone was well."""
    for key, option in options.items():
        text = text.replace(key, option)
    return text


def read_option(option: str, read: Callable[[str], Any], text: str) -> Any:
    """The value of an option. Raises a usage error where ``read`` raises ValueError."""
    try:
        return read(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None


def lease_namespace(access: "ClientConfig", given: str | None) -> str:
    """Where Leases are: as given, else the Pod's own namespace, else where those of the cluster's own programs are."""
    return given or (access.namespace if access.source == SERVICE_ACCOUNT else _USUAL_NAMESPACE)


def log_for(*, quiet: bool, verbose: int, form: LogFormat | None) -> "Log":
    """``form`` None: text where standard error is a terminal."""
    from zoneward.daemon.structured_log import Level, new_log, redirect_logging

    level = Level.WARNING if quiet else Level.DEBUG if verbose else Level.INFO
    log = new_log(form=form or (LogFormat.TEXT if sys.stderr.isatty() else LogFormat.JSON), level=level)
    redirect_logging(log)
    return log
