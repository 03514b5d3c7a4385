"""How a section of the configuration file becomes values, with errors that name the key; and values of flags.

A section is a map of a ZonewardConfiguration, already parsed from YAML or JSON. Each program has one table that says
for each key which field it sets, and how its value is read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, TypeVar

from zoneward.kube.durations import DURATION_EXPECTED, parse_duration
from zoneward.kube.input_error import ConfigurationError

Reader = Callable[[Any, str], Any]
"""Takes a value and the name of its key. Raises ConfigurationError."""
_Value = TypeVar("_Value")


def read_section(section: object, where: str, readers: Mapping[str, tuple[str, Reader]]) -> dict[str, Any]:
    """The fields that the section sets, by ``readers``: the field of each key, and how it is read.

    A key without a value sets nothing. Raises ConfigurationError for an unknown key, and for a wrong value.
    """
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


# --- readers ----------------------------------------------------------------------------------------------------------


def read_boolean(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{where}: expected true or false, got {value!r}")
    return value


def read_number(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{where}: expected a whole number, got {value!r}")
    return value


def read_name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{where}: expected a name, got {value!r}")
    return value


def read_strings(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ConfigurationError(f"{where}: expected a list of texts, got {value!r}")
    return tuple(value)


def read_choice(choices: type[StrEnum]) -> Reader:
    def read(value: Any, where: str) -> StrEnum:
        if value not in list(choices):
            raise ConfigurationError(f"{where}: expected {' or '.join(choices)}, got {value!r}")
        return choices(value)

    return read


def read_duration(value: Any, where: str) -> float:
    """In seconds."""
    # Programs disagree on what a number without a unit means.
    if not isinstance(value, str) and value != 0:
        raise ConfigurationError(f"{where}: expected {DURATION_EXPECTED}, got {value!r}")
    return _parsed(parse_duration, str(value), where)


def read_listen_address(value: Any, where: str) -> "ListenAddress":
    if not isinstance(value, str):
        raise ConfigurationError(f"{where}: expected [HOST]:PORT, got {value!r}")
    return _parsed(parse_listen_address, value, where)


def read_optional_listen_address(value: Any, where: str) -> "ListenAddress | Literal['']":
    return "" if value == "" else read_listen_address(value, where)


def _parsed(parse: Callable[[str], _Value], text: str, where: str) -> _Value:
    try:
        return parse(text)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from None


# --- addresses --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where a server listens. ``host`` None: on all addresses; ``port`` 0: any that is free."""

    host: str | None
    port: int

    def __str__(self) -> str:
        host = self.host or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def parse_listen_address(text: str) -> ListenAddress:
    """``[HOST]:PORT``. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_host = ":" not in host or bare != host
    if not colon or not is_host or not (port.isascii() and port.isdecimal() and int(port) <= 65535):
        raise ValueError(f"expected [HOST]:PORT (127.0.0.1:10271, or :10271 for all addresses), got {text!r}")
    return ListenAddress(bare or None, int(port))


def parse_optional_listen_address(text: str) -> ListenAddress | Literal[""]:
    """As `parse_listen_address`; an empty text means that nothing listens. Raises ValueError."""
    return parse_listen_address(text) if text else ""
