"""Calls at the same time end together."""

import asyncio

import pytest

from zoneward.client.transport_interface import all_results


async def test_results_are_in_the_order_of_the_calls() -> None:
    async def after(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    assert await all_results(map(after, (3, 1, 2))) == (3, 1, 2)
    assert await all_results(map(after, ())) == ()


async def test_the_first_failure_is_raised_when_all_others_have_ended() -> None:
    ended: list[str] = []

    async def fail() -> None:
        raise ValueError("first")

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("hang")

    with pytest.raises(ValueError, match="first"):
        await all_results((hang(), fail(), hang()))
    assert ended == ["hang", "hang"]


async def test_where_the_caller_is_cancelled_all_have_ended_before_it() -> None:
    ended: list[int] = []

    async def hang(turns: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(turns):
                await asyncio.sleep(0)
            ended.append(turns)

    caller = asyncio.create_task(all_results(map(hang, (0, 3))))
    await asyncio.sleep(0.01)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended == [0, 3]
