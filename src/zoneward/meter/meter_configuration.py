"""The configuration of a node's meter: its values, and the table of its keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from zoneward.daemon.configuration_file import (
    ListenAddress,
    Reader,
    read_boolean,
    read_choice,
    read_duration,
    read_listen_address,
    read_number,
    read_section,
)
from zoneward.daemon.log import LogFormat
from zoneward.kube.input_error import ConfigurationError
from zoneward.meter.flow_meter import DUMP_PERIOD, MIN_DUMP_PERIOD
from zoneward.meter.traffic_totals import MAX_TOTALS
from zoneward.routing.selection.entry_budget import MAX_ENTRIES, MAX_NAMESPACE_ENTRIES

SECTION: Final = "meter"
DEFAULT_PORT: Final = 10274
"""Beside the proxy's 10272 and 10273."""
_LONGEST_PERIOD: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterConfiguration:
    """Durations in seconds. Raises ConfigurationError for values out of range."""

    enable_accounting: bool = False
    dump_period: float = DUMP_PERIOD
    max_series: int = MAX_TOTALS
    max_namespace_entries: int = MAX_NAMESPACE_ENTRIES
    max_entries: int = MAX_ENTRIES
    listen: ListenAddress = field(default_factory=lambda: ListenAddress("127.0.0.1", DEFAULT_PORT))
    log_format: LogFormat | None = None

    def __post_init__(self) -> None:
        if not MIN_DUMP_PERIOD <= self.dump_period <= _LONGEST_PERIOD:
            raise ConfigurationError(
                f"{SECTION}.dumpPeriod: expected {MIN_DUMP_PERIOD:g}s to {_LONGEST_PERIOD:g}s,"
                f" got {self.dump_period:g}s"
            )
        for key, limit in (
            ("maxSeries", self.max_series),
            ("maxNamespaceEntries", self.max_namespace_entries),
            ("maxEntries", self.max_entries),
        ):
            if limit < 1:
                raise ConfigurationError(f"{SECTION}.{key}: expected at least 1, got {limit}")


def read_meter_configuration(section: object) -> MeterConfiguration:
    """Read the section ``meter`` of a ZonewardConfiguration.

    A key without a value is as if it were not there. Raises ConfigurationError for an unknown key, a wrong type, or a
    value out of range.
    """
    return replace(MeterConfiguration(), **read_section(section, SECTION, _READ))


_READ: Final[Mapping[str, tuple[str, Reader]]] = {
    "enableAccounting": ("enable_accounting", read_boolean),
    "dumpPeriod": ("dump_period", read_duration),
    "maxSeries": ("max_series", read_number),
    "maxNamespaceEntries": ("max_namespace_entries", read_number),
    "maxEntries": ("max_entries", read_number),
    "listen": ("listen", read_listen_address),
    "logFormat": ("log_format", read_choice(LogFormat)),
}
"""The field of `MeterConfiguration` for each key, and how it is read."""
