"""``--measured`` with a Prometheus: what it is asked for, what is reported of it, and mistakes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.a_prometheus import a_prometheus
from tests.cli.running import Commands, configuration_file
from tests.cli.test_measured import serving

A, B = "eu-central-1a", "eu-central-1b"


def counted(node: str, service: str = "search") -> Callable[[str], list[dict[str, Any]]]:
    """The answers of a Prometheus that scrapes the meter of one node, in a zone of the sample."""
    scrape = {"job": "meter", "instance": "10.0.0.1:10274"}
    route = {"namespace": "shop", "service": service, "address_type": "IPv4", "from_zone": A}
    about: list[dict[str, Any]] = [
        {"metric": {**scrape, "node": node, "zone": A, "figure": figure}, "value": [1e9, value]}
        for figure, value in (("first", "999996400"), ("last", "1000000000"), ("number", "241"))
    ]
    connections: list[dict[str, Any]] = [
        {"metric": {**scrape, **route, "to_zone": to}, "value": [1e9, value]} for to, value in ((A, "75"), (B, "25"))
    ]

    def answer(query: str) -> list[dict[str, Any]]:
        return about if "_info" in query else connections if "zoneward_meter_connections" in query else []

    return answer


def test_what_it_counted_stands_beside_the_prediction(zoneward: Commands, tmp_path: Path) -> None:
    with a_prometheus(counted("worker-a1")) as server:
        file = configuration_file(tmp_path, f"demand: {{prometheus: {{url: {server.url}, window: 10m}}}}")
        for source, window, seconds, said in (
            ((f"prometheus+http://me:secret@127.0.0.1:{server.server_port}/"), (), 3600, "1 h"),
            (f"prometheus+{server.url}", ("--window", "24h"), 86400, "24 h"),
            (server.url, ("--window", "2h"), 7200, "2 h"),
            ("prometheus", ("--config", file), 600, "10 min"),
            ("prometheus", ("--config", file, "--window", "90s"), 90, "90 s"),
        ):
            done = zoneward("plan", "--sample", "shop/search", "-o", "json", "--measured", source, *window)
            assert done.status == 0, done.err
            assert json.loads(done.out)["decisions"][0]["measured"]["inZone"] == 0.75
            assert f"zoneward: measured traffic of 1 node from {server.url}, the last {said}\n" in done.err
            assert all(f"[{seconds}s" in query for query in server.asked)
            server.asked.clear()


def test_hostile_names_do_not_reach_the_terminal(zoneward: Commands) -> None:
    with a_prometheus(counted("worker-a1\x1b[2J", "b\n\x1b[1m")) as server:
        source = f"prometheus+{server.url}"
        for command in ("plan", "report"):
            done = zoneward(command, "--sample", "shop/search", "--measured", source, "-v")
            assert (done.out + done.err).replace("\n", "").isprintable()
    assert done.status == 2, "no node of it is one of the cluster"


def test_the_address_of_a_server_is_not_that_of_a_document(zoneward: Commands) -> None:
    with serving(200, b"<html>") as url:
        server = url.removesuffix("/measured")
        assert zoneward.refused("report", "--sample", "--measured", f"{server}/").endswith(
            f"; a meter or a proxy has {server}/measured\n"
        )
        assert "Prometheus" not in zoneward("report", "--sample", "--measured", url).err
