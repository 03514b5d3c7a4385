"""What all parts of a controller share, like the ControllerContext of kube-controller-manager."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from random import Random
from typing import Final

from zoneward.client.reflector import ReflectorSettings
from zoneward.client.writer import Writer
from zoneward.controller.controller_configuration import Mode
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.handover.service_handover import ReadWriteConnection
from zoneward.controller.leader_elector import always_leading
from zoneward.controller.queue.work_queue import Batching, RequeueDelay
from zoneward.controller.status.status_writer import StatusWriter
from zoneward.daemon.log import Log, SilentLog
from zoneward.kube.demand import DemandFigures
from zoneward.routing.configuration import Configuration

WORKERS: Final = 4
RESYNC_PERIOD: Final = 1200.0


class FiguresUnavailable(Exception):  # noqa: N818 -- named by what happened, as in `api_errors`
    """The source has no figures; the message has the reason on one line."""


@dataclass(frozen=True, slots=True)
class FiguresSource:
    """``read`` gets the names of the cluster's Nodes, whose figures count, and raises `FiguresUnavailable` where there
    are none; ``window`` is the time that they are about, in seconds."""

    read: Callable[[Collection[str]], Awaitable[DemandFigures]]
    window: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """How the controller reads, writes, decides and reports.

    ``connection`` reads; ``writer`` writes, and must refuse once this replica no longer leads. ``leading`` is always
    set if there are no other replicas. ``status_writer`` None: only EndpointSlices are written.

    ``is_stand_in``: it plays the built-in controller, beside Zoneward's: it ignores adopted Services' annotations and
    Zoneward's slices. ``is_releasing``: in the overlay's mode, all Services leave the overlay. ``figures`` None:
    Services without demand in their annotations have the cluster's.
    """

    connection: ReadWriteConnection
    writer: Writer
    configuration: Configuration
    mode: Mode
    leading: asyncio.Event = field(default_factory=always_leading)
    status_writer: StatusWriter | None = None
    is_stand_in: bool = False
    is_releasing: bool = False
    figures: FiguresSource | None = None
    metrics: ControllerMetrics = field(default_factory=ControllerMetrics)
    log: Log = field(default_factory=SilentLog)
    wall_clock: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """How a controller works. ``resync_period``: seconds in which every Service is reconciled once without an event.
    ``node_proxy_namespace``: where the Leases of the nodes' proxies are; None: they are not read, and the condition
    ``TrafficDistributionHonored`` is not written."""

    workers: int = WORKERS
    batching: Batching = field(default_factory=Batching)
    back_off: RequeueDelay | None = None
    resync_period: float = RESYNC_PERIOD
    node_proxy_namespace: str | None = None
    watch_timing: ReflectorSettings | None = None
    random: Random = field(default_factory=Random)
