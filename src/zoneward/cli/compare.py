"""``zoneward compare``: every approach and algorithm side by side for each Service."""

import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from typing import Final

import click

from zoneward.advice.cluster_abilities import ClusterAbilities, abilities_of
from zoneward.advice.comparison import (
    COMPARED,
    ComparedApproach,
    ComparisonTotals,
    InForce,
    Recommendation,
    first_services,
    recommend,
)
from zoneward.advice.deciders import ClusterStates
from zoneward.advice.json_value import round_percents
from zoneward.advice.node_proxies import NodeProxies
from zoneward.cli.cluster_input import load_configuration
from zoneward.cli.options import (
    GroupedCommand,
    Options,
    only_option,
    output_option,
    planning_options,
    row_options,
    unknown_approach,
)
from zoneward.cli.output import page_source, print_json, print_notes, print_table, print_text, wants_color, write
from zoneward.cli.planned_services import SelectedServices, built_in_slices, select_services
from zoneward.cli.service_processes import CHUNK, in_processes, waiting
from zoneward.kube.gc_tuning import without_gc
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import Service
from zoneward.routing.what_if import find_what_if_value

_SORTS: Final = ("name", "in-zone", "overload", "gain", "score")
_TOP_ON_TERMINAL: Final = 20


@click.command("compare", cls=GroupedCommand)
@planning_options(what_if=False)
@only_option("Compare only these approaches and algorithms.")
@row_options(
    _SORTS,
    sort_help="gain: by how much the best approach improves the score of now; score: of the best approach."
    "  [default: name; gain where only some are shown]",
    top_help="20 for a table on a terminal, else 0",
    changed_help="whose traffic the best setting would change",
)
@click.option(
    "--details",
    is_flag=True,
    help="Show all approaches for each Service. By default so where Services are named, else a line for each.",
)
@click.option("--score", is_flag=True, help="Show the score of KEP-2004, of 100.")
@output_option("table|json|csv|html")
@without_gc()  # Also while rows are laid out: a collection would walk over the whole cluster.
def command(
    *,
    options: Options,
    only: tuple[str, ...],
    sort: str | None,
    top: int | None,
    changed: bool,
    details: bool,
    score: bool,
    output: str,
) -> None:
    """Show every approach and algorithm side by side: in-zone traffic, overload, slices and writes. Totals come first,
    then each Service with the best setting that the cluster can apply.

    \b
    zoneward compare --sample
    zoneward compare -f cluster.json -n shop --sort gain
    zoneward compare -f cluster.json --only local,PreferSameZone -o csv
    zoneward compare --sample --without-zone eu-central-1a
    """
    from zoneward.report import comparison_report

    if top is None:
        top = _TOP_ON_TERMINAL if output == "table" and sys.stdout.isatty() else 0
    request = read_request(options, chosen_approaches(only, options))
    print_notes(options, request.selected.notes)
    zone = request.selected.cluster_state.demand.only_zone
    if output == "table" and zone is not None:
        from zoneward.report.terminal_text import join_wrapped

        line = f"All nodes are in zone {zone}: no traffic leaves it, with any setting."
        print_text(options, join_wrapped([line]))
        return
    recommendations = compare_services(request, options)
    if output == "csv" and not top and not changed and sort in (None, "name"):
        # The first lines are written while the last Services are compared.
        for line in comparison_report.csv_lines(recommendations):
            write(line)
        return
    totals = ComparisonTotals()
    compared = []
    for recommendation in recommendations:
        totals.add(recommendation.comparison)
        if not changed or _changes(recommendation):
            compared.append(recommendation)
    is_part = 0 < top < totals.services
    ordered = _sorted(compared, sort or ("gain" if is_part else "name"))
    shown = first_services(ordered, top, lambda recommendation: recommendation.comparison.key)
    if output == "csv":
        for line in comparison_report.csv_lines(shown):
            write(line)
    elif output == "json":
        document = comparison_report.comparison_document(shown, totals, request.abilities, proxies=request.proxies)
        print_json("Comparison", document)
    else:
        parts = comparison_report.comparison_parts(
            shown,
            totals,
            request.abilities,
            proxies=request.proxies,
            is_changed=bool(options.changes),
            only_changed=changed,
            has_details=details or bool(options.services),
            has_score=score,
            has_slices=request.writes_slices,
            is_page=output == "html",
            has_colors=output == "html" or wants_color(options),
        )
        if output == "html":
            facts = comparison_report.comparison_facts(totals, request.abilities)
            source = page_source(options)
            write(parts.as_page("Approaches compared", made_by="zoneward compare -o html", source=source, facts=facts))
        else:
            print_table(options, parts)


# --- the selected Services, each with every approach ------------------------------------------------------------------


