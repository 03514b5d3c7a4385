"""Services that are being given back to the built-in controller, each in a task of its own, a few at a time."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from zoneward.client.api_errors import CallFailed
from zoneward.client.backoff import Backoff
from zoneward.client.writer import Writer
from zoneward.controller.handover.adopting import Adopting, Link, NothingToDo
from zoneward.daemon.log import Log, UnexpectedErrorLog
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import ObjectKey
from zoneward.routing.configuration import Configuration

AT_ONCE: Final = 4
"""Services that are given back at the same time: each may wait long for the built-in controller."""
BACKOFF: Final = Backoff(initial=5.0, cap=60.0)
"""After a release that failed."""


class Releases:
    """``over`` is told of each one that has ended: done, no longer asked for, or cancelled.

    One that fails is tried again after a pause, in which others have their turn.
    """

    def __init__(
        self,
        connection: Link,
        *,
        configuration: Configuration,
        writer: Writer,
        log: Log,
        over: Callable[[ObjectKey], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connection, self._configuration, self._writer = connection, configuration, writer
        self._log, self._over = log, over
        self._sleep = sleep
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[ObjectKey, asyncio.Task[None]] = {}
        self._unexpected = UnexpectedErrorLog(log)

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, key: ObjectKey) -> None:
        """Give a Service back, unless that is under way."""
        if key in self._tasks:
            return
        task = self._tasks[key] = asyncio.create_task(self._release(key), name=f"giving back {'/'.join(key)}")
        # Not in the task itself: cancelled before its first step it never runs at all.
        task.add_done_callback(partial(self._ended, key))

    def cancel(self) -> None:
        """Begin no further step; whoever leads goes on from where they are."""
        for task in self._tasks.values():
            task.cancel()

    async def end(self) -> None:
        """Cancel, and wait until nothing is written any more."""
        tasks = [*self._tasks.values()]
        self.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: ObjectKey, _task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        # The cache may lag; then it is found released, or goes on from where it is.
        self._over(key)

    async def _release(self, key: ObjectKey) -> None:
        log = self._log.bind(service="/".join(key))
        failures = 0
        while not await self._is_released(key, log):
            failures += 1
            await self._sleep(BACKOFF.delay(failures))

    async def _is_released(self, key: ObjectKey, log: Log) -> bool:
        """Try it once. False: it has to be tried again."""
        async with self._turn:
            adopting = Adopting(
                self._connection,
                key,
                configuration=self._configuration,
                tell=lambda line: log.info("a Service is given back", step=line),
                writer=self._writer,
            )
            try:
                # Whoever takes the selector away again meanwhile has adopted it again.
                await adopting.release(only_selected=True)
            except NothingToDo:
                return True
            except (CallFailed, InputError) as error:
                log.warning("a Service could not be given back", error=str(error))
                return False
            except Exception as error:
                self._unexpected.error("a mistake in the program kept a Service from being given back", key, error)
                return False
        return True
