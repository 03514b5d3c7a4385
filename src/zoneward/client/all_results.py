"""Several calls at the same time, none of which outlives the others' failure."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")


async def all_results(works: Iterable[Coroutine[Any, Any, _T]]) -> tuple[_T, ...]:
    """What all of them return, in their order.

    Raises what the first one that failed raised, after the others were cancelled and have ended. With
    `asyncio.gather` they would go on, and use a connection that is closed by then.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except ExceptionGroup as failures:
        # One line for a person says more than four that say the same.
        raise failures.exceptions[0] from None
    return tuple(task.result() for task in tasks)
