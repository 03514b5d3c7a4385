"""``demand.prometheus``: what is read of it, what is refused, and the query that comes of it."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from zoneward.kube.input_error import ConfigurationError
from zoneward.kube.prometheus_settings import (
    PrometheusSettings,
    check_url,
    is_url,
    prometheus_url,
)
from zoneward.kube.settings import read_settings

URL: Final = {"url": "http://p:9090"}


def read(section: Mapping[str, Any]) -> PrometheusSettings:
    return read_settings(section, PrometheusSettings, within="w")


def test_all_settings_are_read() -> None:
    section = {
        "url": "https://a:b@p/select/",
        "window": "1h30m",
        "query": "sum by (zone) (rate(x[$window]))",
        "timeout": "2s",
        "tokenFile": "token",
        "caFile": "ca.pem",
        "preset": None,
        "selector": {"namespace": "zoneward-meter", "job": ["monitoring/meter", "pods:1"]},
    }
    settings = read(section)
    assert settings == PrometheusSettings(
        url="https://a:b@p/select",
        window=5400,
        query="sum by (zone) (rate(x[$window]))",
        timeout=2.0,
        token_file="token",
        ca_file="ca.pem",
        selector=(("job", ("monitoring/meter", "pods:1")), ("namespace", ("zoneward-meter",))),
    )
    assert settings.matchers == 'job=~"monitoring/meter|pods:1",namespace=~"zoneward-meter"'
    assert settings.demand_query(without_nodes=["n1"]) == "sum by (zone) (rate(x[5400s]))"
    assert str(settings) == "https://p/select (a query of the configuration, the last 90 min)"
    assert "b@" not in repr(settings), "it may be logged"


def test_preset_sums_traffic_from_inside_the_cluster() -> None:
    meter, proxy = read(URL), read({**URL, "preset": "zoneward-proxy", "window": "10m"})
    jobs = 'job=~"zoneward-meter|zoneward-proxy"'
    counted = f'increase(zoneward_meter_connections_total{{{jobs},from_zone!="external"}}[3600s])'
    assert f"{counted} and on (job,instance,pod) (last_over_time(zoneward_meter_info{{{jobs}}}[3600s]))" in (
        meter.demand_query()
    )
    assert f'zoneward_proxy_connections_total{{{jobs},asked="cluster-ip",from_zone!="external"}}[600s]' in (
        proxy.demand_query()
    )
    assert f"last_over_time(zoneward_proxy_info{{{jobs}}}[600s])" in proxy.nodes_query
    assert str(proxy) == "http://p:9090 (zoneward-proxy, the last 10 min)"


def test_preset_counts_one_of_the_jobs_that_scrape_a_program() -> None:
    labels = "instance,namespace,service,zone"
    expected = f"sum by (namespace,service,zone) (max by ({labels}) (sum by (job,{labels}) (label_replace("
    assert read(URL).demand_query().startswith(expected)


def test_preset_excludes_programs_outside_of_the_cluster() -> None:
    name = '"[a-z0-9][a-z0-9.-]{0,252}"'
    query = read(URL).demand_query(without_nodes=["gone", "a.b"])
    assert f'exported_node=~{name},exported_node!~"a[.]b|gone"' in query
    assert f'exported_node="",node=~{name},node!~"a[.]b|gone"' in query
    assert 'node!~""' in read(URL).demand_query(without_nodes=[])


REFUSED: Final[Mapping[str, tuple[Any, str]]] = {
    "no map": ("http://p", "w: expected a mapping, got 'http://p'"),
    "url without a scheme": ({"url": "p:9090"}, "w.url: expected http://HOST[:PORT] or https://HOST[:PORT], got 'p:"),
    "an unknown key": ({**URL, "adress": "x"}, "w.adress: expected one of url, window, preset, query, selector, "),
    "a preset that does not exist": ({**URL, "preset": "istio"}, "w.preset: expected zoneward-meter or zoneward-pro"),
    "a number as a window": ({**URL, "window": 3600}, "w.window: expected a duration (500ms, 15s, 1m30s), got '3600'"),
    "a short window": ({**URL, "window": "5s"}, "w.window: expected a duration from 1m to 720h, got '5s'"),
    "a long timeout": ({**URL, "timeout": "1h"}, "w.timeout: expected a duration from 1s to 5m, got 3600s"),
    "an empty selector": ({**URL, "selector": {}}, "w.selector: expected a map from labels to a value or a list of"),
    "a job for a selector": ({**URL, "selector": "meter"}, "w.selector: expected a map from labels to a value or a li"),
    "a label that is none": ({**URL, "selector": {"a-b": "x"}}, "w.selector: expected names of labels, got 'a-b'"),
    "an expression for a job": (
        {**URL, "selector": {"job": 'x"} or up{a="'}},
        "w.selector.job: expected a value or a list of at most 100, of letters, digits and _ . : / -, got 'x\"} or",
    ),
    "no job": ({**URL, "selector": {"job": []}}, "w.selector.job: expected a value or a list of at most 100, of lett"),
    "an empty query": ({**URL, "query": " "}, "w.query: expected text of at most 20000 characters, not empty, got ' '"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_setting_is_refused_in_one_line(what: str) -> None:
    section, message = REFUSED[what]
    with pytest.raises(ConfigurationError) as raised:
        read(section)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    "url", ["", "ftp://p", "http://", "http://p:0", "http://p:x", "http://[", "http://p?q", "http://p#f", "http://p\n"]
)
def test_invalid_server_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected http://HOST"):
        check_url(url)


def test_a_message_about_an_address_has_no_password() -> None:
    for url in ("http://me:secret@p:x", "http://me:secret@["):
        with pytest.raises(ValueError, match="expected http://HOST") as raised:
            check_url(url)
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("http://p:9090", "http://p:9090"),
        ("http://p:9090/", "http://p:9090"),
        ("https://me:secret@p", "https://me:secret@p"),
        ("https://mimir/prometheus", "https://mimir/prometheus"),
        ("prometheus+http://p:9090/measured", "http://p:9090/measured"),
        ("http://measured:9090", "http://measured:9090"),
        ("http://10.0.0.7:10274/measured", None),
        ("http://10.0.0.7:10274/measured/", None),
        ("https://files/of/all.jsonl.gz?signature=1/2", None),
        ("https://files/a.JSON", None),
    ],
)
def test_url_is_a_prometheus_unless_its_path_is_a_document(address: str, url: str | None) -> None:
    assert is_url(address)
    assert prometheus_url(address) == url


@pytest.mark.parametrize("address", ["prometheus+ftp://x", "prometheus+p:9090", "http://", "http://p/a b"])
def test_invalid_prometheus_url_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="expected http://HOST"):
        prometheus_url(address)


@pytest.mark.parametrize("address", ["prometheus", "measured.json", "-", "http.json"])
def test_a_file_is_no_url(address: str) -> None:
    assert not is_url(address)
