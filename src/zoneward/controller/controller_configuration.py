"""The configuration of the controller, beside what decisions depend on: its values, and the table of its keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from zoneward.controller.leader.election import LeaseTiming
from zoneward.controller.mode import Mode
from zoneward.daemon.configuration_file import (
    ListenAddress,
    Reader,
    read_boolean,
    read_choice,
    read_duration,
    read_listen_address,
    read_name,
    read_number,
    read_section,
)
from zoneward.daemon.log import LogFormat
from zoneward.kube.controller_lease import CONTROLLER_LEASE
from zoneward.kube.input_error import ConfigurationError

SECTION: Final = "controller"
LEADER_ELECTION: Final = "leaderElection"
MOST_SYNCS: Final = 50
DEFAULT_PORT: Final = 10271
"""Beside kube-controller-manager's 10257 and the cloud controller manager's 10258, in the range kept for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfiguration:
    """Durations in seconds. ``mode`` None: not set yet; there is no default.

    ``keep_built_in_label``: our slices carry the built-in controller's label, with `Mode.TAKE_OVER` alone.
    ``log_format`` None: JSON where standard error is no terminal. ``lease_namespace`` None: the Pod's own, or
    kube-system. Raises ConfigurationError for values that do not go together.
    """

    mode: Mode | None = None
    keep_built_in_label: bool = False
    batch_period: float = 0.0
    concurrent_syncs: int = 5
    leader_elect: bool = True
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    lease_namespace: str | None = None
    lease_name: str = CONTROLLER_LEASE
    listen: ListenAddress = field(default_factory=lambda: ListenAddress("127.0.0.1", DEFAULT_PORT))
    debug_for_all: bool = False
    predictions: bool = False
    log_format: LogFormat | None = None

    def __post_init__(self) -> None:
        if self.keep_built_in_label and self.mode is Mode.ONLY_MARKED:
            raise ConfigurationError(
                f"{SECTION}.keepBuiltInLabel: expected the mode {Mode.TAKE_OVER}, got {self.mode},"
                " in which our slices need a label of their own"
            )
        if not 1 <= self.concurrent_syncs <= MOST_SYNCS:
            raise ConfigurationError(
                f"{SECTION}.concurrentServiceEndpointSyncs: expected a number from 1 to {MOST_SYNCS},"
                f" got {self.concurrent_syncs}"
            )
        if not self.batch_period <= 3600:
            raise ConfigurationError(
                f"{SECTION}.endpointUpdatesBatchPeriod: expected at most 1h, got {self.batch_period:g} s"
            )
        try:
            _ = self.timing
        except ValueError as error:
            raise ConfigurationError(f"{SECTION}.{LEADER_ELECTION}.{error}") from None

    @property
    def timing(self) -> LeaseTiming:
        """Of leader election."""
        return LeaseTiming(
            lease_duration=self.lease_duration, renew_deadline=self.renew_deadline, retry_period=self.retry_period
        )


def read_controller_configuration(section: object) -> ControllerConfiguration:
    """Read the section ``controller`` of a ZonewardConfiguration.

    A key without a value is as if it were not there. Raises ConfigurationError for an unknown key, a wrong type, or a
    value out of range.
    """
    values = read_section(section, SECTION, _READ)
    election = values.pop("", {})
    return replace(ControllerConfiguration(), **values, **election)


# --- how each key is read ---------------------------------------------------------------------------------------------

_ELECTION: Final[Mapping[str, tuple[str, Reader]]] = {
    "leaderElect": ("leader_elect", read_boolean),
    "leaseDuration": ("lease_duration", read_duration),
    "renewDeadline": ("renew_deadline", read_duration),
    "retryPeriod": ("retry_period", read_duration),
    "resourceNamespace": ("lease_namespace", read_name),
    "resourceName": ("lease_name", read_name),
}
_READ: Final[Mapping[str, tuple[str, Reader]]] = {
    "mode": ("mode", read_choice(Mode)),
    "keepBuiltInLabel": ("keep_built_in_label", read_boolean),
    "endpointUpdatesBatchPeriod": ("batch_period", read_duration),
    "concurrentServiceEndpointSyncs": ("concurrent_syncs", read_number),
    LEADER_ELECTION: ("", lambda value, where: read_section(value, where, _ELECTION)),
    "listen": ("listen", read_listen_address),
    "debugForAll": ("debug_for_all", read_boolean),
    "predictions": ("predictions", read_boolean),
    "logFormat": ("log_format", read_choice(LogFormat)),
}
"""The field of `ControllerConfiguration` for each key, and how it is read."""
