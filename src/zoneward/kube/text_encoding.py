"""Decodes the bytes of a file or a pipe to UTF-8: gzip, byte order marks, UTF-16. All else is an error.

The first block decides most errors, before the whole input is in memory.
"""

import codecs
import re
import zlib
from typing import Final

from zoneward.kube.input_error import InputError, show

BLOCK: Final = 1 << 16
"""Bytes that `detect_encoding` needs, if the input has as many."""
MAX_BYTES: Final = 4 << 30
"""Largest unpacked input: three times that of the largest clusters. It stops bombs and endless pipes."""
MAX_RATIO: Final = 200
"""Largest ratio of unpacked to packed bytes, beyond the first `FREE_BYTES`. Objects of a cluster reach 10 to 40, a gzip
bomb 1,000."""
FREE_BYTES: Final = 64 << 20

_GZIP: Final = b"\x1f\x8b"
_LARGE_BLOCK: Final = 1 << 20
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
