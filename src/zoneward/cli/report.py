"""``zoneward report``: what traffic between zones costs, now and with each setting, by what nodes measured."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, get_args

import click

from zoneward.advice.prices import Charge
from zoneward.cli.cluster_completion import complete_approaches
from zoneward.cli.measured_input import measured_options, read_measured_input
from zoneward.cli.options import Options, planning_options
from zoneward.cli.output import Note, print_notes, print_table
from zoneward.kube.input_error import ConfigurationError, InputError

if TYPE_CHECKING:
    from zoneward.advice.honored_traffic import NodeTraffic
    from zoneward.advice.measured_flows import MeasuredFlows, ServiceFamily
    from zoneward.advice.prices import Prices
    from zoneward.advice.traffic_report import ReportTotals, ServiceReport, TrafficReport
    from zoneward.cli.compared_services import ComparisonRequest
    from zoneward.cli.planned_services import SelectedServices
    from zoneward.kube.measured_traffic import MeasuredTraffic

_TOP_ON_TERMINAL: Final = 20
_PRICE_OF_SAMPLE: Final = "0.01USD"


@click.command("report")
@planning_options(what_if=False)
@measured_options("What nodes counted; with --sample by default what comes with it")
@click.option("--price-per-gb", metavar="PRICE", help="What a GB (10^9 bytes) between zones costs, such as 0.01USD.")
@click.option(
    "--charge",
    type=click.Choice(get_args(Charge)),
    help="one: a GB is charged once, where it leaves its zone. both: there, and again where it"
    " arrives. Requests and responses count in any case.  [default: one]",
)
@click.option(
    "--only",
    "only",
    multiple=True,
    metavar="NAME[,NAME...]",
    help="Predict only for these approaches and algorithms.",
    shell_complete=complete_approaches,
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Show only the Services that save the most; 0 shows all.  [default: 20 for a table on a terminal, else 0]",
)
@click.option("-o", "--output", type=click.Choice(["table", "json", "csv", "html"]), default="table", show_default=True)
def command(
    *,
    options: Options,
    measured_in: tuple[str, ...],
    window: str | None,
    price_per_gb: str | None,
    charge: Charge | None,
    only: tuple[str, ...],
    top: int | None,
    output: str,
) -> None:
    """Show how much traffic leaves its zone and what that costs in a month: now, as nodes measured it, and with each
    setting, as predicted for this traffic; what that saves, and which Services it would overload. Nodes that do not do
    what is predicted are named. It only reads.

    \b
    zoneward report --sample
    zoneward report -f cluster.json --measured measured/ --price-per-gb 0.01USD
    zoneward report -A --measured prometheus+http://prometheus.monitoring.svc:9090 --window 24h
    zoneward report -A --measured http://10.0.0.7:10274/measured --charge both
    zoneward report -f cluster.json --measured measured/ -o html >report.html
    """
    from zoneward.advice.measured_flows import measure_flows
    from zoneward.advice.prices import with_price
    from zoneward.advice.traffic_report import ReportTotals, ranked
    from zoneward.cli.compared_services import chosen_approaches, read_request

    options.changes.refuse("expected a cluster as it is: traffic was measured in this one")
    if options.upstream and options.demand is not None:
        raise click.UsageError("--demand: expected none with --compat upstream: Kubernetes decides by CPU")
    if top is None:
        top = _TOP_ON_TERMINAL if output == "table" and sys.stdout.isatty() else 0
    prices = _prices(options, price_per_gb, charge)
    if not measured_in and not options.sample:
        raise click.UsageError("Missing option '--measured'.")
    request = read_request(options, chosen_approaches(only, options))
    nodes = request.selected.snapshot.node_names
    documents, measured_notes = read_measured_input(measured_in, window, options, nodes=nodes)
    if not measured_in:
        documents = _measured_of_sample()
        if not prices:
            prices = with_price(prices, _PRICE_OF_SAMPLE, charge)
            measured_notes += (Note(f"an example price of {_PRICE_OF_SAMPLE} a GB (override with --price-per-gb)"),)
    measured = measure_flows(documents)
    assert measured is not None, "there is at least one document"
    _check(request.selected, prices, measured, options)
    request, notes = _with_demand(request, measured, options)
    print_notes(options, [*request.selected.notes, *measured_notes, *map(Note, notes)])
    totals = ReportTotals()
    report = _report(request, prices, measured, totals)
    services = _services(request, report, options)
    if output == "csv":
        from zoneward.report.traffic_json import report_csv

        # All of them come one after the other.
        for line in report_csv(ranked(services)[:top] if top else services, report):
            sys.stdout.buffer.write(line.encode())
        return
    reported = []
    for service in services:
        totals.add(service)
        reported.append(service)
    first = ranked(reported)
    report = replace(
        report,
        services=first[:top] if top else first,
        node_traffic=_node_traffic(request.selected, measured),
    )
    if output == "json":
        from zoneward.advice.json_value import to_json
        from zoneward.report.traffic_json import report_document

        sys.stdout.buffer.write(to_json(report_document(report)))
    elif output == "html":
        from zoneward.report.traffic_page import traffic_page

        sys.stdout.buffer.write(traffic_page(report, request.abilities).encode())
    else:
        from zoneward.report.traffic_table import traffic_parts

        print_table(options, traffic_parts(report, request.abilities))


def _measured_of_sample() -> "tuple[MeasuredTraffic, ...]":
    from zoneward.sample import measured
    from zoneward.snapshots.measured_traffic_files import read_measured_traffic

    return tuple(read_measured_traffic("the sample", measured().read_bytes()))


def _prices(options: Options, per_gb: str | None, charge: Charge | None) -> "Prices":
    """Raises InputError."""
    from zoneward.advice.prices import Prices, with_price
    from zoneward.cli.configuration_file import read_configuration

    prices = Prices() if options.config is None else read_configuration(options.config).prices
    try:
        return with_price(prices, per_gb, charge)
    except ConfigurationError as error:
        raise InputError("--price-per-gb", str(error)) from error


def _check(selected: "SelectedServices", prices: "Prices", measured: "MeasuredFlows", options: Options) -> None:
    """Raises InputError for prices of unknown places, and for documents of another cluster."""
    from zoneward.kube.objects import node_region, node_zone

    nodes = selected.snapshot.nodes
    zones = [zone for node in nodes if (zone := node_zone(node))]
    regions = [region for node in nodes if (region := node_region(node))]
    try:
        prices.check_places(zones, regions)
    except ConfigurationError as error:
        raise InputError(options.config or "prices", str(error)) from error
    if nodes and not measured.zone_of.keys() & {node.metadata.name for node in nodes}:
        got = min(measured.zone_of)
        raise InputError("--measured", f"expected documents of Nodes of this cluster, got none: {got} is no Node of it")


def _with_demand(
    request: "ComparisonRequest", measured: "MeasuredFlows", options: Options
) -> "tuple[ComparisonRequest, tuple[str, ...]]":
    """The Services that were measured, with their demand; and notes on the others.

    Zoneward decides by the demand that options or the configuration choose, else by the measured one, as its controller
    can.
    """
    from zoneward.routing.phrases import counted, listed

    selected = request.selected
    state = selected.cluster_state
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
    is_chosen = options.demand is not None or settings.source != "cpu" or bool(settings.zones)
    state = replace(state, measured_parts=parts, service_parts=state.service_parts if is_chosen else parts)
    return replace(request, selected=replace(selected, cluster_state=state, services=services), flows=True), tuple(
        notes
    )


def _report(
    request: "ComparisonRequest", prices: "Prices", measured: "MeasuredFlows", totals: "ReportTotals"
) -> "TrafficReport":
    """Without Services yet."""
    from zoneward.advice.traffic_report import Coverage, TrafficReport

    return TrafficReport(
        services=(),
        totals=totals,
        measured=measured,
        coverage=Coverage.of(measured, request.selected.cluster_state.by_cpu),
        prices=prices,
        node_traffic={},
    )


def _services(request: "ComparisonRequest", report: "TrafficReport", options: Options) -> "Iterator[ServiceReport]":
    """One after the other, in the order of the request."""
    from zoneward.advice.prices import PairPrices
    from zoneward.advice.traffic_report import report_service
    from zoneward.cli.compared_services import compare_services

    measured = report.measured
    prices = None
    if report.currency is not None:
        prices = PairPrices(report.prices, dict(request.selected.cluster_state.demand.regions))
    threshold = float(request.selected.configuration.hints.keep_threshold)
    for recommendation in compare_services(request, options):
        comparison = recommendation.comparison
        service = measured.services.get((comparison.namespace, comparison.service, comparison.address_type))
        if service is not None:
            yield report_service(service, recommendation, prices=prices, keep_threshold=threshold)


def _node_traffic(
    selected: "SelectedServices", measured: "MeasuredFlows"
) -> "dict[ServiceFamily, tuple[NodeTraffic, ...]]":
    from zoneward.advice.honored_traffic import node_traffic

    services = {(service.metadata.namespace, service.metadata.name): service for service in selected.services}
    return {
        key: node_traffic(
            service,
            key[2],
            flows.connections,
            zone_of=measured.zone_of,
            slices=selected.snapshot.slices_of(service),
            cluster_state=selected.cluster_state,
        )
        for key, flows in measured.services.items()
        if (service := services.get(key[:2])) is not None
    }
