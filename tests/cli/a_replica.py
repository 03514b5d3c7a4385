"""``zoneward controller`` as a separate process, on a sandbox in this one."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from tests.patience import PATIENCE

from zoneward.sandbox.server.sandbox_server import SandboxServer


@dataclass
class Replica:
    process: asyncio.subprocess.Process
    log: list[dict[str, Any]] = field(default_factory=list)
    _more: asyncio.Event = field(default_factory=asyncio.Event)
    _all_read: asyncio.Event = field(default_factory=asyncio.Event)

    def lines(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.log if line["event"] == event]

    async def line(self, event: str, count: int = 1) -> dict[str, Any]:
        """The first line about an event, or a later one, once it is there."""
        async with asyncio.timeout(PATIENCE):
            while len(self.lines(event)) < count:
                self._more.clear()
                await self._more.wait()
        return self.lines(event)[count - 1]

    async def get(self, path: str) -> tuple[int, str]:
        port = (await self.line("status server listens"))["port"]
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
            return response.status, await response.text()

    def end(self, signal_number: int = signal.SIGTERM) -> None:
        self.process.send_signal(signal_number)

    async def ended(self) -> int:
        """The exit status, once the whole log is read: the process may have ended before."""
        async with asyncio.timeout(PATIENCE):
            await self._all_read.wait()
            return await self.process.wait()

    async def read(self) -> None:
        assert self.process.stderr is not None
        try:
            async for line in self.process.stderr:
                self.log.append(json.loads(line))
                self._more.set()
        finally:
            self._all_read.set()


@asynccontextmanager
async def a_replica(kubeconfig: Path, *arguments: str) -> AsyncIterator[Replica]:
    """It is over when the block is. Its log is read as it comes."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "zoneward", "controller", "--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0"),
        *(arguments or ("--take-over",)),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1"},
    )
    replica = Replica(process)
    reading = asyncio.create_task(replica.read())
    try:
        yield replica
    except BaseException:
        sys.stdout.writelines(f"{line}\n" for line in replica.log)
        raise
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await asyncio.wait_for(reading, PATIENCE)


def kubeconfig_of(server: SandboxServer, directory: Path) -> Path:
    file = directory / "kubeconfig.yaml"
    file.write_text(yaml.safe_dump(server.kubeconfig()))
    return file


async def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "not so in time"
        await asyncio.sleep(0.01)
