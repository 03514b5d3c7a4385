"""Troubles of what follows a cluster: those that last are told, until the watch stands again."""

import asyncio
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

    def opens(self, path: str) -> list[bytes]:
        async def run() -> list[bytes]:
            async with self.health.stream(path, {}, idle=1.0) as lines:
                return [line async for line in lines]

        return asyncio.run(run())


def test_a_trouble_is_told_once_it_lasts_with_its_beginning_and_its_latest_error() -> None:
    scene = Scene()
    first, second = Unreachable("one"), Unreachable("two")
    scene.health.trouble(PODS, first)
    lasting = [scene.health.lasting]
    scene.now += 1.0
    lasting.append(scene.health.lasting)
    scene.health.trouble(PODS, second)
    lasting.append(scene.health.lasting)
    assert lasting == [None, (100.0, first), (100.0, second)]
    assert scene.health.trouble_seconds == 1.0


def test_it_is_over_when_the_watch_of_that_kind_stands_again() -> None:
    scene = Scene()
    scene.health.trouble(PODS, Unreachable("pods"))
    scene.health.trouble(NODES, Unreachable("nodes"))
    scene.now += 5.0
    assert scene.opens("/api/v1/namespaces/shop/pods") == [b"/api/v1/namespaces/shop/pods"]
    trouble = scene.health.lasting
    assert trouble is not None
    assert trouble[1].message == "nodes"
    scene.opens("/api/v1/nodes")
    assert scene.health.lasting is None
    assert scene.health.trouble_seconds == 0.0


def test_it_is_not_over_while_the_watch_cannot_be_opened() -> None:
    scene = Scene()
    scene.health.trouble(PODS, Unreachable("pods"))
    scene.now += 5.0
    scene.connection.error = Unreachable("still")
    with pytest.raises(Unreachable):
        scene.opens("/api/v1/pods")
    assert scene.health.lasting is not None


def test_a_version_that_is_forgotten_is_no_trouble() -> None:
    scene = Scene()
    scene.health.trouble(PODS, Gone(410, "Expired", "too old"))
    scene.now += 60.0
    assert scene.health.lasting is None


def test_lists_go_through() -> None:
    assert asyncio.run(Scene().health.get("/api/v1/pods", {})) == b"got"
