"""Services that are being given back to the built-in controller, each in a task of its own."""

import asyncio
from collections.abc import Callable
from typing import Final

from zoneward.controller.adopting import Adopting, Link
from zoneward.controller.log import Log
from zoneward.kube.input_error import InputError
from zoneward.routing.configuration import Configuration
from zoneward.sources.api_errors import CallFailed
from zoneward.sources.resources import Key
from zoneward.sources.writing import Writer

_AGAIN: Final = 5.0
"""Seconds after a release that failed."""


class Releases:
    """``over`` is told of each one that has come to its end, well or not."""

    def __init__(
        self, connection: Link, *, configuration: Configuration, writer: Writer, log: Log, over: Callable[[Key], None]
    ) -> None:
        self._connection, self._configuration, self._writer = connection, configuration, writer
        self._log, self._over = log, over
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, key: Key) -> None:
        """Give a Service back, unless that is under way."""
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._release(key), name=f"giving back {'/'.join(key)}")

    def cancel(self) -> None:
        """Begin no further step; whoever leads goes on from where they are."""
        for task in self._tasks.values():
            task.cancel()

    async def end(self) -> None:
        """Cancel, and wait until nothing is written any more."""
        tasks = [*self._tasks.values()]
        self.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _release(self, key: Key) -> None:
        log = self._log.bind(service="/".join(key))
        adopting = Adopting(
            self._connection,
            key,
            configuration=self._configuration,
            tell=lambda line: log.info("a Service is given back", step=line),
            writer=self._writer,
        )
        try:
            await adopting.release()
        except (CallFailed, InputError) as error:
            log.warning("a Service could not be given back", error=str(error))
            await asyncio.sleep(_AGAIN)
        finally:
            del self._tasks[key]
        # The cache may lag; then it is found released, or goes on from where it is.
        self._over(key)
