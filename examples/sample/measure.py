"""Makes what a meter on every node of the sample cluster might count in a day, where Kubernetes writes the slices.

    python examples/sample/measure.py > src/zoneward/sample/measured.jsonl

Most traffic starts in zone a, which no rule of the cluster knows. The proxy of one node ignores hints. Numbers come
from hashes of what they belong to, never from chance.
"""

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from hashlib import sha256
from typing import Final

import msgspec

from zoneward import sample
from zoneward.advice.cluster_abilities import kubernetes_configuration, kubernetes_minor
from zoneward.advice.honored_traffic import node_traffic
from zoneward.advice.node_proxies import PROXY_KINDS
from zoneward.kube.demand import MeasuredTraffic, ServiceTraffic, TrafficBytes
from zoneward.kube.objects import node_zone
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import demand_of
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import plan_service
from zoneward.snapshots.cluster_snapshot import read_snapshot

SINCE: Final = datetime(2026, 10, 19, 9, 0, tzinfo=UTC)
STUBBORN: Final = "worker-b2"
"""Its proxy ignores hints."""
CALLS: Final[Mapping[str, tuple[int, int, int, tuple[int, int, int]]]] = {
    # Connections of a day, bytes of a request and of a response, and parts of the zones a, b and c.
    "shop/frontend": (2_600_000, 900, 24_000, (50, 30, 20)),
    "shop/inventory": (900_000, 1_200, 5_000, (60, 20, 20)),
    "shop/catalog": (4_100_000, 700, 18_000, (45, 30, 25)),
    "shop/search": (700_000, 500, 31_000, (40, 30, 30)),
    "shop/images": (350_000, 400, 210_000, (40, 35, 25)),
    "shop/checkout": (90_000, 3_000, 6_000, (70, 20, 10)),
    "shop/cart": (420_000, 800, 2_500, (45, 30, 25)),
    "payments/api": (120_000, 2_200, 3_100, (34, 33, 33)),
}


def main() -> None:
    for document in documents():
        sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")


def documents() -> Iterator[MeasuredTraffic]:
    snapshot = read_snapshot([str(sample.cluster())], stdin=None)
    configuration = kubernetes_configuration(Configuration(), kubernetes_minor(snapshot.nodes))
    state = ClusterState(
        demand=demand_of(snapshot.nodes, configuration),
        node_zones={node.metadata.name: node_zone(node) for node in snapshot.nodes},
        configuration=configuration,
        consumer=PROXY_KINDS["kube-proxy-1.37"].consumer,
        consumer_by_node={STUBBORN: PROXY_KINDS["no-hints"].consumer},
    )
    zone_of = {node.name: node.zone for node in state.demand.nodes}
    zones = sorted({zone for zone in zone_of.values() if zone})
    counted: dict[str, list[ServiceTraffic]] = {node: [] for node in zone_of}
    for service in snapshot.services:
        name = f"{service.metadata.namespace}/{service.metadata.name}"
        if name not in CALLS:
            continue
        calls, request, response, parts = CALLS[name]
        plan = plan_service(
            service, pods=snapshot.pods_of(service), slices=snapshot.slices_of(service), cluster_state=state
        )
        family = plan.families[0]
        traffic = node_traffic(
            service,
            family.address_type,
            {node: {"": 1} for node in zone_of},
            zone_of=zone_of,
            slices=family.slices,
            cluster_state=state,
        )
        for sender in traffic:
            share = parts[zones.index(sender.zone)] / sum(parts) / sum(zone == sender.zone for zone in zone_of.values())
            sent = calls * share * nearly(name, sender.node)
            to = {
                zone: round(sent * float(Fraction(part).limit_denominator(1000)) * nearly(name, sender.node, zone))
                for zone, part in sorted((sender.predicted or {}).items())
                if part
            }
            counted[sender.node].append(
                ServiceTraffic(
                    namespace=service.metadata.namespace,
                    service=service.metadata.name,
                    address_type="IPv4",
                    zones=to,
                    bytes={
                        zone: TrafficBytes(
                            request=round(connections * request * nearly(name, zone)),
                            response=round(connections * response * nearly(zone, name)),
                        )
                        for zone, connections in to.items()
                    },
                )
            )
    for node, services in sorted(counted.items()):
        yield MeasuredTraffic(
            node=node,
            zone=zone_of[node],
            since=SINCE,
            until=SINCE + timedelta(days=1),
            services=tuple(services),
        )


def nearly(*of: str) -> float:
    """A number from 0.97 to 1.03."""
    return 0.97 + 0.06 * int.from_bytes(sha256("/".join(of).encode()).digest()[:4]) / 2**32


if __name__ == "__main__":
    main()
