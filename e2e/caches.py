"""What is made once is kept outside the tree, in the user's cache, for every clone."""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def cache_folder(name: str, *, environment: Mapping[str, str]) -> Path:
    """A folder among the user's caches; it may not be there yet."""
    return Path(environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "/"), ".cache")), name)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Waits until no other process is in such a block: two would make everything twice, in twice the memory."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
