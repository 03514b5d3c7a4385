"""Errors of watches: lasting ones are reported until the watch is open again."""

import pytest
from tests.client.test_reflector import Answer, Scripted

from zoneward.client.api_errors import CallFailed, Gone, Unreachable
from zoneward.client.resources import NODES, PODS
from zoneward.client.watch_health import WatchHealth


class Scene:
    def __init__(self, *answers: Answer) -> None:
        self.now = 100.0
        self.health = WatchHealth(Scripted(*answers), clock=lambda: self.now, patience=1.0)

    def lasting(self) -> tuple[float, CallFailed] | None:
        return self.health.lasting

    async def opens(self, path: str) -> list[bytes]:
        async with self.health.stream(path, {"timeoutSeconds": "1"}, idle=1.0) as lines:
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
    scene = Scene([b"line"], Unreachable("still"), [])
    scene.health.trouble(PODS, Unreachable("pods"))
    scene.health.trouble(NODES, nodes := Unreachable("nodes"))
    scene.now += 5.0
    assert await scene.opens("/api/v1/namespaces/shop/pods") == [b"line"]
    assert scene.lasting() == (100.0, nodes)
    with pytest.raises(Unreachable):
        await scene.opens("/api/v1/nodes")
    assert scene.lasting() is not None
    await scene.opens("/api/v1/nodes")
    assert scene.lasting() is None
    assert scene.health.trouble_seconds == 0.0


async def test_a_version_that_is_forgotten_is_no_trouble_and_lists_go_through() -> None:
    scene = Scene(b"got")
    scene.health.trouble(PODS, Gone(410, "Expired", "too old"))
    scene.now += 60.0
    assert scene.lasting() is None
    assert await scene.health.get("/api/v1/pods", {}) == b"got"
