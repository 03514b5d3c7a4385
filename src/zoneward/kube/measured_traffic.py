"""The kind ``MeasuredTraffic``, of Zoneward: the traffic that the proxy or the meter of one node counted.

::

    {"apiVersion": "zoneward.dev/v1alpha1", "kind": "MeasuredTraffic", "node": "n1", "zone": "a",
     "since": "2026-03-01T10:00:00Z", "until": "2026-03-02T10:00:00Z",
     "services": [{"namespace": "shop", "service": "cart", "addressType": "IPv4",
                   "zones": {"a": 970, "b": 30}, "external": {"b": 4},
                   "bytes": {"a": {"request": 48500, "response": 970000}}}]}
"""

from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

API_VERSION: Final = "zoneward.dev/v1alpha1"
KIND: Final = "MeasuredTraffic"
_MOST: Final = 2**63 - 1
"""More than any counter reaches; sums still fit a float."""
_Count = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
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

    ``complete`` is false if the kernel had no room for all counters, so that some connections are missing.
    """

    api_version: Literal["zoneward.dev/v1alpha1"] = API_VERSION
    kind: Literal["MeasuredTraffic"] = KIND
    node: str
    zone: str | None = None
    since: Time
    until: Time
    complete: bool = True
    services: tuple[ServiceTraffic, ...] = ()
