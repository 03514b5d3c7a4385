"""Reads what ``-f`` names, files, directories and standard input, and decodes it to UTF-8.

The text may be gzipped, in UTF-16, and have byte order marks. All else is an error, which the first block decides in
most cases, before the whole input is in memory.
"""

import codecs
import os
import re
import select
import stat
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

from zoneward.kube.input_error import InputError, show

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


# --- bytes to UTF-8 ---------------------------------------------------------------------------------------------------


BLOCK: Final = 1 << 16
"""Bytes that `detect_encoding` needs, if the input has as many."""
MAX_BYTES: Final = 4 << 30
"""Largest unpacked input: three times that of the largest clusters. It stops bombs and endless pipes."""
MAX_RATIO: Final = 200
"""Largest ratio of unpacked to packed bytes, beyond the first `FREE_BYTES`. Objects of a cluster reach 10 to 40, a gzip
bomb 1,000."""
FREE_BYTES: Final = 64 << 20

_GZIP: Final = b"\x1f\x8b"
_COMPRESSED_BLOCK: Final = 1 << 14
"""Small, because each member copies the rest of the block after its end."""
_UTF32: Final = re.compile(rb"\xff\xfe\0\0|\0\0\xfe\xff|[\t\n\r -~]\0{3}|\0{3}[\t\n\r -~]")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_INSIGNIFICANT: Final = re.compile(rb"\s*(?:#[^\n]*|%[^\n]*|---|\.\.\.)?\s*", re.ASCII)
_KEY: Final = rb"""\"(?:[^"\\\n]|\\.)*\"|'[^'\n]*'|[^\s\-?:,\[\]{}#&*!|>'"%@`][^\n]{0,1024}?|[-?:][^\s][^\n]{0,1024}?"""
_YAML_OR_JSON: Final = re.compile(rb"(?:-[ \t]+)*+(?:-?(?:\s|$)|[{\[&!#]|(?:" + _KEY + rb")[ \t]*:(?:\s|$))")


def detect_encoding(source: str, head: bytes) -> str:
    """The encoding of the text: ``utf-8``, ``utf-16-le`` or ``utf-16-be``.

    ``head`` is the first block of the file, maybe in gzip. Raises InputError if it cannot be YAML or JSON.
    """
    if head.startswith(_GZIP):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, BLOCK)
        except zlib.error as error:
            raise _corrupt(source, error) from None
    encoding = _encoding(head)
    if encoding == "utf-32":
        raise InputError(source, "expected UTF-8 or UTF-16 text, got UTF-32")
    if encoding == "utf-8":
        _refuse_control_characters(source, head)
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError as error:
        raise _undecodable(source, encoding, error, 0) from None
    head = text.lstrip("\ufeff").encode()
    _refuse_control_characters(source, head)
    start = 0
    while (blank := _INSIGNIFICANT.match(head, start)) is not None and blank.end() > start:
        start = blank.end()
    # The end of the block may cut the first line after a long comment: leave it to the parser.
    is_cut = start > 0 and b"\n" not in head[start:]
    if start < len(head) and not is_cut and not _YAML_OR_JSON.match(head, start):
        line = head.count(b"\n", 0, start) + 1
        got = head[start : start + 400].splitlines()[0].decode("utf-8", "replace").rstrip()
        page = ", the page of a web server (a login?)" if got.lower().startswith(("<!doctype html", "<html")) else ""
        raise InputError(source, f"line {line}", f"expected an object in YAML or JSON, got {show(got)}{page}")
    return encoding


def decode_text(source: str, data: bytes | bytearray) -> bytes | bytearray:
    """The data as UTF-8 without byte order marks; the same object if possible. Raises InputError."""
    encoding = detect_encoding(source, bytes(data[:BLOCK]))
    if data.startswith(_GZIP):
        data = _decompress(source, data, may_hold_zeros=encoding != "utf-8")
    if encoding != "utf-8":
        data = _transcode(source, data, encoding)
    # Searching one byte is much faster than three, and most text does not contain it.
    return _without_marks(data) if codecs.BOM_UTF8[0] in data and codecs.BOM_UTF8 in data else data


