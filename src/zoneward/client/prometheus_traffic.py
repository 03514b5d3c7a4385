"""Measured traffic from Prometheus: what Zoneward's meters and proxies counted in a window, as documents of nodes.

Each series is joined to the node of the program that it was scraped from by labels of the scrape (``job``, ``instance``
and ``pod``), which are the same whether ``honor_labels`` is set or not. The join is made here and not in PromQL, where
one duplicate fails the whole query, and a program whose node is unknown is lost without a word.

Any Pod that Prometheus scrapes can have our metrics. So only those of the jobs that the settings select count, of
programs that name a node of the cluster.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

import msgspec

from zoneward.client.prometheus import (
    MAX_SERIES,
    OUTSIDE,
    Answer,
    Prometheus,
    counted_series,
    left_out_notes,
    some_names,
    unknown_nodes_notes,
)
from zoneward.kube.measured_traffic import MeasuredTraffic, ServiceTraffic, TrafficBytes
from zoneward.kube.prometheus_settings import SCRAPED_FROM, PrometheusSettings, own_labels, window_text

_STEPS: Final = 720
"""Moments of the window at which it is looked whether a program was there: two minutes apart in a day."""
_TO_SHORTEN: Final = "take what nodes serve at /measured instead"
_LATEST: Final = 2**32
"""Seconds since 1970, more than any clock says."""
_MOST: Final = 1e18
"""Connections and bytes: no node counts as many."""
_Program = Literal["meter", "proxy"]
_MISSING: Final = ("unlisted_connections", "lost_messages", "connections_without_bytes")
"""Counters of a meter: what it has in no series, or not as a whole."""


class _ProgramLabels(msgspec.Struct, gc=False):
    """Of one program. ``figure`` says what the number is: of samples the ``first`` and the ``last`` moment and their
    ``number``, or connections that are ``missing`` in all series."""

    job: str = ""
    instance: str = ""
    pod: str = ""
    node: str = ""
    zone: str = ""
    figure: str = ""


class _TrafficLabels(msgspec.Struct, gc=False):
    job: str = ""
    instance: str = ""
    pod: str = ""
    namespace: str = ""
    service: str = ""
    address_type: str = ""
    from_zone: str = ""
    to_zone: str = ""
    direction: str = ""
    asked: str = ""


_PROGRAMS: Final = msgspec.json.Decoder(Answer[_ProgramLabels])
_TRAFFIC: Final = msgspec.json.Decoder(Answer[_TrafficLabels])


@dataclass(frozen=True, slots=True)
class FoundTraffic:
    """A document for each node, by name, and lines about what was left out or could not be told."""

    documents: tuple[MeasuredTraffic, ...]
    notes: tuple[str, ...]


async def read_traffic(
    prometheus: Prometheus, *, nodes: Collection[str] | None, max_series: int = MAX_SERIES
) -> FoundTraffic:
    """What meters and proxies counted within the window of the settings; on a node that has both, the meter's.

    Programs that name none of the ``nodes`` do not count; None: nobody knows the nodes, and those that name any count.
    Of several jobs that scrape the same node, the one with the most connections counts. Documents are of the time for
    which Prometheus has samples of the program. Raises PrometheusUnavailable; also where nothing was counted.
    """
    settings, window = prometheus.settings, prometheus.settings.window
    collector = _Collector(nodes)
    at: float | None = None
    queries: tuple[tuple[_Program, str], ...] = (
        ("meter", _increase("zoneward_meter_connections_total", settings)),
        ("meter", _increase("zoneward_meter_bytes_total", settings, "direction")),
        ("proxy", _increase("zoneward_proxy_connections_total", settings, "asked")),
    )
    for program, query in queries:
        answer = await prometheus.ask(query, _TRAFFIC, to_shorten=_TO_SHORTEN, at=at, max_series=max_series)
        at = _moment(answer) if at is None else at
        collector.add_traffic(answer, program)
    if at is None or not collector.has_traffic:
        what = (
            f"connections that a meter or a proxy counted in the last {window_text(window)},"
            f" with {{{settings.matchers}}} (demand.prometheus.selector)"
        )
        raise prometheus.unavailable("; ".join((f"expected {what}, got none", *collector.notes())))
    about = await prometheus.ask(
        _about_programs(settings), _PROGRAMS, to_shorten=_TO_SHORTEN, at=at, max_series=max_series
    )
    collector.add_programs(about)
    documents = tuple(collector.documents(since=at - window, until=at))
    if not documents:
        expected = "expected programs on nodes of the cluster, got none"
        raise prometheus.unavailable("; ".join((expected, *collector.notes())))
    return FoundTraffic(documents, collector.notes())


def _moment(answer: Answer[_TrafficLabels]) -> float | None:
    """The moment for which a query was evaluated; None where no series says it."""
    found = next((each.value[0] for each in answer.data.result if each.value is not None), None)
    return found if found is not None and 0 <= found <= _LATEST else None


# --- queries ----------------------------------------------------------------------------------------------------------


def _increase(metric: str, settings: PrometheusSettings, *more: str) -> str:
    labels = ",".join((SCRAPED_FROM, "namespace,service,address_type,from_zone,to_zone", *more))
    increase = f"increase({metric}{{{settings.matchers}}}[{settings.window}s])"
    return f"sum by ({labels}) ({own_labels(increase, 'namespace', 'service')})"


def _about_programs(settings: PrometheusSettings) -> str:
    """When there were samples of each program, and what it has in no series: parts that differ in ``figure``."""
    window, trusted = settings.window, settings.matchers
    info = f'{{__name__=~"zoneward_(meter|proxy)_info",{trusted}}}'
    looked = f"timestamp({info})[{window}s:{max(window * 1000 // _STEPS, 1)}ms]"
    labels = f"{SCRAPED_FROM},node,zone"
    missing = (
        f"sum by ({SCRAPED_FROM}) (increase(zoneward_meter_{each}_total{{{trusted}}}[{window}s]))" for each in _MISSING
    )
    parts = {
        "first": f"min by ({labels}) ({own_labels(f'min_over_time({looked})', 'node', 'zone')})",
        "last": f"max by ({labels}) ({own_labels(f'max_over_time({looked})', 'node', 'zone')})",
        "number": f"sum by ({labels}) ({own_labels(f'count_over_time({info}[{window}s])', 'node', 'zone')})",
        "missing": " + ".join(missing),
    }
    return " or ".join(f'label_replace({query},"figure","{name}","","")' for name, query in parts.items())


# --- answers ----------------------------------------------------------------------------------------------------------


class _Scrape(NamedTuple):
    """Which program samples are from, as the scrape says."""

    job: str
    instance: str
    pod: str


class _Route(NamedTuple):
    namespace: str
    service: str
    address_type: Literal["IPv4", "IPv6"]
    is_external: bool
    to_zone: str


@dataclass(slots=True)
class _Total:
    """``has_bytes``: there are series of bytes."""

    connections: float = 0.0
    request: float = 0.0
    response: float = 0.0
    has_bytes: bool = False


@dataclass(slots=True)
class _Scraped:
    """One program. ``program`` None: it counted nothing. ``node`` is empty where nothing says it; ``number`` of samples
    between the moments ``first`` and ``last``. ``started``: connections by the zone where they did."""

    program: _Program | None = None
    node: str = ""
    zone: str = ""
    first: float = 0.0
    last: float = 0.0
    number: float = 0.0
    is_complete: bool = True
    totals: dict[_Route, _Total] = field(default_factory=dict)
    started: Counter[str] = field(default_factory=Counter)

    @property
    def connections(self) -> float:
        return sum(total.connections for total in self.totals.values())

    def covered(self, since: float, until: float) -> tuple[float, float]:
        """The part of the window that its increases stand for, as ``increase`` takes it (Prometheus: extrapolatedRate):
        to an end of the window that is nearer than 1.1 samples, else half a sample beyond the first and the last.
        ``first`` and ``last`` are seen in steps only, so that they may be nearer by one.
        """
        if not self.number:
            return since, until
        first, last = min(max(self.first, since), until), max(min(self.last, until), since)
        if self.number < 2 or first >= last:
            return first, first
        sample = (last - first) / (self.number - 1)
        near = 1.1 * sample + (until - since) / _STEPS
        return (
            since if first - since < near else first - sample / 2,
            until if until - last < near else last + sample / 2,
        )


class _Collector:
    """Joins the answers."""

    def __init__(self, nodes: Collection[str] | None) -> None:
        self._nodes = None if nodes is None else frozenset(nodes)
        self._scraped: dict[_Scrape, _Scraped] = {}
        self._left_out = Counter[str]()
        self._warnings: dict[str, None] = {}
        self._nameless: list[str] = []
        self._unknown: dict[str, None] = {}
        self._several_jobs: list[str] = []

    @property
    def has_traffic(self) -> bool:
        return bool(self._scraped)

    def add_traffic(self, answer: Answer[_TrafficLabels], program: _Program) -> None:
        self._warnings |= dict.fromkeys(answer.notes)
        for labels, amount in counted_series(answer, self._left_out, problem_of=_problem):
            scraped = self._scraped.setdefault(_Scrape(labels.job, labels.instance, labels.pod), _Scraped())
            scraped.program = program
            is_external = OUTSIDE in (labels.from_zone, labels.asked)
            # The name of a type of addresses was compared with both.
            family: Literal["IPv4", "IPv6"] = "IPv4" if labels.address_type == "IPv4" else "IPv6"
            route = _Route(labels.namespace, labels.service, family, is_external, labels.to_zone)
            total = scraped.totals.setdefault(route, _Total())
            amount = min(amount, _MOST)
            if not labels.direction:
                total.connections += amount
                if not is_external:
                    scraped.started[labels.from_zone] += round(amount)
                continue
            total.has_bytes = True
            if labels.direction == "response":
                total.response += amount
            else:
                total.request += amount

    def add_programs(self, answer: Answer[_ProgramLabels]) -> None:
        """A program whose node changed its zone has several series: the one with the latest sample says where it is."""
        self._warnings |= dict.fromkeys(answer.notes)
        for labels, amount in counted_series(answer, self._left_out):
            scrape = _Scrape(labels.job, labels.instance, labels.pod)
            if labels.figure == "missing":
                if scrape in self._scraped:
                    self._scraped[scrape].is_complete = amount < 0.5
                continue
            scraped = self._scraped.setdefault(scrape, _Scraped())
            if labels.figure == "last":
                if amount >= scraped.last:
                    scraped.last, scraped.node, scraped.zone = amount, labels.node, labels.zone
            elif labels.figure == "first":
                scraped.first = min(amount, scraped.first or amount)
            else:
                scraped.number += amount

    def documents(self, *, since: float, until: float) -> Iterable[MeasuredTraffic]:
        """One for each node, by name; the moments are the ends of the window."""
        nodes: dict[str, dict[_Scrape, _Scraped]] = {}
        for scrape, scraped in sorted(self._scraped.items()):
            if not scraped.node:
                self._nameless.append(scrape.instance or scrape.job or "unknown")
            elif self._nodes is not None and scraped.node not in self._nodes:
                self._unknown[scraped.node] = None
            else:
                nodes.setdefault(scraped.node, {})[scrape] = scraped
        for name, on_node in sorted(nodes.items()):
            chosen = self._choose(name, on_node)
            covered = [each.covered(since, until) for each in chosen]
            started = sum((each.started for each in chosen), Counter[str]())
            zones = [each.zone for each in chosen if each.zone] or [zone for zone, _ in started.most_common(1)]
            yield MeasuredTraffic(
                node=name,
                zone=next(iter(zones), None) or None,
                since=_time(min(start for start, _ in covered)),
                until=_time(max(end for _, end in covered)),
                complete=all(each.is_complete for each in chosen),
                services=tuple(_services(chosen)),
            )

    def _choose(self, node: str, on_node: Mapping[_Scrape, _Scraped]) -> list[_Scraped]:
        """Those that count on a node. What both programs or several jobs counted is the same traffic."""
        programs = {each.program for each in on_node.values()}
        program: _Program | None = "meter" if "meter" in programs else "proxy" if "proxy" in programs else None
        jobs: dict[str, float] = {}
        for scrape, each in on_node.items():
            if each.program == program:
                jobs[scrape.job] = jobs.get(scrape.job, 0.0) + each.connections
        if len(jobs) > 1 and program is not None:
            self._several_jobs.append(node)
        job = max(sorted(jobs), key=lambda name: jobs[name])
        return [each for scrape, each in on_node.items() if scrape.job == job and each.program in (program, None)]

    def notes(self) -> tuple[str, ...]:
        notes = [*self._warnings, *left_out_notes(self._left_out)]
        if self._nameless:
            notes.append(
                f"{some_names(self._nameless)}: no zoneward_meter_info or zoneward_proxy_info says which node this is;"
                " it does not count"
            )
        notes += unknown_nodes_notes(self._unknown)
        if self._several_jobs:
            notes.append(f"{some_names(self._several_jobs)}: several jobs scrape the same program; one of them counts")
        return tuple(notes)


def _problem(labels: _TrafficLabels) -> str | None:
    """Why a series is left out by its labels; None where it counts."""
    if not labels.namespace or not labels.service:
        return "without a namespace and a service"
    if labels.address_type not in ("IPv4", "IPv6"):
        return "without a type of addresses"
    return None


def _services(scraped: Iterable[_Scraped]) -> Iterable[ServiceTraffic]:
    """By name; without those to which nothing was sent."""
    found: dict[tuple[str, str, Literal["IPv4", "IPv6"]], dict[tuple[bool, str], _Total]] = {}
    for each in scraped:
        for route, total in each.totals.items():
            ends = found.setdefault(route[:3], {})
            before = ends.setdefault(route[3:], _Total())
            ends[route[3:]] = _Total(
                before.connections + total.connections,
                before.request + total.request,
                before.response + total.response,
                before.has_bytes or total.has_bytes,
            )
    for (namespace, service, address_type), ends in sorted(found.items()):
        has_bytes = any(total.has_bytes for total in ends.values())
        traffic = ServiceTraffic(
            namespace=namespace,
            service=service,
            address_type=address_type,
            zones=_connections(ends, is_external=False),
            external=_connections(ends, is_external=True),
            bytes=_bytes(ends, is_external=False) if has_bytes else msgspec.UNSET,
            external_bytes=_bytes(ends, is_external=True) if has_bytes else msgspec.UNSET,
        )
        if traffic.zones or traffic.external or traffic.bytes or traffic.external_bytes:
            yield traffic


def _connections(ends: Mapping[tuple[bool, str], _Total], *, is_external: bool) -> dict[str, int]:
    numbers = {zone: _whole(total.connections) for (external, zone), total in ends.items() if external == is_external}
    return {zone: number for zone, number in sorted(numbers.items()) if number}


def _bytes(ends: Mapping[tuple[bool, str], _Total], *, is_external: bool) -> dict[str, TrafficBytes]:
    sizes = {
        zone: TrafficBytes(_whole(total.request), _whole(total.response))
        for (external, zone), total in ends.items()
        if external == is_external
    }
    return {zone: size for zone, size in sorted(sizes.items()) if size.request or size.response}


def _whole(amount: float) -> int:
    """``increase`` extrapolates, and returns fractions of what was counted."""
    return round(min(amount, _MOST))


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
