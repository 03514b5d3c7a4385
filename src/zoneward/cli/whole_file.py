"""The file that an option like ``--to`` names."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from zoneward.kube.input_error import InputError


@contextmanager
def whole_file(
    path: Path, *, option: str = "--to", at_once: Callable[[Callable[[], None]], None] = lambda _clean: None
) -> Iterator[IO[bytes]]:
    """A file that shows up whole or not at all, in place of one that may be there; a device is written to as it is.

    ``at_once`` is given what must be done where the process is ended without further ado. Raises InputError where the
    file can't be written, before anything is; ``option`` is what it speaks of.
    """
    if path.exists() and not path.is_file():
        with _file(path, "wb", asked=path, option=option) as file:
            yield file
        return
    # What a link points to is written, not the link.
    asked, path = path, path.resolve()
    making = path.with_name(f"{path.name}.making")
    if path.exists():
        # Replacing asks for less than writing.
        _file(path, "ab", asked=asked, option=option).close()
    at_once(lambda: making.unlink(missing_ok=True))
    try:
        with _file(making, "wb", asked=asked, option=option) as file:
            yield file
        if path.exists():
            shutil.copymode(path, making)
        making.replace(path)
    finally:
        making.unlink(missing_ok=True)


def _file(path: Path, mode: str, *, asked: Path, option: str) -> IO[bytes]:
    try:
        return path.open(mode)
    except OSError as error:
        raise InputError(option, str(asked), f"expected a file that can be written: {error.strerror}") from error
