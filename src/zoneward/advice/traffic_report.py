"""What traffic between zones amounts to and costs in a month: now, as measured, and with each setting, as predicted.

Every figure is a sum over measured flows (a Service, from zone to zone). A prediction keeps how much starts in each
zone, and sends it where the setting would send it. What starts or ends in an unknown zone is in no figure but its own.

**Margins** cover chance alone, at 95 %. The connections of a flow are a Poisson sample, and so the amount of a flow
with ``k`` connections has the variance ``(1 + c^2) amount^2 / k``, where ``c`` is the coefficient of variation of the
size of a connection: 1 for bytes, as an exponential distribution has it, and 0 where connections themselves are
counted. Flows are independent of each other. That traffic grows, or that unmeasured hours have more of it, is in no
margin.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final, NamedTuple

import msgspec

from zoneward.advice.cluster_abilities import CONTROLLER, familiarity
from zoneward.advice.comparison import NOW, ComparedApproach, Flows, Recommendation
from zoneward.advice.honored_traffic import NodeTraffic
from zoneward.advice.json_value import JsonValue, round_if_any, round_share
from zoneward.advice.measured_flows import (
    Flow,
    MeasuredFlows,
    ServiceFamily,
    ServiceFlows,
    ZonePair,
    between_known_zones,
    other_family,
)
from zoneward.advice.prices import BYTES_IN_GB, PairPrices, Prices
from zoneward.routing.demand import Demand
from zoneward.routing.rules import Reason
from zoneward.routing.what_if import NO_APPROACH

_Z: Final = 1.96
"""Standard deviations of 95 %."""
_DROPPED: Final = 1e-9
_NOISE: Final = 1e-9
"""What rounding makes of equal sums, as a part of them."""


class Estimate(NamedTuple):
    """A number, and by how much chance alone may make it wrong, in both directions, at 95 %."""

    value: float
    margin: float


@dataclass(frozen=True, slots=True)
class Figure:
    """A sum over flows. With the ``value`` of each flow and its whole ``amount``, measured by ``k`` connections, the
    other two are the sums of value^2 / k and of value x amount / k. Figures of different Services can be added.
    """

    value: float = 0.0
    squares: float = 0.0
    products: float = 0.0

    def __add__(self, other: "Figure") -> "Figure":
        return Figure(self.value + other.value, self.squares + other.squares, self.products + other.products)

    def estimate(self, *, spread: float) -> Estimate:
        """``spread`` is 1 + c^2."""
        return Estimate(self.value, _Z * sqrt(spread * max(self.squares, 0.0)))

    def share_of(self, whole: "Figure", *, spread: float) -> Estimate | None:
        """The share of the whole, None of nothing: of connections that were measured the margin is the binomial one."""
        if not whole.value:
            return None
        share = self.value / whole.value
        variance = self.squares - 2 * share * self.products + share * share * whole.squares
        return Estimate(share, _Z * sqrt(spread * max(variance, 0.0)) / whole.value)


_NOTHING: Final = Figure()


class Crossing:
    """What leaves its zone in a month: the amount (bytes or connections), its price where there are prices, and the
    ``whole`` amount of which it is a part. JSON has its estimates (`zoneward.report.traffic_json`).
    """

    __slots__ = ("amount", "money", "whole")

    def __init__(self, amount: Figure = _NOTHING, money: Figure | None = None, *, whole: Figure = _NOTHING) -> None:
        self.amount: Final = amount
        self.money: Final = money
        self.whole: Final = whole

    def __add__(self, other: "Crossing") -> "Crossing":
        money = other.money if self.money is None else self.money + (other.money or _NOTHING)
        return Crossing(self.amount + other.amount, money, whole=self.whole + other.whole)

    @property
    def weight(self) -> float:
        """By which settings are ranked: money, else the amount."""
        return self.amount.value if self.money is None else self.money.value


class SettingReport(JsonValue, frozen=True, gc=False, kw_only=True):
    """One setting for one Service. ``crossing`` and ``saved`` (now - with this setting) are None where nothing can be
    predicted, and where traffic is dropped: that saves nothing.

    ``overloads``: with it the busiest endpoint is above the threshold for keeping hints. ``dropped`` is
    the share that has no endpoint, ``needs`` is what the cluster lacks for it.
    """

    approach: str
    active: bool
    reason: str
    reason_code: Reason
    needs: str | None
    crossing: Crossing | None
    saved: Crossing | None
    max_overload: float | None
    overloads: bool
    dropped: float


class ReportNow(JsonValue, frozen=True, gc=False, kw_only=True):
    """What was measured. ``in_zone`` is the share that stayed, ``predicted_in_zone`` the one that the slices in force
    should keep; None without slices."""

    crossing: Crossing
    in_zone: float | None
    predicted_in_zone: float | None
    max_overload: float | None


class ServiceReport(JsonValue, frozen=True, gc=False, kw_only=True):
    """One Service in one family. Amounts are of a month.

    ``gb`` is everything between known zones, ``unknown_gb`` what starts or ends in an unknown one, both None without
    bytes, and ``external`` what came from outside of the cluster and left the zone of the node that took it in: neither
    is in any other figure. ``best`` is the setting that saves the most of those that the cluster can apply and that
    overload nothing and drop nothing; ``better`` the same with Zoneward's controller, where that is another one. Both
    are None where nothing is saved. ``nodes`` are the nodes with connections to it.
    """

    namespace: str
    service: str
    address_type: str
    endpoints: int
    asks_for: str
    gb: float | None
    unknown_gb: float | None
    now: ReportNow
    external: Crossing
    settings: tuple[SettingReport, ...]
    best: str | None
    better: str | None
    nodes: tuple[NodeTraffic, ...] = ()

    @property
    def key(self) -> ServiceFamily:
        return self.namespace, self.service, self.address_type

    def setting(self, approach: str | None) -> SettingReport | None:
        return next((setting for setting in self.settings if setting.approach == approach), None)

    @property
    def gain(self) -> float:
        """What the best setting saves, by which Services are ranked."""
        best = self.setting(self.best)
        return best.saved.weight if best is not None and best.saved is not None else 0.0

    @property
    def overload(self) -> float | None:
        """That of the busiest endpoint now, or as asked for where no slices are known."""
        asked = self.setting(self.asks_for)
        return asked.max_overload if self.now.max_overload is None and asked is not None else self.now.max_overload


def ranked(services: Iterable[ServiceReport]) -> list[ServiceReport]:
    """Those that save the most first, then those with the most traffic between zones."""
    return sorted(services, key=lambda service: (-service.gain, -service.now.crossing.weight, service.key))


def report_service(
    measured: MeasuredFlows, recommendation: Recommendation, *, prices: PairPrices | None, keep_threshold: float
) -> ServiceReport | None:
    """None for a Service that was not measured. ``prices``: None without any, or without bytes. The ``recommendation``
    has flows.
    """
    comparison, predicted = recommendation.comparison, recommendation.flows
    service = measured.services.get(comparison.key)
    if service is None:
        return None
    calculation = CrossingCalculation(service.known, prices)
    now = calculation.measured()
    settings = tuple(
        _setting(candidate, predicted.get(candidate.approach), calculation, keep_threshold=keep_threshold)
        for candidate in comparison.approaches
    )
    best = _best(settings, comparison.asks_for)
    better = _best(settings, comparison.asks_for, with_controller=True)
    return ServiceReport(
        namespace=comparison.namespace,
        service=comparison.service,
        address_type=comparison.address_type,
        endpoints=comparison.endpoints,
        asks_for=comparison.asks_for,
        gb=in_gb(now.whole.value) if measured.has_bytes else None,
        unknown_gb=in_gb(service.unknown) if measured.has_bytes else None,
        now=ReportNow(
            crossing=now,
            in_zone=_in_zone(now),
            predicted_in_zone=_in_zone(calculation.compare(predicted[NOW])[0]) if predicted.get(NOW) else None,
            max_overload=None if comparison.now is None else round_if_any(comparison.now.max_overload),
        ),
        external=_external(service, prices),
        settings=settings,
        best=best,
        better=better if better != best else None,
    )


def _external(service: ServiceFlows, prices: PairPrices | None) -> Crossing:
    external = CrossingCalculation(between_known_zones(service.external), prices).measured()
    return Crossing(external.amount, external.money)


def in_gb(amount: float) -> float:
    """Bytes as JSON has them."""
    return round_share(amount / BYTES_IN_GB)


def _in_zone(crossing: Crossing) -> float | None:
    return round_share(1 - crossing.amount.value / crossing.whole.value) if crossing.whole.value else None


def _setting(
    compared: ComparedApproach, flows: Flows | None, calculation: "CrossingCalculation", *, keep_threshold: float
) -> SettingReport:
    crossing, saved, dropped = (None, None, 0.0) if flows is None else calculation.compare(flows)
    if dropped > _DROPPED:
        crossing = saved = None
    return SettingReport(
        approach=compared.approach,
        active=compared.active,
        reason=compared.reason,
        reason_code=compared.reason_code,
        needs=compared.needs,
        crossing=crossing,
        saved=saved,
        max_overload=round_if_any(compared.max_overload),
        overloads=compared.overloads(keep_threshold),
        dropped=round_share(dropped),
    )


def _best(settings: Iterable[SettingReport], asked: str, *, with_controller: bool = False) -> str | None:
    """Savings that look the same with three digits are equal: then what is asked for is best, else what users know."""
    usable = (None, CONTROLLER) if with_controller else (None,)
    good = [
        (setting, setting.saved.weight)
        for setting in settings
        if setting.saved is not None
        and setting.crossing is not None
        and setting.saved.weight > _NOISE * setting.crossing.weight
        and (setting.active or setting.approach == NO_APPROACH)
        and setting.needs in usable
        and not setting.overloads
        and not setting.dropped
    ]
    if not good:
        return None
    most = max(saved for _, saved in good)

    def rank(pair: tuple[SettingReport, float]) -> tuple[float, bool, int]:
        setting, saved = pair
        return round(saved / most, 3), setting.approach == asked, familiarity(setting.approach)

    return max(good, key=rank)[0].approach


class CrossingCalculation:
    """Figures of one Service: what leaves its zone with other ends of its flows. ``flows`` are between known zones."""

    def __init__(self, flows: Mapping[ZonePair, Flow], prices: PairPrices | None) -> None:
        self._flows = flows
        self._prices = prices
        self._now = self._leaving({pair: {pair[1]: 1.0} for pair in flows})
        self.whole: Final = self._sum({pair: flow.amount for pair, flow in flows.items()})

    def measured(self) -> Crossing:
        return self._crossing(self._now)

    def compare(self, to: Flows) -> tuple[Crossing, Crossing, float]:
        """What would leave its zone; what that saves; and the share of everything for which there is no endpoint.

        What now and then have in common is no chance: it is saved flow by flow.
        """
        ends = self._ends(to)
        then = self._leaving(ends)
        saved = {pair: (now[0] - then[pair][0], now[1] - then[pair][1]) for pair, now in self._now.items()}
        whole = sum(flow.amount for flow in self._flows.values())
        lost = sum(flow.amount * max(1 - sum(ends[pair].values()), 0.0) for pair, flow in self._flows.items())
        return self._crossing(then), self._crossing(saved), lost / whole if whole else 0.0

    def _ends(self, to: Flows) -> dict[ZonePair, Mapping[str, float]]:
        """Where each flow would end. Without a prediction for the zone where it starts, it ends where it did."""
        return {pair: to.get(pair[0], {pair[1]: 1.0}) for pair in self._flows}

    def _leaving(self, ends: Mapping[ZonePair, Mapping[str, float]]) -> dict[ZonePair, tuple[float, float]]:
        """The part of each flow that leaves its zone with these ends, and its price."""
        return {pair: self._of_flow(pair[0], flow, ends[pair]) for pair, flow in self._flows.items()}

    def _crossing(self, leaving: Mapping[ZonePair, tuple[float, float]]) -> Crossing:
        money = None if self._prices is None else self._sum({pair: price for pair, (_, price) in leaving.items()})
        return Crossing(self._sum({pair: amount for pair, (amount, _) in leaving.items()}), money, whole=self.whole)

    def _of_flow(self, start: str, flow: Flow, ends: Mapping[str, float]) -> tuple[float, float]:
        """What of it leaves its zone, and the price of that. Responses go the other way."""
        amount = money = 0.0
        for end, share in ends.items():
            if end and end != start:
                amount += share * flow.amount
                if self._prices is not None:
                    request_price, response_price = self._prices.of(start, end), self._prices.of(end, start)
                    money += share * (flow.request * request_price + flow.response * response_price) / BYTES_IN_GB
        return amount, money

    def _sum(self, values: Mapping[ZonePair, float]) -> Figure:
        total = squares = products = 0.0
        for pair, value in values.items():
            flow = self._flows[pair]
            connections = max(flow.connections, 1)
            total += value
            squares += value * value / connections
            products += value * flow.amount / connections
        return Figure(total, squares, products)


# --- totals -----------------------------------------------------------------------------------------------------------


class SettingTotal(msgspec.Struct, gc=False, rename="camel"):
    """One setting for all Services together: where it is not active, what comes instead; where nothing can be
    predicted, what is now. ``active``, ``best``, ``overloads`` and ``drops`` count Services."""

    approach: str
    crossing: Crossing = msgspec.field(default_factory=Crossing)
    saved: Crossing = msgspec.field(default_factory=Crossing)
    active: int = 0
    best: int = 0
    overloads: int = 0
    drops: int = 0

    def add(
        self,
        service: ServiceReport,
        setting: SettingReport | None,
        before: ServiceReport | None,
        earlier: SettingReport | None,
    ) -> None:
        """Without a ``setting`` the Service stays as it is now. ``before`` and ``earlier`` are the same of the other
        address family of the Service, where that was added already."""
        now = service.now.crossing
        if setting is None or setting.crossing is None or setting.saved is None:
            self.crossing += now
            self.saved += Crossing(money=None if now.money is None else _NOTHING, whole=now.whole)
        else:
            self.crossing += setting.crossing
            self.saved += setting.saved
        if setting is None:
            return
        was_best = before is not None and earlier is not None and earlier.approach == before.best
        self.active += setting.active and not (earlier is not None and earlier.active)
        self.best += setting.approach == service.best and not was_best
        self.overloads += setting.overloads and not (earlier is not None and earlier.overloads)
        self.drops += setting.dropped > 0 and not (earlier is not None and earlier.dropped > 0)


class ReportTotals:
    """The totals of all Services, added up one by one. ``flows`` are by zones, for the picture."""

    def __init__(self) -> None:
        self.services = 0
        self._last: ServiceReport | None = None
        self.unknown = 0.0
        self.now = Crossing()
        self.external = Crossing()
        self.best = SettingTotal("best")
        self.settings: dict[str, SettingTotal] = {}
        self.flows: dict[ZonePair, float] = {}

    def add(self, service: ServiceReport, measured: ServiceFlows) -> None:
        """Add one Service, in one address family. The other one comes next, and counts no Service again."""
        before, self._last = other_family(self._last, service), service
        self.services += before is None
        self.unknown += measured.unknown
        self.now += service.now.crossing
        self.external += service.external
        for pair, flow in measured.known.items():
            self.flows[pair] = self.flows.get(pair, 0.0) + flow.amount
        for setting in service.settings:
            total = self.settings.setdefault(setting.approach, SettingTotal(setting.approach))
            total.add(service, setting, before, None if before is None else before.setting(setting.approach))
        best_before = None if before is None else before.setting(before.best)
        self.best.add(service, service.setting(service.best), before, best_before)

    def add_left_out(self, measured: ServiceFlows, prices: PairPrices | None) -> None:
        """A Service of which no measured traffic starts in a known zone: it has no report."""
        self.unknown += measured.unknown
        self.external += _external(measured, prices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of the cluster was measured. ``nodes`` and ``measured``: the nodes from which traffic is expected, and
    those of them that have a document that counts. ``missing_zones``: those without any such node."""

    nodes: int
    measured: int
    missing_zones: tuple[str, ...]

    @classmethod
    def of(cls, measured: MeasuredFlows, demand: Demand) -> "Coverage":
        counting = measured.counting
        zones = {node.zone for node in demand.nodes if node.name in counting}
        return cls(
            nodes=len(demand.nodes),
            measured=sum(node.name in counting for node in demand.nodes),
            missing_zones=tuple(zone for zone in demand.zones if zone not in zones),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficReport:
    """What ``zoneward report`` shows. ``services`` are those to show, in their order; ``totals`` are of all of them.

    ``prices``: none of them count where there are no bytes. ``node_traffic`` is of all Services, by `ServiceFamily`.
    """

    services: Sequence[ServiceReport]
    totals: ReportTotals
    measured: MeasuredFlows
    coverage: Coverage
    prices: Prices
    node_traffic: Mapping[ServiceFamily, tuple[NodeTraffic, ...]]

    @property
    def spread(self) -> float:
        """For margins: see the module."""
        return 2.0 if self.measured.has_bytes else 1.0

    @property
    def currency(self) -> str | None:
        return self.prices.currency if self.prices and self.measured.has_bytes else None

    def deviating(self) -> dict[str, list[tuple[ServiceFamily, NodeTraffic]]]:
        """The nodes that do not do what is predicted, with the Services: the nodes with the most of them first."""
        deviating: dict[str, list[tuple[ServiceFamily, NodeTraffic]]] = {}
        for key, nodes in self.node_traffic.items():
            for node in nodes:
                if node.deviates is not None:
                    deviating.setdefault(node.node, []).append((key, node))
        return dict(sorted(deviating.items(), key=lambda item: (-len(item[1]), item[0])))
