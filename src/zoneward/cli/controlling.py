"""From options to a controller that runs until it is told to end."""

import asyncio
import os
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import click

from zoneward.cli.configuring import read_configuration
from zoneward.controller.mode import Mode
from zoneward.controller.settings import Settings
from zoneward.daemon.go_duration import seconds_of
from zoneward.daemon.listening import listen_of
from zoneward.daemon.log import LogFormat
from zoneward.kube.input_error import InputError
from zoneward.routing.configuration import Configuration, ConfigurationError
from zoneward.sources.api_errors import CallFailed
from zoneward.sources.in_cluster import SERVICE_ACCOUNT
from zoneward.sources.kubeconfig import find_access

if TYPE_CHECKING:
    from zoneward.controller.running import Replica
    from zoneward.daemon.log import Log
    from zoneward.sources.access import Access

_EXTRA: Final = ("prometheus_client", "structlog")
_FAILED: Final = 1
_SIGNALLED: Final = 128
_USUAL_NAMESPACE: Final = "kube-system"
_DURATIONS: Final = {
    "batch_period": "--endpointslice-updates-batch-period",
    "lease_duration": "--leader-elect-lease-duration",
    "renew_deadline": "--leader-elect-renew-deadline",
    "retry_period": "--leader-elect-retry-period",
}
_OPTIONS: Final = {
    "controller.": "",
    "leaderElection.": "",
    "endpointUpdatesBatchPeriod": "--endpointslice-updates-batch-period",
    "concurrentServiceEndpointSyncs": "--concurrent-service-endpoint-syncs",
    "leaseDuration": "--leader-elect-lease-duration",
    "renewDeadline": "--leader-elect-renew-deadline",
    "retryPeriod": "--leader-elect-retry-period",
}
_MOST_SHOWN: Final = 900
"""Characters of where a part failed; a log cuts longer ones at their end, which says most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says. ``flags``: those that were given, by the name of the field of `Settings`."""

    mode: str | None
    config: str | None
    is_upstream: bool
    kubeconfig: str | None
    context: str | None
    impersonate: str | None
    verbose: int
    quiet: bool
    flags: Mapping[str, Any]


def run(asked: Asked) -> int:
    """The exit status: 0 after SIGTERM or SIGINT, 1 where a part fails or the server refuses what nothing goes
    without. Raises InputError or a usage error before anything is served."""
    _running()
    configuration, settings = _settings(asked)
    access = find_access(
        kubeconfig=asked.kubeconfig,
        context=asked.context,
        impersonate=asked.impersonate,
        environment=os.environ,
    )
    log = _log(asked, settings)
    try:
        asyncio.run(_until_stopped(access, configuration, settings, log))
    except KeyboardInterrupt:
        return 130
    except CallFailed as error:
        log.error("the controller ends: the server refuses it", error=_running().told(error, access))
        return _FAILED
    except (InputError, click.ClickException):
        raise
    except Exception as error:
        where = "".join(traceback.format_exception(error))[-_MOST_SHOWN:]
        log.error("the controller ends: a part of it failed", error=f"{type(error).__name__}: {error}", where=where)
        return _FAILED
    return 0


async def _until_stopped(access: "Access", configuration: Configuration, settings: Settings, log: "Log") -> None:
    stop = asyncio.Event()

    def told(number: int) -> None:
        if stop.is_set():
            log.warning("ends at once", signal=signal.Signals(number).name)
            os._exit(_SIGNALLED + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told, number)
    await _replica(access, configuration, settings, log).run(stop)


def _replica(access: "Access", configuration: Configuration, settings: Settings, log: "Log") -> "Replica":
    from zoneward.report.decisions import as_json, decisions_document

    is_pod = access.source == SERVICE_ACCOUNT
    namespace = settings.lease_namespace or (access.namespace if is_pod else _USUAL_NAMESPACE)
    return _running().Replica(  # type: ignore[no-any-return]
        access,
        configuration=configuration,
        settings=settings,
        lease=(namespace, settings.lease_name),
        instance=os.environ.get("POD_NAME") or socket.gethostname(),
        log=log,
        as_json=lambda plan: as_json(decisions_document([plan])),
    )


def _running() -> ModuleType:
    """The module with all that a controller needs. Raises InputError where the extra is not installed."""
    try:
        from zoneward.controller import running
        from zoneward.daemon import logs  # noqa: F401 -- both need it
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        expected = "expected the libraries for it, install them with: pip install 'zoneward[controller]'"
        raise InputError("zoneward controller", f"{expected} (no {error.name} found)") from None
    return running


def _settings(asked: Asked) -> tuple[Configuration, Settings]:
    configuration, settings = Configuration(), Settings()
    if asked.config is not None:
        read = read_configuration(asked.config)
        configuration, settings = read.configuration, read.controller
    flags = dict(asked.flags)
    for name, option in _DURATIONS.items():
        if name in flags:
            flags[name] = _read(option, seconds_of, flags[name])
    if "listen" in flags:
        flags["listen"] = _read("--listen", listen_of, flags["listen"])
    if "log_format" in flags:
        flags["log_format"] = LogFormat(flags["log_format"])
    if asked.mode is not None:
        flags["mode"] = Mode(asked.mode)
    try:
        settings = replace(settings, **flags)
    except ConfigurationError as error:
        raise InputError(_by_flags(str(error))) from None
    if settings.mode is None:
        raise click.UsageError("expected one of --take-over and --only-marked, or `controller.mode` in --config")
    if asked.is_upstream and settings.mode is not Mode.TAKE_OVER:
        raise click.UsageError(
            f"--compat=upstream: expected the mode {Mode.TAKE_OVER}, got {settings.mode},"
            " which has to tell our slices from others"
        )
    return configuration.as_upstream() if asked.is_upstream else configuration, settings


def _by_flags(text: str) -> str:
    """What is wrong with settings, with the names that the command line has for them: the file alone was well."""
    for key, option in _OPTIONS.items():
        text = text.replace(key, option)
    return text


def _read(option: str, read: Any, text: str) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None


def _log(asked: Asked, settings: Settings) -> "Log":
    from zoneward.daemon.logs import Level, new_log, take_over_logging

    level = Level.WARNING if asked.quiet else Level.DEBUG if asked.verbose else Level.INFO
    form = settings.log_format or (LogFormat.TEXT if sys.stderr.isatty() else LogFormat.JSON)
    log = new_log(form=form, level=level)
    take_over_logging(log)
    return log
