"""What the server does when something is wrong with a request, with a client or with itself."""

import logging
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.patience import PATIENCE
from tests.sandbox.server.running_sandbox import RunningSandbox, run_sandbox

from zoneward.sandbox.server.garbage_collector import GarbageCollector
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import Registry

Object = dict[str, Any]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
NAMESPACES = "/api/v1/namespaces"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[RunningSandbox]:
    with run_sandbox(new_registry()) as sandbox_:
        yield sandbox_


def raw(sandbox: RunningSandbox, head: bytes) -> bytes:
    """The answer to a request that no library would send."""
    parts = urlsplit(sandbox.api.address)
    assert parts.hostname is not None
    assert parts.port is not None
    with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE) as connection:
        connection.sendall(head + b"\r\nHost: here\r\nConnection: close\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(65536), b""))


def fails(*_given: object, **_named: object) -> Any:
    raise LookupError("nobody thought of this")


def test_bug_is_logged_and_answered_with_500(
    sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Registry, "create", fails)
    answer = sandbox.api.send("POST", LEASES, {"metadata": {"name": "cart"}})
    problem = "LookupError: nobody thought of this"
    assert answer.headers["content-type"] == "application/json"
    assert answer.refusal == (500, "InternalError", f"Internal error occurred: {problem}")
    assert answer.object["details"] == {"causes": [{"message": problem}]}
    (record,) = caplog.records
    assert record.exc_info is not None
    assert LEASES in record.getMessage()
    assert sandbox.serving.token not in record.getMessage()


def test_bug_during_a_watch_ends_it_with_an_error(
    sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL), sandbox.api.watch(NAMESPACES) as watch:
        watch.take(4)
        monkeypatch.setattr("zoneward.sandbox.server.list_watch._Lines.of", fails)
        sandbox.api.request("POST", NAMESPACES, {"metadata": {"name": "during-a-watch"}})
        (last,) = watch.rest()
    assert (last["type"], last["object"]["reason"], last["object"]["code"]) == ("ERROR", "InternalError", 500)


def test_background_work_survives_a_bug(
    sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(GarbageCollector, "collect", fails)
    sandbox.api.request("POST", NAMESPACES, {"metadata": {"name": "going"}})
    sandbox.api.request("DELETE", f"{NAMESPACES}/going")
    wait(lambda: bool(caplog.records))
    monkeypatch.undo()
    wait(lambda: sandbox.api.send("GET", f"{NAMESPACES}/going").code == 404)


def test_undeletable_object_does_not_block_other_deletions(sandbox: RunningSandbox) -> None:
    gone = {"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"}
    default = sandbox.api.get(f"{NAMESPACES}/default")
    default["metadata"]["ownerReferences"] = [gone]
    sandbox.api.request("PUT", f"{NAMESPACES}/default", default)
    sandbox.api.request("POST", LEASES, {"metadata": {"name": "orphan", "ownerReferences": [gone]}})
    wait(lambda: sandbox.api.send("GET", f"{LEASES}/orphan").code == 404)
    assert sandbox.api.get(f"{NAMESPACES}/default")["status"] == {"phase": "Active"}


def test_watch_ends_when_its_client_disconnects(sandbox: RunningSandbox) -> None:
    server = sandbox.serving.handler
    with sandbox.api.watch(LEASES):
        wait(lambda: len(server._watches) == 1)
    wait(lambda: not server._watches)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"Authorization: Bearer \xff\xfe", id="header that is no UTF-8"),
        pytest.param(b"Authorization: Bearer", id="no token"),
        pytest.param(b"Accept: */*", id="no header"),
    ],
)
def test_request_without_the_token_is_refused(sandbox: RunningSandbox, line: bytes) -> None:
    for path in (b"/api/v1/pods", b"/", b"/%ff/api", b"/wrong/api/v1/pods", b"/wrong/healthz", b"/livez/ping"):
        answer = raw(sandbox, b"GET " + path + b" HTTP/1.1\r\n" + line)
        assert answer.startswith(b"HTTP/1.1 401 "), path


def wait(holds: Any) -> None:
    limit = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.01)
