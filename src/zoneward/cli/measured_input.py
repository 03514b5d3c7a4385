"""``--measured`` and ``--window``: what nodes measured, from files, from nodes, and from Prometheus; with its prices,
and the Services that were measured."""

import sys
from collections.abc import Collection
from dataclasses import replace
from typing import Final

import click
from msgspec import structs

from zoneward.advice.honored_traffic import NodeTraffic, node_traffic
from zoneward.advice.measured_flows import MeasuredFlows, ServiceFamily, measure_flows
from zoneward.advice.prices import Charge, PairPrices, Prices, with_price
from zoneward.cli.known_demand import ask_prometheus, documents_of, prometheus_at
from zoneward.cli.options import PROMETHEUS, Options
from zoneward.cli.output import Note
from zoneward.cli.planned_services import SelectedServices
from zoneward.kube.demand import MeasuredTraffic
from zoneward.kube.input_error import ConfigurationError, InputError
from zoneward.kube.objects import node_region, node_zone
from zoneward.kube.prometheus_settings import PrometheusSettings, is_url, parse_window, window_text
from zoneward.routing.demand import zone_regions
from zoneward.routing.phrases import counted, listed
from zoneward.snapshots.measured_traffic_files import read_measured, read_measured_traffic

_PRICE_OF_SAMPLE: Final = "0.01USD"


def read_measured_input(
    selected: SelectedServices,
) -> tuple[tuple[MeasuredTraffic, ...], tuple[Note, ...]]:
    """All documents of the options, in the order given, and notes; none without a source. Only those of the cluster's
    Nodes count: the Node that replaced another one sends its traffic. Raises InputError or a usage error."""
    options, nodes = selected.options, (selected.unchanged or selected).snapshot.node_names
    servers = {
        source: settings for source in options.measured_in if (settings := _prometheus(source, options)) is not None
    }
    if options.window is not None and not servers:
        raise click.UsageError(f"--window: expected --measured {PROMETHEUS} or the URL of a Prometheus with it")
    documents: list[MeasuredTraffic] = []
    notes: list[Note] = []
    for source in options.measured_in:
        if source not in servers:
            documents += read_measured([source], stdin=sys.stdin.buffer)
            continue
        try:
            answer, more = _ask(servers[source], nodes)
        except InputError as error:
            if not source.startswith("http"):
                raise
            raise InputError(f"{error}; a meter or a proxy has {servers[source].server}/measured") from error
        documents += answer
        notes += more
    of_nodes, unknown = documents_of(nodes, documents, "--measured")
    return of_nodes, (*notes, *map(Note, unknown))


def _prometheus(source: str, options: Options) -> PrometheusSettings | None:
    """None for a file and for the URL of a document."""
    from zoneward.cli.configuration_file import read_configuration

    if source == PROMETHEUS:
        file = None if options.config is None else read_configuration(options.config)
        settings = None if file is None else file.configuration.demand.prometheus
        if settings is None:
            expected = "demand.prometheus in the file of --config with it, or the URL of one instead"
            raise InputError("--measured", f"expected {expected}, got neither")
    else:
        settings = prometheus_at(source, option="--measured") if is_url(source) else None
    if settings is None or options.window is None:
        return settings
    try:
        return structs.replace(settings, window=parse_window(options.window))
    except ValueError as error:
        raise InputError("--window", str(error)) from None


def _ask(settings: PrometheusSettings, nodes: Collection[str] | None) -> tuple[tuple[MeasuredTraffic, ...], list[Note]]:
    from zoneward.client.prometheus import Prometheus
    from zoneward.client.prometheus_traffic import read_traffic

    answer = ask_prometheus(read_traffic(Prometheus(settings), nodes=nodes))
    of_what = (
        f"{counted(len(answer.documents), 'node')} from {settings.server}, the last {window_text(settings.window)}"
    )
    return answer.documents, [Note(f"measured traffic of {of_what}"), *map(Note, answer.notes)]


# --- for report and advise --------------------------------------------------------------------------------------------


def read_prices(options: Options) -> Prices:
    """The prices of the configuration with those of the options. Raises InputError."""
    from zoneward.cli.configuration_file import read_configuration

    prices = Prices() if options.config is None else read_configuration(options.config).prices
    try:
        return with_price(prices, options.price_per_gb, options.charge)
    except ConfigurationError as error:
        raise InputError("--price-per-gb", str(error)) from error


