"""A server on loopback that answers queries as Prometheus does."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

Answer = Callable[[str], list[dict[str, Any]]]
"""The series of a query."""


class Answers(HTTPServer):
    """``asked`` has the queries."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Answers

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        (query,) = parse_qs(form)["query"]
        self.server.asked.append(query)
        data = {"resultType": "vector", "result": self.server.answer(query)}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"status": "success", "data": data}).encode())

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def a_prometheus(answer: Answer) -> Iterator[Answers]:
    with Answers(answer) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
