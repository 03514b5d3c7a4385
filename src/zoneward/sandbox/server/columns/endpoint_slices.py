"""Of EndpointSlices."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from zoneward.sandbox.server.columns.ages import AGE, age
from zoneward.sandbox.server.kinds import NAME, Column, Object

COLUMNS: Final = (
    NAME,
    Column("AddressType", description="The type of all its addresses."),
    Column("Ports", description="The ports of each of its endpoints."),
    Column("Endpoints", description="The addresses of its endpoints."),
    AGE,
)

_SHOWN: Final = 3


def cells(thing: Object, now: datetime) -> list[object]:
    endpoints = thing.get("endpoints") or ()
    return [
        thing["metadata"].get("name", ""),
        thing.get("addressType", ""),
        _shortened([_port(port) for port in thing.get("ports") or ()]),
        _shortened([address for endpoint in endpoints for address in endpoint.get("addresses") or ()]),
        age(thing, now),
    ]


def _port(port: Object) -> str:
    number = port.get("port")
    return str(port.get("name") or "") if number is None else str(number)


def _shortened(words: Sequence[str]) -> str:
    shown = ",".join(words[:_SHOWN])
    if len(words) > _SHOWN:
        return f"{shown} + {len(words) - _SHOWN} more..."
    return shown or "<unset>"
