"""Where output goes: lines for a person, notes on standard error, tables, and files that appear whole or not at all."""

import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import click

from zoneward.kube.input_error import InputError
from zoneward.kube.visible import visible

if TYPE_CHECKING:
    from zoneward.cli.options import Options

TABLE_WIDTH: Final = 100
_WIDEST: Final = 200
_PRIVATE: Final = 0o600
_USUAL: Final = 0o666
"""Less what the umask takes away."""
_READER_WITHIN: Final = 10.0
"""Seconds in which somebody has to read from a named pipe that is to be written."""
_LOOK: Final = 0.05


def print_line(text: str, *, err: bool = False) -> None:
    """Print one line, in which nothing controls the terminal."""
    click.echo(visible(text), err=err)


@dataclass(frozen=True, slots=True)
class Note:
    """A line for standard error; ``verbose`` ones only where more is asked for."""

    text: str
    verbose: bool = False


def tell(options: "Options", notes: Iterable[Note]) -> None:
    """Print notes on standard error, as far as they are wanted."""
    for note in notes:
        if not options.quiet and (not note.verbose or options.verbose):
            print_line(f"zoneward: {note.text}", err=True)


def wants_color(options: "Options") -> bool:
    """Whether tables are coloured: as asked, else on a terminal without NO_COLOR."""
    if options.color != "auto":
        return options.color == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def table_width(*, wide: bool = False) -> int:
    """Columns for a table: those of the terminal, else 100; a wide one never gets less than it needs."""
    if sys.stdout.isatty():
        return os.get_terminal_size(sys.stdout.fileno()).columns or TABLE_WIDTH
    return _WIDEST if wide else TABLE_WIDTH


# --- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def whole_file(
    path: Path,
    *,
    option: str = "--to",
    private: bool = False,
    at_once: Callable[[Callable[[], None]], None] = lambda _clean: None,
) -> Iterator[IO[bytes]]:
    """A file that shows up whole or not at all, in place of one that may be there; a device is written to as it is.

    Until it is whole it has a name beside it that nobody can know beforehand, and is never one that is there already:
    in a directory that others write to, they could lead us to another file. ``private``: nobody else may read it; one
    that is replaced keeps its mode.

    ``at_once`` is given what must be done where the process is ended without further ado. Raises InputError where the
    file can't be written, before anything is; ``option`` is what it speaks of.
    """
    if path.exists() and not path.is_file():
        with _opened(lambda: _device(path), asked=path, option=option) as file:
            yield file
        return
    # What a link points to is written, not the link.
    asked, path = path, path.resolve()
    making = path.with_name(f"{path.name}.{secrets.token_hex(8)}.making")
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    if mode is not None:
        # Replacing asks for less than writing.
        _opened(lambda: os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC), asked=asked, option=option).close()
    with _opened(lambda: _new(making, private=private), asked=asked, option=option) as file:
        at_once(lambda: making.unlink(missing_ok=True))
        try:
            yield file
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            making.replace(path)
        finally:
            with suppress(OSError):
                making.unlink(missing_ok=True)


def _opened(descriptor: Callable[[], int], *, asked: Path, option: str) -> IO[bytes]:
    try:
        return os.fdopen(descriptor(), "wb")
    except OSError as error:
        raise InputError(option, str(asked), f"expected a file that can be written: {error.strerror}") from error


def _new(path: Path, *, private: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, _PRIVATE if private else _USUAL)


def _device(path: Path) -> int:
    """A named pipe is waited for a while: opened as files are, it would be waited for as long as nobody reads."""
    deadline = time.monotonic() + _READER_WITHIN
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO or not path.is_fifo() or time.monotonic() > deadline:
                raise
            time.sleep(_LOOK)
        else:
            os.set_blocking(descriptor, True)
            return descriptor
