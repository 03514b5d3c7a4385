"""What ``--measured`` names: files, directories, standard input, and addresses of proxies (``http://...``)."""

import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from typing import BinaryIO, Final
from urllib.parse import urlsplit

from zoneward.kube.input_error import InputError
from zoneward.kube.input_files import STDIN, STDIN_NAME, expand, load
from zoneward.kube.measured_traffic import KIND, MeasuredTraffic, read_measured_traffic
from zoneward.kube.text_encoding import MAX_BYTES

_TIME_LIMIT: Final = 10.0


def read_measured(places: Sequence[str], *, stdin: BinaryIO | None) -> tuple[MeasuredTraffic, ...]:
    """All documents, in the order given; at least one. Raises InputError."""
    found = tuple(document for place in places for document in _read(place, stdin))
    if not found:
        raise InputError(", ".join(map(_shown, places)), f"expected a document of kind {KIND}, got none")
    return found


def _read(place: str, stdin: BinaryIO | None) -> Iterator[MeasuredTraffic]:
    if place.startswith(("http://", "https://")):
        yield from read_measured_traffic(_shown(place), _fetched(place))
        return
    for file in expand([place]):
        yield from read_measured_traffic(STDIN_NAME if file == STDIN else file, load(file, stdin=stdin))


def _fetched(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_TIME_LIMIT) as answer:
            data: bytes = answer.read(MAX_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise InputError(_shown(url), f"expected an answer of status 200, got {error.code} {error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(_shown(url), f"expected an answer, got {reason}") from None
    if len(data) > MAX_BYTES:
        raise InputError(_shown(url), f"expected at most {MAX_BYTES} bytes, got more")
    return data


def _shown(place: str) -> str:
    """Without the password that may stand in an address."""
    if "@" not in place or "://" not in place:
        return place
    parts = urlsplit(place)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
