"""What ``-f`` names, to bytes: files, directories and standard input."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

from zoneward.kube.input_error import InputError
from zoneward.kube.unpacking import BLOCK, MAX_BYTES, sniff, too_large

STDIN: Final = "-"
STDIN_NAME: Final = "standard input"
"""What errors and warnings call it."""
SUFFIXES: Final = tuple(f"{suffix}{packed}" for packed in ("", ".gz") for suffix in (".yaml", ".yml", ".json"))
"""Files in a directory that are read; a file that is named itself may be called anything."""

_LARGE_BLOCK: Final = 1 << 20


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
        return _content(STDIN_NAME, stdin)
    try:
        with Path(file).open("rb") as stream:
            status = os.fstat(stream.fileno())
            return _content(file, stream, size=status.st_size if stat.S_ISREG(status.st_mode) else None)
    except (OSError, ValueError) as error:
        raise _refused(file, error) from None


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
    sniff(name, head)
    if size is not None:
        if size > MAX_BYTES:
            raise too_large(name)
        stream.seek(0)
        return stream.read()
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
