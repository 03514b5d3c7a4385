"""``zoneward compare``: every approach and algorithm side by side for each Service."""

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import click

from zoneward.cli.cluster_completion import complete_approaches
from zoneward.cli.options import Options, planning_options
from zoneward.cli.output import print_notes, table_width, wants_color

if TYPE_CHECKING:
    from zoneward.advice.recommendations import InForce, Recommendation
    from zoneward.slices.comparison import ComparedApproach

_SORTS: Final = ("name", "gain", "score", "in-zone", "overload")
_TOP_ON_TERMINAL: Final = 20


@click.command("compare")
@planning_options(what_if=False)
@click.option(
    "--only",
    "only",
    multiple=True,
    metavar="NAME[,NAME...]",
    help="Compare only these approaches and algorithms.",
    shell_complete=complete_approaches,
)
@click.option(
    "--sort",
    type=click.Choice(_SORTS),
    help="Order of the Services: by name, by how much the best approach improves the score of"
    " now, by the score or the in-zone traffic of the best approach, or by the worst overload"
    " of now.  [default: name; gain where only some are shown]",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Show only the first Services; 0 shows all.  [default: 20 for a table on a terminal, else 0]",
)
@click.option("-o", "--output", type=click.Choice(["table", "json", "csv", "html"]), default="table", show_default=True)
def command(*, options: Options, only: tuple[str, ...], sort: str | None, top: int | None, output: str) -> None:
    """Show every approach and algorithm side by side for each Service: in-zone traffic, overload, slices, writes,
    and the score of KEP-2004. Totals come first. The best one that the cluster can apply is marked.

    \b
    zoneward compare --sample
    zoneward compare -f cluster.json -n shop --sort gain
    zoneward compare -f cluster.json --only local,PreferSameZone -o csv
    zoneward compare --sample --without-zone eu-central-1a
    """
    from zoneward.kube.gc_tuning import without_gc

    # Also while rows are laid out: a collection would walk over the whole cluster.
    with without_gc():
        _compare(options, only=only, sort=sort, top=top, output=output)


def _compare(options: Options, *, only: tuple[str, ...], sort: str | None, top: int | None, output: str) -> None:
    from zoneward.cli.choices import chosen_approaches
    from zoneward.cli.compared_services import compare_services, read_request
    from zoneward.report.comparison_report import Totals

    if top is None:
        top = _TOP_ON_TERMINAL if output == "table" and sys.stdout.isatty() else 0
    request = read_request(options, chosen_approaches(only, options))
    print_notes(options, request.selected.notes)
    found = compare_services(request, options)
    if output == "csv" and not top and sort in (None, "name"):
        from zoneward.report.comparison_report import csv_lines

        # One after the other: the first lines are there while the last are computed.
        for line in csv_lines(found, request.abilities):
            sys.stdout.buffer.write(line.encode())
        return
    totals = Totals()
    shown: Iterable[Recommendation] = totals.counted(found)
    if top or sort not in (None, "name"):
        everything = list(shown)
        is_part = 0 < top < len(everything)
        shown = _sorted(everything, sort or ("gain" if is_part else "name"))[: top or None]
    if output in ("table", "html"):
        from zoneward.report.comparison_report import comparison_parts
        from zoneward.report.terminal_text import render_text

        parts = comparison_parts(
            shown, totals, request.abilities, proxies=request.proxies, is_changed=bool(options.changes)
        )
        if output == "html":
            page = parts.as_page("Approaches compared", made_by="zoneward compare -o html")
            sys.stdout.buffer.write(page.encode())
        else:
            width = table_width()
            table = render_text(parts.for_terminal(width), color=wants_color(options), width=width)
            click.echo(table, nl=False, color=True)
    elif output == "json":
        from zoneward.advice.json_value import to_json
        from zoneward.report.comparison_report import comparison_document

        sys.stdout.buffer.write(to_json(comparison_document(shown, totals, request.abilities, proxies=request.proxies)))
    else:
        from zoneward.report.comparison_report import csv_lines

        for line in csv_lines(shown, request.abilities):
            sys.stdout.buffer.write(line.encode())


# --- the order of Services --------------------------------------------------------------------------------------------


def _sorted(found: "list[Recommendation]", sort: str) -> "list[Recommendation]":
    """The largest first, Services without a value last, equal ones by their names."""
    order = _ORDERS.get(sort)
    if order is None:
        return found

    def key(each: "Recommendation") -> tuple[bool, float]:
        value = order(each)
        return (value is None, -value if value is not None else 0.0)

    return sorted(found, key=key)


def _best(each: "Recommendation") -> "ComparedApproach | None":
    return each.candidate(each.best)


def _start(each: "Recommendation") -> "InForce | ComparedApproach":
    """What is in force; without slices what the Service asks for."""
    return each.now if each.now is not None else each.comparison.requested


def _gain(each: "Recommendation") -> float | None:
    best, start = _best(each), _start(each)
    return None if best is None or best.score is None or start.score is None else best.score - start.score


def _score(each: "Recommendation") -> float | None:
    best = _best(each)
    return None if best is None else best.score


def _in_zone(each: "Recommendation") -> float | None:
    best = _best(each)
    return None if best is None or best.traffic is None else best.traffic.in_zone


def _overload(each: "Recommendation") -> float | None:
    traffic = _start(each).traffic
    return None if traffic is None else traffic.max_overload


_ORDERS: Final[dict[str, "Callable[[Recommendation], float | None]"]] = {
    "gain": _gain,
    "score": _score,
    "in-zone": _in_zone,
    "overload": _overload,
}