def read_measured_services(
    selected: SelectedServices, prices: Prices
) -> tuple[SelectedServices, MeasuredFlows | None, Prices, tuple[Note, ...]]:
    """The Services that were measured, with their demand, what was measured, the prices, and notes; all Services and
    None where nothing was. Raises InputError or a usage error."""
    options = selected.options
    documents, notes = read_measured_input(selected)
    if options.sample and not options.measured_in:
        documents, prices, more = _measured_of_sample(prices, options.charge)
        notes += more
    measured = measure_flows(documents)
    if measured is None:
        return selected, None, prices, notes
    _check_prices(selected, prices)
    selected, left_out = _select_measured(selected, measured)
    return selected, measured, prices, (*notes, *map(Note, left_out))


def pair_prices_of(selected: SelectedServices, measured: MeasuredFlows, prices: Prices) -> PairPrices | None:
    """The prices between zones; None without any, or without bytes."""
    if not (measured.has_bytes and prices):
        return None
    return PairPrices(prices, zone_regions(selected.snapshot.nodes, selected.cluster_state.demand))


def node_traffic_of(
    selected: SelectedServices, measured: MeasuredFlows
) -> dict[ServiceFamily, tuple[NodeTraffic, ...]]:
    """Where the connections from each node went, and where the slices of the cluster should send them."""
    services = {(service.metadata.namespace, service.metadata.name): service for service in selected.services}
    return {
        key: node_traffic(
            service,
            key[2],
            connections,
            zone_of=measured.zone_of,
            slices=selected.snapshot.slices_of(service),
            cluster_state=selected.cluster_state,
        )
        for key, connections in measured.connections.items()
        if (service := services.get(key[:2])) is not None
    }


def _measured_of_sample(
    prices: Prices, charge: Charge | None
) -> tuple[tuple[MeasuredTraffic, ...], Prices, tuple[Note, ...]]:
    """What comes with the sample cluster: documents, and an example price, with a note, where there is no price."""
    from zoneward.sample import measured

    documents = tuple(read_measured_traffic("the sample", measured().read_bytes()))
    if prices:
        return documents, prices, ()
    note = Note(f"an example price of {_PRICE_OF_SAMPLE} a GB (override with --price-per-gb)")
    return documents, with_price(prices, _PRICE_OF_SAMPLE, charge), (note,)


def _check_prices(selected: SelectedServices, prices: Prices) -> None:
    """Raises InputError for prices of unknown places."""
    nodes = selected.snapshot.nodes
    zones = [zone for node in nodes if (zone := node_zone(node))]
    regions = [region for node in nodes if (region := node_region(node))]
    try:
        prices.check_places(zones, regions)
    except ConfigurationError as error:
        raise InputError(selected.options.config or "prices", str(error)) from error


def _select_measured(selected: SelectedServices, measured: MeasuredFlows) -> tuple[SelectedServices, tuple[str, ...]]:
    """The Services that were measured, with their demand; and notes on the others.

    Zoneward decides by the demand that options or the configuration choose, else by the measured one, as its controller
    can.
    """
    state = selected.states.zoneward
    parts = measured.demand_parts(state.by_cpu)
    services = tuple(
        service for service in selected.services if (service.metadata.namespace, service.metadata.name) in parts
    )
    notes = []
    known = {(service.metadata.namespace, service.metadata.name) for service in selected.snapshot.services}
    unknown = tuple(f"{namespace}/{name}" for namespace, name in sorted(parts.keys() - known))
    if unknown:
        notes.append(f"{counted(len(unknown), 'measured Service')} not in the input, and left out: {listed(unknown)}")
    zones = {node.zone for node in state.demand.nodes}
    strange = tuple(sorted({zone for own in parts.values() for zone in own} - zones))
    if strange:
        notes.append(f"measured zones without a ready Node, where nothing is predicted: {listed(strange)}")
    left_out = {(service.metadata.namespace, service.metadata.name) for service in selected.services} - parts.keys()
    zoneless = left_out & {(namespace, name) for namespace, name, _ in measured.services}
    if zoneless:
        notes.append(f"{counted(len(zoneless), 'Service')} left out: no measured traffic starts in a known zone")
    if left_out - zoneless:
        notes.append(f"{counted(len(left_out - zoneless), 'Service')} without measured traffic left out")
    settings = state.configuration.demand
    is_chosen = selected.options.demand is not None or settings.source != "cpu" or bool(settings.zones)
    states = selected.states.with_parts(measured=parts, known=state.service_parts if is_chosen else parts)
    return replace(selected, states=states, services=services), tuple(notes)
