"""Documents of kind ``MeasuredTraffic``: what the proxy of one node counted. They are ours, not the API's.

::

    {"apiVersion": "zoneward.dev/v1alpha1", "kind": "MeasuredTraffic", "node": "n1", "zone": "a",
     "since": "2026-03-01T10:00:00Z", "until": "2026-03-02T10:00:00Z",
     "services": [{"namespace": "shop", "service": "cart", "addressType": "IPv4",
                   "zones": {"a": 970, "b": 30}, "external": {"b": 4}}]}
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from zoneward.kube.input_error import InputError
from zoneward.kube.text_encoding import decode_text

API_VERSION: Final = "zoneward.dev/v1alpha1"
KIND: Final = "MeasuredTraffic"
_LISTS: Final = ("List", f"{KIND}List")
_Count = Annotated[int, msgspec.Meta(ge=0)]
Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""A moment, with its time zone."""


class ServiceTraffic(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """Connections to one Service in one family of addresses, by the zone of the endpoint (``""``: nobody knows it).

    ``zones`` went to the Service's own address, and started on the node; ``external`` came by other addresses (node
    ports, load balancers), where they started is not known.
    """

    namespace: str
    service: str
    address_type: Literal["IPv4", "IPv6"]
    zones: dict[str, _Count] = msgspec.field(default_factory=dict)
    external: dict[str, _Count] = msgspec.field(default_factory=dict)


class MeasuredTraffic(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """What one node counted between two moments. ``zone`` None: the node has none.

    ``complete`` is false where the kernel had no room for all counters: some connections are missing then.
    """

    api_version: Literal["zoneward.dev/v1alpha1"] = API_VERSION
    kind: Literal["MeasuredTraffic"] = KIND
    node: str
    zone: str | None = None
    since: Time
    until: Time
    complete: bool = True
    services: tuple[ServiceTraffic, ...] = ()


class _Head(msgspec.Struct, gc=False, rename="camel"):
    kind: str | None = None
    items: list[msgspec.Raw] | None = None


_HEAD: Final = msgspec.json.Decoder(_Head)
_DOCUMENT: Final = msgspec.json.Decoder(MeasuredTraffic)


def read_measured_traffic(source: str, data: bytes | bytearray) -> Iterator[MeasuredTraffic]:
    """The documents in the data: JSON, one or a List of them, or one on each line; gzipped or not. Raises InputError.

    ``source`` is what errors call the data.
    """
    text = bytes(decode_text(source, data)).strip()
    if not text:
        raise InputError(source, f"expected a document of kind {KIND}, got nothing")
    first, _, others = text.partition(b"\n")
    if others and _is_whole(first):
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield from _documents(source, f"line {number}", line)
    else:
        yield from _documents(source, "", text)


def _is_whole(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.MsgspecError:
        return False
    return True


def _documents(source: str, place: str, text: bytes | msgspec.Raw) -> Iterator[MeasuredTraffic]:
    try:
        head = _HEAD.decode(text)
        if head.kind in _LISTS:
            for number, item in enumerate(head.items or ()):
                yield from _documents(source, f"{place} items[{number}]".strip(), item)
            return
        if head.kind != KIND:
            raise InputError(source, place, "kind", f"expected {KIND}, got {head.kind or 'none'}")
        yield _DOCUMENT.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        problem = str(error)
        raise InputError(
            source, place, f"expected a document of kind {KIND}, got {problem[:1].lower()}{problem[1:]}"
        ) from None
