"""Queries Prometheus, or a server with the same API: instant queries over HTTP(S), such as where traffic starts.

See the Prometheus documentation, HTTP API § Instant queries.
"""

import asyncio
import os
import ssl
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import isfinite
from sys import float_info
from typing import Final, Generic, TypeVar

import aiohttp
import msgspec

from zoneward import __version__
from zoneward.client.api_errors import AnswerTooLarge, CallFailed
from zoneward.client.auth.tls import authorities
from zoneward.client.http_connection import open_socket, proxy_for, read_body, translate_errors
from zoneward.kube.demand import DemandFigures
from zoneward.kube.input_error import InputError, show
from zoneward.kube.input_files import read_regular
from zoneward.kube.json_documents import DECODE_ERRORS
from zoneward.kube.objects import ObjectKey
from zoneward.kube.prometheus_settings import PrometheusSettings, is_node_name
from zoneward.kube.safe_text import basic_authorization

MAX_ANSWER: Final = 64 << 20
"""Bytes of an answer after decompression: 400,000 series with long names."""
MAX_SERIES: Final = 300_000
"""10,000 Services with clients in 30 zones."""
_LONGEST_ERROR: Final = 1 << 20
_MOST_WARNINGS: Final = 3
_MOST_NAMED: Final = 3
_LONGEST_TOKEN: Final = 1 << 16
_LARGEST_CA: Final = 1 << 20
OUTSIDE: Final = "external"
"""The zone of clients outside the cluster, which no node's proxy serves."""


class PrometheusUnavailable(Exception):  # noqa: N818 -- named by what happened, as in `api_errors`
    """There are no figures: the server is unreachable, slow, refuses, or sends an invalid answer. The text is one line
    that names the server.
    """

    def __init__(self, settings: PrometheusSettings, problem: str) -> None:
        super().__init__(str(InputError(settings.server, problem)))


