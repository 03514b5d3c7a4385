"""Lists in pages are complete, show one state, and take no more memory than needed."""

import asyncio
from collections.abc import Mapping

import pytest
from tests.client.a_server import AServer, Fault
from tests.controller.model.network import in_virtual_time

from zoneward.client.api_errors import AnswerTooLarge, Forbidden, Gone, ListTooLarge, UnexpectedResponse
from zoneward.client.list_pager import MAX_RESTARTS, ListScope, list_all, list_names, list_pages, list_resources
from zoneward.client.resources import CACHED_RESOURCES, NODES, PODS, SERVICES
from zoneward.client.transport import MAX_PAGE


def filled(count: int) -> AServer:
    server = AServer()
    for index in range(count):
        server.put("pods", f"p{index:04}", "even" if index % 2 == 0 else "odd")
    return server


async def names(server: AServer, *, size: int = 500, namespace: str | None = None) -> list[str]:
    return [pod.metadata.name for pod in await list_all(server, PODS, ListScope(namespace=namespace), size=size)]


def queries(server: AServer) -> list[dict[str, str]]:
    return [query for _, query in server.asked]


@pytest.mark.parametrize(("count", "pages"), [(0, 1), (1, 1), (10, 1), (11, 2), (30, 3)])
async def test_pages_together_are_all_objects_and_a_list_ends_where_its_objects_end(count: int, pages: int) -> None:
    server = filled(count)
    assert sorted(await names(server, size=10)) == [f"p{index:04}" for index in range(count)]
    assert [query["limit"] for query in queries(server)] == ["10"] * pages
    assert ["continue" in query for query in queries(server)] == [False, *[True] * (pages - 1)]


async def test_all_pages_are_of_what_is_asked_for() -> None:
    assert await names(filled(10), namespace="odd") == ["p0001", "p0003", "p0005", "p0007", "p0009"]
    server = filled(10)
    await list_all(server, PODS, ListScope(label_selector="app=a"), size=4)
    assert [query["labelSelector"] for query in queries(server)] == ["app=a"] * 3


async def test_a_list_whose_token_expires_restarts_and_shows_one_state() -> None:
    listed, firsts, server = list[str](), list[bool](), filled(30)
    async for page in list_pages(server, PODS, size=10):
        if page.is_first:
            listed.clear()
        if not firsts:
            server.delete("pods", "p0000", "even")
            server.plan(Fault.EXPIRE)
        firsts.append(page.is_first)
        listed += [pod.metadata.name for pod in page.objects]
    assert firsts == [True, True, False, False]
    assert sorted(listed) == [f"p{index:04}" for index in range(1, 30)]


async def test_a_list_whose_tokens_always_expire_is_asked_for_at_once() -> None:
    server = filled(30)
    for _ in range(MAX_RESTARTS):
        server.plan(Fault.EXPIRE)
    listed = await names(server, size=10)
    assert len(listed) == len(set(listed)) == 30
    assert queries(server)[-1] == {}
    assert len(server.met) == MAX_RESTARTS


async def test_the_first_kind_that_fails_is_reported_and_410_without_a_token_is_an_error_like_others() -> None:
    server = AServer(refusals={"nodes": 403, "pods": 410})
    with pytest.raises(Forbidden) as caught:
        await list_resources(server, (SERVICES, NODES))
    assert caught.value.path == "/api/v1/nodes"
    with pytest.raises(Gone):
        await names(server)


class Answering(AServer):
    """A server whose pages have these continue tokens in turn, or a new token each."""

    def __init__(self, *tokens: str, body: bytes | None = None) -> None:
        super().__init__()
        self._tokens, self._body = tokens, body

    async def get(self, path: str, query: Mapping[str, str] = {}, *, timeout: float | None = None) -> bytes:  # noqa: ARG002
        self.asked.append((path, dict(query)))
        index = len(self.asked)
        token = self._tokens[index % len(self._tokens)] if self._tokens else f"t{index}"
        return self._body or b'{"metadata":{"resourceVersion":"1","continue":"%s"},"items":[]}' % token.encode()


async def test_an_answer_that_is_not_a_list_is_reported() -> None:
    with pytest.raises(UnexpectedResponse, match=r"expected a list of pods, got something else: .*\$.items"):
        await list_all(Answering(body=b'{"items": {}}'), PODS)


