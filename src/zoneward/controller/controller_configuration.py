"""The settings of the controller that decisions do not depend on, and its modes."""

import math
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, field

from zoneward.daemon.listen_address import ListenText
from zoneward.daemon.log import LogFormat
from zoneward.kube import names
from zoneward.kube.input_error import ConfigurationError
from zoneward.kube.leases import CONTROLLER_LEASE
from zoneward.kube.settings import Name, Seconds, Settings, bounds


class Mode(StrEnum):
    """The Services whose EndpointSlices the controller writes, or whose hints."""

    OVERLAY = names.OVERLAY_MODE
    """The built-in controller writes all slices; an admission policy sets Zoneward's hints in those of selected
    Services."""

    ONLY_MARKED = "only-marked"
    """Adopted Services; the built-in controller manages all others."""
    TAKE_OVER = "take-over"
    """Every Service with a selector: no other controller writes slices."""


SECTION: Final = "controller"
MOST_SYNCS: Final = 50
DEFAULT_PORT: Final = 10271
"""Beside kube-controller-manager's 10257 and the cloud controller manager's 10258, in the range reserved for them."""
_LEAST_DEADLINE: Final = 1.2
"""In retry periods, as in client-go: time for one more attempt after a failed one."""


class LeaseTiming(Settings, frozen=True, kw_only=True):
    """Seconds; client-go's defaults. Raises ConfigurationError if a leader could not renew in time, or others not
    notice."""

    lease_duration: Seconds = 15.0
    """Other replicas do not take over a Lease that is unchanged for less than this; written as whole seconds, rounded
    up."""
    renew_deadline: Seconds = 10.0
    """A leader may write for this long without renewing. The rest of ``lease_duration`` is for clocks that run at
    different speeds, and for writes that arrive late."""
    retry_period: Seconds = 2.0
    """The longest time between two reads or renewals of the Lease."""

    def __post_init__(self) -> None:
        duration, deadline, period = self.lease_duration, self.renew_deadline, self.retry_period
        if not all(math.isfinite(seconds) for seconds in (duration, deadline, period)):
            raise ConfigurationError(f"expected finite times, got {duration:g} s, {deadline:g} s and {period:g} s")
        if period <= 0:
            raise ConfigurationError(f"retryPeriod: expected more than 0 s, got {period:g} s")
        if deadline <= period * _LEAST_DEADLINE:
            least = f"{_LEAST_DEADLINE:g} x retryPeriod ({period * _LEAST_DEADLINE:g} s)"
            raise ConfigurationError(f"renewDeadline: expected more than {least}, got {deadline:g} s")
        if duration <= deadline:
            least = f"renewDeadline ({deadline:g} s)"
            raise ConfigurationError(f"leaseDuration: expected more than {least}, got {duration:g} s")
        if duration < 1:
            raise ConfigurationError(f"leaseDuration: expected at least 1 s, got {duration:g} s")

    @property
    def call_timeout(self) -> float:
        """Seconds for a call about the Lease: three of them fit before the deadline."""
        return self.renew_deadline / 3

    @property
    def write_timeout(self) -> float:
        """Seconds for a leader's other writes: this much is always left while it renews in time."""
        return self.renew_deadline / 2

    @property
    def whole_seconds(self) -> int:
        """The duration in the format of a Lease."""
        return math.ceil(self.lease_duration)


class LeaderElection(LeaseTiming, frozen=True, kw_only=True):
    """The keys of kube-controller-manager's configuration.

    ``lease_namespace`` None: the Pod's own, or kube-system.
    """

    leader_elect: bool = True
    lease_namespace: Name | None = field(default=None, name="resourceNamespace")
    lease_name: Name = field(default=CONTROLLER_LEASE, name="resourceName")


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
