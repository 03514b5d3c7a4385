"""Reads measured traffic from Prometheus: what Zoneward's meters and proxies counted in a window, as node documents.

Each series is joined to the node of the program that it was scraped from by labels of the scrape (``job``, ``instance``
and ``pod``), which are the same with and without ``honor_labels``. The join is made here and not in PromQL, where one
duplicate fails the whole query, and a program whose node is unknown is dropped silently.

Any Pod that Prometheus scrapes can expose these metrics. So only the jobs that the settings select count, and only
programs that name a node of the cluster.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

import msgspec

from zoneward.client.prometheus import (
    OUTSIDE,
    Answer,
    Prometheus,
    counted_series,
    left_out_notes,
    some_names,
    unknown_nodes_notes,
)
from zoneward.kube.demand import MeasuredTraffic, ServiceTraffic, TrafficBytes
from zoneward.kube.prometheus_settings import SCRAPED_FROM, PrometheusSettings, own_labels, window_text

_STEPS: Final = 720
"""Steps of the window at which the queries check whether a program was running: two minutes for a day."""
_TO_SHORTEN: Final = "take what nodes serve at /measured instead"
_LATEST: Final = 2**32
"""Seconds since 1970, later than any clock."""
_MOST: Final = 1e18
"""Connections or bytes: more than any node counts."""
_Program = Literal["meter", "proxy"]
_MISSING: Final = ("unlisted_connections", "lost_messages", "connections_without_bytes")
"""Counters of a meter for traffic that its series miss, or have in part."""


class _ProgramLabels(msgspec.Struct, gc=False):
    """Labels of one program. ``figure`` says what the value is: the time of the ``first`` or ``last`` sample, the
    ``number`` of samples, or the connections that are ``missing`` in all series."""

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
    """A document for each node, by name, and lines about traffic that was skipped or is unknown."""

    documents: tuple[MeasuredTraffic, ...]
    notes: tuple[str, ...]


async def read_traffic(prometheus: Prometheus, *, nodes: Collection[str] | None) -> FoundTraffic:
    """What meters and proxies counted within the window of the settings; on a node with both, only the meter counts.

    Only programs on one of the ``nodes`` count; with None, programs on any node. If several jobs scrape the same node,
    the job with the most connections counts. A document covers the time for which Prometheus has samples of the
    program. Raises PrometheusUnavailable, also if nothing was counted.
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
        answer = await prometheus.ask(query, _TRAFFIC, to_shorten=_TO_SHORTEN, at=at)
        at = _moment(answer) if at is None else at
        collector.add_traffic(answer, program)
    if at is None or not collector.has_traffic:
        what = (
            f"connections that a meter or a proxy counted in the last {window_text(window)},"
            f" with {{{settings.matchers}}} (demand.prometheus.selector)"
        )
        raise prometheus.unavailable("; ".join((f"expected {what}, got none", *collector.notes())))
    about = await prometheus.ask(_about_programs(settings), _PROGRAMS, to_shorten=_TO_SHORTEN, at=at)
    collector.add_programs(about)
    documents = tuple(collector.documents(since=at - window, until=at))
    if not documents:
        expected = "expected programs on nodes of the cluster, got none"
        raise prometheus.unavailable("; ".join((expected, *collector.notes())))
    return FoundTraffic(documents, collector.notes())


def _moment(answer: Answer[_TrafficLabels]) -> float | None:
    """The evaluation time of a query; None if no series has it."""
    moment = next((series.value[0] for series in answer.data.result if series.value is not None), None)
    return moment if moment is not None and 0 <= moment <= _LATEST else None


# --- queries ----------------------------------------------------------------------------------------------------------


def _increase(metric: str, settings: PrometheusSettings, *more: str) -> str:
    labels = ",".join((SCRAPED_FROM, "namespace,service,address_type,from_zone,to_zone", *more))
    increase = f"increase({metric}{{{settings.matchers}}}[{settings.window}s])"
    return f"sum by ({labels}) ({own_labels(increase, 'namespace', 'service')})"


