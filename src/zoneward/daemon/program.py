"""One run of a program that runs for long: signals, tasks, a status server, and an end in order.

A program declares its health checks, starts named tasks that never end, serves its status, and waits until it receives
a signal or a task ends. A task that ends by itself ends the whole program: a restart is better than a program that does
half of its work.

The garbage collector runs rarely, and never over what the program holds from its start.
"""

import asyncio
import gc
import os
import signal
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final, NoReturn, TypeVar

from zoneward import __version__
from zoneward.client.api_errors import CallFailed, Gone
from zoneward.client.auth.client_config import ClientConfig
from zoneward.client.error_messages import log_message
from zoneward.client.resources import AnyWatchedResource
from zoneward.daemon.listen_address import ListenAddress
from zoneward.daemon.log import Log
from zoneward.daemon.status_server import Check, Health, Heartbeat, StatusPages, StatusServer, task_is_running
from zoneward.kube.gc_tuning import disable_gc, freeze_objects, restore_gc
from zoneward.kube.input_error import InputError

_Entered = TypeVar("_Entered")
_FAILED: Final = 1
_SIGNALLED: Final = 128
_MAX_TRACEBACK: Final = 900
"""Characters of where a part failed. A log cuts longer texts at their end, which says most."""


class Program:
    """``live`` and ``ready`` are its checks, in the order in which ``/healthz`` and ``/readyz`` report them."""

    def __init__(self, access: ClientConfig, *, log: Log) -> None:
        self._access, self._log = access, log
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self.heartbeat = Heartbeat()
        self.live: dict[str, Check] = {"event loop": self.heartbeat}
        self.ready: dict[str, Check] = {}

    # --- servers ------------------------------------------------------------------------------------------------------

    async def serve_status(
        self,
        stack: AsyncExitStack,
        pages: StatusPages,
        *,
        listen: ListenAddress,
        names: tuple[str, ...] = (),
        debug_for_all: bool,
        **fields: str,
    ) -> None:
        """Serve health, metrics and ``/debug`` until ``stack`` ends. ``fields`` go into the line of the log.

        Raises InputError where the address cannot be had.
        """
        server = StatusServer(
            Health(live=self.live, ready=self.ready),
            pages,
            listen=listen,
            names=names,
            debug_for_all=debug_for_all,
            on_error=lambda error: self._log.error("a request could not be answered", error=named_error(error)),
        )
        await enter_server(stack, server, option="--listen", listen=listen)
        host, port = server.addresses[0]
        self._log.info(
            "status server listens", host=host, port=port, version=__version__, **fields, context=self._access.context
        )

    # --- tasks --------------------------------------------------------------------------------------------------------

    def start(self, name: str, work: Coroutine[Any, Any, Any], *, is_live_check: bool = False) -> None:
        """Begin a task that has no end. ``is_live_check``: the program is not live once it has ended."""
        self._tasks[name] = task = asyncio.create_task(work, name=name)
        if is_live_check:
            self.live[name] = task_is_running(task)

    async def wait(self, *ends: asyncio.Event) -> None:
        """Until one of ``ends`` is set, or a task ends. Raises what a task raised."""
        waiting = [asyncio.create_task(event.wait()) for event in ends]
        try:
            await self.wait_for_tasks(*waiting)
            for task in self._tasks.values():
                if task.done():
                    task.result()
        finally:
            for waiter in waiting:
                waiter.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def wait_for_tasks(self, *others: "asyncio.Task[Any]", timeout: float | None = None) -> None:
        """Until one of the program's tasks or of ``others`` ends."""
        tasks = {*self._tasks.values(), *others}
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)

    async def end_tasks(self, *first: str) -> None:
        """Cancel the tasks ``first``, one after the other, and wait for each; then all others."""
        for name in first:
            await self._cancel(name)
        await self._cancel(*self._tasks)

    async def _cancel(self, *names: str) -> None:
        tasks = [self._tasks[name] for name in names if name in self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- words --------------------------------------------------------------------------------------------------------

    def error_message(self, error: CallFailed) -> str:
        """What is wrong, and what to do about it; without the server and the context, which no line needs again."""
        return log_message(error, self._access, now=datetime.now(UTC))

    def log_watch_error(self, resource: AnyWatchedResource, error: CallFailed, **fields: str) -> None:
        """A list or watch broke off. That the server no longer has a version is normal."""
        write = self._log.debug if isinstance(error, Gone) else self._log.warning
        write("a list or watch broke off", kind=resource.plural, **fields, error=self.error_message(error))


async def enter_server(
    stack: AsyncExitStack, server: AbstractAsyncContextManager[_Entered], *, option: str, listen: ListenAddress
) -> _Entered:
    """Have a server listen until ``stack`` ends. Raises InputError where the address cannot be had."""
    try:
        return await stack.enter_async_context(server)
    except (OSError, ValueError) as error:
        # ValueError: Python cannot encode the host.
        problem = (error.strerror if isinstance(error, OSError) else None) or error
        raise InputError(option, str(listen), f"expected an address that is free, got: {problem}") from error


def named_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def run_program(
    run: Callable[[asyncio.Event], Awaitable[None]],
    *,
    name: str,
    log: Log,
    access: ClientConfig,
) -> int:
    """Run a program until SIGTERM or SIGINT, which set the event that ``run`` gets; a second signal ends it at once.

    Returns the exit status: 0 after a signal, 1 where a part fails or the server refuses something essential.
    Raises InputError.
    """

    async def run_with_signals() -> None:
        stop = asyncio.Event()

        def on_signal(signal_number: int) -> None:
            if stop.is_set():
                log.warning("exiting immediately", signal=signal.Signals(signal_number).name)
                os._exit(_SIGNALLED + signal_number)
            stop.set()

        for stopping in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(stopping, on_signal, stopping)
        await run(stop)

    try:
        asyncio.run(run_with_signals())
    except KeyboardInterrupt:
        return _SIGNALLED + signal.SIGINT
    except CallFailed as error:
        log.error(f"the {name} ends: the server refuses it", error=log_message(error, access, now=datetime.now(UTC)))
        return _FAILED
    except InputError:
        raise
    except Exception as error:
        where = "".join(traceback.format_exception(error))[-_MAX_TRACEBACK:]
        log.error(f"the {name} ends: a part of it failed", error=named_error(error), where=where)
        return _FAILED
    return 0


# --- garbage collection -----------------------------------------------------------------------------------------------


_EVERY: Final = 10.0
"""Seconds between two collections of what is new."""
_FULL: Final = 360
"""One in this number is a full one. Objects that live for long and then end in a cycle, such as a connection that
broke off, are found by a full collection alone."""


async def collect_seldom(
    started: Awaitable[object], *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> NoReturn:
    """Wait without collections until the program has started, freeze what it has then, and collect every 10 s.

    Until cancelled; then the collector is as it is when Python starts.
    """
    disable_gc()
    try:
        await started
        gc.collect()
        freeze_objects()
        for collection in count(1):
            await sleep(_EVERY)
            gc.collect(1 if collection % _FULL else 2)
        raise AssertionError("there is always one more")
    finally:
        restore_gc()
