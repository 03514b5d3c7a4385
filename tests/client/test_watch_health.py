"""Troubles of what follows a cluster: those that last are told, until the watch stands again."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from zoneward.client.api_errors import CallFailed, Gone, Unreachable
from zoneward.client.resources import NODES, PODS
from zoneward.client.watch_health import WatchHealth


class Opening:
    """A connection whose streams open, or raise what they are told to."""

    def __init__(self) -> None:
        self.error: CallFailed | None = None

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, timeout: float | None = None) -> bytes:  # noqa: ARG002
        return b"got"

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], *, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:  # noqa: ARG002
        async def lines() -> AsyncIterator[bytes]:
            yield path.encode()

        if self.error is not None:
            raise self.error
        yield lines()


class Scene:
    def __init__(self) -> None:
        self.connection, self.now = Opening(), 100.0
        self.health = WatchHealth(self.connection, clock=lambda: self.now, patience=1.0)

    def lasting(self) -> tuple[float, CallFailed] | None:
        return self.health.lasting

    async def opens(self, path: str) -> list[bytes]:
        async with self.health.stream(path, {}, idle=1.0) as lines:
            return [line async for line in lines]


def test_a_trouble_is_told_once_it_lasts_with_its_beginning_and_its_latest_error() -> None:
    scene = Scene()
    first, second = Unreachable("one"), Unreachable("two")
    scene.health.trouble(PODS, first)
    assert scene.lasting() is None
    scene.now += 1.0
    assert scene.lasting() == (100.0, first)
    scene.health.trouble(PODS, second)
    assert scene.lasting() == (100.0, second)
    assert scene.health.trouble_seconds == 1.0


async def test_it_is_over_when_the_watch_of_that_kind_stands_again() -> None:
    scene = Scene()
    scene.health.trouble(PODS, Unreachable("pods"))
    scene.health.trouble(NODES, nodes := Unreachable("nodes"))
    scene.now += 5.0
    assert await scene.opens("/api/v1/namespaces/shop/pods") == [b"/api/v1/namespaces/shop/pods"]
    assert scene.lasting() == (100.0, nodes)
    scene.connection.error = Unreachable("still")
    with pytest.raises(Unreachable):
        await scene.opens("/api/v1/nodes")
    assert scene.lasting() is not None
    scene.connection.error = None
    await scene.opens("/api/v1/nodes")
    assert scene.lasting() is None
    assert scene.health.trouble_seconds == 0.0


async def test_a_version_that_is_forgotten_is_no_trouble_and_lists_go_through() -> None:
    scene = Scene()
    scene.health.trouble(PODS, Gone(410, "Expired", "too old"))
    scene.now += 60.0
    assert scene.lasting() is None
    assert await scene.health.get("/api/v1/pods", {}) == b"got"