def _about_programs(settings: PrometheusSettings) -> str:
    """The query for the sample times of each program, and for what its series miss; ``figure`` names the part."""
    window, trusted = settings.window, settings.matchers
    info = f'{{__name__=~"zoneward_(meter|proxy)_info",{trusted}}}'
    looked = f"timestamp({info})[{window}s:{max(window * 1000 // _STEPS, 1)}ms]"
    labels = f"{SCRAPED_FROM},node,zone"
    missing = (
        f"sum by ({SCRAPED_FROM}) (increase(zoneward_meter_{counter}_total{{{trusted}}}[{window}s]))"
        for counter in _MISSING
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
    """The program that samples were scraped from."""

    job: str
    instance: str
    pod: str


class _Route(NamedTuple):
    namespace: str
    service: str
    address_type: Literal["IPv4", "IPv6"]
    is_external: bool
    to_zone: str


_Totals = defaultdict[str, float]
"""``connections``, and ``request`` and ``response`` bytes, as far as there are series of them."""


@dataclass(slots=True)
class _Scraped:
    """One program. ``program`` None: it counted nothing. ``node`` is empty if unknown. ``samples``: count of samples
    between the times ``first`` and ``last``. ``started``: connections by the zone where they started."""

    program: _Program | None = None
    node: str = ""
    zone: str = ""
    first: float = 0.0
    last: float = 0.0
    samples: float = 0.0
    is_complete: bool = True
    totals: dict[_Route, _Totals] = field(default_factory=dict)
    started: Counter[str] = field(default_factory=Counter)

    @property
    def connections(self) -> float:
        return sum(totals["connections"] for totals in self.totals.values())

    def covered(self, since: float, until: float) -> tuple[float, float]:
        """The part of the window that its increases cover, as ``increase`` extrapolates (Prometheus: extrapolatedRate):
        up to an end of the window that is nearer than 1.1 sample intervals, else half an interval beyond the first or
        last sample. ``first`` and ``last`` have the resolution of a step, so the true distance may be one step shorter.
        """
        if not self.samples:
            return since, until
        first, last = min(max(self.first, since), until), max(min(self.last, until), since)
        if self.samples < 2 or first >= last:
            return first, first
        sample = (last - first) / (self.samples - 1)
        near = 1.1 * sample + (until - since) / _STEPS
        return (
            since if first - since < near else first - sample / 2,
            until if until - last < near else last + sample / 2,
        )


class _Collector:
    """Joins the answers of the queries."""

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
            # `_problem` has checked the address type.
            family: Literal["IPv4", "IPv6"] = "IPv4" if labels.address_type == "IPv4" else "IPv6"
            route = _Route(labels.namespace, labels.service, family, is_external, labels.to_zone)
            amount = min(amount, _MOST)
            figure = {"": "connections", "response": "response"}.get(labels.direction, "request")
            scraped.totals.setdefault(route, _Totals(float))[figure] += amount
            if not (labels.direction or is_external):
                scraped.started[labels.from_zone] += round(amount)

    def add_programs(self, answer: Answer[_ProgramLabels]) -> None:
        """A program whose node changed its zone has several series: the latest sample decides its zone."""
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
                scraped.samples += amount

    def documents(self, *, since: float, until: float) -> Iterable[MeasuredTraffic]:
        """One document for each node, by name; ``since`` and ``until`` are the ends of the window."""
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
            covered = [scraped.covered(since, until) for scraped in chosen]
            started = sum((scraped.started for scraped in chosen), Counter[str]())
            zones = [scraped.zone for scraped in chosen if scraped.zone] or [zone for zone, _ in started.most_common(1)]
            yield MeasuredTraffic(
                node=name,
                zone=next(iter(zones), None) or None,
                since=_time(min(start for start, _ in covered)),
                until=_time(max(end for _, end in covered)),
                complete=all(scraped.is_complete for scraped in chosen),
                services=tuple(_services(chosen)),
            )

    def _choose(self, node: str, on_node: Mapping[_Scrape, _Scraped]) -> list[_Scraped]:
        """The programs that count on a node: meter and proxy, or several jobs, count the same traffic."""
        programs = {scraped.program for scraped in on_node.values()}
        program: _Program | None = "meter" if "meter" in programs else "proxy" if "proxy" in programs else None
        jobs: dict[str, float] = {}
        for scrape, scraped in on_node.items():
            if scraped.program == program:
                jobs[scrape.job] = jobs.get(scrape.job, 0.0) + scraped.connections
        if len(jobs) > 1 and program is not None:
            self._several_jobs.append(node)
        job = max(sorted(jobs), key=lambda name: jobs[name])
        return [
            scraped for scrape, scraped in on_node.items() if scrape.job == job and scraped.program in (program, None)
        ]

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
    """Why the labels exclude a series; None if it counts."""
    if not labels.namespace or not labels.service:
        return "without a namespace and a service"
    if labels.address_type not in ("IPv4", "IPv6"):
        return "without a type of addresses"
    return None


def _services(scraped: Iterable[_Scraped]) -> Iterable[ServiceTraffic]:
    """Services with traffic, by name."""
    services: dict[tuple[str, str, Literal["IPv4", "IPv6"]], dict[tuple[bool, str], _Totals]] = {}
    for program in scraped:
        for route, totals in program.totals.items():
            sums = services.setdefault(route[:3], {}).setdefault(route[3:], _Totals(float))
            for figure, amount in totals.items():
                sums[figure] += amount
    for (namespace, service, address_type), ends in sorted(services.items()):
        has_bytes = any(totals.keys() & {"request", "response"} for totals in ends.values())
        zones: dict[bool, dict[str, int]] = {False: {}, True: {}}
        sizes: dict[bool, dict[str, TrafficBytes]] = {False: {}, True: {}}
        for (is_external, zone), totals in sorted(ends.items()):
            if count := _whole(totals["connections"]):
                zones[is_external][zone] = count
            size = TrafficBytes(_whole(totals["request"]), _whole(totals["response"]))
            if size.request or size.response:
                sizes[is_external][zone] = size
        if any((*zones.values(), *sizes.values())):
            yield ServiceTraffic(
                namespace=namespace,
                service=service,
                address_type=address_type,
                zones=zones[False],
                external=zones[True],
                bytes=sizes[False] if has_bytes else msgspec.UNSET,
                external_bytes=sizes[True] if has_bytes else msgspec.UNSET,
            )


def _whole(amount: float) -> int:
    """A whole count: ``increase`` extrapolates, and returns fractions."""
    return round(min(amount, _MOST))


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
