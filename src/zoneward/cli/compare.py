"""``zoneward compare``: every approach and algorithm side by side for each Service."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from zoneward.cli.options import GroupedCommand, Options, only_option, output_option, planning_options, row_options
from zoneward.cli.output import page_source, print_json, print_line, print_notes, print_table, wants_color, write
from zoneward.kube.gc_tuning import without_gc

if TYPE_CHECKING:
    from zoneward.advice.comparison import ComparedApproach, InForce, Recommendation

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
    from zoneward.advice.comparison import ComparisonTotals
    from zoneward.cli.compared_services import chosen_approaches, compare_services, read_request
    from zoneward.report import comparison_report

    if top is None:
        top = _TOP_ON_TERMINAL if output == "table" and sys.stdout.isatty() else 0
    request = read_request(options, chosen_approaches(only, options))
    print_notes(options, request.selected.notes)
    zones = request.selected.cluster_state.demand.zones
    if output == "table" and len(zones) == 1:
        print_line(f"All nodes are in zone {zones[0]}: no traffic leaves it, with any setting.")
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
    is_part = 0 < top < len(compared)
    shown = _sorted(compared, sort or ("gain" if is_part else "name"))[: top or None]
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


# --- the order of Services --------------------------------------------------------------------------------------------


def _sorted(compared: "list[Recommendation]", sort: str) -> "list[Recommendation]":
    """The largest first, Services without a value last, equal ones by their names."""
    value_of = _VALUES.get(sort)
    if value_of is None:
        return compared

    def key(recommendation: "Recommendation") -> tuple[bool, float]:
        comparison = recommendation.comparison
        # Without slices, the Service's own settings are the start.
        value = value_of(comparison.now or comparison.today, comparison.find(comparison.best))
        return (value is None, -value if value is not None else 0.0)

    return sorted(compared, key=key)


def _changes(recommendation: "Recommendation") -> bool:
    from zoneward.advice.json_value import round_percents

    comparison = recommendation.comparison
    start, best = comparison.now or comparison.today, comparison.find(comparison.best)
    return best is not None and round_percents(start.in_zone_traffic, start.max_overload) != round_percents(
        best.in_zone_traffic, best.max_overload
    )


def _gain(start: "InForce | ComparedApproach", best: "ComparedApproach | None") -> float | None:
    return None if best is None or best.score is None or start.score is None else best.score - start.score


_VALUES: Final[dict[str, "Callable[[InForce | ComparedApproach, ComparedApproach | None], float | None]"]] = {
    "gain": _gain,
    "score": lambda _start, best: None if best is None else best.score,
    "in-zone": lambda start, _best: None if start.in_zone_traffic is None else -start.in_zone_traffic,
    "overload": lambda start, _best: start.max_overload,
}