class Prometheus:
    """One server. Each query opens a separate connection: queries are minutes apart."""

    def __init__(self, settings: PrometheusSettings, *, environment: Mapping[str, str] = os.environ) -> None:
        self.settings = settings
        self._environment = environment

    async def read_demand(self, *, nodes: Collection[str] | None = None) -> DemandFigures:
        """Where traffic started within the window, by Service and zone. Series of the same Service and zone are added.

        Only metrics that the settings select count, of programs that name one of the ``nodes``; with None, of programs
        on any node. Series without a Service or a zone, or without a finite number of at least 0, are skipped and
        counted in notes. Raises PrometheusUnavailable, also if no series remains.
        """
        gone: list[str] | None = None
        if nodes is not None and self.settings.query is None:
            gone = await self._unknown_nodes(nodes)
        query = self.settings.demand_query(
            without_nodes=None if gone is None else [name for name in gone if is_node_name(name)]
        )
        answer = await self.ask(query, _DEMAND, to_shorten=_TO_SUM)
        amounts: dict[ObjectKey, dict[str, float]] = {}
        left_out = Counter[str]()
        for labels, amount in counted_series(answer, left_out, problem_of=_problem):
            zones = amounts.setdefault((labels.namespace, labels.service), {})
            zones[labels.zone] = min(zones.get(labels.zone, 0.0) + amount, float_info.max)
        notes = (*answer.notes, *left_out_notes(left_out), *unknown_nodes_notes(gone or ()))
        if not amounts:
            trusted = "" if self.settings.query else f" with {{{self.settings.matchers}}} (demand.prometheus.selector)"
            expected = f"expected a number for each namespace, service and zone{trusted}, got no series"
            raise self.unavailable("; ".join((expected, *notes)))
        return DemandFigures(amounts, notes)

    async def _unknown_nodes(self, nodes: Collection[str]) -> list[str]:
        """Names of nodes that programs report and that are not in ``nodes``, sorted."""
        answer = await self.ask(self.settings.nodes_query, _NODES, to_shorten=_TO_SELECT)
        names = {series.metric.node for series in answer.data.result} - {*nodes}
        if len(names) > _MOST_UNKNOWN_NODES:
            expected = f"expected programs on nodes of the cluster, got {len(names):,} on others: {_TO_SELECT}"
            raise self.unavailable(expected)
        return sorted(names)

    async def ask(
        self,
        query: str,
        decoder: "msgspec.json.Decoder[Answer[_Labels]]",
        *,
        to_shorten: str,
        at: float | None = None,
    ) -> "Answer[_Labels]":
        """The vector that a query returns; ``decoder`` decodes the labels that are used. ``at``: the evaluation time in
        seconds since 1970; by default the server's current time. ``to_shorten`` says what to do about an answer that is
        too large. Raises PrometheusUnavailable.
        """
        form = {"query": query, "timeout": f"{max(1, round(self.settings.timeout))}s"}
        if at is not None:
            form["time"] = f"{at:.3f}"
        body = await self._post(form, to_shorten=to_shorten)
        # Count the series before decoding them, so that they take no memory.
        if (count := body.count(_SERIES_HEAD)) > MAX_SERIES:
            raise self.unavailable(f"expected at most {MAX_SERIES:,} series, got {count:,}: {to_shorten}")
        try:
            kind = _KIND.decode(body)
            if kind.status == "success" and kind.data.result_type != "vector":
                raise self.unavailable(f"expected a query that returns a vector, got a {kind.data.result_type}")
            answer = decoder.decode(body)
        except DECODE_ERRORS as error:
            raise self.unavailable(f"expected the answer of a Prometheus, got something else ({error})") from None
        if answer.status != "success":
            raise self.unavailable(f"expected an answer, got an error: {answer.error or 'without a text'}")
        return answer

    async def _post(self, form: Mapping[str, str], *, to_shorten: str) -> bytes:
        settings = self.settings
        url, headers = self._request()
        try:
            with translate_errors(limit=settings.timeout, server="a Prometheus", authorities="caFile"):
                async with (
                    asyncio.timeout(settings.timeout),
                    aiohttp.ClientSession(
                        connector=aiohttp.TCPConnector(socket_factory=open_socket),
                        cookie_jar=aiohttp.DummyCookieJar(),
                        timeout=aiohttp.ClientTimeout(total=None),
                        auto_decompress=False,
                    ) as session,
                    session.post(
                        f"{url}/api/v1/query",
                        data=form,
                        headers=headers,
                        ssl=self._tls(),
                        proxy=proxy_for(url, self._environment),
                        allow_redirects=False,
                    ) as response,
                ):
                    is_answer = response.status // 100 == 2
                    body = await read_body(response, limit=MAX_ANSWER if is_answer else _LONGEST_ERROR)
        except AnswerTooLarge as error:
            raise self.unavailable(f"{error.message}: {to_shorten}") from error
        except CallFailed as error:
            raise self.unavailable(error.message) from error
        if not is_answer:
            raise self.unavailable(_refusal(response, body))
        return body

    def _request(self) -> tuple[str, dict[str, str]]:
        """The address without credentials, and the headers of a request."""
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": f"zoneward/{__version__}",
        }
        if self.settings.token_file is not None:
            headers["Authorization"] = f"Bearer {self._token(self.settings.token_file)}"
        elif authorization := basic_authorization(self.settings.url):
            headers["Authorization"] = authorization
        return self.settings.server, headers

    def _token(self, file: str) -> str:
        try:
            token = read_regular(file, most=_LONGEST_TOKEN).decode().strip()
        except (OSError, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) else error
            raise self.unavailable(f"tokenFile: expected a readable file, got {file}: {problem}") from None
        if not token or not token.isascii() or not token.isprintable() or len(token) > _LONGEST_TOKEN:
            raise self.unavailable(f"tokenFile: expected a token on one line, got something else in {file}")
        return token

    def _tls(self) -> ssl.SSLContext | bool:
        if self.settings.ca_file is None:
            return True
        try:
            pem = read_regular(self.settings.ca_file, most=_LARGEST_CA)
            return ssl.create_default_context(cadata=authorities(pem))
        except (OSError, ValueError) as error:
            problem = (error.strerror if isinstance(error, OSError) else None) or error
            raise self.unavailable(
                f"caFile: expected certificates in PEM, got {self.settings.ca_file}: {problem}"
            ) from None

    def unavailable(self, problem: str) -> PrometheusUnavailable:
        return PrometheusUnavailable(self.settings, problem)


# --- answers ----------------------------------------------------------------------------------------------------------

_SERIES_HEAD: Final = b'"metric"'
_Labels = TypeVar("_Labels")
"""A struct of the labels that are used; an empty label is an absent one."""


