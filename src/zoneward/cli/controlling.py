"""From options to a controller that runs until it is told to end."""

import asyncio
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import click

from zoneward.cli.clusters import INSECURE
from zoneward.cli.configuring import read_configuration
from zoneward.cli.lasting import by_flags, lease_namespace, log_for, needed, read_option
from zoneward.client.auth.kubeconfig import load_client_config
from zoneward.client.error_messages import log_message
from zoneward.controller.controller_configuration import ControllerConfiguration
from zoneward.controller.mode import Mode
from zoneward.daemon.configuration_file import parse_duration, parse_listen_address
from zoneward.daemon.log import LogFormat
from zoneward.kube.input_error import ConfigurationError, InputError
from zoneward.routing.configuration import Configuration

_DURATIONS: Final = {
    "batch_period": "--endpointslice-updates-batch-period",
    "lease_duration": "--leader-elect-lease-duration",
    "renew_deadline": "--leader-elect-renew-deadline",
    "retry_period": "--leader-elect-retry-period",
}
_OPTIONS: Final = {
    "controller.keepBuiltInLabel": "--keep-built-in-label",
    "controller.": "",
    "leaderElection.": "",
    "endpointUpdatesBatchPeriod": "--endpointslice-updates-batch-period",
    "concurrentServiceEndpointSyncs": "--concurrent-service-endpoint-syncs",
    "leaseDuration": "--leader-elect-lease-duration",
    "renewDeadline": "--leader-elect-renew-deadline",
    "retryPeriod": "--leader-elect-retry-period",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says. ``flags``: those that were given, by field of `ControllerConfiguration`."""

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
    program = needed("zoneward.controller.controller_program", by="controller")
    configuration, settings = _settings(asked)
    access = load_client_config(
        kubeconfig=asked.kubeconfig,
        context=asked.context,
        impersonate=asked.impersonate,
        environment=os.environ,
    )
    log = log_for(quiet=asked.quiet, verbose=asked.verbose, form=settings.log_format)
    if access.cluster.insecure:
        log.warning(INSECURE)

    from zoneward.daemon.program import run_program

    async def work(stop: asyncio.Event) -> None:
        from zoneward.report.plan_json import decisions_document, to_json

        replica = program.ControllerProgram(
            access,
            configuration=configuration,
            settings=settings,
            lease=(lease_namespace(access, settings.lease_namespace), settings.lease_name),
            instance=os.environ.get("POD_NAME") or socket.gethostname(),
            log=log,
            to_json=lambda plan: to_json(decisions_document([plan])),
        )
        await replica.run(stop)

    return run_program(
        work, name="controller", log=log, error_message=lambda error: log_message(error, access, now=datetime.now(UTC))
    )


def _settings(asked: Asked) -> tuple[Configuration, ControllerConfiguration]:
    configuration, settings = Configuration(), ControllerConfiguration()
    if asked.config is not None:
        read = read_configuration(asked.config)
        configuration, settings = read.configuration, read.controller
    flags = dict(asked.flags)
    for name, option in _DURATIONS.items():
        if name in flags:
            flags[name] = read_option(option, parse_duration, flags[name])
    if "listen" in flags:
        flags["listen"] = read_option("--listen", parse_listen_address, flags["listen"])
    if "log_format" in flags:
        flags["log_format"] = LogFormat(flags["log_format"])
    if asked.mode is not None:
        flags["mode"] = Mode(asked.mode)
    try:
        settings = replace(settings, **flags)
    except ConfigurationError as error:
        raise InputError(by_flags(str(error), _OPTIONS)) from None
    if settings.mode is None:
        raise click.UsageError("expected one of --take-over and --only-marked, or `controller.mode` in --config")
    if asked.is_upstream and settings.mode is not Mode.TAKE_OVER:
        raise click.UsageError(
            f"--compat=upstream: expected the mode {Mode.TAKE_OVER}, got {settings.mode},"
            " in which our slices need a label of their own"
        )
    configuration = replace(configuration, keep_built_in_label=settings.keep_built_in_label)
    return configuration.as_upstream() if asked.is_upstream else configuration, settings
