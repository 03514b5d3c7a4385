"""Where the traffic of Services starts: as an annotation says it, and as meters and Prometheus measure it.

The kind ``MeasuredTraffic``, of Zoneward, has the traffic that the proxy or the meter of one node counted::

    {"apiVersion": "zoneward.dev/v1alpha1", "kind": "MeasuredTraffic", "node": "n1", "zone": "a",
     "since": "2026-03-01T10:00:00Z", "until": "2026-03-02T10:00:00Z",
     "services": [{"namespace": "shop", "service": "cart", "addressType": "IPv4",
                   "zones": {"a": 970, "b": 30}, "external": {"b": 4},
                   "bytes": {"a": {"request": 48500, "response": 970000}}}]}
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Annotated, Final, Literal

import msgspec

from zoneward.kube.formats import label_value_problems
from zoneward.kube.objects import ObjectKey

API_VERSION: Final = "zoneward.dev/v1alpha1"
KIND: Final = "MeasuredTraffic"
_MAX_COUNT: Final = 2**63 - 1
"""More than any counter reaches; sums still fit a float."""
_Count = Annotated[int, msgspec.Meta(ge=0, le=_MAX_COUNT)]
Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with its time zone."""


class TrafficBytes(msgspec.Struct, frozen=True, gc=False):
    """Bytes of IP packets: from clients to endpoints, and back."""

    request: _Count = 0
    response: _Count = 0


class ServiceTraffic(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """Connections to one Service in one address family, by the zone of the endpoint (``""`` if unknown).

    ``zones`` counts connections from the node to the cluster IP. ``external`` counts those through other addresses
    (node ports, load balancers), whose origin is unknown. ``bytes`` and ``external_bytes`` belong to the same
    connections; unset if bytes are not counted.
    """

    namespace: str
    service: str
    address_type: Literal["IPv4", "IPv6"]
    zones: dict[str, _Count] = msgspec.field(default_factory=dict)
    external: dict[str, _Count] = msgspec.field(default_factory=dict)
    bytes: dict[str, TrafficBytes] | msgspec.UnsetType = msgspec.UNSET
    external_bytes: dict[str, TrafficBytes] | msgspec.UnsetType = msgspec.UNSET


class MeasuredTraffic(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """The traffic of one node between two times. ``zone`` is None for a node without a zone.

    ``complete`` is false if something is missing: the kernel dropped messages, there were too many totals, or some
    connections have no bytes.
    """

    api_version: Literal["zoneward.dev/v1alpha1"] = API_VERSION
    kind: Literal["MeasuredTraffic"] = KIND
    node: str
    zone: str | None = None
    since: Time
    until: Time
    complete: bool = True
    services: tuple[ServiceTraffic, ...] = ()


# --- figures of every source ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DemandFigures:
    """By Service and zone, how much traffic started there: connections, or any other unit; only ratios matter.

    Amounts are finite and not negative. Each note is a line about what was left out, and how many there were.
    """

    amounts: Mapping[ObjectKey, Mapping[str, float]]
    notes: tuple[str, ...] = ()


# --- the annotation zoneward.dev/demand -------------------------------------------------------------------------------


DEMAND_EXPECTED: Final = "a part of the traffic for each zone, not all 0 (a=0.5,b=0.3,c=0.2)"
_SHARE: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?%?", re.ASCII)
_LONGEST: Final = 4096
"""Characters: enough for some fifty zones with the longest names."""


def parse_demand(text: str) -> dict[str, Fraction] | None:
    """The parts of zones in the traffic of a Service, from ``a=0.5,b=0.3``, or in percent; only their ratios matter.

    None for anything that is not `DEMAND_EXPECTED`.
    """
    parts: dict[str, Fraction] = {}
    for item in text.split(",") if len(text) <= _LONGEST else ():
        zone, equals, part = (word.strip() for word in item.partition("="))
        if not equals or not zone or zone in parts or any(label_value_problems(zone)) or not _SHARE.fullmatch(part):
            return None
        parts[zone] = Fraction(part.removesuffix("%")) / (100 if part.endswith("%") else 1)
    return parts if any(parts.values()) else None
