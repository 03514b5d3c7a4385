"""The kind ``MeasuredTraffic``: what the proxy or the meter of one node counted. Kubernetes has no such kind.

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
"""Nothing counts as far, and every sum still is a number that a float can hold."""
_Count = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""A moment, with its time zone."""


class TrafficBytes(msgspec.Struct, frozen=True, gc=False):
    """Bytes of IP packets: from clients to endpoints, and back."""

    request: _Count = 0
    response: _Count = 0


class ServiceTraffic(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """Connections to one Service in one family of addresses, by the zone of the endpoint (``""``: nobody knows it).

    ``zones`` went to the Service's own address, and started on the node; ``external`` came by other addresses (node
    ports, load balancers), where they started is not known. ``bytes`` and ``external_bytes`` are those of the same
    connections; unset where bytes are not counted.
    """

    namespace: str
    service: str
    address_type: Literal["IPv4", "IPv6"]
    zones: dict[str, _Count] = msgspec.field(default_factory=dict)
    external: dict[str, _Count] = msgspec.field(default_factory=dict)
    bytes: dict[str, TrafficBytes] | msgspec.UnsetType = msgspec.UNSET
    external_bytes: dict[str, TrafficBytes] | msgspec.UnsetType = msgspec.UNSET


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
