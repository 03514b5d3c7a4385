"""A check returns a sentence that says what is wrong, or nothing."""

import asyncio

from tests.client.test_reflector import Scripted

from zoneward.client.api_errors import TooManyRequests
from zoneward.client.resources import PODS
from zoneward.client.watch_health import WatchHealth
from zoneward.daemon.health import Heartbeat, cache_is_synced, failed_checks, task_is_running, watches_are_open


def test_only_what_fails_is_told() -> None:
    checks = {"cache": cache_is_synced(lambda: False), "loop": lambda: None}
    assert failed_checks(checks) == {"cache": "the cluster has not been listed yet"}
    assert failed_checks({"cache": cache_is_synced(lambda: True)}) == {}


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


async def test_a_task_that_has_ended_is_told_however_it_ended() -> None:
    task = asyncio.create_task(asyncio.sleep(0), name="workers")
    assert task_is_running(task)() is None
    task.cancel()
    await asyncio.wait([task])
    assert task_is_running(task)() == "workers has ended"
