"""A section of a ZonewardConfiguration (already parsed YAML or JSON) as values, with errors that name the key."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Literal, TypeVar

from zoneward.daemon.configuration_file import ListenAddress, parse_duration, parse_listen_address
from zoneward.daemon.go_duration import EXPECTED
from zoneward.routing.configuration import ConfigurationError

Reader = Callable[[Any, str], Any]
_Value = TypeVar("_Value")


def read_section(section: object, where: str, readers: Mapping[str, tuple[str, Reader]]) -> dict[str, Any]:
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


def read_duration(value: Any, where: str) -> float:
    # A read_number without a unit is read in one way here, and in another there.
    if not isinstance(value, str) and value != 0:
        raise ConfigurationError(f"{where}: expected {EXPECTED}, got {value!r}")
    return _said(parse_duration, str(value), where)


def read_listen(value: Any, where: str) -> ListenAddress:
    if not isinstance(value, str):
        raise ConfigurationError(f"{where}: expected [HOST]:PORT, got {value!r}")
    return _said(parse_listen_address, value, where)


def listen_or_nowhere(value: Any, where: str) -> ListenAddress | Literal[""]:
    return "" if value == "" else read_listen(value, where)


def _said(read: Callable[[str], _Value], text: str, where: str) -> _Value:
    try:
        return read(text)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def read_boolean(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{where}: expected true or false, got {value!r}")
    return value


def read_number(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{where}: expected a whole read_number, got {value!r}")
    return value


def name_(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{where}: expected a name, got {value!r}")
    return value


def read_choice(choices: type[StrEnum]) -> Reader:
    def read(value: Any, where: str) -> StrEnum:
        if value not in list(choices):
            raise ConfigurationError(f"{where}: expected {' or '.join(choices)}, got {value!r}")
        return choices(value)

    return read
