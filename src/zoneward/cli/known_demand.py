"""Where traffic is expected to start: what ``--demand`` chooses, and what a file or a Prometheus says of it."""

from collections.abc import Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

from msgspec import structs

from zoneward.cli.output import Note
from zoneward.kube.demand import DemandFigures
from zoneward.kube.input_error import InputError, did_you_mean
from zoneward.kube.input_files import STDIN, STDIN_NAME
from zoneward.kube.objects import ObjectKey
from zoneward.kube.prometheus_settings import PrometheusSettings, is_url, prometheus_url
from zoneward.kube.safe_text import without_password
from zoneward.routing.configuration import Configuration, DemandSettings, DemandSource
from zoneward.routing.demand import service_parts, unknown_services, without_zones
from zoneward.routing.phrases import counted, listed

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig

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
        try:
            url = prometheus_url(value)
        except ValueError as error:
            raise InputError("--demand", str(error)) from None
        if url is not None:
            return DemandSettings(source="prometheus", prometheus=PrometheusSettings(url=url))
    elif value != STDIN and not Path(value).exists():
        expected = (
            f"expected {', '.join(SOURCES)}, a file, or http://HOST:PORT of a Prometheus,"
            f" got {without_password(value)!r}"
        )
        raise InputError("--demand", expected + did_you_mean(value, SOURCES))
    return DemandSettings(source="file", file=value)


def know_demand(
    configuration: Configuration,
    *,
    nodes: Collection[str] | None = None,
    zones: Collection[str] | None = None,
    services: Collection[ObjectKey] | None = None,
) -> KnownDemand:
    """Read the file or ask the Prometheus of the configuration; without either, nothing is read.

    ``nodes``: the names of the cluster's Nodes: of a Prometheus only their programs count. ``zones`` of its Nodes and
    its ``services`` show what is unknown there. None: nobody knows them yet. Raises InputError where nothing useful
    came, and for a zone in a file that no Node is in.
    """
    settings, source_name, figures = configuration.demand, "", None
    if settings.source == "file":
        from zoneward.cli.demand_file import read_demand_file

        read = read_demand_file(settings.file or "")
        source_name = STDIN_NAME if settings.file == STDIN else without_password(settings.file or "")
        if isinstance(read, DemandFigures):
            figures = read
        else:
            settings = structs.replace(settings, zones=read)
            configuration = structs.replace(configuration, demand=settings)
        if zones is not None:
            _check_zones(settings, figures, zones, source_name)
    elif settings.source == "prometheus":
        source_name, figures = str(settings.prometheus), _ask_for_demand(settings, nodes)
    if figures is None:
        return KnownDemand(configuration, NO_PARTS, tuple(map(Note, _describe_demand(settings))))
    if zones is not None:
        figures = without_zones(figures, known=zones)
    parts = service_parts(figures)
    return KnownDemand(configuration, parts, tuple(_notes(settings, figures, parts, services, source_name)))


def know_cluster_demand(configuration: Configuration, access: "ClientConfig") -> KnownDemand:
    """As `know_demand`, before anything else of a running cluster is read: it lists the Nodes where they matter."""
    if configuration.demand.source != "prometheus":
        return know_demand(configuration)
    import asyncio
    from datetime import UTC, datetime

    from zoneward.client.api_errors import CallFailed
    from zoneward.client.error_messages import to_input_error
    from zoneward.client.list_pager import list_all
    from zoneward.client.resources import NODES
    from zoneward.client.transport import Transport

    async def read() -> set[str]:
        names: set[str] = set()
        async with Transport(access) as transport:
            nodes = await list_all(transport, NODES, on_unreadable=lambda node: names.add(node.name))
        return names | {node.metadata.name for node in nodes}

    try:
        return know_demand(configuration, nodes=asyncio.run(read()))
    except CallFailed as error:
        raise to_input_error(error, access, now=datetime.now(UTC)) from error


def _ask_for_demand(settings: DemandSettings, nodes: Collection[str] | None) -> DemandFigures:
    from zoneward.client.prometheus import Prometheus

    assert settings.prometheus is not None
    return ask_prometheus(Prometheus(settings.prometheus).read_demand(nodes=nodes))


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
