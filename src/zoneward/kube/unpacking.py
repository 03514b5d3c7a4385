"""Bytes as they lie in a file or come through a pipe, to UTF-8 text: gzip, byte order marks, UTF-16; junk is refused.

Whatever can be refused is refused by its first block, before anything of its size is held in memory.
"""

import codecs
import re
import zlib
from gzip import BadGzipFile, GzipFile
from io import BytesIO
from typing import Final

from zoneward.kube.input_error import InputError, show

BLOCK: Final = 1 << 16
"""As many bytes as `sniff` wants to see, where there are as many."""
MAX_BYTES: Final = 4 << 30
"""Largest input, unpacked: three times what the largest clusters have. It stops bombs and endless pipes."""

_GZIP: Final = b"\x1f\x8b"
_LARGE_BLOCK: Final = 1 << 20
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_INSIGNIFICANT: Final = re.compile(rb"\s*(?:#[^\n]*|%[^\n]*|---|\.\.\.)?\s*", re.ASCII)
_KEY: Final = rb"""\"(?:[^"\\\n]|\\.)*\"|'[^'\n]*'|[^\s\-?:,\[\]{}#&*!|>'"%@`][^\n]{0,1024}?|[-?:][^\s][^\n]{0,1024}?"""
_YAML_OR_JSON: Final = re.compile(rb"(?:-[ \t]+)*+(?:-?(?:\s|$)|[{\[&!#]|(?:" + _KEY + rb")[ \t]*:(?:\s|$))")


def sniff(source: str, head: bytes) -> str:
    """Refuse what cannot be YAML or JSON, by its first block, as it lies in the file (gzip and UTF-16 included).

    Returns the text's encoding: ``utf-8``, ``utf-16-le`` or ``utf-16-be``. Raises InputError.
    """
    if head.startswith(_GZIP):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, BLOCK)
        except zlib.error as error:
            raise _corrupt(source, error) from None
    encoding = _encoding(head)
    if encoding == "utf-8":
        _refuse_control_characters(source, head)
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError as error:
        raise _not_text(source, encoding, error.object[error.start], error.start) from None
    head = text.removeprefix("\ufeff").encode()
    _refuse_control_characters(source, head)
    start = 0
    while (blank := _INSIGNIFICANT.match(head, start)) is not None and blank.end() > start:
        start = blank.end()
    # After a long comment the first line may be cut by the block's end; then the parser has to judge it.
    is_cut = start > 0 and b"\n" not in head[start:]
    if start < len(head) and not is_cut and not _YAML_OR_JSON.match(head, start):
        line = head.count(b"\n", 0, start) + 1
        got = head[start : start + 400].splitlines()[0].decode("utf-8", "replace").rstrip()
        raise InputError(source, f"line {line}", f"expected an object in YAML or JSON, got {show(got)}")
    return encoding


def unpack(source: str, data: bytes | bytearray) -> bytes | bytearray:
    """The data as UTF-8 without a byte order mark; the same object where it is that already. Raises InputError."""
    encoding = sniff(source, bytes(data[:BLOCK]))
    if data.startswith(_GZIP):
        data = _decompress(source, data, may_hold_zeros=encoding != "utf-8")
    if encoding != "utf-8":
        return _transcode(source, data, encoding)
    has_mark = data.startswith(codecs.BOM_UTF8)
    return data[len(codecs.BOM_UTF8) :] if has_mark else data


def _encoding(head: bytes) -> str:
    """By the byte order mark, else by where the zero is beside a first character that text may begin with."""
    if head.startswith(codecs.BOM_UTF16_LE) or re.match(rb"[\t\n\r -~]\0", head):
        return "utf-16-le"
    if head.startswith(codecs.BOM_UTF16_BE) or re.match(rb"\0[\t\n\r -~]", head):
        return "utf-16-be"
    return "utf-8"


def _refuse_control_characters(source: str, head: bytes) -> None:
    if control := _CONTROL.search(head):
        raise _not_text(source, "YAML or JSON", control[0][0], control.start())


def _decompress(source: str, data: bytes | bytearray, *, may_hold_zeros: bool) -> bytearray:
    """All members of a gzip file. A zero byte in what has to be text ends it early: bombs are full of them."""
    text = bytearray()
    try:
        with GzipFile(fileobj=BytesIO(data)) as file:
            while block := file.read(_LARGE_BLOCK):
                if not may_hold_zeros and 0 in block:
                    raise _not_text(source, "YAML or JSON", 0, len(text) + block.index(0))
                text += block
                if len(text) > MAX_BYTES:
                    raise too_large(source)
    except EOFError:
        raise InputError(source, "expected gzip data to its end, got it cut short") from None
    except (BadGzipFile, zlib.error) as error:
        raise _corrupt(source, error) from None
    return text


def _transcode(source: str, data: bytes | bytearray, encoding: str) -> bytearray:
    """UTF-16 to UTF-8, in blocks: the text never stands in memory as a string."""
    decoder = codecs.getincrementaldecoder(encoding)()
    text = bytearray()
    for start in range(0, len(data), _LARGE_BLOCK):
        block = data[start : start + _LARGE_BLOCK]
        try:
            text += decoder.decode(block, final=start + _LARGE_BLOCK >= len(data)).encode()
        except UnicodeDecodeError as error:
            raise _not_text(source, encoding, error.object[error.start], start + error.start) from None
    if text.startswith(codecs.BOM_UTF8):
        del text[: len(codecs.BOM_UTF8)]
    return text


def too_large(source: str) -> InputError:
    return InputError(source, f"expected at most {MAX_BYTES >> 30} GiB of YAML or JSON, got more")


def _corrupt(source: str, error: Exception) -> InputError:
    return InputError(source, f"expected gzip data, got it corrupt ({error})")


def _not_text(source: str, expected: str, byte: int, position: int) -> InputError:
    expected = expected.upper() if expected.startswith("utf") else expected
    return InputError(source, f"byte {position}", f"expected {expected} text, got 0x{byte:02x}")
