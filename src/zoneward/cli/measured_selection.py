"""Measured traffic of a snapshot: prices, and the Services that were measured with their demand."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, get_args

import click

from zoneward.advice.prices import Charge
from zoneward.cli.options import Options
from zoneward.cli.output import Note
from zoneward.kube.input_error import ConfigurationError, InputError

if TYPE_CHECKING:
    from zoneward.advice.measured_flows import MeasuredFlows
    from zoneward.advice.prices import Prices
    from zoneward.cli.planned_services import SelectedServices
    from zoneward.kube.measured_traffic import MeasuredTraffic

_PRICE_OF_SAMPLE: Final = "0.01USD"


def price_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command both options; it receives them as ``price_per_gb`` and ``charge``."""
    for option in (
        click.option(
            "--charge",
            type=click.Choice(get_args(Charge)),
            help="one: a GB is charged once, where it leaves its zone. both: there, and again where it"
            " arrives. Requests and responses count in any case.  [default: one]",
        ),
        click.option(
            "--price-per-gb", metavar="PRICE", help="What a GB (10^9 bytes) between zones costs, such as 0.01USD."
        ),
    ):
        function = option(function)
    return function


def measured_of_sample(
    prices: "Prices", charge: Charge | None
) -> "tuple[tuple[MeasuredTraffic, ...], Prices, tuple[Note, ...]]":
    """What comes with the sample cluster: documents, and an example price, with a note, where there is no price."""
    from zoneward.advice.prices import with_price
    from zoneward.sample import measured
    from zoneward.snapshots.measured_traffic_files import read_measured_traffic

    documents = tuple(read_measured_traffic("the sample", measured().read_bytes()))
    if prices:
        return documents, prices, ()
    note = Note(f"an example price of {_PRICE_OF_SAMPLE} a GB (override with --price-per-gb)")
    return documents, with_price(prices, _PRICE_OF_SAMPLE, charge), (note,)


def read_prices(options: Options, per_gb: str | None, charge: Charge | None) -> "Prices":
    """The prices of the configuration with those of the options. Raises InputError."""
    from zoneward.advice.prices import Prices, with_price
    from zoneward.cli.configuration_file import read_configuration

    prices = Prices() if options.config is None else read_configuration(options.config).prices
    try:
        return with_price(prices, per_gb, charge)
    except ConfigurationError as error:
        raise InputError("--price-per-gb", str(error)) from error


def check_measured(selected: "SelectedServices", prices: "Prices", measured: "MeasuredFlows", options: Options) -> None:
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


def select_measured(
    selected: "SelectedServices", measured: "MeasuredFlows", options: Options
) -> "tuple[SelectedServices, tuple[str, ...]]":
    """The Services that were measured, with their demand; and notes on the others.

    Zoneward decides by the demand that options or the configuration choose, else by the measured one, as its controller
    can.
    """
    from zoneward.routing.phrases import counted, listed

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
    return replace(selected, cluster_state=state, services=services), tuple(notes)
