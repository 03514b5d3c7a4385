"""Calls at the same time end together."""

import asyncio

import pytest

from zoneward.client.transport_interface import all_results


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
