"""A sandbox in a thread of this process, which a test may reach into."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from tests.contract.api import Api
from tests.patience import PATIENCE

from zoneward.sandbox.server.resource_registry import Registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class RunningSandbox:
    """``serving`` belongs to the thread of ``loop``: `inside` is the way to it."""

    api: Api
    serving: SandboxServer
    loop: asyncio.AbstractEventLoop

    def inside(self, work: Callable[[Registry], Result]) -> Result:
        """What ``work`` finds there, between two requests."""

        async def done() -> Result:
            return work(self.serving.registry)

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result(PATIENCE)


@contextmanager
def run_sandbox(registry: Registry) -> Iterator[RunningSandbox]:
    """Over HTTP, on loopback; the token is in the path."""
    is_ready = threading.Event()
    started: list[RunningSandbox] = []
    ends: list[asyncio.Event] = []

    async def serve() -> None:
        try:
            async with SandboxServer(registry) as serving:
                ends.append(asyncio.Event())
                started.append(RunningSandbox(Api(serving.address, ""), serving, asyncio.get_running_loop()))
                is_ready.set()
                await ends[0].wait()
        finally:
            is_ready.set()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert is_ready.wait(PATIENCE)
    try:
        yield started[0]
    finally:
        started[0].api.close()
        started[0].loop.call_soon_threadsafe(ends[0].set)
        thread.join(PATIENCE)
    assert not thread.is_alive()
