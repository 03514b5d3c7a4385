"""Reads the sources of ``--measured``: files, directories, standard input, and URLs of proxies (``http://...``)."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import msgspec

from zoneward.kube.demand import KIND, MeasuredTraffic
from zoneward.kube.input_error import InputError
from zoneward.kube.input_files import STDIN, STDIN_NAME, decode_text, expand, load, read_rest
from zoneward.kube.json_documents import DECODE_ERRORS
from zoneward.kube.safe_text import basic_authorization, without_password

_TIME_LIMIT: Final = 10.0
_LIST_KINDS: Final = ("List", f"{KIND}List")


def read_measured(sources: Sequence[str], *, stdin: BinaryIO | None) -> tuple[MeasuredTraffic, ...]:
    """All documents, in the order given; at least one. Raises InputError."""
    documents = tuple(document for source in sources for document in _read(source, stdin))
    if not documents:
        raise InputError(", ".join(map(without_password, sources)), f"expected a document of kind {KIND}, got none")
    return documents


def _read(source: str, stdin: BinaryIO | None) -> Iterator[MeasuredTraffic]:
    if source.startswith(("http://", "https://")):
        yield from read_measured_traffic(without_password(source), _fetch(source))
        return
    for file in expand([source]):
        yield from read_measured_traffic(STDIN_NAME if file == STDIN else file, load(file, stdin=stdin))


def _fetch(url: str) -> bytes:
    # Import only for URLs: it takes longer than reading most files.
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    server = without_password(url)
    try:
        request = Request(server)
        if authorization := basic_authorization(url):
            # Unredirected: no other server learns the password.
            request.add_unredirected_header("Authorization", authorization)
        with urlopen(request, timeout=_TIME_LIMIT) as answer:
            return bytes(read_rest(server, answer))
    except HTTPError as error:
        error.close()
        raise InputError(server, f"expected an answer of status 200, got {error.code} {error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        problem = getattr(reason, "strerror", None) or reason
        raise InputError(server, f"expected an answer, got {problem}") from None


# --- documents --------------------------------------------------------------------------------------------------------


class _DocumentHead(msgspec.Struct, gc=False, rename="camel"):
    kind: str | None = None
    items: list[msgspec.Raw] | None = None


_HEAD: Final = msgspec.json.Decoder(_DocumentHead)
_DOCUMENT: Final = msgspec.json.Decoder(MeasuredTraffic)


def read_measured_traffic(source: str, data: bytes | bytearray) -> Iterator[MeasuredTraffic]:
    """The documents in JSON data: one, a List, or one per line; gzipped or not. Raises InputError.

    ``source`` names the data in errors.
    """
    text = bytes(decode_text(source, data)).strip()
    if not text:
        raise InputError(source, f"expected a document of kind {KIND}, got nothing")
    first, _, others = text.partition(b"\n")
    if others and _is_json(first):
        for line_number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield from _iter_documents(source, f"line {line_number}", line)
    else:
        yield from _iter_documents(source, "", text)


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except DECODE_ERRORS:
        return False
    return True


def _iter_documents(source: str, path: str, text: bytes | msgspec.Raw) -> Iterator[MeasuredTraffic]:
    try:
        head = _HEAD.decode(text)
        if head.kind in _LIST_KINDS:
            for index, item in enumerate(head.items or ()):
                yield from _iter_documents(source, f"{path} items[{index}]".strip(), item)
            return
        if head.kind != KIND:
            raise InputError(source, path, "kind", f"expected {KIND}, got {head.kind or 'none'}")
        yield _DOCUMENT.decode(text)
    except DECODE_ERRORS as error:
        problem = str(error)
        if not problem.startswith("JSON"):
            problem = problem[:1].lower() + problem[1:]
        raise InputError(source, path, f"expected a document of kind {KIND}, got {problem}") from None
