"""Settings of Python's garbage collector for programs that hold a whole cluster.

A large cluster needs millions of objects. Reference counts free nearly all of them, few are in cycles, and a full
collection takes as long as hundreds of changes. Therefore the collector is off while objects are loaded, and
long-lived objects are frozen, so that collections skip them.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

disable_gc = gc.disable
enable_gc = gc.enable
freeze_objects = gc.freeze
"""Collections skip all objects that exist now."""


def restore_gc() -> None:
    """Restore the defaults of Python."""
    gc.unfreeze()
    gc.enable()


@contextmanager
def without_gc() -> Iterator[None]:
    """Disable the collector inside the block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def frozen_objects() -> Iterator[None]:
    """Freeze the existing objects for the duration of the block; at its end unfreeze all objects."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
