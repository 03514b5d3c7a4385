"""Reads the bytes of what ``-f`` names: files, directories and standard input."""

import os
import select
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

from zoneward.kube.input_error import InputError
from zoneward.kube.text_encoding import BLOCK, MAX_BYTES, detect_encoding, too_large

STDIN: Final = "-"
STDIN_NAME: Final = "standard input"
"""Its name in errors and warnings."""
SUFFIXES: Final = tuple(f"{suffix}{packed}" for packed in ("", ".gz") for suffix in (".yaml", ".yml", ".json"))
"""Files that are read in a directory; a file on the command line may have any name."""

_LARGE_BLOCK: Final = 1 << 20
_WRITER_WITHIN: Final = 10.0
"""Seconds to wait for a writer of a named pipe."""


def expand(paths: Sequence[str]) -> Iterator[str]:
    """The files to read, in the order given and without duplicates; those of a directory are sorted by path.

    Directories are read recursively, except names that begin with a dot (``.git``; ``..data``, the second copy in a
    mounted ConfigMap). Raises InputError.
    """
    if not paths:
        raise InputError("expected a file, a directory or - for standard input, got none")
    seen: set[str] = set()
    for path in paths:
        if not path:
            raise InputError("expected a file, a directory or - for standard input, got ''")
        for file in (path,) if path == STDIN else _below(path):
            key = file if file == STDIN else os.path.realpath(file)
            if key not in seen:
                seen.add(key)
                yield file


def load(file: str, *, stdin: BinaryIO | None) -> bytes | bytearray:
    """All bytes of a file, or of standard input for ``-``. Raises InputError, for junk after the first block."""
    if file == STDIN:
        if stdin is None:
            raise InputError(STDIN_NAME, "expected data, got none connected")
        try:
            return _content(STDIN_NAME, stdin)
        except MemoryError:
            raise InputError(STDIN_NAME, "expected data that fits into memory, got more") from None
    try:
        with open_file(file) as stream:
            status = os.fstat(stream.fileno())
            return _content(file, stream, size=status.st_size if stat.S_ISREG(status.st_mode) else None)
    except (OSError, ValueError) as error:
        raise _refused(file, error) from None
    except MemoryError:
        raise InputError(file, "expected a file that fits into memory, got a larger one") from None


def open_file(path: str | Path) -> BinaryIO:
    """Open a file for reading; a named pipe only if it has a writer. Raises OSError or ValueError.

    A usual open would wait for a writer without an end. The pipe of ``<(command)`` has no name, and waits for its
    command.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if _is_named_pipe(descriptor):
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(_WRITER_WITHIN * 1000):
                raise TimeoutError(None, f"nobody writes to this pipe within {_WRITER_WITHIN:g} s", str(path))
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_small(path: str | Path, *, most: int) -> bytes:
    """The first ``most`` bytes of a file, and one more if it is longer. Raises OSError or ValueError."""
    with open_file(path) as stream:
        return stream.read(most + 1)


def read_regular(path: str | Path, *, most: int) -> bytes:
    """As `read_small`, but only for a regular file, as for tokens, keys and certificates: each request would wait for a
    pipe, and a device may have no end."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 -- on the way of every request
        raise OSError(None, "it is not a regular file", str(path))
    return read_small(path, most=most)


def read_limited(file: str, *, what: str, most: int) -> bytes:
    """A file of at most ``most`` MiB. Raises InputError; ``what`` names the expected content."""
    try:
        data = read_small(file, most=most << 20)
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise InputError(file, f"expected a readable file, got: {problem}") from error
    if len(data) > most << 20:
        raise InputError(file, f"expected a {what}, got more than {most} MiB")
    return data


def _is_named_pipe(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    if not stat.S_ISFIFO(status.st_mode):
        return False
    one, other = os.pipe()
    try:
        return os.fstat(one).st_dev != status.st_dev
    finally:
        os.close(one)
        os.close(other)


def _below(path: str) -> Iterator[str]:
    try:
        if not Path(path).is_dir():
            yield path
            return
        files = sorted(_walk(path))
    except (OSError, ValueError) as error:
        raise _refused(path, error) from None
    if not files:
        endings = ", ".join(SUFFIXES[: len(SUFFIXES) // 2])
        raise InputError(path, f"expected a file that ends in {endings} or one of these and .gz, got none")
    yield from map(str, files)


def _walk(top: str) -> Iterator[Path]:
    for directory, subdirectories, names in os.walk(top, onerror=_raise):
        subdirectories[:] = (name for name in subdirectories if not name.startswith("."))
        for name in names:
            path = Path(directory, name)
            # Skip pipes, which would block. Opening a dangling link reports the error.
            is_file = path.is_file() or path.is_symlink()
            if name.lower().endswith(SUFFIXES) and not name.startswith(".") and is_file:
                yield path


def _content(name: str, stream: BinaryIO, *, size: int | None = None) -> bytes | bytearray:
    """``size`` is None for a stream of unknown length."""
    head = stream.read(BLOCK)
    while 0 < len(head) < BLOCK and (more := stream.read(BLOCK - len(head))):
        head += more
    detect_encoding(name, head)
    if size is not None:
        if size > MAX_BYTES:
            raise too_large(name)
        stream.seek(0)
        # Allocate only the size of the file, which may grow meanwhile.
        data = stream.read(size)
        more = stream.read(BLOCK) if len(data) == size else b""
        return read_rest(name, stream, data + more) if more else data
    return read_rest(name, stream, head)


def read_rest(name: str, stream: BinaryIO, head: bytes = b"") -> bytearray:
    """``head`` and the rest of a stream. Raises InputError."""
    data = bytearray(head)
    while block := stream.read(_LARGE_BLOCK):
        data += block
        if len(data) > MAX_BYTES:
            raise too_large(name)
    return data


def _raise(error: OSError) -> NoReturn:
    raise error


def _refused(path: str, error: Exception) -> InputError:
    # The error may have a more specific path, below the given one.
    named = error.filename if isinstance(error, OSError) and isinstance(error.filename, str) else path
    problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InputError(named, problem.lower())
