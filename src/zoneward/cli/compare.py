"""``zoneward compare``: every approach and algorithm side by side for each Service."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from zoneward.cli.options import Options, planning_options
from zoneward.cli.output import Note, print_notes, table_width, wants_color
from zoneward.kube.input_error import InputError

if TYPE_CHECKING:
    from zoneward.cli.planned_services import SelectedServices
    from zoneward.slices.comparison import ComparedApproach, ServiceComparison

_SORTS: Final = ("name", "gain", "score", "in-zone", "overload")


@click.command("compare")
@planning_options(what_if=False)
@click.option(
    "--only", "only", multiple=True, metavar="NAME[,NAME...]", help="Compare only these approaches and algorithms."
)
@click.option(
    "--sort",
    type=click.Choice(_SORTS),
    default="name",
    show_default=True,
    help="Order of the Services: by name, by how much the best approach improves the score of"
    " today, by the score or the in-zone traffic of the best approach, or by the worst"
    " overload of today.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
def command(*, options: Options, only: tuple[str, ...], sort: str, output: str) -> None:
    """Show every approach and algorithm side by side for each Service: in-zone traffic, overload, slices, writes,
    and the score of KEP-2004. The best one is marked, and the last rows are totals.

    \b
    zoneward compare --sample
    zoneward compare -f cluster.json -n shop --sort gain
    zoneward compare -f cluster.json --only local,PreferSameZone -o csv
    zoneward compare --sample --without-zone eu-central-1a
    """
    compared = compare_services(options, only=only, sort=sort)
    print_notes(options, compared.notes)
    if output == "table":
        from zoneward.report.comparison_report import comparison_table
        from zoneward.report.terminal_text import render_text

        width = table_width()
        table = comparison_table(compared.comparisons, width=width, is_changed=bool(options.changes))
        text = render_text(table, color=wants_color(options), width=width)
        click.echo(text, nl=False, color=True)
    elif output == "json":
        from zoneward.report.comparison_report import comparison_document
        from zoneward.report.plan_json import to_json

        sys.stdout.buffer.write(to_json(comparison_document(compared.comparisons)))
    else:
        from zoneward.report.comparison_report import comparison_csv

        sys.stdout.buffer.write(comparison_csv(compared.comparisons).encode())


@dataclass(frozen=True, slots=True)
class SortedComparisons:
    """Comparisons in the order of ``--sort``; ``notes`` are for standard error."""

    comparisons: tuple["ServiceComparison", ...]
    notes: tuple[Note, ...]


def compare_services(options: Options, *, only: Iterable[str], sort: str) -> SortedComparisons:
    """Compare approaches for the selected Services. Raises InputError or a usage error before anything is written."""
    from zoneward.cli.planned_services import select_services
    from zoneward.kube.gc_tuning import without_gc
    from zoneward.slices.comparison import with_load_changes

    approaches = _approaches(only)
    with without_gc():
        selected = select_services(options)
        comparisons = _compare(selected, approaches)
        if selected.unchanged is not None:
            comparisons = list(with_load_changes(comparisons, _compare(selected.unchanged, approaches)))
    if sort != "name":
        comparisons.sort(key=lambda each: _largest_first(_ORDERS[sort](each)))
    return SortedComparisons(tuple(comparisons), selected.notes)


def _compare(selected: "SelectedServices", approaches: tuple[str, ...]) -> "list[ServiceComparison]":
    from zoneward.slices.comparison import compare_service

    return [
        comparison
        for service in selected.services
        for comparison in compare_service(
            service,
            approaches=approaches,
            pods=selected.snapshot.pods_of(service),
            slices=selected.snapshot.slices_of(service),
            cluster_state=selected.cluster_state,
            taken=selected.taken.get(service.metadata.namespace, ()),
        )
    ]


def _approaches(only: Iterable[str]) -> tuple[str, ...]:
    """The named approaches in the default order; all where none is named."""
    from zoneward.slices.comparison import COMPARED

    named = [name for names in only for name in names.split(",")]
    for name in named:
        if name not in COMPARED:
            raise InputError("--only", f"expected names of {', '.join(COMPARED)}, got {name!r}")
    return tuple(each for each in COMPARED if each in named) if named else COMPARED


def _largest_first(value: float | None) -> tuple[bool, float]:
    """A sort key: the largest first, Services without a value last."""
    return (value is None, -value if value is not None else 0.0)


def _gain(comparison: "ServiceComparison") -> float | None:
    best, today = comparison.best, comparison.today
    if best is None or best.score is None or today.score is None:
        return None
    return best.score - today.score


def _in_zone(candidate: "ComparedApproach | None") -> float | None:
    return candidate.traffic.in_zone if candidate is not None and candidate.traffic is not None else None


_ORDERS: Final[dict[str, Callable[["ServiceComparison"], float | None]]] = {
    "gain": _gain,
    "score": lambda each: each.best.score if each.best else None,
    "in-zone": lambda each: _in_zone(each.best),
    "overload": lambda each: each.today.traffic.max_overload if each.today.traffic else None,
}
"""What Services are sorted by; equal ones stay in the order of their names."""
