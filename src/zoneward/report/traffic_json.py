"""Traffic between zones and what it costs, as the JSON and the CSV of ``zoneward report``. `docs/report.md` has the
meaning of every field."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from zoneward.advice.comparison import NOW
from zoneward.advice.honored_traffic import NodeTraffic
from zoneward.advice.json_value import JsonValue, round_if_any, round_share
from zoneward.advice.measured_flows import HOURS_IN_MONTH
from zoneward.advice.prices import BYTES_IN_GB
from zoneward.advice.traffic_report import (
    Crossing,
    Estimate,
    Figure,
    ServiceReport,
    SettingReport,
    SettingTotal,
    TrafficReport,
)
from zoneward.report.comparison_report import csv_text

_DIGITS: Final = 6


class CrossingView(JsonValue, frozen=True, gc=False):
    """What leaves its zone: GB a month, the share of all traffic, and money a month, each with its margin (95 %, chance
    alone). ``gb`` is null without bytes, ``money`` also without prices, ``share`` where there is no traffic."""

    gb: float | None
    gb_margin: float | None
    share: float | None
    share_margin: float | None
    money: float | None
    money_margin: float | None


class ReportNowView(JsonValue, frozen=True, gc=False):
    """What was measured. ``predicted_in_zone`` is what the slices in force should keep; null without slices."""

    crossing: CrossingView
    in_zone: float | None
    predicted_in_zone: float | None
    max_overload: float | None


class ReportSettingView(JsonValue, frozen=True, gc=False):
    """One setting for one Service; ``crossing`` and ``saved`` are null where nothing can be predicted."""

    approach: str
    active: bool
    reason: str
    reason_code: str
    needs: str | None
    crossing: CrossingView | None
    saved: CrossingView | None
    max_overload: float | None
    overloads: bool
    dropped: float


class ServiceReportView(JsonValue, frozen=True, gc=False):
    """One Service in one address family."""

    namespace: str
    service: str
    address_type: str
    endpoints: int
    asks_for: str
    gb: float | None
    unknown_gb: float | None
    now: ReportNowView
    external: CrossingView
    settings: tuple[ReportSettingView, ...]
    best: str | None
    better: str | None
    nodes: tuple[NodeTraffic, ...]


class SettingTotalView(JsonValue, frozen=True, gc=False):
    """One setting for all Services; ``overloads`` and ``drops`` count Services."""

    approach: str
    crossing: CrossingView
    saved: CrossingView
    active: int
    best: int
    overloads: int
    drops: int


class ZoneFlowView(JsonValue, frozen=True, gc=False):
    """Traffic from one zone to one zone: GB a month, null without bytes, and the share of all traffic."""

    from_zone: str
    to_zone: str
    gb: float | None
    share: float


class MeasuringReportView(JsonValue, frozen=True, gc=False):
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


def report_document(report: TrafficReport) -> dict[str, Any]:
    """``{"measured", "currency", "charge", "total", "flows", "services", "deviatingNodes"}``."""
    totals, measured, coverage = report.totals, report.measured, report.coverage
    whole = totals.whole.value
    views = _Views(report)
    return {
        "measured": MeasuringReportView(
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
            "gb": views.gb(whole),
            "unknownGb": views.gb(totals.unknown),
            "now": views.crossing(totals.now, totals.whole),
            "external": views.crossing(totals.external, None),
            "best": views.total("best", totals.best),
            "settings": [views.total(approach, total) for approach, total in totals.settings.items()],
        },
        "flows": [
            ZoneFlowView(start, end, views.gb(amount), round_share(amount / whole) if whole else 0.0)
            for (start, end), amount in sorted(totals.flows.items())
        ],
        "services": [views.service(service) for service in report.services],
        "deviatingNodes": [
            {
                "node": node,
                "zone": on_node[0][1].zone,
                "services": [
                    {"namespace": namespace, "service": service, "addressType": family, **_shares(honored)}
                    for (namespace, service, family), honored in on_node
                ],
            }
            for node, on_node in report.deviating().items()
        ],
    }


def _shares(node: NodeTraffic) -> dict[str, Any]:
    return {
        "connections": node.connections,
        "inZone": node.in_zone,
        "predictedInZone": node.predicted_in_zone,
        "deviates": node.deviates,
    }


class _Views:
    """Numbers of a report as they are shown: with or without bytes and money."""

    def __init__(self, report: TrafficReport) -> None:
        self._report = report

    def gb(self, amount: float) -> float | None:
        return round(amount / BYTES_IN_GB, _DIGITS) + 0.0 if self._report.measured.has_bytes else None

    def crossing(self, crossing: Crossing, whole: Figure | None) -> CrossingView:
        """``whole`` None: the share is of nothing."""
        amount = crossing.amount.estimate(spread=self._report.spread)
        share = crossing.amount.share_of(whole, spread=self._report.spread) if whole is not None else None
        money: Estimate | None = None
        if self._report.currency is not None and crossing.money is not None:
            money = crossing.money.estimate(spread=self._report.spread)
        return CrossingView(
            gb=self.gb(amount.value),
            gb_margin=self.gb(amount.margin),
            share=None if share is None else round_share(share.value),
            share_margin=None if share is None else round_share(share.margin),
            money=None if money is None else round(money.value, _DIGITS) + 0.0,
            money_margin=None if money is None else round(money.margin, _DIGITS) + 0.0,
        )

    def total(self, approach: str, total: SettingTotal) -> SettingTotalView:
        whole = self._report.totals.whole
        return SettingTotalView(
            approach=approach,
            crossing=self.crossing(total.crossing, whole),
            saved=self.crossing(total.saved, whole),
            active=total.active,
            best=total.best,
            overloads=total.overloads,
            drops=total.drops,
        )

    def service(self, service: ServiceReport) -> ServiceReportView:
        return ServiceReportView(
            namespace=service.namespace,
            service=service.service,
            address_type=service.address_type,
            endpoints=service.endpoints,
            asks_for=service.asked,
            gb=self.gb(service.whole.value),
            unknown_gb=self.gb(service.unknown),
            now=ReportNowView(
                crossing=self.crossing(service.now, service.whole),
                in_zone=round_if_any(service.in_zone),
                predicted_in_zone=round_if_any(service.expected_in_zone),
                max_overload=round_if_any(service.max_overload),
            ),
            external=self.crossing(service.external, None),
            settings=tuple(self.setting(service, setting) for setting in service.settings),
            best=service.best,
            better=service.better,
            nodes=self._report.node_traffic.get(service.key, ()),
        )

    def setting(self, service: ServiceReport, setting: SettingReport) -> ReportSettingView:
        return ReportSettingView(
            approach=setting.approach,
            active=setting.active,
            reason=setting.message,
            reason_code=setting.reason,
            needs=setting.needs,
            crossing=None if setting.crossing is None else self.crossing(setting.crossing, service.whole),
            saved=None if setting.saved is None else self.crossing(setting.saved, service.whole),
            max_overload=round_if_any(setting.max_overload),
            overloads=setting.overloads,
            dropped=round_share(setting.dropped),
        )


# --- CSV --------------------------------------------------------------------------------------------------------------

_HEADING: Final = (
    "namespace", "service", "addressType", "endpoints", "asksFor", "approach", "active", "needs", "reason",
    "gb", "gbMargin", "share", "shareMargin", "money", "moneyMargin", "savedGb", "savedGbMargin", "savedShare",
    "savedShareMargin", "savedMoney", "savedMoneyMargin", "currency", "maxOverload", "overloads", "dropped", "best",
    "better",
)  # fmt: skip
_NOTHING: Final = (None,) * 6


def report_csv(services: Iterable[ServiceReport], report: TrafficReport) -> Iterator[str]:
    """A heading, and then the lines of one Service and address family at a time: one for ``now``, one for each setting.

    ``services`` may be computed one after the other; of the ``report`` only what is known before them is read.
    """
    views = _Views(report)
    yield csv_text([_HEADING])
    for service in services:
        about = (service.namespace, service.service, service.address_type, service.endpoints, service.asked)
        now = (
            *(*about, NOW, None, None, None, *_cells(views.crossing(service.now, service.whole)), *_NOTHING),
            *(report.currency, round_if_any(service.max_overload), None, None, None, None),
        )
        lines = [now]
        for setting in service.settings:
            view = views.setting(service, setting)
            lines.append(
                (
                    *(*about, view.approach, view.active, view.needs, view.reason),
                    *(*_cells(view.crossing), *_cells(view.saved), report.currency, view.max_overload, view.overloads),
                    *(view.dropped, view.approach == service.best, view.approach == service.better),
                )
            )
        yield csv_text(lines)


def _cells(view: CrossingView | None) -> tuple[float | None, ...]:
    if view is None:
        return _NOTHING
    return view.gb, view.gb_margin, view.share, view.share_margin, view.money, view.money_margin
