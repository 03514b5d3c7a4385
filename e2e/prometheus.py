"""A real Prometheus on loopback, and programs for it to scrape."""

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final
from urllib.parse import urlencode

from e2e.nodes import Namespace
from e2e.ports import free_port
from e2e.processes import Process, ProcessError, fetch, wait_until

PACKAGE: Final = "prometheus"
"""Debian's, which `make e2e` installs."""
Sample = tuple[str, Mapping[str, str], float]
"""Name of a metric, labels, value."""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server."""

    url: str
    process: Process
    network: Namespace | None = None

    def wait_for(self, expr: str) -> None:
        """Wait until an instant query returns a series with a number."""
        wait_until(lambda: not all(math.isnan(value) for _, value in self.query(expr)), expr, self.process)

    def configuration(self, folder: Path, *, window: str = "1m") -> Path:
        """A configuration file with demand from the meters' metrics in this server."""
        source = {"url": self.url, "preset": "zoneward-meter", "window": window}
        demand = {"source": "prometheus", "prometheus": source, "refresh": "10s"}
        known = {"apiVersion": "zoneward.dev/v1alpha1", "kind": "ZonewardConfiguration"}
        file = folder / "measured.json"
        file.write_text(json.dumps({**known, "demand": demand}))
        return file

    def query(self, expr: str) -> list[tuple[dict[str, str], float]]:
        """Labels and values of the series of an instant query."""
        return [(sample["metric"], float(sample["value"][1])) for sample in self.read("query", query=expr)["result"]]

    def read(self, path: str, **query: str) -> Any:
        """The data of an API response. Raises ProcessError with its error."""
        status, text = self.get(f"/api/v1/{path}?{urlencode(query)}")
        if status != 200:
            raise ProcessError(f"{path} {query}: {status} {text}")
        return json.loads(text)["data"]

    def get(self, path: str) -> tuple[int, str]:
        """Status and body."""
        url = f"{self.url}{path}"
        return fetch(url) if self.network is None else self.network.call(fetch, url)


@contextmanager
def prometheus(
    folder: Path, jobs: Sequence[Mapping[str, Any]], *, rules: Sequence[Path] = (), network: Namespace | None = None
) -> Iterator[Prometheus]:
    """A Prometheus that scrapes ``jobs`` (``scrape_configs``) each second, with its files in ``folder``.

    ``rules`` are rule files, evaluated each second; ``network`` is the namespace that it is in, on whose loopback it
    listens.

    Raises ProcessError if it is not installed, or does not start.
    """
    program = shutil.which(PACKAGE)
    if program is None:
        raise ProcessError(f"the end-to-end tests need {PACKAGE} (Debian: apt-get install {PACKAGE})")
    file = folder / "prometheus.json"
    every = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    file.write_text(json.dumps({"global": every, "scrape_configs": jobs, "rule_files": [str(rule) for rule in rules]}))
    port = free_port()
    arguments = (f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}", "--web.console.libraries=none")
    enter = () if network is None else network.enter
    command = [*enter, program, *arguments, f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    with Process(command, log=folder / "prometheus.log") as process:
        server = Prometheus(f"http://127.0.0.1:{port}", process, network)
        wait_until(lambda: server.get("/-/ready")[0] == 200, "a Prometheus that is ready", process)
        yield server


@dataclass
class Exporter:
    """Serves samples at ``/metrics`` of a port of loopback. They may be replaced at any time."""

    port: int
    samples: Sequence[Sample] = ()

    def job(self, name: str, **more: Any) -> dict[str, Any]:
        """The entry of ``scrape_configs`` for it. ``labels``: what Prometheus adds."""
        labels = more.pop("labels", {})
        targets = [{"targets": [f"127.0.0.1:{self.port}"], "labels": labels}]
        return {"job_name": name, "static_configs": targets, **more}

    def text(self, time_of_day: float | None = None) -> str:
        """With the time of the samples, if it is given. Prometheus drops series without it when a scrape fails: on a
        busy machine, one may take longer than the limit."""
        end = "" if time_of_day is None else f" {time_of_day * 1000:.0f}"
        return "".join(
            f"{name}{{{','.join(f'{label}={json.dumps(text)}' for label, text in labels.items())}}} {value}{end}\n"
            for name, labels, value in self.samples
        )


@contextmanager
def exporter() -> Iterator[Exporter]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = started.text(time.time()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        started = Exporter(server.server_port)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield started
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def growing(grow: Callable[[float], None]) -> Iterator[None]:
    """Calls ``grow`` with the seconds that have passed until the block ends: a slow test finds an increase as well."""
    ends, began = Event(), time.monotonic()

    def go_on() -> None:
        while not ends.wait(0.1):
            grow(time.monotonic() - began)

    thread = Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
