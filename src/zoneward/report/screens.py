"""Screens of a given size: ``plan --watch``, and the demo with its log of writes."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, takewhile
from typing import Final

from rich.console import Console, RenderableType

from zoneward.report.plan_table import plan_parts
from zoneward.report.table_parts import TableParts
from zoneward.report.terminal_text import StyledText, TableText, Terminal, Text, render_lines
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import Demand
from zoneward.slices.plan import ServicePlan

_Key = tuple[str, str]
_HEAD: Final = 2
"""Lines of a table before its first row."""
_LEAST_ROWS: Final = 3
_MOST_STATUS: Final = 4
_MARK: Final = "reverse"


def watch_screen(
    plans: Sequence[ServicePlan],
    table_of: Callable[[Sequence[ServicePlan]], TableParts],
    *,
    latest: Sequence[_Key],
    marked: Collection[_Key],
    status: StyledText,
    terminal: Terminal,
) -> list[str]:
    """The status, the table, and, if there is room, the legend: never more lines than the terminal has.

    Where not all plans fit, those of ``latest``, the Services that changed, last change first, come before the others,
    and the last line says how many are not shown. Services are ``marked`` by namespace and name.
    """

    def shown_table(shown: Sequence[ServicePlan]) -> tuple[RenderableType, ...]:
        heading, table, legend = table_of(shown).for_terminal(terminal.width).renderables
        return heading, _mark_rows(table, shown, marked), legend

    def lines(what: RenderableType) -> list[str]:
        return render_lines(what, terminal)

    top = lines(status)[: max(1, min(_MOST_STATUS, terminal.height // 4))]
    above = lines(shown_table(())[0])
    if terminal.height - len(top) - len(above) < _HEAD + _LEAST_ROWS:
        above = []
    room = terminal.height - len(top) - len(above)
    count = len(plans)
    if sum(map(_rows, plans)) + _HEAD > room:
        plans = _latest_first(plans, latest)
        rows = accumulate(map(_rows, plans))
        count = max(1, sum(1 for _ in takewhile(lambda row: row + _HEAD < room, rows)))
    while True:
        _, table, legend = shown_table(plans[:count])
        body = lines(table)
        space = room - (count < len(plans))
        if len(body) <= space or count == 1:
            break
        if count == len(plans):
            plans = _latest_first(plans, latest)
        # A whole reason takes more lines than one.
        count = max(1, min(count - 1, count * max(space - _HEAD, 1) // (len(body) - _HEAD)))
    if count < len(plans):
        below = lines(Text(f"and {len(plans) - count:,} more Services", "dim"))
    else:
        below = lines(legend)
        if len(body) + len(below) > room:
            below = []
    return [*top, *above, *body[: max(space, 1)], *below][: terminal.height]


def _latest_first(plans: Sequence[ServicePlan], latest: Sequence[_Key]) -> Sequence[ServicePlan]:
    by_key = {_key(plan): plan for plan in plans}
    first = [by_key[key] for key in latest if key in by_key]
    seen = set(latest)
    return [*first, *(plan for plan in plans if _key(plan) not in seen)]


def _key(plan: ServicePlan) -> _Key:
    return plan.service.metadata.namespace, plan.service.metadata.name


def _rows(plan: ServicePlan) -> int:
    return max(1, len(plan.families))


def _mark_rows(table: RenderableType, plans: Sequence[ServicePlan], marked: Collection[_Key]) -> RenderableType:
    assert isinstance(table, TableText)
    rows: list[int] = []
    row = 0
    for plan in plans:
        size = _rows(plan)
        if _key(plan) in marked:
            rows.extend(range(row, row + size))
        row += size
    return table.mark_rows(rows, _MARK)


# --- the screen of the demo -------------------------------------------------------------------------------------------

_BAR: Final = 20
"""Columns that all traffic would have."""
_FULL, _EMPTY = "█", "·"
_LEAST_LOG: Final = 4
_LEAST_HEIGHT_FOR_ZONES: Final = 20
"""A screen with fewer lines has no room for the zones."""
_INDENT: Final = 7


@dataclass(frozen=True, slots=True)
class ZoneStatus:
    """One zone: the ``share`` of all traffic that starts in it, and how many of its nodes and pods are ready."""

    zone: str
    share: float
    nodes: int
    ready_nodes: int
    pods: int
    ready_pods: int


@dataclass(frozen=True, slots=True)
class LogLine:
    """``seconds`` since the start. ``name`` is the Service that was written, empty for a step of the script."""

    seconds: float
    name: str
    text: str


def log_text(line: LogLine, *, names: int = 0) -> Text:
    """``  9.3  shop/cart  1 slice updated: 2 pods ready``. ``names``: how many columns the names of Services have."""
    text = Text().append(f"{line.seconds:5.1f}  ", "dim")
    if not line.name:
        return text.append(f"script: {line.text}", "bold cyan")
    return text.append(line.name.ljust(names), "bold").append(f"  {line.text}")


def demo_screen(
    plans: Sequence[ServicePlan],
    *,
    marked: Collection[_Key],
    zones: Sequence[ZoneStatus],
    status: StyledText,
    log: Sequence[LogLine],
    demand: Demand,
    configuration: Configuration,
    terminal: Terminal,
) -> list[str]:
    """Never more lines than the terminal has. The newest lines of the log fill the rest, at least four lines."""
    width, height = terminal.width, terminal.height
    heads = [_cut(status, width)]
    if height >= _LEAST_HEIGHT_FOR_ZONES:
        heads += [_zone_line(zone, width) for zone in zones]
        heads.append(Text())
    above = list(chain.from_iterable(render_lines(head, terminal) or [""] for head in heads))
    parts = plan_parts(plans, demand=demand, configuration=configuration, known_zones=[zone.zone for zone in zones])
    rows = parts.for_terminal(width).renderables[1]
    assert isinstance(rows, TableText)
    table = render_lines(_mark_rows(rows, plans, marked), terminal)
    most = height - len(above) - 1 - _LEAST_LOG
    if len(table) > most:
        ends = [end for _, end in rows.row_lines]
        shown = max(1, sum(1 for end in ends if end < most))
        table = table[: ends[shown - 1] if ends else most]
        if shown < len(ends):
            table += render_lines(Text(f"and {len(ends) - shown} more", "dim"), terminal)
    rule = Text("── written, and why ".ljust(width, "─"), "dim")
    body = [*above, *table, *render_lines(_cut(rule, width), terminal)]
    return [*body, *_log_lines(log, terminal, max(0, height - len(body)))][:height]


def _zone_line(zone: ZoneStatus, width: int) -> StyledText:
    part = min(_BAR, round(zone.share * _BAR))
    is_out = not zone.ready_nodes
    text = Text().append(zone.zone, "bold red" if is_out else "bold")
    text.append(f" {zone.share:4.0%} ").append(_FULL * part, "green").append(_EMPTY * (_BAR - part), "dim")
    text.append("  nodes ", "dim").append_text(_of(zone.ready_nodes, zone.nodes))
    text.append("  pods ", "dim").append_text(_of(zone.ready_pods, zone.pods))
    if is_out:
        text.append("  out", "bold red")
    return _cut(text, width)


def _of(ready: int, count: int) -> Text:
    """``3/4``: three of four are ready."""
    return Text(f"{ready}/{count}", "green" if ready == count else "yellow" if ready else "red")


def _cut(text: StyledText, width: int) -> StyledText:
    text.no_wrap = True
    text.truncate(width, overflow="ellipsis")
    return text


def _log_lines(log: Sequence[LogLine], terminal: Terminal, room: int) -> list[str]:
    """The last lines of the log. Long lines continue below, indented."""
    console = Console(width=terminal.width)
    names = max((len(line.name) for line in log), default=0)
    texts: list[StyledText] = []
    for line in reversed(log):
        if len(texts) >= room:
            break
        first, *rest = log_text(line, names=names).wrap(console, console.width)
        more = Text(" ").join(rest).wrap(console, max(console.width - _INDENT, 20)) if rest else ()
        texts = [first, *(Text(" " * _INDENT).append_text(one) for one in more), *texts]
    rendered = []
    for text in texts[-room:] if room else ():
        rendered += render_lines(text, terminal)
    return rendered
