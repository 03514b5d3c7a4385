"""The settings of a node's meter."""

from typing import Annotated, Final

from zoneward.daemon.listen_address import ListenText
from zoneward.daemon.log import LogFormat
from zoneward.kube.settings import AtLeastOne, Seconds, Settings, bounds
from zoneward.meter.flow_meter import DUMP_PERIOD, MIN_DUMP_PERIOD
from zoneward.meter.traffic_totals import MAX_TOTALS
from zoneward.routing.selection.entry_budget import MAX_ENTRIES, MAX_NAMESPACE_ENTRIES

SECTION: Final = "meter"
DEFAULT_PORT: Final = 10274
"""Beside the proxy's 10272 and 10273."""


class MeterConfiguration(Settings, frozen=True, kw_only=True):
    """Durations in seconds."""

    enable_accounting: bool = False
    dump_period: Annotated[Seconds, bounds("a duration from 2s to 5m", ge=MIN_DUMP_PERIOD, le=300)] = DUMP_PERIOD
    max_series: AtLeastOne = MAX_TOTALS
    max_namespace_entries: AtLeastOne = MAX_NAMESPACE_ENTRIES
    max_entries: AtLeastOne = MAX_ENTRIES
    listen: ListenText = f"127.0.0.1:{DEFAULT_PORT}"
    log_format: LogFormat | None = None
