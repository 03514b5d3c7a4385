"""Prometheus answers with figures or with anything else: a bad answer gives one clear line, and costs little."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import pytest
import trustme
from aiohttp import web
from tests.client.calling import drip
from tests.client.serving import HOST, Talk, refused_port, served, server_side, speaking
from tests.patience import PATIENCE

from zoneward.client.prometheus import Prometheus, PrometheusUnavailable
from zoneward.kube.demand import DemandFigures
from zoneward.kube.prometheus_settings import PrometheusSettings

Labels = dict[str, str]
CART: Final = {"namespace": "shop", "service": "cart", "zone": "a"}


def vector(*series: tuple[Labels, object], **more: Any) -> dict[str, Any]:
    result = [{"metric": labels, "value": [1700000000.5, value]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **more}


def answering(document: Any, status: int = 200) -> Callable[[web.BaseRequest], Awaitable[web.Response]]:
    async def answer(request: web.BaseRequest) -> web.Response:
        await request.read()
        text = document if isinstance(document, str) else json.dumps(document)
        return web.Response(text=text, status=status, content_type="application/json")

    return answer


async def figures_of(document: Any, status: int = 200) -> DemandFigures:
    async with served(answering(document, status)) as server:
        return await Prometheus(PrometheusSettings(url=server.url), environment={}).read_demand(nodes=None)


async def problem_of(document: Any, status: int = 200) -> str:
    with pytest.raises(PrometheusUnavailable) as raised:
        await figures_of(document, status)
    server, _, problem = str(raised.value).partition(": ")
    assert server.startswith(f"http://{HOST}:")
    assert str(raised.value).isprintable()
    return problem


async def test_figures_are_summed_by_service_and_zone() -> None:
    other = {**CART, "zone": "b", "pod": "p-1"}
    figures = await figures_of(vector((CART, "1.5"), ({**CART, "job": "x"}, "2"), (other, "0"), (other, "1e3")))
    assert figures == DemandFigures({("shop", "cart"): {"a": 3.5, "b": 1000.0}})


async def test_series_without_a_meaning_are_counted() -> None:
    figures = await figures_of(
        vector(
            *((CART, name) for name in ("NaN", "+Inf", "many", "-1", "7")),
            ({**CART, "zone": "external"}, "5"),
            ({**CART, "zone": ""}, "5"),
            ({"namespace": "shop", "service": "cart"}, "5"),
            ({"zone": "a"}, "5"),
            warnings=["one\nline", "2", "3", "4", "5"],
        )
    )
    assert figures.amounts == {("shop", "cart"): {"a": 7.0}}
    assert figures.notes == (
        "Prometheus warns: one?line",
        "Prometheus warns: 2",
        "Prometheus warns: 3",
        "Prometheus warns of 2 things more",
        "1 series of clients outside the cluster counts for nothing",
        "1 series with a negative number counts for nothing",
        "3 series without a finite number count for nothing",
        "1 series without a namespace and a service counts for nothing",
        "2 series without a zone count for nothing",
    )


async def demand_on(nodes: Sequence[str], *named: str) -> tuple[DemandFigures, list[str]]:
    """The figures of programs that name these nodes, and the queries."""
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        (query,) = parse_qs(await request.text())["query"]
        asked.append(query)
        is_about_nodes = query.startswith("group by (node)")
        series = [({"node": name}, "1") for name in named] if is_about_nodes else [(CART, "5")]
        return web.json_response(vector(*series))

    async with served(answer) as server:
        settings = PrometheusSettings(url=server.url)
        return await Prometheus(settings, environment={}).read_demand(nodes=nodes), asked


async def test_programs_that_name_no_node_of_the_cluster_do_not_count() -> None:
    figures, asked = await demand_on(["n1", "n2"], "n1")
    assert (figures.notes, len(asked)) == ((), 2)
    figures, asked = await demand_on(["n1", "n2"], "n1", "ghost", 'x"}\n', "", "n3")
    assert 'node!~"ghost|n3"' in asked[1]
    assert figures.notes == ("not counted: programs of nodes that are not in the cluster ('', ghost, n3 and 1 more)",)


async def test_more_unknown_nodes_than_a_query_can_name_are_refused() -> None:
    with pytest.raises(PrometheusUnavailable, match=r"expected programs on nodes of the cluster, got 1,001 on others"):
        await demand_on(["n1"], *(f"ghost-{index}" for index in range(1001)))


async def test_a_query_of_the_configuration_is_asked_as_it_is() -> None:
    async with served(answering(vector((CART, "5")))) as server:
        settings = PrometheusSettings(url=server.url, query="q")
        assert (await Prometheus(settings, environment={}).read_demand(nodes=["n1"])).notes == ()
        assert len(server.seen) == 1


async def test_sums_stay_finite() -> None:
    figures = await figures_of(vector((CART, "1e308"), ({**CART, "x": ""}, "1e308"), (CART, "1e308")))
    assert 1e308 < figures.amounts["shop", "cart"]["a"] < float("inf")


BAD: Final[dict[str, tuple[Any, int, str]]] = {
    "no series": (*(vector(), 200, "expected a number for each namespace, service and zone with {job=~"),),
    "no useful series": (vector((CART, "NaN")), 200, "got no series; 1 series without a finite number counts for"),
    "a histogram": (
        {"status": "success", "data": {"resultType": "vector", "result": [{"metric": CART, "histogram": [0, {}]}]}},
        *(200, "got no series; 1 series without a finite number"),
    ),
    "a matrix": (
        {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": CART, "values": []}]}},
        *(200, "expected a query that returns a vector, got a matrix"),
    ),
    "an error": ({"status": "error", "errorType": "x", "error": "too\u001b[1m slow"}, 200, "an error: too?[1m slow"),
    "a refusal": ({"status": "error", "error": "parse error"}, 400, "expected an answer, got 400: parse error"),
    "no permission": ("<html>", 401, "expected an answer, got 401: Unauthorized"),
    "a web page": ("<html>hello</html>", 200, "expected the answer of a Prometheus, got something else (JSON is"),
    "too many levels": (
        '{"status": "success", "data": {"resultType": "vector", "result": []}, "x": '
        + "[" * 100_000
        + "]" * 100_000
        + "}",
        *(200, "expected the answer of a Prometheus, got something else (maximum recursion depth exceeded"),
    ),
    "a refusal of too many levels": ('{"x": ' + "[" * 100_000, 400, "expected an answer, got 400: Bad Request"),
    "nothing": ("", 200, "expected the answer of a Prometheus, got something else (Input data was truncated)"),
    "other JSON": ("[1]", 200, "expected the answer of a Prometheus, got something else (Expected `object`"),
    "a result that is no list": (
        {"status": "success", "data": {"resultType": "vector", "result": {"a": 1}}},
        *(200, "expected the answer of a Prometheus, got something else (Expected `array`"),
    ),
    "labels that are no text": (vector(({"namespace": 1}, "1")), 200, "got something else (Expected `str`"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("what", BAD)
async def test_a_bad_answer_is_reported_in_one_line(what: str) -> None:
    document, status, message = BAD[what]
    assert message in await problem_of(document, status)


async def test_an_answer_of_too_many_series_or_bytes_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    million = '{"status":"success","data":{"resultType":"vector","result":[' + '{"metric":{}},' * 1_000_000 + "]}}"
    assert "expected at most 300,000 series, got 1,000,000: let the query sum" in await problem_of(million)
    monkeypatch.setattr("zoneward.client.prometheus.MAX_ANSWER", 1 << 20)
    assert "expected an answer of at most 1 MiB, got more: let the query" in await problem_of(million)
    monkeypatch.setattr("zoneward.client.prometheus.MAX_SERIES", 11)
    assert (await figures_of(vector(*[(CART, "1")] * 11))).amounts == {("shop", "cart"): {"a": 11.0}}
    assert "expected at most 11 series, got 12" in await problem_of(vector(*[(CART, "1")] * 12))


async def unavailable(settings: PrometheusSettings) -> str:
    with pytest.raises(PrometheusUnavailable) as raised:
        await Prometheus(settings, environment={}).read_demand()
    return str(raised.value)


async def test_a_server_that_is_away_is_named() -> None:
    port = refused_port()
    message = await unavailable(PrometheusSettings(url=f"http://me:secret@{HOST}:{port}"))
    assert message.startswith(f"http://{HOST}:{port}: no connection: connect")


async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example.org ESMTP\r\n")
    await writer.drain()


@pytest.mark.parametrize(
    ("talk", "seconds", "problem"),
    [(drip, 1.0, "no complete answer within 1 s"), (greet, 30.0, "the answer is not from a Prometheus")],
)
async def test_a_slow_server_and_one_with_another_protocol_are_reported(
    talk: Talk, seconds: float, problem: str
) -> None:
    async with speaking(talk) as port:
        assert problem in await unavailable(PrometheusSettings(url=f"http://{HOST}:{port}", timeout=seconds))


async def test_a_redirect_is_not_followed() -> None:
    async def redirect(_: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://elsewhere/login"})

    async with served(redirect) as server:
        message = await unavailable(PrometheusSettings(url=server.url))
        assert "expected Prometheus, got a redirect to http://elsewhere/login" in message
        assert len(server.seen) == 1


async def test_what_is_asked_and_how_it_is_signed(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc\n")
    bodies: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        bodies.append(await request.text())
        return web.json_response(vector((CART, "1")))

    async with served(answer) as server:
        port = server.port
        for settings in (
            PrometheusSettings(url=f"http://me:s%3A@{HOST}:{port}/select", query="q[$window]", window=60),
            PrometheusSettings(url=server.url, token_file=str(token)),
            PrometheusSettings(url=server.url),
        ):
            await Prometheus(settings, environment={}).read_demand()
        assert [request.headers.get("Authorization") for request in server.seen] == [
            "Basic bWU6czo=",
            "Bearer abc",
            None,
        ]
        assert [request.path for request in server.seen] == ["/select/api/v1/query", "/api/v1/query", "/api/v1/query"]
        assert bodies[0] == "query=q%5B60s%5D&timeout=30s"


@pytest.mark.parametrize("text", [None, "", "two\nlines", "\u00e9"])
async def test_a_token_that_cannot_be_sent_is_refused(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text)
    message = await unavailable(PrometheusSettings(url="http://127.0.0.1:1", token_file=str(file)))
    assert "tokenFile: expected a " in message


@pytest.mark.parametrize("field", ["token_file", "ca_file"])
async def test_pipe_is_no_file_of_credentials_and_is_not_waited_for(tmp_path: Path, field: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    settings = PrometheusSettings(url="https://127.0.0.1:1", **{field: str(pipe)})  # type: ignore[arg-type]
    async with asyncio.timeout(PATIENCE):
        assert f"{pipe}: it is not a regular file" in await unavailable(settings)


async def test_the_authority_of_the_server_may_be_given(tmp_path: Path) -> None:
    authority, file = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    async with served(answering(vector((CART, "1"))), tls=server_side(authority.issue_cert(HOST))) as server:
        settings = PrometheusSettings(url=server.url, ca_file=str(file))
        assert (await Prometheus(settings, environment={}).read_demand()).amounts
        message = await unavailable(PrometheusSettings(url=server.url))
        assert "the server's certificate is from an authority that caFile does not name" in message
    file.write_text("none")
    assert "caFile: expected certificates in PEM" in await unavailable(settings)
