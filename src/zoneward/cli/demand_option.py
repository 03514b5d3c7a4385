"""``--demand``: where traffic is expected to start, instead of what the configuration says."""

import csv
from collections.abc import Iterable, Iterator
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Final, get_args

from zoneward.kube.input_error import ConfigurationError, InputError, show
from zoneward.kube.input_files import read_limited
from zoneward.kube.near_names import did_you_mean
from zoneward.kube.yaml_documents import read_document
from zoneward.routing.configuration import DemandSettings, DemandSource, read_demand_parts
from zoneward.routing.rules import listed

SOURCES: Final[tuple[str, ...]] = get_args(DemandSource)
_WHAT: Final = "file of demand"
_MOST_MIB: Final = 1
"""A line for each zone: a larger file is something else."""


def read_demand(value: str) -> DemandSettings:
    """One of `SOURCES`, or a file with a part for each zone. Raises InputError."""
    if value in SOURCES:
        return DemandSettings(source=value)  # type: ignore[arg-type]
    if not Path(value).exists():
        expected = f"expected {', '.join(SOURCES)} or a file with a part of the traffic for each zone, got {value!r}"
        raise InputError("--demand", expected + did_you_mean(value, SOURCES))
    parts = _from_csv(value) if value.lower().endswith(".csv") else _from_yaml(value)
    if not any(part for _, part in parts):
        raise InputError(value, "expected a part above 0 for a zone, got none")
    return DemandSettings(zones=parts)


def _from_yaml(file: str) -> tuple[tuple[str, Fraction], ...]:
    document = read_document(file, what=_WHAT, most=_MOST_MIB)
    if not isinstance(document, dict):
        raise InputError(file, f"expected a map from zones to parts of the traffic, got {show(document)}")
    try:
        return read_demand_parts(document, "zones")
    except ConfigurationError as error:
        raise _in_file(file, error) from error


def _from_csv(file: str) -> tuple[tuple[str, Fraction], ...]:
    """Lines of a zone and its part; a first line ``zone,...`` is a heading."""
    try:
        text = read_limited(file, what=_WHAT, most=_MOST_MIB).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(file, "expected a readable file of UTF-8") from error
    parts: dict[str, object] = {}
    try:
        for number, row in enumerate(csv.reader(StringIO(text)), start=1):
            if not row or (number == 1 and row[0].strip().lower() == "zone"):
                continue
            if len(row) != 2 or row[0].strip() in parts:
                expected = "a zone and its part of the traffic" if len(row) != 2 else f"{row[0].strip()!r} once"
                raise InputError(file, f"line {number}", f"expected {expected}, got {','.join(row)!r}")
            parts[row[0].strip()] = _number(row[1])
        return read_demand_parts(parts, "zones")
    except csv.Error as error:
        raise InputError(file, f"expected CSV: {error}") from error
    except ConfigurationError as error:
        raise _in_file(file, error) from error


def _in_file(file: str, error: ConfigurationError) -> InputError:
    """In a file of its own the section has no name."""
    return InputError(file, str(error).removeprefix("zones").removeprefix(".").removeprefix(": "))


def _number(text: str) -> object:
    """What is no number stays text, and is refused with its zone."""
    try:
        return float(text)
    except ValueError:
        return text


def check_zones(file: str, settings: DemandSettings, zones: Iterable[str]) -> None:
    """Raises InputError for a zone of the file that no Node is in."""
    known = sorted(set(zones))
    for zone, _ in settings.zones:
        if zone not in known:
            expected = f"expected zones of Nodes ({listed(tuple(known)) or 'there are none'}), got {zone!r}"
            raise InputError(file, expected + did_you_mean(zone, known))


def describe_demand(settings: DemandSettings) -> Iterator[str]:
    """What is assumed of demand, where it is not CPU."""
    if settings.zones:
        whole = sum((part for _, part in settings.zones), Fraction(0))
        yield f"demand as it was set: {', '.join(f'{zone} {float(part / whole):.0%}' for zone, part in settings.zones)}"
        if not Fraction(999, 1000) <= whole <= Fraction(1001, 1000):
            yield f"the parts of demand add up to {float(whole):g}, and count in proportion"
    elif settings.source == "nodes":
        yield "demand in proportion to the number of nodes in each zone, not to their CPU"
    elif settings.source == "even":
        yield "the same demand in every zone, whatever its CPU"
