"""Whether nodes do what is predicted: where their connections went, beside where the slices in force should send them.

A node deviates with a Service if it has at least `LEAST_CONNECTIONS` to it, and for the endpoints of some zone the
share that went there differs from the predicted one by more than `STANDARD_ERRORS` standard errors of a binomial sample
and by more than `TOLERANCE`: slices that changed meanwhile, as with a rollout, explain less than that. Services with
session affinity are not judged: their connections are not independent of each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from zoneward.kube.objects import EndpointSlice, Service
from zoneward.routing.demand import NodeDemand
from zoneward.routing.selection.endpoint_selection import Consumer
from zoneward.routing.selection.expected_traffic import ConsumerDemand, predict_service_traffic
from zoneward.slices.cluster_state import ClusterState

LEAST_CONNECTIONS: Final = 30
STANDARD_ERRORS: Final = 4
"""One sample of 16,000 is as far off by chance."""
TOLERANCE: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTraffic:
    """The connections from one node to one Service in one family.

    ``measured`` and ``predicted`` have the shares by the zone of the endpoint; ``predicted`` is None where nothing can
    be predicted. ``deviates`` is the zone whose share differs the most where that is more than chance explains, else
    None; ``""`` is the unknown zone.
    """

    node: str
    zone: str
    connections: int
    measured: Mapping[str, float]
    predicted: Mapping[str, float] | None
    deviates: str | None

    @property
    def in_zone(self) -> float | None:
        """None where nobody knows the zone of the node."""
        return self.measured.get(self.zone, 0.0) if self.zone else None

    @property
    def predicted_in_zone(self) -> float | None:
        if self.predicted is None or not self.zone:
            return None
        return self.predicted.get(self.zone, 0.0)


@dataclass(frozen=True, slots=True)
class HonoredTraffic:
    """One Service in one family, by node. Shares are of the connections of all nodes."""

    nodes: tuple[NodeTraffic, ...]

    @property
    def connections(self) -> int:
        return sum(each.connections for each in self.nodes)

    @property
    def in_zone(self) -> float | None:
        """The share that stayed in its zone, of the connections from known zones; None without any."""
        known = [(each.connections, share) for each in self.nodes if (share := each.in_zone) is not None]
        total = sum(number for number, _ in known)
        return sum(number * share for number, share in known) / total if total else None

    @property
    def predicted_in_zone(self) -> float | None:
        """The share that should have stayed, of the connections of nodes of which something is predicted."""
        judged = [(each.connections, share) for each in self.nodes if (share := each.predicted_in_zone) is not None]
        total = sum(number for number, _ in judged)
        return sum(number * share for number, share in judged) / total if total else None

    @property
    def deviating(self) -> tuple[NodeTraffic, ...]:
        return tuple(each for each in self.nodes if each.deviates is not None)

    def most_telling(self, number: int) -> tuple[NodeTraffic, ...]:
        """Some nodes: those that deviate first, then those with the most connections."""
        return tuple(sorted(self.nodes, key=lambda each: (each.deviates is None, -each.connections))[:number])


def node_traffic(
    service: Service,
    address_type: str,
    connections: Mapping[str, Mapping[str, int]],
    *,
    zone_of: Mapping[str, str | None],
    slices: Iterable[EndpointSlice],
    cluster_state: ClusterState,
) -> tuple[NodeTraffic, ...]:
    """By the node's name, for those that have ``connections``: by node and by the zone of the endpoint.

    ``zone_of`` has their zones. ``slices`` are all that name the Service, as they are in the cluster.
    """
    predictions = _Predictions(service, [each for each in slices if each.address_type == address_type], cluster_state)
    found = []
    for node, to in sorted(connections.items()):
        total = sum(to.values())
        if not total:
            continue
        zone = zone_of.get(node) or ""
        measured = {end: number / total for end, number in sorted(to.items())}
        predicted = predictions.on(node, zone)
        found.append(
            NodeTraffic(
                node=node,
                zone=zone,
                connections=total,
                measured=measured,
                predicted=predicted,
                deviates=None
                if predicted is None or service.spec.session_affinity == "ClientIP"
                else _deviating_zone(measured, predicted, total),
            )
        )
    return tuple(found)


def _deviating_zone(measured: Mapping[str, float], predicted: Mapping[str, float], total: int) -> str | None:
    if total < LEAST_CONNECTIONS:
        return None
    far = [
        (difference, zone)
        for zone in {*measured, *predicted}
        for share in (predicted.get(zone, 0.0),)
        for difference in (abs(measured.get(zone, 0.0) - share),)
        if difference > max(TOLERANCE, STANDARD_ERRORS * sqrt(max(share * (1 - share), 0.0) / total))
    ]
    return max(far)[1] if far else None


class _Predictions:
    """What the slices in force mean for single nodes. Nodes of one zone and one kind of proxy select alike, but for
    those that have an endpoint or are named in hints: each prediction is computed once.
    """

    def __init__(self, service: Service, slices: Sequence[EndpointSlice], cluster_state: ClusterState) -> None:
        self._service = service
        self._slices = slices
        self._cluster_state = cluster_state
        self._special = {
            name
            for each in slices
            for endpoint in each.endpoints or ()
            for name in (
                endpoint.node_name,
                *(hint.name for hint in (endpoint.hints.for_nodes or () if endpoint.hints else ())),
            )
        }
        self._known: dict[tuple[Consumer, str, str], Mapping[str, float] | None] = {}

    def on(self, node: str, zone: str) -> Mapping[str, float] | None:
        """Shares by zone; None without slices, and for a Service that proxies ignore."""
        consumer = self._cluster_state.consumer_on(node, self._service)
        key = consumer, zone, node if node in self._special else ""
        if key not in self._known:
            self._known[key] = self._predict(consumer, node, zone) if self._slices else None
        return self._known[key]

    def _predict(self, consumer: Consumer, node: str, zone: str) -> Mapping[str, float] | None:
        state = self._cluster_state
        only = ConsumerDemand(consumer, state.demand.only([NodeDemand(node, zone or None, 1)]))
        traffic = predict_service_traffic(
            self._service, self._slices, consumers=[only], gates=state.configuration.gates
        )
        if traffic is None or zone not in traffic.zones:
            return None
        return traffic.zones[zone].to
