"""The settings of Python's garbage collector, for programs that hold a whole cluster.

A large cluster makes millions of objects. Reference counts free nearly all of them, and few are in cycles, but a full
collection walks over all of them, which takes as long as hundreds of changes. So the collector rests while objects
come, and what stays is frozen: it is never walked over again.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final, NoReturn

_EVERY: Final = 10.0
"""Seconds between two collections of what is new."""
_FULL: Final = 360
"""Every so many of them is a full one. Objects that live for long and then end in a cycle, such as a connection that
broke off, are found by a full collection alone."""

disable_gc = gc.disable
enable_gc = gc.enable
freeze_objects = gc.freeze
"""All objects that exist now stay for long: no collection walks over them again."""


def restore_gc() -> None:
    """As it is when Python starts."""
    gc.unfreeze()
    gc.enable()


@contextmanager
def without_gc() -> Iterator[None]:
    """No collections inside the block. Afterwards the collector is as it was before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def frozen_objects() -> Iterator[None]:
    """What exists at the beginning of the block is not walked over inside it; nor what the block freezes itself."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def collect_seldom(
    started: Awaitable[None], *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> NoReturn:
    """Wait without collections until the program has started, freeze what it has then, and collect every 10 s.

    Until cancelled; then the collector is as it is when Python starts.
    """
    gc.disable()
    try:
        await started
        gc.collect()
        gc.freeze()
        for number in count(1):
            await sleep(_EVERY)
            gc.collect(1 if number % _FULL else 2)
        raise AssertionError("there is always one more")
    finally:
        restore_gc()