def _without_marks(data: bytes | bytearray) -> bytes | bytearray:
    """Remove marks at the start and at the start of a line: concatenated files have one each."""
    start = 0
    while data.startswith(codecs.BOM_UTF8, start):
        start += len(codecs.BOM_UTF8)
    return data[start:].replace(b"\n" + codecs.BOM_UTF8, b"\n")


def _encoding(head: bytes) -> str:
    """The encoding by the byte order mark, else by the position of the zero beside a first ASCII character. UTF-32 is
    detected for its error.
    """
    if _UTF32.match(head):
        return "utf-32"
    if head.startswith(codecs.BOM_UTF16_LE) or re.match(rb"[\t\n\r -~]\0", head):
        return "utf-16-le"
    if head.startswith(codecs.BOM_UTF16_BE) or re.match(rb"\0[\t\n\r -~]", head):
        return "utf-16-be"
    return "utf-8"


def _refuse_control_characters(source: str, head: bytes) -> None:
    if control := _CONTROL.search(head):
        raise _not_text(source, "YAML or JSON", control[0][0], control.start())


def _decompress(source: str, data: bytes | bytearray, *, may_hold_zeros: bool) -> bytearray:
    """All members of a gzip file. Raises InputError early for zero bytes in text and for too much text, as in bombs."""
    limit = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * len(data)))
    text = bytearray()
    view, at = memoryview(data), 0
    try:
        while at < len(data):
            member = zlib.decompressobj(wbits=31)
            while not member.eof:
                given = view[at : at + _COMPRESSED_BLOCK]
                block = member.decompress(given, _LARGE_BLOCK)
                taken = len(given) - len(member.unconsumed_tail) - len(member.unused_data)
                if not taken and not block and not member.eof:
                    raise InputError(source, "expected gzip data to its end, got it cut short")
                at += taken
                if not may_hold_zeros and 0 in block:
                    raise _not_text(source, "YAML or JSON", 0, len(text) + block.index(0))
                text += block
                if len(text) > limit:
                    raise _unpacks_to_more(source, limit)
            while data.startswith(b"\0", at):
                # Skip the padding after a member.
                at += 1
    except zlib.error as error:
        raise _corrupt(source, error) from None
    return text


def _transcode(source: str, data: bytes | bytearray, encoding: str) -> bytearray:
    """UTF-16 to UTF-8, in blocks, without the whole text as a string in memory."""
    decoder = codecs.getincrementaldecoder(encoding)()
    text = bytearray()
    for start in range(0, len(data), _LARGE_BLOCK):
        block = data[start : start + _LARGE_BLOCK]
        try:
            text += decoder.decode(block, final=start + _LARGE_BLOCK >= len(data)).encode()
        except UnicodeDecodeError as error:
            raise _undecodable(source, encoding, error, start) from None
    return text


def too_large(source: str) -> InputError:
    return InputError(source, f"expected at most {MAX_BYTES >> 30} GiB of YAML or JSON, got more")


def _unpacks_to_more(source: str, limit: int) -> InputError:
    if limit == MAX_BYTES:
        return too_large(source)
    return InputError(source, f"expected gzip data of this size to unpack to at most {limit >> 20} MiB, got more")


def _corrupt(source: str, error: Exception) -> InputError:
    return InputError(source, f"expected gzip data, got it corrupt ({error})")


def _undecodable(source: str, encoding: str, error: UnicodeDecodeError, start: int) -> InputError:
    """``start``: the offset in the data of the bytes that were decoded."""
    at, name = start + error.start, encoding.upper()
    if is_half_a_pair(error):
        return InputError(source, f"byte {at}", f"expected {name} text, got half of a surrogate pair")
    return _not_text(source, encoding, error.object[error.start], at)


def is_half_a_pair(error: UnicodeDecodeError) -> bool:
    """Whether the cause is a lone surrogate, as some programs write."""
    if error.encoding.startswith("utf-16"):
        return error.reason in ("illegal UTF-16 surrogate", "illegal encoding")
    return error.object[error.start] == 0xED and error.object[error.start + 1 : error.start + 2] >= b"\xa0"


def _not_text(source: str, expected: str, byte: int, position: int) -> InputError:
    expected = expected.upper() if expected.startswith("utf") else expected
    return InputError(source, f"byte {position}", f"expected {expected} text, got 0x{byte:02x}")
