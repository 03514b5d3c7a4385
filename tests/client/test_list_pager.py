"""Lists in pages are complete, of one moment, and no larger in memory than they must be."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import pytest
from tests.client.a_client import AClient
from tests.client.a_server import AServer, Fault

from zoneward.client.api_errors import AnswerTooLarge, ApiError, Forbidden, Gone, ListTooLarge, UnexpectedResponse
from zoneward.client.list_pager import (
    LIMITS,
    MAX_RESTARTS,
    ListLimits,
    ListScope,
    list_all,
    list_pages,
    list_resources,
)
from zoneward.client.resources import CACHED_RESOURCES, NODES, PODS, SERVICES, WatchedResource, WatchedT

_R = TypeVar("_R")


def with_server(server: AServer, action: Callable[[AClient], Awaitable[_R]]) -> tuple[_R, list[dict[str, str]]]:
    """What the action gives, and the queries that it took."""

    async def act() -> tuple[_R, list[dict[str, str]]]:
        async with server, AClient(server.address) as client:
            result = await action(client)
            return result, [query for _, query in client.asked]

    return asyncio.run(act())


async def names(
    client: AClient, resource: WatchedResource[WatchedT], *, size: int = 500, namespace: str | None = None
) -> list[str]:
    return [
        thing.metadata.name for thing in await list_all(client, resource, ListScope(namespace=namespace), size=size)
    ]


def filled(number: int) -> AServer:
    server = AServer()
    for index in range(number):
        server.put("pods", f"p{index:04}", "even" if index % 2 == 0 else "odd")
    return server


def test_pages_have_500_objects_and_together_they_are_all() -> None:
    found, queries = with_server(filled(1201), lambda client: names(client, PODS))
    assert sorted(found) == [f"p{index:04}" for index in range(1201)]
    assert [query["limit"] for query in queries] == ["500", "500", "500"]
    assert "continue" not in queries[0]
    assert all(query["continue"] for query in queries[1:])


@pytest.mark.parametrize("number", [0, 1, 10, 11])
def test_a_list_ends_where_its_objects_end(number: int) -> None:
    found, queries = with_server(filled(number), lambda client: names(client, PODS, size=10))
    assert len(found) == number
    assert len(queries) == (2 if number > 10 else 1)


def test_one_namespace_alone_is_asked_for() -> None:
    found, _ = with_server(filled(7), lambda client: names(client, PODS, namespace="odd"))
    assert found == ["p0001", "p0003", "p0005"]


def test_all_pages_are_of_what_a_selector_selects() -> None:
    _, queries = with_server(
        filled(10), lambda client: list_all(client, PODS, ListScope(label_selector="app=a"), size=4)
    )
    assert len(queries) > 1
    assert all(query["labelSelector"] == "app=a" for query in queries)


def test_a_list_whose_token_expires_begins_anew_and_shows_one_moment() -> None:
    """Of two states of the cluster no mixture comes out: what was deleted in between is not in it."""
    server = filled(30)

    async def act(client: AClient) -> tuple[list[str], list[bool]]:
        found: list[str] = []
        firsts: list[bool] = []
        async for page in list_pages(client, PODS, size=10):
            if page.is_first:
                found = []
            if not firsts:
                server.delete("pods", "p0000", "even")
                server.plan(Fault.EXPIRE)
            firsts.append(page.is_first)
            found += [pod.metadata.name for pod in page.objects]
        return found, firsts

    (found, firsts), _ = with_server(server, act)
    assert server.met == [Fault.EXPIRE]
    assert firsts == [True, True, False, False]
    assert sorted(found) == [f"p{index:04}" for index in range(1, 30)]


def test_a_list_whose_tokens_always_expire_is_asked_for_at_once() -> None:
    server = filled(30)
    for _ in range(MAX_RESTARTS):
        server.plan(Fault.EXPIRE)
    found, queries = with_server(server, lambda client: names(client, PODS, size=10))
    assert len(found) == len(set(found)) == 30
    assert queries[-1] == {}
    assert len(server.met) == MAX_RESTARTS


def test_changes_while_pages_are_read_do_not_show() -> None:
    server = filled(20)

    async def act(client: AClient) -> tuple[list[str], set[str]]:
        found: list[str] = []
        versions: set[str] = set()
        async for page in list_pages(client, PODS, size=5):
            server.put("pods", f"p{len(found):04}-late", "odd")
            found += [pod.metadata.name for pod in page.objects]
            versions.add(page.version)
        return found, versions

    (found, versions), _ = with_server(server, act)
    assert sorted(found) == [f"p{index:04}" for index in range(20)]
    assert versions == {"120"}


def test_410_without_a_token_is_an_error_like_others() -> None:
    server = filled(1)
    server.refusals["pods"] = 410
    with pytest.raises(Gone):
        with_server(server, lambda client: names(client, PODS))


def test_what_is_no_list_is_told_as_such() -> None:
    class Odd(AClient):
        async def get(self, *_: object, **__: object) -> bytes:
            return b'{"items": {}}'

    with pytest.raises(UnexpectedResponse, match=r"expected a list of pods, got something else: .*\$.items"):
        asyncio.run(list_all(Odd("http://localhost"), PODS))


def test_several_kinds_are_asked_for_at_once() -> None:
    """No kind waits for another: each of four first requests is on its way before any is answered."""
    waiting: set[str] = set()
    at_once: list[int] = []

    class Slow(AClient):
        async def get(self, path: str, *_: object, **__: object) -> bytes:
            waiting.add(path)
            at_once.append(len(waiting))
            for _turn in range(5):
                await asyncio.sleep(0)
            waiting.remove(path)
            return b'{"items": [{"metadata": {"name": "%s"}}]}' % path.rpartition("/")[2].encode()

    things = asyncio.run(list_resources(Slow("http://localhost"), CACHED_RESOURCES))
    assert max(at_once) == 4
    assert [thing.metadata.name for thing in things] == ["services", "nodes", "pods", "endpointslices"]


def test_the_first_kind_that_fails_is_told() -> None:
    server = filled(1)
    server.refusals["nodes"] = 403

    async def act(client: AClient) -> object:
        return await list_resources(client, (SERVICES, NODES, PODS))

    with pytest.raises(Forbidden) as caught:
        with_server(server, act)
    assert isinstance(caught.value, ApiError)
    assert caught.value.path == "/api/v1/nodes"


class Endless(AClient):
    """A server whose pages have no end."""

    def __init__(self, *tokens: str) -> None:
        self.asked = []
        self._tokens = tokens

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, timeout: float | None = None) -> bytes:  # noqa: ARG002
        self.asked.append((path, dict(query or {})))
        number = len(self.asked)
        token = self._tokens[number % len(self._tokens)] if self._tokens else f"t{number}"
        return b'{"metadata":{"resourceVersion":"1","continue":"%s"},"items":[]}' % token.encode()


@pytest.mark.parametrize(
    ("tokens", "limits", "told"),
    [
        (("same",), LIMITS, "expected a list of pods with an end, got the same continue token twice"),
        (("a", "b", "c"), LIMITS, "expected a list of pods with an end, got the same continue token twice"),
        ((), LIMITS, "expected a list of pods of at most 10,000 pages, got more"),
        ((), ListLimits(bytes=1_000), "expected a list of pods of at most 1,000 bytes, got more"),
    ],
)
def test_a_list_that_never_ends_is_given_up_in_one_line(tokens: tuple[str, ...], limits: ListLimits, told: str) -> None:
    async def run() -> None:
        async for _ in list_pages(Endless(*tokens), PODS, limits=limits):
            pass

    with pytest.raises(ListTooLarge, match=f"^{told}$"):
        asyncio.run(run())


def test_a_page_that_is_too_large_is_asked_for_with_fewer_objects() -> None:
    class Heavy(AClient):
        async def get(
            self, path: str, query: Mapping[str, str] | None = None, *, timeout: float | None = None
        ) -> bytes:
            if int((query or {})["limit"]) > 100:
                self.asked.append((path, dict(query or {})))
                raise AnswerTooLarge("too large")
            return await super().get(path, query, timeout=timeout)

    async def run() -> tuple[list[str], list[str]]:
        async with filled(130) as server, Heavy(server.address) as client:
            found = await names(client, PODS)
            return found, [query["limit"] for _, query in client.asked]

    found, limits = asyncio.run(run())
    assert sorted(found) == [f"p{index:04}" for index in range(130)]
    assert limits == ["500", "62", "124", "15", "30", "60"]
