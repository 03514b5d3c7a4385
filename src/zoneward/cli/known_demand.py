"""Where traffic is expected to start: what ``--demand`` chooses, and what a file or a Prometheus says of it."""

import csv
import sys
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from io import StringIO
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar, get_args

from msgspec import structs

from zoneward.cli.output import Note
from zoneward.kube.demand import KIND, DemandFigures, MeasuredTraffic
from zoneward.kube.input_error import InputError, did_you_mean, show
from zoneward.kube.input_files import STDIN, STDIN_NAME, decode_text, load, read_limited
from zoneward.kube.objects import ObjectKey
from zoneward.kube.prometheus_settings import PrometheusSettings, is_url, prometheus_url
from zoneward.kube.safe_text import without_password
from zoneward.kube.yaml_documents import one_document
from zoneward.routing.configuration import Configuration, DemandSettings, DemandSource, parse_demand_parts
from zoneward.routing.demand import service_parts, unknown_services, without_zones
from zoneward.routing.phrases import counted, listed

ServiceParts = Mapping[ObjectKey, Mapping[str, Fraction]]
"""The parts of zones in the traffic of single Services."""
SOURCES: Final[tuple[str, ...]] = get_args(DemandSource)
_Found = TypeVar("_Found")
NO_PARTS: Final[ServiceParts] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class KnownDemand:
    """The configuration with the demand of all Services, and the parts of zones in the traffic of single ones."""

    configuration: Configuration
    service_parts: ServiceParts
    notes: tuple[Note, ...]


def choose_demand(value: str, configured: DemandSettings) -> DemandSettings:
    """One of `SOURCES`, with its settings in the configuration; a file, ``-`` or the URL of a document, which is not
    read yet; or the address of a Prometheus, which is not asked yet. Raises InputError.
    """
    if value in SOURCES:
        for source, needed in (("file", configured.file), ("prometheus", configured.prometheus)):
            if value == source and needed is None:
                raise InputError("--demand", f"expected demand.{source} in the file of --config with it, got none")
        chosen = structs.replace(configured, source=value)
        return chosen if chosen.has_figures else DemandSettings(source=chosen.source)
    if is_url(value):
        prometheus = prometheus_at(value, option="--demand")
        if prometheus is not None:
            return DemandSettings(source="prometheus", prometheus=prometheus)
    elif value != STDIN and not Path(value).exists():
        expected = (
            f"expected {', '.join(SOURCES)}, a file, or http://HOST:PORT of a Prometheus,"
            f" got {without_password(value)!r}"
        )
        raise InputError("--demand", expected + did_you_mean(value, SOURCES))
    return DemandSettings(source="file", file=value)


def prometheus_at(url: str, *, option: str) -> PrometheusSettings | None:
    """The Prometheus at a URL; None for the URL of a document. Raises InputError."""
    try:
        address = prometheus_url(url)
    except ValueError as error:
        raise InputError(option, str(error)) from None
    return None if address is None else PrometheusSettings(url=address)


def know_demand(
    configuration: Configuration,
    *,
    nodes: Collection[str] | None = None,
    zones: Collection[str] | None = None,
    services: Collection[ObjectKey] | None = None,
) -> KnownDemand:
    """Read the file or ask the Prometheus of the configuration; without either, nothing is read.

    ``nodes``: the names of the cluster's Nodes: only what their programs counted counts. ``zones`` of its Nodes and
    its ``services`` show what is unknown there. None: nobody knows them yet. Raises InputError where nothing useful
    came, and for a zone in a file that no Node is in.
    """
    settings, source_name, figures = configuration.demand, "", None
    if settings.source == "file":
        read = read_demand_file(settings.file or "", nodes=nodes)
        source_name = STDIN_NAME if settings.file == STDIN else without_password(settings.file or "")
        if isinstance(read, DemandFigures):
            figures = read
        else:
            settings = structs.replace(settings, zones=read)
            configuration = structs.replace(configuration, demand=settings)
        if zones is not None:
            _check_zones(settings, figures, zones, source_name)
    elif settings.source == "prometheus":
        from zoneward.client.prometheus import Prometheus

        assert settings.prometheus is not None
        source_name = str(settings.prometheus)
        figures = ask_prometheus(Prometheus(settings.prometheus).read_demand(nodes=nodes))
    if figures is None:
        return KnownDemand(configuration, NO_PARTS, tuple(map(Note, _describe_demand(settings))))
    if zones is not None:
        figures = without_zones(figures, known=zones)
    parts = service_parts(figures)
    return KnownDemand(configuration, parts, tuple(_notes(settings, figures, parts, services, source_name)))


def ask_prometheus(question: Coroutine[Any, Any, _Found]) -> _Found:
    """What a Prometheus answers. Raises InputError."""
    import asyncio

    from zoneward.client.prometheus import PrometheusUnavailable

    try:
        return asyncio.run(question)
    except PrometheusUnavailable as error:
        raise InputError(str(error)) from error


def _check_zones(
    settings: DemandSettings, figures: DemandFigures | None, zones: Collection[str], source_name: str
) -> None:
    if figures is not None:
        named = {zone: f"{key[0]}/{key[1]}" for key, amounts in figures.amounts.items() for zone in amounts}
    else:
        named = {zone: "" for zone, _ in settings.zones}
    known = sorted(set(zones))
    for zone, service in sorted(named.items()):
        if zone not in known:
            expected = f"expected zones of Nodes ({listed(tuple(known)) or 'there are none'}), got {zone!r}"
            raise InputError(source_name, service, expected + did_you_mean(zone, known))


