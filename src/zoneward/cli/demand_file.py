"""Files of demand: parts of zones for all Services, or figures of single Services."""

import csv
import sys
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Final

from zoneward.kube.demand import KIND, DemandFigures, MeasuredTraffic
from zoneward.kube.input_error import InputError, show
from zoneward.kube.input_files import STDIN, STDIN_NAME, decode_text, load, read_limited
from zoneward.kube.objects import ObjectKey
from zoneward.kube.prometheus_settings import is_url
from zoneward.kube.safe_text import without_password
from zoneward.kube.yaml_documents import one_document
from zoneward.routing.configuration import parse_demand_parts
from zoneward.routing.phrases import counted

Parts = tuple[tuple[str, Fraction], ...]
"""(zone, part) of the traffic of all Services, by zone."""
_WHAT: Final = "file of demand"
_MOST_MIB: Final = 16
"""A line for each Service and zone: a larger file is something else. Documents of measured traffic may be larger."""
_COLUMNS: Final = ("namespace", "service", "zone", "amount")
_SERVICE_EXPECTED: Final = "NAMESPACE/SERVICE with an amount for each zone"
_HIGHEST: Final = 1e18
_MEASURED: Final = f'"{KIND}'.encode()
"""The kinds of our own documents, and of lists of them, as they stand in JSON."""


def read_demand_file(name: str) -> Parts | DemandFigures:
    """What a file says: CSV, YAML, JSON, or what proxies and meters measured (also a directory of it, or the URL where
    they serve it). Raises InputError.
    """
    if is_url(name):
        from zoneward.snapshots.measured_traffic_files import read_measured

        return _from_documents(without_password(name), read_measured([name], stdin=None))
    if name.lower().endswith(".csv"):
        parts = _from_csv(name)
    elif Path(name).is_dir():
        from zoneward.snapshots.measured_traffic_files import read_measured

        return _from_documents(name, read_measured([name], stdin=None))
    else:
        data = load(name, stdin=sys.stdin.buffer)
        name = STDIN_NAME if name == STDIN else name
        text = decode_text(name, data)
        if text.lstrip().startswith(b"{") and _MEASURED in text:
            from zoneward.snapshots.measured_traffic_files import read_measured_traffic

            return _from_documents(name, read_measured_traffic(name, text))
        if len(text) > _MOST_MIB << 20:
            raise InputError(name, f"expected a {_WHAT}, got more than {_MOST_MIB} MiB")
        parts = _from_yaml(name, bytes(text))
    if isinstance(parts, DemandFigures):
        if not any(amount for zones in parts.amounts.values() for amount in zones.values()):
            raise InputError(name, "expected an amount above 0 for a Service, got none")
    elif not any(part for _, part in parts):
        raise InputError(name, "expected a part above 0 for a zone, got none")
    return parts


def _from_documents(name: str, documents: Iterable[MeasuredTraffic]) -> DemandFigures:
    from zoneward.routing.selection.traffic import combine_measurements, demand_figures

    measurements = combine_measurements(documents)
    if measurements is None:
        raise InputError(name, f"expected a document of kind {KIND}, got none")
    figures = demand_figures(measurements)
    if not figures.amounts:
        raise InputError(name, "; ".join(("expected connections from a zone to a Service, got none", *figures.notes)))
    return figures


# --- YAML and JSON ----------------------------------------------------------------------------------------------------


def _from_yaml(file: str, text: bytes) -> Parts | DemandFigures:
    document = one_document(file, text)
    if not isinstance(document, dict):
        raise InputError(file, f"expected a map from zones to parts of the traffic, got {show(document)}")
    if any(isinstance(value, dict) for value in document.values()):
        return _figures(file, {_key(file, name): _zones(file, name, zones) for name, zones in document.items()})
    return _parts(file, document)


def _key(file: str, name: object) -> ObjectKey:
    namespace, _, service = name.partition("/") if isinstance(name, str) else ("", "", "")
    if not namespace or not service or "/" in service:
        raise InputError(file, f"expected {_SERVICE_EXPECTED}, got {show(name)}")
    return namespace, service