@dataclass(frozen=True)
class ComparisonRequest:
    """What is compared: some approaches for the selected Services of a snapshot, as Zoneward decides or would decide.
    ``states`` say about which of them Kubernetes decides.

    If options change the cluster, proxies and abilities are those of the cluster as it was read. ``flows``: with those
    between zones. ``writes_slices``: somebody else than Kubernetes writes the slices, or is asked about.
    """

    selected: SelectedServices
    states: ClusterStates
    approaches: tuple[str, ...]
    node_proxies: NodeProxies
    abilities: ClusterAbilities
    flows: bool = False
    writes_slices: bool = True

    @property
    def proxies(self) -> dict[str, int]:
        """The number of nodes where traffic starts, by the title of their kind of proxy."""
        nodes = (self.selected.unchanged or self.selected).cluster_state.demand.nodes
        return dict(Counter(self.node_proxies.on(node.name).title for node in nodes))

    def compare(self, service: Service) -> tuple[Recommendation, ...]:
        """All address families of one of the Services."""
        given, read = self.selected.input_of(service), self.selected.unchanged
        decided_by, _ = self.states.decided(service, given.slices)
        return recommend(
            given,
            built_in=decided_by.is_of_kubernetes,
            approaches=self.approaches,
            node_proxies=self.node_proxies,
            abilities=replace(self.abilities, overlay=given.cluster_state.configuration.is_overlay),
            unchanged=None if read is None else read.input_of(service),
            flows=self.flows,
        )


def chosen_approaches(only: Iterable[str], options: Options) -> tuple[str, ...]:
    """The approaches that ``--only`` names, in the default order; all if it names none. ``Auto`` is what the
    configuration says.

    Raises InputError.
    """
    named = set()
    for name in (name.strip() for names in only for name in names.split(",")):
        value = find_what_if_value(name)
        if value is None:
            raise InputError("--only", unknown_approach(name))
        named.add(load_configuration(options).hints.auto if value == "Auto" else value)
    return tuple(approach for approach in COMPARED if approach in named) if named else COMPARED


def read_request(options: Options, approaches: tuple[str, ...]) -> ComparisonRequest:
    """Read the snapshot. Raises InputError or a usage error, before anything is printed."""
    with waiting(options, "reading"):
        selected = select_services(options, assumes_kubernetes=True)
    read = selected.unchanged or selected
    abilities = abilities_of(
        read.snapshot.slices,
        node_proxies=read.node_proxies,
        configuration=selected.of_zoneward.configuration,
        kubernetes=read.kubernetes,
    )
    has_overlay = abilities.overlay or bool(selected.states.overlays)
    abilities = replace(abilities, overlay=has_overlay, same_zone=selected.cluster_state.same_zone_value)
    if options.with_mode in ("controller", "proxy"):
        abilities = replace(abilities, controller=True)
    is_written = read.states.kubernetes is None or not built_in_slices(read.snapshot)
    return ComparisonRequest(
        selected.of_zoneward, selected.states, approaches, read.node_proxies, abilities, writes_slices=is_written
    )


def compare_services(
    request: ComparisonRequest, options: Options, *, processes: int | None = None, chunk: int = CHUNK
) -> Generator[Recommendation, None, None]:
    """Yield the recommendations for all selected Services in their order, as soon as they are computed."""
    services = request.selected.services
    for recommendations in in_processes(request.compare, services, options, processes=processes, chunk=chunk):
        yield from recommendations


# --- the order of Services --------------------------------------------------------------------------------------------


def _sorted(compared: list[Recommendation], sort: str) -> list[Recommendation]:
    """The largest first, Services without a value last, equal ones by their names."""
    value_of = _VALUES.get(sort)
    if value_of is None:
        return compared

    def key(recommendation: Recommendation) -> tuple[bool, float]:
        comparison = recommendation.comparison
        value = value_of(comparison.start, comparison.find(comparison.best))
        return (value is None, -value if value is not None else 0.0)

    return sorted(compared, key=key)


def _changes(recommendation: Recommendation) -> bool:
    comparison = recommendation.comparison
    start, best = comparison.start, comparison.find(comparison.best)
    return best is not None and round_percents(start.in_zone_traffic, start.max_overload) != round_percents(
        best.in_zone_traffic, best.max_overload
    )


def _gain(start: InForce, best: ComparedApproach | None) -> float | None:
    return None if best is None or best.score is None or start.score is None else best.score - start.score


_VALUES: Final[dict[str, Callable[[InForce, ComparedApproach | None], float | None]]] = {
    "gain": _gain,
    "score": lambda _start, best: None if best is None else best.score,
    "in-zone": lambda start, _best: None if start.in_zone_traffic is None else -start.in_zone_traffic,
    "overload": lambda start, _best: start.max_overload,
}
