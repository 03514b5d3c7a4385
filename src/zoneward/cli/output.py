"""Output: lines for a person, notes on standard error, tables, and files that appear whole or not at all."""

import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from zoneward.kube.input_error import InputError
from zoneward.kube.safe_text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from zoneward.cli.options import Options
    from zoneward.report.html import Source
    from zoneward.report.table_parts import Table, TableParts

TABLE_WIDTH: Final = 100
_UNLIMITED: Final = 10_000
_NARROWEST: Final = 20
_PRIVATE_MODE: Final = 0o600
_DEFAULT_MODE: Final = 0o666
"""Before the umask."""
_READER_TIMEOUT: Final = 10.0
"""Seconds to wait for a reader of a named pipe."""
_POLL: Final = 0.05


def print_line(text: str, *, err: bool = False) -> None:
    """Print one line, in which nothing controls the terminal."""
    click.echo(printable(text), err=err)


@dataclass(frozen=True, slots=True)
class Note:
    """A line for standard error; ``verbose`` ones are printed only with ``-v``."""

    text: str
    verbose: bool = False


def print_notes(options: "Options", notes: Iterable[Note]) -> None:
    """Print notes on standard error, as ``-q`` and ``-v`` say; with several clusters, each with its context."""
    about = f"{options.context}: " if len(options.contexts) > 1 else ""
    for note in notes:
        if not options.quiet and (not note.verbose or options.verbose):
            print_line(f"zoneward: {about}{note.text}", err=True)


def shows_progress(options: "Options") -> bool:
    """Whether long work shows on standard error how far it is: on a terminal, unless ``-q``."""
    return not options.quiet and sys.stderr.isatty()


def wants_color(options: "Options") -> bool:
    """Whether tables are coloured: as ``--color`` says, by default on a terminal without NO_COLOR."""
    if options.color != "auto":
        return options.color == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_table(options: "Options", parts: "TableParts | Table") -> None:
    """Print a table for the width of the terminal."""
    from zoneward.report.terminal_text import render_text

    width = row_width()
    table = render_text(parts.for_terminal(width), color=wants_color(options), width=width)
    click.echo(table, nl=False, color=True)


def print_text(options: "Options", content: "RenderableType", *, crop: bool = True) -> None:
    """Print text in paragraphs, for the width of the terminal."""
    from zoneward.report.terminal_text import render_text

    text = render_text(content, color=wants_color(options), width=table_width(), crop=crop)
    click.echo(text, nl=False, color=True)


def print_json(kind: str, value: Any) -> None:
    """Print a documented value as JSON that begins with its version and ``kind``."""
    from zoneward.advice.json_value import as_document, to_json

    write(to_json(as_document(kind, value)))


def write(text: str | bytes) -> None:
    """Write to standard output as it is."""
    sys.stdout.buffer.write(text.encode() if isinstance(text, str) else text)


def page_source(options: "Options") -> "Source":
    """What the pages of all commands say about where their figures come from."""
    from zoneward import __version__
    from zoneward.report.html import Source

    if options.sample:
        cluster = "The sample cluster"
    else:
        cluster = ", ".join(options.files) or options.context or "The cluster of the current context"
    return Source(cluster, f"{datetime.now(UTC):%Y-%m-%d %H:%M}Z", __version__)


def print_document(document: dict[str, Any], form: str) -> None:
    """Print a document as ``json`` or ``yaml``."""
    if form == "json":
        from zoneward.advice.json_value import to_json

        write(to_json(document))
    else:
        from zoneward.report.manifests import to_yaml

        click.echo(to_yaml(document, ()), nl=False)


def table_width() -> int:
    """Columns for text: those of the terminal, otherwise those of COLUMNS, else 100."""
    return _given_width() or TABLE_WIDTH


def row_width() -> int:
    """Columns for a table with a row for each Service. In a pipe without COLUMNS names are whole, and each row is one
    line.
    """
    return _given_width() or _UNLIMITED


def _given_width() -> int | None:
    if sys.stdout.isatty():
        return os.get_terminal_size(sys.stdout.fileno()).columns or TABLE_WIDTH
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) >= _NARROWEST else None


# --- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def atomic_file(
    path: Path,
    *,
    option: str = "--to",
    private: bool = False,
    add_cleanup: Callable[[Callable[[], None]], None] = lambda _clean: None,
) -> Iterator[IO[bytes]]:
    """A file that appears whole or not at all, and replaces the one that was there; a device is written to directly.

    Until it is complete it has a random name beside the final one and is always a new file: in a directory that others
    write to, they could otherwise redirect us to another file. ``private``: only the owner may read it; a file that is
    replaced keeps its mode.

    ``add_cleanup`` takes a function to call if the process must exit at once. Raises InputError where the file can't be
    written, before anything is written; its message names ``option``.
    """
    if path.exists() and not path.is_file():
        with _opened(lambda: _device(path), given=path, option=option) as file:
            yield file
        return
    # Write to the target of a link, not over the link.
    given, path = path, path.resolve()
    making = path.with_name(f"{path.name}.{secrets.token_hex(8)}.making")
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    if mode is not None:
        # Replacing a file needs fewer permissions than writing to it, so check that we could write.
        _opened(lambda: os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC), given=given, option=option).close()
    with _opened(lambda: _new(making, private=private), given=given, option=option) as file:
        add_cleanup(lambda: making.unlink(missing_ok=True))
        try:
            yield file
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            making.replace(path)
        finally:
            with suppress(OSError):
                making.unlink(missing_ok=True)


def compressed_by_name(file: IO[bytes], name: str, *, level: int) -> AbstractContextManager[IO[bytes]]:
    """The file, or where ``name`` ends in .gz what compresses into it. Equal content gives equal bytes: it has neither
    a name nor a time in it.
    """
    if not name.lower().endswith(".gz"):
        return nullcontext(file)
    from gzip import GzipFile

    return GzipFile(filename="", mode="wb", compresslevel=level, fileobj=file, mtime=0)  # type: ignore[return-value]


def _opened(descriptor: Callable[[], int], *, given: Path, option: str) -> IO[bytes]:
    try:
        return os.fdopen(descriptor(), "wb")
    except OSError as error:
        raise InputError(option, str(given), f"expected a file that can be written: {error.strerror}") from error


def _new(path: Path, *, private: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, _PRIVATE_MODE if private else _DEFAULT_MODE)


def _device(path: Path) -> int:
    """Open a device. For the reader of a named pipe we wait a limited time; a plain open would wait forever."""
    deadline = time.monotonic() + _READER_TIMEOUT
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO or not path.is_fifo() or time.monotonic() > deadline:
                raise
            time.sleep(_POLL)
        else:
            os.set_blocking(descriptor, True)
            return descriptor
