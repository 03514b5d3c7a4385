"""What an operator sets for the controller, beside what decisions depend on. Values only; files are read elsewhere."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from zoneward.controller.election import Timing
from zoneward.controller.go_duration import EXPECTED, seconds_of
from zoneward.controller.mode import Mode
from zoneward.routing.configuration import ConfigurationError

SECTION: Final = "controller"
LEADER_ELECTION: Final = "leaderElection"
MOST_SYNCS: Final = 50
DEFAULT_PORT: Final = 10271
"""Beside kube-controller-manager's 10257 and the cloud controller manager's 10258, in the range kept for them."""


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Listen:
    """``host`` None: all addresses; ``port`` 0: any that is free."""

    host: str | None = "127.0.0.1"
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        host = self.host or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Durations in seconds. ``mode`` None: not said yet, and there is no default.

    ``log_format`` None: JSON where standard error is no terminal. ``lease_namespace`` None: the Pod's own, or
    kube-system. Raises ConfigurationError for values that do not go together.
    """

    mode: Mode | None = None
    batch_period: float = 0.0
    concurrent_syncs: int = 5
    leader_elect: bool = True
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    lease_namespace: str | None = None
    lease_name: str = "zoneward-controller"
    listen: Listen = field(default_factory=Listen)
    debug_for_all: bool = False
    predictions: bool = False
    log_format: LogFormat | None = None

    def __post_init__(self) -> None:
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
    def timing(self) -> Timing:
        """Of leader election."""
        return Timing(
            lease_duration=self.lease_duration, renew_deadline=self.renew_deadline, retry_period=self.retry_period
        )


def settings_from(section: object) -> Settings:
    """The section ``controller`` of a ZonewardConfiguration (already parsed YAML or JSON) as a value.

    A key without a value is as if it were not there. Raises ConfigurationError for an unknown key, a wrong type, or a
    value out of range.
    """
    values = _read(section, SECTION, _READ)
    election = values.pop("", {})
    return replace(Settings(), **values, **election)


def listen_of(text: str) -> Listen:
    """``[HOST]:PORT``. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_host = ":" not in host or bare != host
    if not colon or not is_host or not (port.isascii() and port.isdecimal() and int(port) <= 65535):
        raise ValueError(f"expected [HOST]:PORT (127.0.0.1:10271, or :10271 for all addresses), got {text!r}")
    return Listen(bare or None, int(port))


# --- how each key is read ---------------------------------------------------------------------------------------------

_Reader = Callable[[Any, str], Any]
_Value = TypeVar("_Value")


def _read(section: object, where: str, readers: Mapping[str, tuple[str, _Reader]]) -> dict[str, Any]:
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise ConfigurationError(f"{where}: expected a map, got {section!r}")
    values = {}
    for key, value in section.items():
        if key not in readers:
            raise ConfigurationError(f"{where}.{key}: expected one of {', '.join(readers)}, got an unknown key")
        name, reader = readers[key]
        if value is not None:
            values[name] = reader(value, f"{where}.{key}")
    return values


def _duration(value: Any, where: str) -> float:
    # A number without a unit is read in one way here, and in another there.
    if not isinstance(value, str) and value != 0:
        raise ConfigurationError(f"{where}: expected {EXPECTED}, got {value!r}")
    return _said(seconds_of, str(value), where)


def _listen(value: Any, where: str) -> Listen:
    if not isinstance(value, str):
        raise ConfigurationError(f"{where}: expected [HOST]:PORT, got {value!r}")
    return _said(listen_of, value, where)


def _said(read: Callable[[str], _Value], text: str, where: str) -> _Value:
    try:
        return read(text)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _boolean(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{where}: expected true or false, got {value!r}")
    return value


def _number(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{where}: expected a whole number, got {value!r}")
    return value


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{where}: expected a name, got {value!r}")
    return value


def _choice(choices: type[StrEnum]) -> _Reader:
    def read(value: Any, where: str) -> StrEnum:
        if value not in list(choices):
            raise ConfigurationError(f"{where}: expected {' or '.join(choices)}, got {value!r}")
        return choices(value)

    return read


_ELECTION: Final[Mapping[str, tuple[str, _Reader]]] = {
    "leaderElect": ("leader_elect", _boolean),
    "leaseDuration": ("lease_duration", _duration),
    "renewDeadline": ("renew_deadline", _duration),
    "retryPeriod": ("retry_period", _duration),
    "resourceNamespace": ("lease_namespace", _name),
    "resourceName": ("lease_name", _name),
}
_READ: Final[Mapping[str, tuple[str, _Reader]]] = {
    "mode": ("mode", _choice(Mode)),
    "endpointUpdatesBatchPeriod": ("batch_period", _duration),
    "concurrentServiceEndpointSyncs": ("concurrent_syncs", _number),
    LEADER_ELECTION: ("", lambda value, where: _read(value, where, _ELECTION)),
    "listen": ("listen", _listen),
    "debugForAll": ("debug_for_all", _boolean),
    "predictions": ("predictions", _boolean),
    "logFormat": ("log_format", _choice(LogFormat)),
}
"""The field of `Settings` for each key, and how it is read."""
