"""Folders outside of the tree, in the user's cache, which all clones share."""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def cache_folder(name: str, *, environment: Mapping[str, str]) -> Path:
    """A folder in the user's cache; it may not exist yet."""
    return Path(environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "/"), ".cache")), name)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder, so that two processes do not build the same files."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
