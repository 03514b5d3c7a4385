"""Traffic between zones and what it costs, as the JSON and the CSV of ``zoneward report``. `docs/report.md` has the
meaning of every field."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from zoneward.advice.comparison import NOW
from zoneward.advice.json_value import JsonValue, round_share
from zoneward.advice.measured_flows import HOURS_IN_MONTH
from zoneward.advice.traffic_report import Crossing, ServiceReport, TrafficReport, in_gb
from zoneward.report.comparison_report import csv_text


class CrossingFigures(JsonValue, frozen=True, gc=False):
    """What leaves its zone: GB a month, the share of all traffic, and money a month, each with its margin (95 %, chance
    alone). ``gb`` is null without bytes, ``money`` also without prices, ``share`` where there is no traffic."""

    gb: float | None = None
    gb_margin: float | None = None
    share: float | None = None
    share_margin: float | None = None
    money: float | None = None
    money_margin: float | None = None


class ZoneFlow(JsonValue, frozen=True, gc=False):
    """Traffic from one zone to one zone: GB a month, null without bytes, and the share of all traffic."""

    from_zone: str
    to_zone: str
    gb: float | None
    share: float


class MeasuringReport(JsonValue, frozen=True, gc=False):
    """What was measured: times, the hours that the documents of a node cover, and the nodes."""

    since: datetime
    until: datetime
    shortest_hours: float
    longest_hours: float
    hours_in_month: int
    nodes: int
    measured_nodes: int
    missing_zones: tuple[str, ...]
    incomplete_nodes: tuple[str, ...]
    nodes_without_bytes: tuple[str, ...]
    nodes_without_time: tuple[str, ...]


def report_document(report: TrafficReport) -> Any:
    """``{"measured", "currency", "charge", "total", "flows", "services", "deviatingNodes"}``."""
    totals, measured, coverage = report.totals, report.measured, report.coverage
    whole = totals.now.whole.value

    def gb(amount: float) -> float | None:
        return in_gb(amount) if measured.has_bytes else None

    document = {
        "measured": MeasuringReport(
            since=measured.since,
            until=measured.until,
            shortest_hours=round_share(measured.shortest),
            longest_hours=round_share(measured.longest),
            hours_in_month=HOURS_IN_MONTH,
            nodes=coverage.nodes,
            measured_nodes=coverage.measured,
            missing_zones=coverage.missing_zones,
            incomplete_nodes=tuple(sorted(measured.incomplete)),
            nodes_without_bytes=tuple(sorted(measured.without_bytes)),
            nodes_without_time=tuple(sorted(measured.timeless)),
        ),
        "currency": report.currency,
        "charge": report.prices.charge if report.currency else None,
        "total": {
            "services": totals.services,
            "gb": gb(whole),
            "unknownGb": gb(totals.unknown),
            "now": totals.now,
            "external": totals.external,
            "best": totals.best,
            "settings": list(totals.settings.values()),
        },
        "flows": [
            ZoneFlow(start, end, gb(amount), round_share(amount / whole) if whole else 0.0)
            for (start, end), amount in sorted(totals.flows.items())
        ],
        "services": report.services,
        "deviatingNodes": [
            {
                "node": node,
                "zone": on_node[0][1].zone,
                "services": [
                    {
                        "namespace": namespace,
                        "service": service,
                        "addressType": family,
                        "connections": honored.connections,
                        "inZone": honored.in_zone,
                        "predictedInZone": honored.predicted_in_zone,
                        "deviates": honored.deviates,
                    }
                    for (namespace, service, family), honored in on_node
                ],
            }
            for node, on_node in report.deviating().items()
        ],
    }
    return msgspec.to_builtins(document, enc_hook=_figures(report))


def _figures(report: TrafficReport) -> Callable[[Crossing], CrossingFigures]:
    """How this report shows what leaves its zone: with or without bytes and money."""
    spread = report.spread

    def figures(crossing: Crossing) -> CrossingFigures:
        amount, money = crossing.amount.estimate(spread=spread), None
        share = crossing.amount.share_of(crossing.whole, spread=spread)
        if report.currency is not None and crossing.money is not None:
            money = crossing.money.estimate(spread=spread)
        return CrossingFigures(
            *((in_gb(amount.value), in_gb(amount.margin)) if report.measured.has_bytes else (None, None)),
            *((None, None) if share is None else map(round_share, share)),
            *((None, None) if money is None else map(round_share, money)),
        )

    return figures


# --- CSV --------------------------------------------------------------------------------------------------------------

_HEADING: Final = (
    "namespace", "service", "addressType", "endpoints", "asksFor", "approach", "active", "needs", "reason",
    "gb", "gbMargin", "share", "shareMargin", "money", "moneyMargin", "savedGb", "savedGbMargin", "savedShare",
    "savedShareMargin", "savedMoney", "savedMoneyMargin", "currency", "maxOverload", "overloads", "dropped", "best",
    "better",
)  # fmt: skip


def report_csv(services: Iterable[ServiceReport], report: TrafficReport) -> Iterator[str]:
    """A heading, and then the lines of one Service and address family at a time: one for ``now``, one for each setting.

    ``services`` may be computed one after the other; of the ``report`` only what is known before them is read.
    """
    figures, currency = _figures(report), report.currency

    def cells(crossing: Crossing | None) -> tuple[float | None, ...]:
        return msgspec.structs.astuple(CrossingFigures() if crossing is None else figures(crossing))

    yield csv_text([_HEADING])
    for service in services:
        about = (service.namespace, service.service, service.address_type, service.endpoints, service.asks_for)
        now = service.now
        lines: list[tuple[object, ...]] = [
            (
                *(*about, NOW, None, None, None, *cells(now.crossing), *cells(None)),
                *(currency, now.max_overload, None, None, None, None),
            )
        ]
        lines += (
            (
                *(*about, setting.approach, setting.active, setting.needs, setting.reason),
                *(*cells(setting.crossing), *cells(setting.saved), currency, setting.max_overload, setting.overloads),
                *(setting.dropped, setting.approach == service.best, setting.approach == service.better),
            )
            for setting in service.settings
        )
        yield csv_text(lines)