def _zones(file: str, name: object, zones: object) -> dict[str, float]:
    if not isinstance(zones, dict):
        raise InputError(file, str(name), f"expected a map from zones to amounts, got {show(zones)}")
    return {str(zone): _amount(file, f"{name}: {zone}", amount) for zone, amount in zones.items()}


# --- CSV --------------------------------------------------------------------------------------------------------------


def _from_csv(file: str) -> Parts | DemandFigures:
    """Lines of a zone and its part, of which the first may be a heading ``zone,...``; or, with the heading
    ``namespace,service,zone,amount``, in any order, lines of a Service, a zone and an amount.
    """
    try:
        text = read_limited(file, what=_WHAT, most=_MOST_MIB).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(file, "expected a readable file of UTF-8") from error
    try:
        rows = ((line, [cell.strip() for cell in row]) for line, row in enumerate(csv.reader(StringIO(text)), 1))
        lines = ((line, row) for line, row in rows if any(row))
        first = next(lines, (1, []))
        heading = [cell.lower() for cell in first[1]]
        if sorted(heading) == sorted(_COLUMNS):
            return _csv_figures(file, [heading.index(column) for column in _COLUMNS], lines)
        is_heading = first[0] == 1 and heading[:1] == ["zone"]
        return _csv_parts(file, lines if is_heading else _chained(first, lines))
    except csv.Error as error:
        raise InputError(file, f"expected CSV: {error}") from error


_Lines = Iterator[tuple[int, list[str]]]


def _chained(first: tuple[int, list[str]], lines: _Lines) -> _Lines:
    if first[1]:
        yield first
    yield from lines


def _csv_parts(file: str, lines: _Lines) -> Parts:
    parts: dict[str, object] = {}
    for line, row in lines:
        if len(row) != 2 or row[0] in parts:
            expected = "a zone and its part of the traffic" if len(row) != 2 else f"{row[0]!r} once"
            raise InputError(file, f"line {line}", f"expected {expected}, got {','.join(row)!r}")
        parts[row[0]] = _number(row[1])
    return _parts(file, parts)


def _parts(file: str, document: object) -> Parts:
    try:
        return parse_demand_parts(document)
    except ValueError as error:
        raise InputError(file, str(error)) from None


def _csv_figures(file: str, order: list[int], lines: _Lines) -> DemandFigures:
    amounts: dict[ObjectKey, dict[str, float]] = {}
    for line, row in lines:
        where = f"line {line}"
        if len(row) != len(order):
            raise InputError(file, where, f"expected {', '.join(_COLUMNS)}, got {','.join(row)!r}")
        namespace, service, zone, amount = (row[column] for column in order)
        if not namespace or not service or not zone:
            raise InputError(file, where, f"expected a namespace, a service and a zone, got {','.join(row)!r}")
        zones = amounts.setdefault((namespace, service), {})
        if zone in zones:
            raise InputError(file, where, f"expected {namespace}/{service} in {zone} once, got {','.join(row)!r}")
        zones[zone] = _amount(file, where, _number(amount))
    return _figures(file, amounts)


# --- amounts ----------------------------------------------------------------------------------------------------------


def _figures(file: str, amounts: Mapping[ObjectKey, Mapping[str, float]]) -> DemandFigures:
    other = sum(not 0.999 <= sum(zones.values()) <= 1.001 for zones in amounts.values() if any(zones.values()))
    text = f"{file}: the amounts of {counted(other, 'Service')} do not add up to 1, and count in proportion"
    return DemandFigures(amounts, (text,) if other else ())


def _amount(file: str, where: str, value: object) -> float:
    """A number from 0; what is none, and no finite one either, is refused."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _HIGHEST:
        raise InputError(file, where, f"expected a number from 0 to {_HIGHEST:g}, got {show(value)}")
    return float(value)


def _number(text: str) -> object:
    """What is no number stays text, and is refused with its zone."""
    try:
        return float(text)
    except ValueError:
        return text
