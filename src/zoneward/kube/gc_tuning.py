"""The settings of Python's garbage collector, for programs that hold a whole cluster.

A large cluster makes millions of objects. Reference counts free nearly all of them, and few are in cycles, but a full
collection walks over all of them, which takes as long as hundreds of changes. So the collector rests while objects
come, and what stays is frozen: it is never walked over again.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

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