def _notes(
    settings: DemandSettings,
    figures: DemandFigures,
    parts: ServiceParts,
    services: Collection[ObjectKey] | None,
    source_name: str,
) -> Iterator[Note]:
    if services is None:
        of_all = counted(len(parts), "Service")
    else:
        of_all = f"{sum(key in parts for key in services):,} of {counted(len(services), 'Service')}"
    others = "as it was set" if settings.zones else "by CPU"
    yield Note(f"demand of {of_all} from {source_name}; {others} for the others")
    yield from map(Note, figures.notes)
    unknown = () if services is None else unknown_services(figures, known=services)
    if unknown:
        named = listed(tuple(f"{namespace}/{name}" for namespace, name in unknown))
        was, is_not = ("was", "is not") if len(unknown) == 1 else ("were", "are not")
        skipped = f"{counted(len(unknown), 'Service')} {was} skipped"
        text = f"{source_name}: {skipped} that {is_not} in the cluster as it was read ({named})"
        # A Prometheus has the figures of all namespaces, whichever are asked for here.
        yield Note(text, verbose=settings.source == "prometheus")


def _describe_demand(settings: DemandSettings) -> Iterator[str]:
    """What is assumed of the demand of all Services, where it is not CPU."""
    if settings.zones:
        whole = sum((part for _, part in settings.zones), Fraction(0))
        yield f"demand as it was set: {', '.join(f'{zone} {float(part / whole):.0%}' for zone, part in settings.zones)}"
        if not Fraction(999, 1000) <= whole <= Fraction(1001, 1000):
            yield f"the parts of demand add up to {float(whole):g}, and count in proportion"
    elif settings.source == "nodes":
        yield "demand in proportion to the number of nodes in each zone, not to their CPU"
    elif settings.source == "even":
        yield "the same demand in every zone, with any CPU"


# --- files ------------------------------------------------------------------------------------------------------------


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


def read_demand_file(name: str, *, nodes: Collection[str] | None = None) -> Parts | DemandFigures:
    """What a file says: CSV, YAML, JSON, or what proxies and meters measured (also a directory of it, or the URL where
    they serve it), on ``nodes`` as `documents_of`. Raises InputError.
    """
    if is_url(name):
        from zoneward.snapshots.measured_traffic_files import read_measured

        return _from_documents(without_password(name), read_measured([name], stdin=None), nodes)
    if name.lower().endswith(".csv"):
        parts = _from_csv(name)
    elif Path(name).is_dir():
        from zoneward.snapshots.measured_traffic_files import read_measured

        return _from_documents(name, read_measured([name], stdin=None), nodes)
    else:
        data = load(name, stdin=sys.stdin.buffer)
        name = STDIN_NAME if name == STDIN else name
        text = decode_text(name, data)
        if text.lstrip().startswith(b"{") and _MEASURED in text:
            from zoneward.snapshots.measured_traffic_files import read_measured_traffic

            return _from_documents(name, read_measured_traffic(name, text), nodes)
        if len(text) > _MOST_MIB << 20:
            raise InputError(name, f"expected a {_WHAT}, got more than {_MOST_MIB} MiB")
        parts = _from_yaml(name, bytes(text))
    if isinstance(parts, DemandFigures):
        if not any(amount for zones in parts.amounts.values() for amount in zones.values()):
            raise InputError(name, "expected an amount above 0 for a Service, got none")
    elif not any(part for _, part in parts):
        raise InputError(name, "expected a part above 0 for a zone, got none")
    return parts


def documents_of(
    nodes: Collection[str] | None, documents: Iterable[MeasuredTraffic], source: str
) -> tuple[tuple[MeasuredTraffic, ...], tuple[str, ...]]:
    """The documents of ``nodes``, of all with None or none, and notes on others: the Node that replaced another one
    sends its traffic. Raises InputError where none remains."""
    documents = tuple(documents)
    unknown = tuple(sorted({document.node for document in documents} - {*nodes})) if nodes else ()
    if not unknown:
        return documents, ()
    known = tuple(document for document in documents if document.node not in unknown)
    if not known:
        expected = "expected documents of Nodes of this cluster, got none"
        raise InputError(source, f"{expected}: {unknown[0]} is no Node of it")
    return known, (f"not counted: {counted(len(unknown), 'measured node')} not in the cluster: {listed(unknown)}",)


def _from_documents(name: str, documents: Iterable[MeasuredTraffic], nodes: Collection[str] | None) -> DemandFigures:
    from zoneward.routing.selection.traffic import combine_measurements, demand_figures

    documents, notes = documents_of(nodes, documents, name)
    measurements = combine_measurements(documents)
    if measurements is None:
        raise InputError(name, f"expected a document of kind {KIND}, got none")
    figures = demand_figures(measurements)
    if not figures.amounts:
        raise InputError(name, "; ".join(("expected connections from a zone to a Service, got none", *figures.notes)))
    return replace(figures, notes=(*figures.notes, *notes))


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
        return _csv_parts(file, lines if is_heading or not heading else chain([first], lines))
    except csv.Error as error:
        raise InputError(file, f"expected CSV: {error}") from error


_Lines = Iterable[tuple[int, list[str]]]


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
