"""A controller at work on a screen: zones, Services, and a log of what it wrote and why."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from rich.console import Console, Group

from zoneward.report.screen import lines_of, with_marked
from zoneward.report.tables import plan_table
from zoneward.report.text import AnyText, Text
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import Demand
from zoneward.slices.plan import ServicePlan

_Key = tuple[str, str]
_BAR: Final = 20
"""Columns that all traffic would have."""
_FULL, _EMPTY = "█", "·"
_HEAD: Final = 2
"""Lines of the table before its first row."""
_LEAST_LOG: Final = 4
_LOW: Final = 20
"""Lines of a screen below which there is no room for what is said elsewhere too."""
_INDENT: Final = 7


@dataclass(frozen=True, slots=True)
class ZoneNow:
    """One zone: the ``share`` of all traffic that starts there, and how many of its nodes and pods are ready."""

    zone: str
    share: float
    nodes: int
    ready_nodes: int
    pods: int
    ready_pods: int


@dataclass(frozen=True, slots=True)
class LogLine:
    """``seconds`` since the start. ``name``: the Service that was written; empty: what is done to the cluster."""

    seconds: float
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Sum:
    """All Services together: the mean share ``in_zone``, weighed by ready endpoints, and the ``worst`` overload of any;
    None where nothing can be predicted."""

    in_zone: float | None
    worst: float | None


def sum_of(plans: Sequence[ServicePlan]) -> Sum:
    """As the total of ``zoneward compare`` for what Services ask for."""
    known = [
        (family.decision.endpoints, family.traffic)
        for plan in plans
        for family in plan.families
        if family.decision.endpoints and family.traffic is not None and family.traffic.served
    ]
    if not known:
        return Sum(None, None)
    return Sum(
        in_zone=sum(number * traffic.in_zone for number, traffic in known) / sum(number for number, _ in known),
        worst=max(traffic.max_overload for _, traffic in known),
    )


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
    zones: Sequence[ZoneNow],
    status: AnyText,
    log: Sequence[LogLine],
    demand: Demand,
    configuration: Configuration,
    width: int,
    height: int,
    color: bool,
) -> list[str]:
    """At most ``height`` lines. The log has what is left of them, its newest lines, and four in any case."""
    console = Console(width=width, force_terminal=True, no_color=not color, color_system="standard")
    heads = [_cut(status, width)]
    if height >= _LOW:
        heads += [_zone_line(each, width) for each in zones]
        heads.append(Text())
    above = list(chain.from_iterable(lines_of(each, width=width, color=color) or [""] for each in heads))
    group = plan_table(
        plans,
        demand=demand,
        configuration=configuration,
        width=width,
        known_zones=[each.zone for each in zones],
    )
    assert isinstance(group, Group)
    table = lines_of(with_marked(group.renderables[1], plans, marked), width=width, color=color)
    most = height - len(above) - 1 - _LEAST_LOG
    if len(table) > most:
        shown = max(1, most - _HEAD - 1)
        missing = len(table) - _HEAD - shown
        table = table[: _HEAD + shown]
        if missing > 0:
            table += lines_of(Text(f"and {missing} more", "dim"), width=width, color=color)
    rule = Text("── written, and why ".ljust(width, "─"), "dim")
    body = [*above, *table, *lines_of(_cut(rule, width), width=width, color=color)]
    return [*body, *_log_lines(log, console, max(0, height - len(body)))][:height]


def _zone_line(each: ZoneNow, width: int) -> AnyText:
    part = min(_BAR, round(each.share * _BAR))
    is_out = not each.ready_nodes
    text = Text().append(each.zone, "bold red" if is_out else "bold")
    text.append(f" {each.share:4.0%} ").append(_FULL * part, "green").append(_EMPTY * (_BAR - part), "dim")
    text.append("  nodes ", "dim").append_text(_of(each.ready_nodes, each.nodes))
    text.append("  pods ", "dim").append_text(_of(each.ready_pods, each.pods))
    if is_out:
        text.append("  out", "bold red")
    return _cut(text, width)


def _of(ready: int, number: int) -> Text:
    """``3/4``, of which the first are ready."""
    return Text(f"{ready}/{number}", "green" if ready == number else "yellow" if ready else "red")


def _cut(text: AnyText, width: int) -> AnyText:
    text.no_wrap = True
    text.truncate(width, overflow="ellipsis")
    return text


def _log_lines(log: Sequence[LogLine], console: Console, room: int) -> list[str]:
    """The last lines of the log; what is too long for one goes on below, further in."""
    names = max((len(each.name) for each in log), default=0)
    found: list[AnyText] = []
    for each in reversed(log):
        if len(found) >= room:
            break
        first, *rest = log_text(each, names=names).wrap(console, console.width)
        more = Text(" ").join(rest).wrap(console, max(console.width - _INDENT, 20)) if rest else ()
        found = [first, *(Text(" " * _INDENT).append_text(one) for one in more), *found]
    lines = []
    for text in found[-room:] if room else ():
        lines += lines_of(text, width=console.width, color=not console.no_color)
    return lines
