"""Series of meters and proxies in Prometheus become documents of nodes; invalid series are counted and reported."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qs

import pytest
from aiohttp import web
from msgspec import UNSET
from tests.client.serving import served

from zoneward.client.prometheus import Prometheus, PrometheusUnavailable
from zoneward.client.prometheus_traffic import FoundTraffic, read_traffic
from zoneward.kube.demand import MeasuredTraffic, ServiceTraffic, TrafficBytes
from zoneward.kube.prometheus_settings import PrometheusSettings

NOW: Final = 1_700_000_000.0
HOUR: Final = 3600
Series = tuple[dict[str, str], object]
METER: Final = {"job": "meter", "instance": "10.0.0.1:10274", "pod": "m-1"}
PROXY: Final = {"job": "proxy", "instance": "10.0.0.1:10272", "pod": "p-1"}
CART: Final = {"namespace": "shop", "service": "cart", "address_type": "IPv4", "from_zone": "a", "to_zone": "b"}


def about(
    scrape: dict[str, str], node: str, zone: str = "a", *, first: float = HOUR, last: float = 0, samples: int = 241
) -> list[Series]:
    """Series about a program: its count of samples, the first and the last of them this many seconds ago."""
    labels = {**scrape, "node": node, "zone": zone}
    figures = {"first": NOW - first, "last": NOW - last, "number": samples}
    return [({**labels, "figure": figure}, str(value)) for figure, value in figures.items()]


async def found_in(
    *,
    connections: Sequence[Series] = (),
    sizes: Sequence[Series] = (),
    proxied: Sequence[Series] = (),
    programs: Sequence[Series] = (),
    moment: float = NOW,
    **more: Any,
) -> tuple[FoundTraffic, list[dict[str, list[str]]]]:
    """The traffic in these answers, and the queries."""
    asked: list[dict[str, list[str]]] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(parse_qs(await request.text()))
        (query,) = asked[-1]["query"]
        kinds = {"_info": programs, "_bytes_total": sizes, "zoneward_proxy": proxied, "": connections}
        series = next(value for name, value in kinds.items() if name in query)
        result = [{"metric": labels, "value": [moment, value]} for labels, value in series]
        data = {"resultType": "vector", "result": result}
        return web.json_response({"status": "success", "data": data, "warnings": more.get("warnings")})

    async with served(answer) as server:
        settings = PrometheusSettings(url=server.url, window=HOUR)
        return await read_traffic(Prometheus(settings, environment={}), nodes=more.get("nodes")), asked


def sized(labels: dict[str, str], request: float, response: float) -> list[Series]:
    return [({**labels, "direction": way}, str(size)) for way, size in (("request", request), ("response", response))]


async def test_a_meter_is_a_document_as_it_would_serve_it() -> None:
    outside = {**METER, **CART, "from_zone": "external"}
    traffic, asked = await found_in(
        connections=[({**METER, **CART}, "99.6"), ({**METER, **CART, "to_zone": ""}, "0.2"), (outside, "7")],
        sizes=sized({**METER, **CART}, 1e3, 5e9) + sized(outside, 10, 20),
        programs=about(METER, "n1"),
    )
    assert traffic == FoundTraffic(
        (
            MeasuredTraffic(
                node="n1",
                zone="a",
                since=datetime.fromtimestamp(NOW - HOUR, UTC),
                until=datetime.fromtimestamp(NOW, UTC),
                services=(
                    ServiceTraffic(
                        namespace="shop",
                        service="cart",
                        address_type="IPv4",
                        zones={"b": 100},
                        external={"b": 7},
                        bytes={"b": TrafficBytes(1000, 5_000_000_000)},
                        external_bytes={"b": TrafficBytes(10, 20)},
                    ),
                ),
            ),
        ),
        (),
    )
    assert [form.get("time") for form in asked] == [None, *[["1700000000.000"]] * 3], "all are of one moment"


async def test_a_document_covers_the_time_of_the_samples() -> None:
    last = {**METER, "instance": "10.0.0.2:10274"}
    traffic, _ = await found_in(
        connections=[({**METER, **CART}, "6"), ({**last, **CART}, "6")],
        programs=[
            *about(METER, "n1", first=1805, last=15, samples=180),
            *about(last, "n2", first=900, last=900, samples=1),
        ],
    )
    assert [(NOW - document.since.timestamp(), NOW - document.until.timestamp()) for document in traffic.documents] == [
        (1810, 0),
        (900, 900),
    ]


async def test_one_program_and_one_job_count_on_a_node() -> None:
    twice, after = {**METER, "job": "pods"}, {**METER, "pod": "m-2"}
    traffic, _ = await found_in(
        connections=[({**METER, **CART}, "10"), ({**twice, **CART}, "9"), ({**after, **CART}, "5")],
        proxied=[
            ({**PROXY, **CART, "asked": "cluster-ip"}, "14"),
            ({**PROXY, "instance": "10.0.0.2:10272", **CART, "asked": "external"}, "3"),
        ],
        programs=[
            *about(METER, "n1", last=1800, samples=120),
            *about(twice, "n1"),
            *about(after, "n1", first=1700, samples=113),
            *about(PROXY, "n1"),
            *about({**PROXY, "instance": "10.0.0.2:10272"}, "n2", ""),
        ],
    )
    first, second = traffic.documents
    assert (first.node, first.services[0].zones, first.services[0].bytes) == ("n1", {"b": 15}, UNSET)
    assert (second.node, second.zone, second.services[0].external) == ("n2", None, {"b": 3})
    assert (first.until - first.since).total_seconds() == HOUR, "a new Pod continues the counts of the old one"
    assert traffic.notes == ("n1: several jobs scrape the same program; one of them counts",)


async def test_a_program_without_a_node_of_the_cluster_does_not_count() -> None:
    others = [{"job": "meter", "instance": f"10.0.0.{host}:10274"} for host in range(2, 6)]
    traffic, _ = await found_in(
        connections=[
            ({**scrape, **CART, "from_zone": zone}, "8")
            for scrape, zone in zip(others, ("a", "b", "", "a"), strict=True)
        ],
        programs=about(METER, "n1", "c"),
    )
    assert [(document.node, document.zone, len(document.services)) for document in traffic.documents] == [
        ("n1", "c", 0)
    ]
    (note,) = traffic.notes
    assert note.startswith("10.0.0.2:10274, 10.0.0.3:10274, 10.0.0.4:10274 and 1 more: no zoneward_meter_info or")
    assert note.endswith("; it does not count")
    forged = {**METER, "instance": "10.9.9.9:80"}
    answers: dict[str, Any] = {
        "connections": [({**METER, **CART}, "8"), ({**forged, **CART}, "1e6")],
        "programs": [*about(METER, "n1"), *about(forged, "ghost")],
    }
    traffic, asked = await found_in(**answers, nodes=["n1", "n2"])
    assert [(document.node, document.services[0].zones) for document in traffic.documents] == [("n1", {"b": 8})]
    assert traffic.notes == ("not counted: programs of nodes that are not in the cluster (ghost)",)
    assert all('job=~"zoneward-meter|zoneward-proxy"' in query for (query,) in (form["query"] for form in asked))
    with pytest.raises(PrometheusUnavailable, match="expected programs on nodes of the cluster, got none; not counted"):
        await found_in(**answers, nodes=["n3"])


async def test_a_node_that_changed_its_zone_is_where_it_is_now_and_may_be_incomplete() -> None:
    traffic, _ = await found_in(
        connections=[({**METER, **CART}, "3"), ({**METER, **CART, "from_zone": "c"}, "4")],
        programs=[
            *about(METER, "n1", "c", first=600, samples=40),
            *about(METER, "n1", "a", last=615, samples=201),
            ({**METER, "figure": "missing"}, "2"),
            ({"job": "x", "figure": "missing"}, "2"),
        ],
    )
    (document,) = traffic.documents
    assert (document.zone, document.complete, document.services[0].zones) == ("c", False, {"b": 7})
    assert document.since.timestamp() == NOW - HOUR


async def test_series_without_a_meaning_are_counted() -> None:
    traffic, _ = await found_in(
        connections=[
            *(({**METER, **CART}, name) for name in ("NaN", "-1", "many", "1e300", "5")),
            ({**METER, **CART, "address_type": "IPX"}, "5"),
            ({**METER, **CART, "service": ""}, "5"),
        ],
        programs=[*about(METER, "n1"), ({**METER, "figure": "first"}, "NaN")],
        warnings=["some data are missing"],
    )
    (document,) = traffic.documents
    assert document.services[0].zones == {"b": 10**18}
    assert traffic.notes == (
        "Prometheus warns: some data are missing",
        "1 series with a negative number counts for nothing",
        "3 series without a finite number count for nothing",
        "1 series without a namespace and a service counts for nothing",
        "1 series without a type of addresses counts for nothing",
    )


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({}, "expected connections that a meter or a proxy counted in the last 1 h, with {job=~"),
        (
            {"connections": [({**METER, **CART}, "NaN")]},
            "got none; 1 series without a finite number counts for nothing",
        ),
        ({"connections": [({**METER, **CART}, "1")], "moment": 1e300}, "(demand.prometheus.selector), got none"),
        ({"connections": [({**METER, "namespace": 1}, "1")]}, "got something else (Expected `str`"),
    ],
)
async def test_a_bad_answer_is_reported_in_one_line(answers: dict[str, Any], expected: str) -> None:
    with pytest.raises(PrometheusUnavailable) as raised:
        await found_in(**answers)
    assert expected in str(raised.value)
    assert str(raised.value).isprintable()


async def test_too_many_series_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneward.client.prometheus.MAX_SERIES", 1)
    expected = "expected at most 1 series, got 2: take what nodes serve at /measured instead"
    with pytest.raises(PrometheusUnavailable, match=expected):
        await found_in(sizes=sized({**METER, **CART}, 1, 1))
