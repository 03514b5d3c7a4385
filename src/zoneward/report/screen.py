"""The table of plans on a screen of a given size."""

from collections.abc import Collection, Sequence
from itertools import accumulate, takewhile
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table

from zoneward.report.tables import plan_table
from zoneward.report.text import AnyText, Text
from zoneward.report.text import lines as joined
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import Demand
from zoneward.slices.plan import ServicePlan

_Key = tuple[str, str]
_HEAD: Final = 2
"""Lines of a table before its first row."""
_LEAST_ROWS: Final = 3
_MOST_STATUS: Final = 4
_MARK: Final = "reverse"


def screen(
    plans: Sequence[ServicePlan],
    *,
    latest: Sequence[_Key],
    marked: Collection[_Key],
    status: AnyText,
    demand: Demand,
    configuration: Configuration,
    width: int,
    height: int,
    wide: bool,
    color: bool,
) -> list[str]:
    """At most ``height`` lines: the status, the table, and, where everything fits, what its columns mean.

    Where not all plans fit, those of ``latest``, the Services that changed, last change first, come before the others,
    and the last line says how many are not shown. Services are ``marked`` by namespace and name.
    """

    def table_of(shown: Sequence[ServicePlan]) -> tuple[RenderableType, ...]:
        group = plan_table(shown, demand=demand, configuration=configuration, width=width, wide=wide)
        assert isinstance(group, Group)
        heading, table, legend = group.renderables
        return heading, with_marked(table, shown, marked), legend

    def lines(what: RenderableType) -> list[str]:
        return lines_of(what, width=width, color=color)

    top = lines(status)[: max(1, min(_MOST_STATUS, height // 4))]
    above = lines(table_of(())[0])
    if height - len(top) - len(above) < _HEAD + _LEAST_ROWS:
        above = []
    room = height - len(top) - len(above)
    number = len(plans)
    if sum(map(_rows, plans)) + _HEAD > room:
        plans = _latest_first(plans, latest)
        rows = accumulate(map(_rows, plans))
        number = max(1, sum(1 for _ in takewhile(lambda row: row + _HEAD < room, rows)))
    while True:
        _, table, legend = table_of(plans[:number])
        body = lines(table)
        space = room - (number < len(plans))
        if len(body) <= space or number == 1:
            break
        if number == len(plans):
            plans = _latest_first(plans, latest)
        # A whole reason takes more lines than one.
        number = max(1, min(number - 1, number * max(space - _HEAD, 1) // (len(body) - _HEAD)))
    if number < len(plans):
        below = lines(Text(f"and {len(plans) - number:,} more Services", "dim"))
    else:
        below = lines(legend)
        if len(body) + len(below) > room:
            below = []
    return [*top, *above, *body[: max(space, 1)], *below][:height]


def _latest_first(plans: Sequence[ServicePlan], latest: Sequence[_Key]) -> Sequence[ServicePlan]:
    by_key = {_key(plan): plan for plan in plans}
    first = [by_key[key] for key in latest if key in by_key]
    seen = set(latest)
    return [*first, *(plan for plan in plans if _key(plan) not in seen)]


def _key(plan: ServicePlan) -> _Key:
    return plan.service.metadata.namespace, plan.service.metadata.name


def _rows(plan: ServicePlan) -> int:
    return max(1, len(plan.families))


def with_marked(table: RenderableType, plans: Sequence[ServicePlan], marked: Collection[_Key]) -> RenderableType:
    """The same table with the rows of some Services in reverse."""
    rows: list[int] = []
    number = 0
    for plan in plans:
        size = _rows(plan)
        if _key(plan) in marked:
            rows.extend(range(number, number + size))
        number += size
    if isinstance(table, Table):
        for row in rows:
            table.rows[row].style = _MARK
        return table
    assert isinstance(table, AnyText)
    lines = list(table.split("\n"))
    for row in rows:
        lines[row + _HEAD].stylize(_MARK)
    return joined(lines)


def lines_of(what: RenderableType, *, width: int, color: bool) -> list[str]:
    """Rendered for a terminal: without colour it can still show what is bold, dim or in reverse."""
    console = Console(width=width, force_terminal=True, no_color=not color, color_system="standard")
    is_table = isinstance(what, AnyText) and what.no_wrap is True
    with console.capture() as captured:
        console.print(what, no_wrap=is_table or None, overflow="ellipsis" if is_table else None, highlight=False)
    return captured.get().splitlines()
