"""What is asked over HTTP is answered in time, in bounds, and never at the cost of the work."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import aiohttp.test_utils
import msgspec
import pytest
from tests.client.test_reflector import Scripted

from zoneward.client.api_errors import TooManyRequests
from zoneward.client.informers import WatchHealth
from zoneward.client.resources import PODS
from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.daemon.listen_address import ListenAddress
from zoneward.daemon.metrics import MetricsPage
from zoneward.daemon.status_server import (
    Health,
    Heartbeat,
    StatusLimits,
    StatusPages,
    StatusServer,
    cache_is_synced,
    watches_are_open,
)

Ask = Callable[..., Coroutine[None, None, tuple[int, str]]]


@asynccontextmanager
async def serving(
    health: Health | None = None,
    *,
    limits: StatusLimits | None = None,
    on_error: Callable[[Exception], None] = lambda _error: None,
    **pages: Any,
) -> AsyncIterator[Ask]:
    """A server on a socket, and how to ask it."""
    async with (
        StatusServer(health or Health(), StatusPages(**pages), limits=limits, on_error=on_error) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session,
    ):

        async def ask(path: str, method: str = "GET") -> tuple[int, str]:
            async with session.request(method, path) as response:
                return response.status, await response.text()

        yield ask


async def test_health_is_ok_or_says_in_a_sentence_what_is_not() -> None:
    is_synced = True
    ready = {"cache": cache_is_synced(lambda: is_synced), "alone": lambda: None}
    health = Health(live={"loop": lambda: None}, ready=ready)
    async with serving(health) as ask:
        assert await ask("/healthz") == (200, "ok")
        assert await ask("/readyz") == (200, "ok")
        assert await ask("/readyz?verbose") == (200, "[+]cache ok\n[+]alone ok\n")
        is_synced = False
        assert await ask("/readyz") == (503, "[-]cache failed: the cluster has not been listed yet\n[+]alone ok\n")


async def test_metrics_are_served_as_prometheus_asks_for_them() -> None:
    page = MetricsPage(ControllerMetrics().registry)
    async with (
        StatusServer(Health(), StatusPages(metrics=page.text)) as server,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{server.port}/metrics") as response,
    ):
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert "\nendpoint_slice_controller_num_endpoint_slices 0.0\n" in await response.text()


async def test_decisions_are_made_outside_the_event_loop_from_what_was_gathered_in_it() -> None:
    threads: list[int] = []

    def decisions(namespace: str, name: str) -> Callable[[], bytes] | None:
        threads.append(threading.get_ident())

        def work() -> bytes:
            threads.append(threading.get_ident())
            return f"{namespace}/{name}".encode()

        return work if name == "cart" else None

    async with serving(of_service={"/debug/decisions": decisions}) as ask:
        assert await ask("/debug/decisions/shop/cart") == (200, "shop/cart")
        assert threads[0] == threading.get_ident() != threads[1]
        assert await ask("/debug/decisions/shop/mail") == (404, "no Service shop/mail is known\n")
        # A Service that is not there keeps nobody waiting.
        assert (await ask("/debug/decisions/shop/cart"))[0] == 200


async def test_the_loop_turns_and_health_is_told_while_a_decision_takes_long() -> None:
    started, let_go = threading.Event(), threading.Event()

    def work() -> bytes:
        started.set()
        let_go.wait(60)
        return b"{}"

    async with serving(of_service={"/debug/decisions": lambda _namespace, _name: work}) as ask:
        slow = asyncio.create_task(ask("/debug/decisions/shop/cart"))
        await asyncio.to_thread(started.wait)
        assert await ask("/healthz") == (200, "ok")
        assert not slow.done()
        let_go.set()
        assert await slow == (200, "{}")


async def test_a_decision_that_takes_too_long_is_given_up_and_no_second_one_begins_beside_it() -> None:
    let_go, started = threading.Event(), 0

    def work() -> bytes:
        nonlocal started
        started += 1
        let_go.wait(60)
        return b"{}"

    pages = {"/debug/decisions": lambda _namespace, _name: work}
    async with serving(of_service=pages, limits=StatusLimits(seconds=0.1)) as ask:
        for _ in range(3):
            assert await ask("/debug/decisions/shop/cart") == (503, "no answer within 0.1 s\n")
        # A busy machine may start the thread later.
        while not started:
            await asyncio.sleep(0.01)
        assert started == 1
        let_go.set()
        while (await ask("/debug/decisions/shop/cart"))[0] != 200:
            await asyncio.sleep(0.01)


async def test_a_decision_that_fails_keeps_no_turn() -> None:
    troubles: list[Exception] = []

    def decisions(_namespace: str, name: str) -> Callable[[], bytes]:
        if name == "early":
            raise KeyError("early")
        return lambda: msgspec.json.encode(1 / 0)

    async with serving(of_service={"/debug/decisions": decisions}, on_error=troubles.append) as ask:
        for name in ("early", "late", "early", "late"):
            status, text = await ask(f"/debug/decisions/shop/{name}")
            assert (status, text) == (500, "the answer could not be made; the log says why\n")
    assert [type(trouble) for trouble in troubles] == [KeyError, ZeroDivisionError] * 2


async def test_answers_at_once_are_limited_and_health_is_not() -> None:
    let_go, started = asyncio.Event(), asyncio.Semaphore(0)

    async def metrics() -> bytes:
        started.release()
        await let_go.wait()
        return b""

    async with serving(metrics=metrics, limits=StatusLimits(concurrent=2)) as ask:
        slow = [asyncio.create_task(ask("/metrics")) for _ in range(2)]
        for _ in slow:
            await started.acquire()
        assert await ask("/metrics") == (503, "2 answers are under way, which is the limit\n")
        assert await ask("/readyz") == (200, "ok")
        let_go.set()
        assert [await answer for answer in slow] == [(200, "")] * 2
        assert await ask("/metrics") == (200, "")


async def test_values_are_told_as_json_and_an_answer_that_is_too_large_is_not_sent() -> None:
    async def metrics() -> bytes:
        return b"x" * 101

    values = {"/debug/queue": lambda: {"due": 2, "oldest": 0.5}}
    async with serving(values=values, metrics=metrics, limits=StatusLimits(size=100)) as ask:
        assert await ask("/debug/queue") == (200, '{"due":2,"oldest":0.5}')
        assert await ask("/metrics") == (503, "the answer has 101 bytes, more than 100\n")


async def test_what_is_not_there_is_said_with_what_is_and_nothing_can_be_changed() -> None:
    async with serving() as ask:
        for path in ("/", "/metrics", "/debug/queue", "/debug/decisions/a/b", "/debug/"):
            status, text = await ask(path)
            assert (status, text.startswith("expected one of /healthz, ")) == (404, True)
        assert await ask("/healthz", "POST") == (405, "expected GET, got POST\n")
    async with serving(of_service={"/debug/decisions": lambda _namespace, _name: lambda: b"{}"}) as ask:
        for path in ("/debug/decisions//cart", "/debug/decisions/shop/", "/debug/decisions/shop/cart/x"):
            assert (await ask(path))[0] == 404, path


async def test_what_names_services_is_told_on_loopback_addresses_unless_asked_otherwise() -> None:
    for remote, for_all, status in (
        ("127.0.0.1", False, 200),
        ("::1", False, 200),
        ("::ffff:127.0.0.1", False, 200),
        ("10.0.0.7", False, 403),
        ("", False, 403),
        ("10.0.0.7", True, 200),
    ):
        server = StatusServer(Health(), StatusPages(values={"/debug/queue": dict}), debug_for_all=for_all)
        request = aiohttp.test_utils.make_mocked_request("GET", "/debug/queue").clone(remote=remote)
        assert (await server.answer(request)).status == status, remote


OURS = ("127.0.0.1", "127.0.0.1:10272", "10.0.0.7:10272", "[::1]:10272", "[fd00::1]", "LOCALHOST", "worker-a2:10272")
OTHERS = ("evil.example:10272", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1:x", "127.0.0.1@x", "")


@pytest.mark.parametrize(("host", "status"), [*((host, 200) for host in OURS), *((host, 403) for host in OTHERS)])
async def test_a_page_is_told_to_who_asks_by_an_address_or_a_name_of_the_server(host: str, status: int) -> None:
    """Otherwise any page in a browser could read it, with a name that resolves to this address."""

    async def page() -> bytes:
        return b"{}"

    pages = StatusPages(
        values={"/debug/queue": dict},
        pages={"/measured": page},
        of_service={"/debug/decisions": lambda _namespace, _name: lambda: b"{}"},
        metrics=page,
    )
    async with (
        StatusServer(Health(), pages, names=("worker-a2",)) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}", headers={"Host": host}) as session,
    ):
        for path in ("/debug/queue", "/measured", "/debug/decisions/shop/cart"):
            async with session.get(path) as response:
                assert response.status == status
        # A kubelet asks by the Pod's address, Prometheus by any name.
        for path in ("/healthz", "/livez", "/readyz", "/metrics"):
            async with session.get(path) as response:
                assert response.status == 200


async def test_a_page_is_told_to_who_sends_no_host() -> None:
    """Browsers always do; HTTP/1.0 need not."""
    async with StatusServer(Health(), StatusPages(values={"/debug/queue": dict})) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /debug/queue HTTP/1.0\r\n\r\n")
        assert b" 200 " in await reader.readline()
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("host", ["127.0.0.1", None])
async def test_it_listens_where_it_is_told_to_and_nowhere_once_it_is_left(host: str | None) -> None:
    async with StatusServer(Health(), listen=ListenAddress(host, 0)) as server:
        served = [("::1" if ":" in host else "127.0.0.1", port) for host, port in server.addresses]
        assert "127.0.0.1" in dict(served)
        for address in served:
            _, writer = await asyncio.open_connection(*address)
            writer.close()
            await writer.wait_closed()
    for address in served:
        with pytest.raises(OSError, match="Connect"):
            await asyncio.open_connection(*address)


# --- checks -----------------------------------------------------------------------------------------------------------


async def test_program_is_not_ready_once_a_watch_is_missing_for_30_s() -> None:
    now = 100.0
    health = WatchHealth(Scripted([]), clock=lambda: now)
    check = watches_are_open(health)
    health.trouble(PODS, TooManyRequests(429, "", "", retry_after=3600.0))
    now = 129.0
    assert check() is None
    now = 131.0
    assert check() == "no changes have been received for 31 s"
    async with health.stream("/api/v1/pods", {"timeoutSeconds": "1"}, idle=1.0):
        assert check() is None


async def test_a_loop_that_stands_still_is_told_and_one_that_turns_again_is_well() -> None:
    now = 0.0
    heartbeat = Heartbeat(limit=30, clock=lambda: now)
    now = 30
    assert heartbeat() is None
    now = 41
    assert heartbeat() == "the event loop has not turned for 41 s"
    beating = asyncio.create_task(heartbeat.run(every=0))
    await asyncio.sleep(0)
    assert heartbeat() is None
    beating.cancel()
