"""The settings of the controller that decisions do not depend on."""

from typing import Annotated, Final

from msgspec import Meta, field

from zoneward.controller.leader.election import LeaseTiming
from zoneward.controller.mode import Mode
from zoneward.daemon.listen_address import ListenText
from zoneward.daemon.log import LogFormat
from zoneward.kube.input_error import ConfigurationError
from zoneward.kube.leases import CONTROLLER_LEASE
from zoneward.kube.settings import Name, Seconds, Settings, bounds

SECTION: Final = "controller"
MOST_SYNCS: Final = 50
DEFAULT_PORT: Final = 10271
"""Beside kube-controller-manager's 10257 and the cloud controller manager's 10258, in the range reserved for them."""


class LeaderElection(Settings, frozen=True, kw_only=True):
    """The keys of kube-controller-manager's configuration. Durations in seconds; see `LeaseTiming`.

    ``lease_namespace`` None: the Pod's own, or kube-system.
    """

    leader_elect: bool = True
    lease_duration: Seconds = 15.0
    renew_deadline: Seconds = 10.0
    retry_period: Seconds = 2.0
    lease_namespace: Name | None = field(default=None, name="resourceNamespace")
    lease_name: Name = field(default=CONTROLLER_LEASE, name="resourceName")

    def __post_init__(self) -> None:
        try:
            _ = self.timing
        except ValueError as error:
            raise ConfigurationError(str(error)) from None

    @property
    def timing(self) -> LeaseTiming:
        return LeaseTiming(
            lease_duration=self.lease_duration, renew_deadline=self.renew_deadline, retry_period=self.retry_period
        )


class ControllerConfiguration(Settings, frozen=True, kw_only=True):
    """Durations in seconds. ``mode`` None: not set yet; there is no default.

    ``keep_built_in_label``: Zoneward's slices carry the built-in controller's label; only with `Mode.TAKE_OVER`.
    ``log_format`` None: JSON, unless standard error is a terminal.
    """

    mode: Mode | None = None
    keep_built_in_label: bool = False
    batch_period: Annotated[Seconds, bounds("a duration of at most 1h", le=3_600)] = field(
        default=0.0, name="endpointUpdatesBatchPeriod"
    )
    concurrent_syncs: Annotated[int, Meta(ge=1, le=MOST_SYNCS)] = field(
        default=5, name="concurrentServiceEndpointSyncs"
    )
    leader_election: LeaderElection = LeaderElection()
    listen: ListenText = f"127.0.0.1:{DEFAULT_PORT}"
    debug_for_all: bool = False
    predictions: bool = False
    log_format: LogFormat | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep_built_in_label and self.mode not in (None, Mode.TAKE_OVER):
            raise ConfigurationError(
                f"keepBuiltInLabel: expected the mode {Mode.TAKE_OVER}, got {self.mode},"
                " in which Zoneward's slices need a separate label"
            )
