"""Where traffic is expected to start: what ``--demand`` chooses, and what a file or a Prometheus says of it."""

from collections.abc import Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

from msgspec import structs

from zoneward.cli.output import Note
from zoneward.kube.demand_figures import DemandFigures
from zoneward.kube.input_error import InputError
from zoneward.kube.input_files import STDIN, STDIN_NAME
from zoneward.kube.near_names import did_you_mean
from zoneward.kube.objects import ObjectKey
from zoneward.kube.prometheus_settings import PrometheusSettings, is_url, prometheus_url
from zoneward.kube.safe_text import without_password
from zoneward.routing.configuration import Configuration, DemandSettings, DemandSource
from zoneward.routing.phrases import counted, listed
from zoneward.routing.service_demand import service_parts, unknown_services, without_zones

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig

ServiceParts = Mapping[ObjectKey, Mapping[str, Fraction]]
"""The parts of zones in the traffic of single Services."""
SOURCES: Final[tuple[str, ...]] = get_args(DemandSource)
_Found = TypeVar("_Found")
NO_PARTS: Final[ServiceParts] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FoundDemand:
    """What a source said, before anything of the cluster is known: parts of zones for all Services (then they stand in
    the configuration), or figures of single Services. ``source_name`` is what messages call the source.
    """

    configuration: Configuration
    source_name: str = ""
    figures: DemandFigures | None = None


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


def find_demand(configuration: Configuration, *, nodes: Collection[str] | None = None) -> FoundDemand:
    """Read the file or ask the Prometheus of the configuration; without either, nothing is read. ``nodes``: the names
    of the cluster's Nodes, where they are known: of a Prometheus only their programs count. Raises InputError where
    nothing useful came.
    """
    settings = configuration.demand
    if settings.source == "file":
        from zoneward.cli.demand_file import read_demand_file

        read = read_demand_file(settings.file or "")
        name = STDIN_NAME if settings.file == STDIN else without_password(settings.file or "")
        if isinstance(read, DemandFigures):
            return FoundDemand(configuration, name, read)
        return FoundDemand(structs.replace(configuration, demand=structs.replace(settings, zones=read)), name)
    if settings.source == "prometheus":
        return FoundDemand(configuration, str(settings.prometheus), _ask_for_demand(settings, nodes))
    return FoundDemand(configuration)


def find_cluster_demand(configuration: Configuration, access: "ClientConfig") -> FoundDemand:
    """As `find_demand`, before anything else of a running cluster is read: it lists the Nodes where they matter."""
    if configuration.demand.source != "prometheus":
        return find_demand(configuration)
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
        return find_demand(configuration, nodes=asyncio.run(read()))
    except CallFailed as error:
        raise to_input_error(error, access, now=datetime.now(UTC)) from error


def know_demand(
    read: FoundDemand, *, zones: Collection[str] | None = None, services: Collection[ObjectKey] | None = None
) -> KnownDemand:
    """What a source means for a cluster. ``zones`` of its Nodes and its ``services`` show what is unknown there; None:
    nobody knows them yet. Raises InputError for a zone in a file that no Node is in.
    """
    settings, figures = read.configuration.demand, read.figures
    if settings.source == "file" and zones is not None:
        _check_zones(read, zones)
    if figures is None:
        return KnownDemand(read.configuration, NO_PARTS, tuple(map(Note, _describe_demand(settings))))
    if zones is not None:
        figures = without_zones(figures, known=zones)
    parts = service_parts(figures)
    return KnownDemand(read.configuration, parts, tuple(_notes(read, figures, parts, services)))


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


def _check_zones(read: FoundDemand, zones: Collection[str]) -> None:
    if read.figures is not None:
        named = {zone: f"{key[0]}/{key[1]}" for key, amounts in read.figures.amounts.items() for zone in amounts}
    else:
        named = {zone: "" for zone, _ in read.configuration.demand.zones}
    known = sorted(set(zones))
    for zone, service in sorted(named.items()):
        if zone not in known:
            expected = f"expected zones of Nodes ({listed(tuple(known)) or 'there are none'}), got {zone!r}"
            raise InputError(read.source_name, service, expected + did_you_mean(zone, known))


def _notes(
    read: FoundDemand, figures: DemandFigures, parts: ServiceParts, services: Collection[ObjectKey] | None
) -> Iterator[Note]:
    settings, source_name = read.configuration.demand, read.source_name
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
