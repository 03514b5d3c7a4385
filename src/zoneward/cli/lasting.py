"""What commands share that run until they are told to end: what they need, their options, log, signals and end."""

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import click

from zoneward.client.api_errors import CallFailed
from zoneward.client.auth.in_cluster import SERVICE_ACCOUNT
from zoneward.daemon.log import LogFormat
from zoneward.kube.input_error import InputError

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig
    from zoneward.daemon.log import Log

_EXTRA: Final = ("prometheus_client", "structlog")
_FAILED: Final = 1
_SIGNALLED: Final = 128
_USUAL_NAMESPACE: Final = "kube-system"
_MOST_SHOWN: Final = 900
"""Characters of where a part failed; a log cuts longer ones at their end, which says most."""


def needed(module: str, *, by: str) -> ModuleType:
    """A module with all that a command needs. Raises InputError where the extra is not installed."""
    try:
        import_module("zoneward.daemon.logs")
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
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
    from zoneward.daemon.logs import Level, new_log, take_over_logging

    level = Level.WARNING if quiet else Level.DEBUG if verbose else Level.INFO
    log = new_log(form=form or (LogFormat.TEXT if sys.stderr.isatty() else LogFormat.JSON), level=level)
    take_over_logging(log)
    return log


# --- running ----------------------------------------------------------------------------------------------------------


def run_until_stopped(
    work: Callable[[asyncio.Event], Awaitable[None]], *, name: str, log: "Log", said: Callable[[CallFailed], str]
) -> int:
    """The exit status: 0 after SIGTERM or SIGINT, 1 where a part fails or the server refuses what nothing goes without.

    ``work`` ends when its event is set; a second signal ends it at once. Raises InputError and usage errors.
    """

    async def all_of_it() -> None:
        stop = asyncio.Event()

        def told(number: int) -> None:
            if stop.is_set():
                log.warning("ends at once", signal=signal.Signals(number).name)
                os._exit(_SIGNALLED + number)
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, told, number)
        await work(stop)

    try:
        asyncio.run(all_of_it())
    except KeyboardInterrupt:
        return _SIGNALLED + signal.SIGINT
    except CallFailed as error:
        log.error(f"the {name} ends: the server refuses it", error=said(error))
        return _FAILED
    except (InputError, click.ClickException):
        raise
    except Exception as error:
        where = "".join(traceback.format_exception(error))[-_MOST_SHOWN:]
        log.error(f"the {name} ends: a part of it failed", error=f"{type(error).__name__}: {error}", where=where)
        return _FAILED
    return 0
