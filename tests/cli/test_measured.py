"""``--measured``: what nodes counted, beside what is predicted; what a Prometheus is asked for, and mistakes."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.cli.a_prometheus import a_prometheus
from tests.cli.running import SAMPLE, Commands, configuration_file

EXAMPLE = Path(__file__).parents[2] / "examples" / "measured.jsonl"


@contextmanager
def serving(status: int, body: bytes) -> Iterator[str]:
    """The address of a server that answers everything alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/measured"
        finally:
            server.shutdown()


def decision(zoneward: Commands, service: str, *arguments: str | Path) -> dict[str, Any]:
    return dict(zoneward.json("plan", "-q", "-f", SAMPLE, service, *arguments)["decisions"][0])


def test_json_has_the_numbers_of_each_zone_and_where_they_come_from(zoneward: Commands) -> None:
    measured = decision(zoneward, "shop/images", "--measured", EXAMPLE)["measured"]
    assert (measured["connections"], measured["external"]) == (8100, 600)
    assert measured["zones"]["eu-central-1b"] == {
        "connections": 4000,
        "to": {"eu-central-1a": 2010, "eu-central-1c": 1990},
        "inZone": 0.0,
        "predictedInZone": 0.0,
    }
    assert decision(zoneward, "shop/cart", "--measured", EXAMPLE)["measured"] is None
    document = zoneward.json("plan", "-f", SAMPLE, "--measured", EXAMPLE)
    assert document["measured"]["nodes"] == {"eu-central-1a": ["worker-a1"], "eu-central-1b": ["worker-b1"]}
    assert document["measured"]["missingZones"] == ["eu-central-1c"]


def test_documents_come_from_files_directories_and_addresses(zoneward: Commands, tmp_path: Path) -> None:
    lines = EXAMPLE.read_bytes().splitlines()
    for index, line in enumerate(lines):
        (tmp_path / f"{index}.json").write_bytes(line)
    with serving(200, lines[0]) as url:
        for given in ((tmp_path,), (tmp_path / "0.json", tmp_path / "1.json"), (url, tmp_path / "1.json")):
            arguments = [argument for source in given for argument in ("--measured", source)]
            assert decision(zoneward, "shop/search", *arguments)["measured"]["connections"] == 19_437


def test_address_may_have_a_password_for_its_server_alone(zoneward: Commands) -> None:
    received: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(self.headers["Authorization"])
            moved = self.path == "/moved/measured"
            self.send_response(302 if moved else 200)
            if moved:
                self.send_header("Location", "/measured")
            self.end_headers()
            self.wfile.write(b"" if moved else EXAMPLE.read_bytes())

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            for path in ("measured", "moved/measured"):
                url = f"http://me:a%40b@127.0.0.1:{server.server_port}/{path}"
                assert decision(zoneward, "shop/search", "--measured", url)["measured"]["connections"] == 19_437
        finally:
            server.shutdown()
    basic = f"Basic {base64.b64encode(b'me:a@b').decode()}"
    assert received == [basic, basic, None]


def test_a_mistake_is_one_line(zoneward: Commands, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"kind": "Service"}')
    with serving(404, b"") as url:
        hidden = url.replace("//", "//me:secret@")
        for source, expected in (
            (tmp_path / "a.json", "a.json: kind: expected MeasuredTraffic, got Service"),
            (tmp_path / "c.json", "c.json: no such file or directory"),
            (url, f"{url}: expected an answer of status 200, got 404 Not Found"),
            (hidden, f"{url}: expected an answer of status 200, got 404 Not Found"),
            ("http://127.0.0.1:1/a.json", "http://127.0.0.1:1/a.json: expected an answer, got Connection refused"),
        ):
            err = zoneward.refused("plan", "-f", SAMPLE, "--measured", source)
            assert expected in err
            assert "secret" not in err


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
