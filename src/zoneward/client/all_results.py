"""Runs several calls at the same time; when one fails, the others are cancelled."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")


async def all_results(works: Iterable[Coroutine[Any, Any, _T]]) -> tuple[_T, ...]:
    """The results of all calls, in their order.

    Raises the error of the first call that failed, after the others were cancelled and have ended. With
    `asyncio.gather` they would continue, and use a connection that is closed by then.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except ExceptionGroup as failures:
        # Report the common cause once.
        raise failures.exceptions[0] from None
    return tuple(task.result() for task in tasks)