class Series(msgspec.Struct, Generic[_Labels], gc=False):
    """``value``: time and number; None for a native histogram."""

    metric: _Labels
    value: tuple[float, str] | None = None

    @property
    def number(self) -> float | None:
        """The value, which Prometheus writes as text; None if it is not a number."""
        try:
            return None if self.value is None else float(self.value[1])
        except ValueError:
            return None


class Vector(msgspec.Struct, Generic[_Labels], gc=False):
    result: list[Series[_Labels]] = msgspec.field(default_factory=list)


class Answer(msgspec.Struct, Generic[_Labels], gc=False):
    status: str
    data: Vector[_Labels] = msgspec.field(default_factory=Vector)
    error: str | None = None
    warnings: list[str] | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """The server's warnings, such as that some of its data are missing."""
        texts = self.warnings or []
        shown = [str(InputError("Prometheus warns", text)) for text in texts[:_MOST_WARNINGS]]
        if len(texts) > _MOST_WARNINGS:
            shown.append(f"Prometheus warns of {len(texts) - _MOST_WARNINGS:,} things more")
        return tuple(shown)


class _DataKind(msgspec.Struct, gc=False, rename="camel"):
    result_type: str = ""


class _AnswerKind(msgspec.Struct, gc=False):
    status: str
    data: _DataKind = msgspec.field(default_factory=_DataKind)


_KIND: Final = msgspec.json.Decoder(_AnswerKind)


class _Refusal(msgspec.Struct, gc=False):
    error: str = ""


def _refusal(response: aiohttp.ClientResponse, body: bytes) -> str:
    if response.status // 100 == 3:
        return f"expected Prometheus, got a redirect to {response.headers.get('Location', 'nowhere')}"
    try:
        words = msgspec.json.decode(body, type=_Refusal).error
    except DECODE_ERRORS:
        words = ""
    return f"expected an answer, got {response.status}: {words or response.reason or 'without a reason'}"


def counted_series(
    answer: Answer[_Labels],
    left_out: Counter[str],
    *,
    problem_of: Callable[[_Labels], str | None] = lambda _labels: None,
) -> Iterator[tuple[_Labels, float]]:
    """Labels and values of the series that count. ``left_out`` counts the others by reason: what is wrong with their
    labels or their value.
    """
    for series in answer.data.result:
        labels, amount = series.metric, series.number
        problem = problem_of(labels)
        if problem is not None:
            left_out[problem] += 1
        elif amount is None or not isfinite(amount):
            left_out["without a finite number"] += 1
        elif amount < 0:
            left_out["with a negative number"] += 1
        else:
            yield labels, amount


def left_out_notes(left_out: Mapping[str, int]) -> tuple[str, ...]:
    """Lines about series that were skipped: their count by reason."""
    return tuple(
        f"{count:,} series {why} {'counts' if count == 1 else 'count'} for nothing"
        for why, count in sorted(left_out.items())
    )


def unknown_nodes_notes(names: Collection[str]) -> tuple[str, ...]:
    """A line about programs on nodes that are not in the cluster, whose metrics are ignored."""
    if not names:
        return ()
    named = some_names([name if is_node_name(name) else show(name) for name in sorted(names)])
    return (f"not counted: programs of nodes that are not in the cluster ({named})",)


def some_names(names: Sequence[str]) -> str:
    """The first names, and the count of the others."""
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


# --- demand -----------------------------------------------------------------------------------------------------------

_TO_SUM: Final = "let the query sum by namespace, service and zone"


class _DemandLabels(msgspec.Struct, gc=False):
    namespace: str = ""
    service: str = ""
    zone: str = ""


_MOST_UNKNOWN_NODES: Final = 1000
_TO_SELECT: Final = "let demand.prometheus.selector select the jobs of Zoneward's programs"


class _NodeLabel(msgspec.Struct, gc=False):
    node: str = ""


_NODES: Final = msgspec.json.Decoder(Answer[_NodeLabel])
_DEMAND: Final = msgspec.json.Decoder(Answer[_DemandLabels])


def _problem(labels: _DemandLabels) -> str | None:
    """Why the labels exclude a series; None if it counts."""
    if not labels.namespace or not labels.service:
        return "without a namespace and a service"
    if not labels.zone:
        return "without a zone"
    return "of clients outside the cluster" if labels.zone == OUTSIDE else None