async def test_several_kinds_are_asked_for_at_once() -> None:
    waiting = set[str]()

    class Slow(Answering):
        async def get(self, path: str, *_: object, **__: object) -> bytes:
            waiting.add(path)
            while len(waiting) < 4:
                await asyncio.sleep(0)
            return b'{"items": [{"metadata": {"name": "%s"}}]}' % path.rpartition("/")[2].encode()

    objects = await list_resources(Slow(), CACHED_RESOURCES)
    assert [obj.metadata.name for obj in objects] == ["services", "nodes", "pods", "endpointslices"]


@pytest.mark.parametrize(
    ("tokens", "limits", "message"),
    [
        (("a", "b", "c"), {}, "expected a list of pods with an end, got the same continue token twice"),
        ((), {"MAX_LIST_PAGES": 1_000}, "expected a list of pods of at most 1,000 pages, got more"),
        ((), {"MAX_LIST_BYTES": 1_000}, "expected a list of pods of at most 1,000 bytes, got more"),
    ],
)
async def test_a_list_that_never_ends_is_given_up_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tokens: tuple[str, ...], limits: dict[str, int], message: str
) -> None:
    for name, limit in limits.items():
        monkeypatch.setattr(f"zoneward.client.list_pager.{name}", limit)
    with pytest.raises(ListTooLarge, match=f"^{message}$"):
        async for _ in list_pages(Answering(*tokens), PODS):
            pass


async def test_a_page_that_is_too_large_is_asked_for_with_fewer_objects_and_later_pages_stay_below() -> None:
    class Heavy(AServer):
        async def get(self, path: str, query: Mapping[str, str] = {}, *, timeout: float | None = None) -> bytes:
            if int(query["limit"]) > 100:
                self.asked.append((path, dict(query)))
                raise AnswerTooLarge("too large")
            return await super().get(path, query, timeout=timeout)

    server = Heavy()
    for index in range(600):
        server.put("pods", f"p{index:04}")
    assert sorted(await names(server)) == [f"p{index:04}" for index in range(600)]
    limits = [query["limit"] for query in queries(server)]
    assert limits[:6] == ["500", "62", "124", "15", "30", "60"]
    assert sum(int(limit) > 100 for limit in limits) == 2


def test_lists_that_are_read_at_once_fit_into_256_mib_of_answers() -> None:
    assert len(CACHED_RESOURCES) * MAX_PAGE <= 256 << 20


def a_shop() -> AServer:
    server = AServer(page=2)
    for name in ("cart", "catalog", "checkout", "search", "wishlist"):
        server.put("services", name, "shop")
    server.put("services", "api", "payments")
    server.put("nodes", "n1")
    return server


async def test_all_pages_are_read() -> None:
    server = a_shop()
    every = await list_names(server, SERVICES, time_limit=10)
    assert every[0] == ("payments", "api")
    assert every[1:] == [("shop", name) for name in ("cart", "catalog", "checkout", "search", "wishlist")]
    assert await list_names(server, SERVICES, namespace="payments", time_limit=10) == [("payments", "api")]
    assert await list_names(server, NODES, time_limit=10) == [("", "n1")]


async def test_names_of_a_list_that_restarts_are_of_one_state() -> None:
    class Expiring(AServer):
        async def get(self, path: str, query: Mapping[str, str] = {}, *, timeout: float | None = None) -> bytes:
            if len(self.asked) == 2:
                # The second page is read, and the third is not.
                self.delete("services", "api", "payments")
                self.plan(Fault.EXPIRE)
            return await super().get(path, query, timeout=timeout)

    server = Expiring(page=2, objects=a_shop().objects)
    listed = await list_names(server, SERVICES, time_limit=10)
    assert server.met == [Fault.EXPIRE]
    assert listed == [("shop", name) for name in ("cart", "catalog", "checkout", "search", "wishlist")]


@in_virtual_time
async def test_what_came_in_time_counts() -> None:
    class Slow(AServer):
        async def get(self, path: str, query: Mapping[str, str] = {}, *, timeout: float | None = None) -> bytes:
            if "continue" in query:
                await asyncio.Event().wait()
            return await super().get(path, query, timeout=timeout)

    server = Slow(page=2, objects=a_shop().objects)
    assert await list_names(server, SERVICES, namespace="shop", time_limit=10) == [
        ("shop", "cart"),
        ("shop", "catalog"),
    ]


async def test_a_refusal_raises() -> None:
    with pytest.raises(Forbidden):
        await list_names(AServer(refusals={"services": 403}), SERVICES, time_limit=10)
