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
"""What errors and warnings call it."""
SUFFIXES: Final = tuple(f"{suffix}{packed}" for packed in ("", ".gz") for suffix in (".yaml", ".yml", ".json"))
"""Files in a directory that are read; a file that is named itself may be called anything."""

_LARGE_BLOCK: Final = 1 << 20
_WRITER_WITHIN: Final = 10.0
"""Seconds in which somebody has to write to a named pipe that is to be read."""


def expand(paths: Sequence[str]) -> Iterator[str]:
    """The files to be read: those of directories sorted by path, all others in the order given, each once.

    Directories are read with all below them, but for names that begin with a dot (``.git``; ``..data``, in which a
    mounted ConfigMap keeps a second copy). Raises InputError.
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
    """All bytes of a file, or of standard input for ``-``. Raises InputError, for junk before it is read whole."""
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
    """A file to be read, in which somebody writes where it is a named pipe. Raises OSError or ValueError.

    Opened as files are, a named pipe would be waited for as long as nobody writes. What ``<(command)`` stands for is
    a pipe without a name, and waits for its command.
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
    """A file of so many bytes at most, and one more where it has more. Raises OSError or ValueError."""
    with open_file(path) as stream:
        return stream.read(most + 1)


def read_regular(path: str | Path, *, most: int) -> bytes:
    """As `read_small`, of a regular file, which is what tokens, keys and certificates are in: a pipe would be waited
    for at each request, and a device may have no end."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 -- on the way of every request
        raise OSError(None, "it is not a regular file", str(path))
    return read_small(path, most=most)


def read_limited(file: str, *, what: str, most: int) -> bytes:
    """A file of at most so many MiB. Raises InputError; ``what`` is what the file should be."""
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
            # A pipe would be waited for; a link that leads nowhere is a mistake, and opening it says so.
            is_file = path.is_file() or path.is_symlink()
            if name.lower().endswith(SUFFIXES) and not name.startswith(".") and is_file:
                yield path


def _content(name: str, stream: BinaryIO, *, size: int | None = None) -> bytes | bytearray:
    """``size`` None: not known beforehand, or endless."""
    head = stream.read(BLOCK)
    while 0 < len(head) < BLOCK and (more := stream.read(BLOCK - len(head))):
        head += more
    detect_encoding(name, head)
    if size is not None:
        if size > MAX_BYTES:
            raise too_large(name)
        stream.seek(0)
        # As much memory as the file has bytes, and no more. It may grow meanwhile.
        data = stream.read(size)
        more = stream.read(BLOCK) if len(data) == size else b""
        return read_rest(name, stream, data + more) if more else data
    return read_rest(name, stream, head)


def read_rest(name: str, stream: BinaryIO, head: bytes = b"") -> bytearray:
    """What a stream still has, after what was read of it, in as much memory as that takes. Raises InputError."""
    data = bytearray(head)
    while block := stream.read(_LARGE_BLOCK):
        data += block
        if len(data) > MAX_BYTES:
            raise too_large(name)
    return data


def _raise(error: OSError) -> NoReturn:
    raise error


def _refused(path: str, error: Exception) -> InputError:
    # The path that an error names lies below the given one, and says more.
    named = error.filename if isinstance(error, OSError) and isinstance(error.filename, str) else path
    problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InputError(named, problem.lower())
