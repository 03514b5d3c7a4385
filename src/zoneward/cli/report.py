"""``zoneward report``: what traffic between zones costs, now and with each setting, by what nodes measured."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from zoneward.cli.options import (
    GroupedCommand,
    Options,
    measured_options,
    only_option,
    output_option,
    planning_options,
    price_options,
    row_options,
)
from zoneward.cli.output import page_source, print_json, print_notes, print_table, write

if TYPE_CHECKING:
    from zoneward.advice.prices import Prices
    from zoneward.advice.traffic_report import ServiceReport, TrafficReport
    from zoneward.cli.compare import ComparisonRequest
    from zoneward.kube.objects import Service

_TOP_ON_TERMINAL: Final = 20


@click.command("report", cls=GroupedCommand)
@planning_options(what_if=False, changes=False, fleet=True)
@measured_options("What nodes counted; with --sample by default what comes with it")
@price_options
@only_option("Predict only for these approaches and algorithms.")
@row_options(
    ("saved", "name", "in-zone", "overload"),
    sort_help="saved: what the best setting saves.  [default: saved]",
    top_help="20 for a table on a terminal, else 0",
    changed_help="for which a setting saves something",
)
@click.option(
    "--details",
    is_flag=True,
    help="Show all settings for each Service. By default so where Services are named, else a line for each.",
)
@output_option("table|json|csv|html")
def command(
    *,
    options: Options,
    only: tuple[str, ...],
    sort: str | None,
    top: int | None,
    changed: bool,
    details: bool,
    output: str,
) -> int:
    """Show how much traffic leaves its zone and what that costs in a month: now, as nodes measured it, and with each
    setting, as predicted for this traffic; what that saves, and which Services it would overload. Nodes that do not do
    what is predicted are named. It only reads.

    \b
    zoneward report --sample
    zoneward report -f cluster.json --measured measured/ --price-per-gb 0.01USD
    zoneward report -A --measured prometheus+http://prometheus.monitoring.svc:9090 --window 24h
    zoneward report -A --measured http://10.0.0.7:10274/measured --charge both
    zoneward report -A --context eu-1 --context us-1 --measured http://prometheus.example:9090
    zoneward report -f cluster.json --measured measured/ -o html >report.html
    """
    from zoneward.advice.comparison import first_services
    from zoneward.advice.traffic_report import ranked
    from zoneward.cli.compare import chosen_approaches
    from zoneward.cli.measured_input import read_prices

    if options.upstream and options.demand is not None:
        raise click.UsageError("--demand: expected none with --compat upstream: Kubernetes decides by CPU")
    if top is None:
        top = _TOP_ON_TERMINAL if output == "table" and sys.stdout.isatty() else 0
    prices = read_prices(options)
    if not options.measured_in and not options.sample:
        raise click.UsageError("Missing option '--measured'.")
    approaches = chosen_approaches(only, options)

    def chosen(services: "Iterable[ServiceReport]") -> "list[ServiceReport]":
        rows = [service for service in ranked(services) if not changed or service.gain > 0]
        ordered = sorted(rows, key=_ORDERS[sort]) if sort in _ORDERS else rows
        return first_services(ordered, top, lambda service: service.key)

    def begin(one: Options) -> "tuple[ComparisonRequest, TrafficReport]":
        return _begin(one, approaches, prices)

    if len(options.contexts) > 1:
        from zoneward.cli.fleet import show_fleet
        from zoneward.report.fleet_tables import report_table
        from zoneward.report.traffic_json import report_document

        def work(one: Options) -> "TrafficReport":
            request, report = begin(one)
            return _complete(request, report, _services(request, report, one), chosen)

        return show_fleet(options, work, "Report", output, table_of=report_table, fields_of=report_document)
    request, report = begin(options)
    services = _services(request, report, options)
    if output == "csv":
        from zoneward.report.traffic_json import report_csv

        # All of them come one after the other.
        for line in report_csv(chosen(services) if top or changed or sort else services, report):
            write(line)
        return 0
    report = _complete(request, report, services, chosen)
    if output == "json":
        from zoneward.report.traffic_json import report_document

        print_json("Report", report_document(report))
    elif output == "html":
        from zoneward.report.traffic_page import traffic_page

        write(traffic_page(report, request.abilities, source=page_source(options), only_changed=changed))
    else:
        from zoneward.report.traffic_table import traffic_parts

        has_details = details or bool(options.services)
        parts = traffic_parts(report, request.abilities, has_details=has_details, only_changed=changed)
        print_table(options, parts)
    return 0


def _begin(
    options: Options, approaches: tuple[str, ...], prices: "Prices"
) -> "tuple[ComparisonRequest, TrafficReport]":
    """What is compared, and the report without Services yet. Prints the notes."""
    from zoneward.advice.traffic_report import Coverage, ReportTotals, TrafficReport
    from zoneward.cli.compare import read_request
    from zoneward.cli.measured_input import pair_prices_of, read_measured_services

    request = read_request(options, approaches)
    selected, measured, prices, notes = read_measured_services(request.selected, prices)
    assert measured is not None, "there is at least one document"
    left_out = {_name(service) for service in request.selected.services} - {_name(own) for own in selected.services}
    request = replace(request, selected=selected, flows=True)
    print_notes(options, [*selected.notes, *notes])
    report = TrafficReport(
        services=(),
        totals=ReportTotals(),
        measured=measured,
        coverage=Coverage.of(measured, selected.cluster_state.by_cpu),
        prices=prices,
        node_traffic={},
    )
    pair_prices = pair_prices_of(selected, measured, prices)
    for (namespace, name, _), flows in measured.services.items():
        if (namespace, name) in left_out:
            report.totals.add_left_out(flows, pair_prices)
    return request, report


def _name(service: "Service") -> tuple[str, str]:
    return service.metadata.namespace, service.metadata.name


def _complete(
    request: "ComparisonRequest",
    report: "TrafficReport",
    services: "Iterable[ServiceReport]",
    chosen: "Callable[[Iterable[ServiceReport]], list[ServiceReport]]",
) -> "TrafficReport":
    """The report with totals of all Services and the lines of those that are shown."""
    from msgspec import structs

    from zoneward.cli.measured_input import node_traffic_of

    reported = []
    for service in services:
        report.totals.add(service, report.measured.services[service.key])
        reported.append(service)
    traffic = node_traffic_of(request.selected, report.measured)
    shown = [structs.replace(service, nodes=traffic.get(service.key, ())) for service in chosen(reported)]
    return replace(report, services=shown, node_traffic=traffic)


_ORDERS: "Final[dict[str | None, Callable[[ServiceReport], tuple[float, str, str, str]]]]" = {
    "name": lambda service: (0.0, *service.key),
    # Unknown shares come last.
    "in-zone": lambda service: (2.0 if service.now.in_zone is None else service.now.in_zone, *service.key),
    "overload": lambda service: (1.0 if service.overload is None else -service.overload, *service.key),
}
"""Besides that of what is saved."""


def _services(request: "ComparisonRequest", report: "TrafficReport", options: Options) -> "Iterator[ServiceReport]":
    from zoneward.advice.traffic_report import report_service
    from zoneward.cli.compare import compare_services
    from zoneward.cli.measured_input import pair_prices_of

    prices = pair_prices_of(request.selected, report.measured, report.prices)
    threshold = float(request.selected.configuration.hints.keep_threshold)
    for recommendation in compare_services(request, options):
        service = report_service(report.measured, recommendation, prices=prices, keep_threshold=threshold)
        if service is not None:
            yield service
