"""Whether nodes behave as predicted: where their connections went, and where the slices in force should send them.

A node deviates with a Service if it has at least `LEAST_CONNECTIONS` to it, and for the endpoints of some zone the
share that went there differs from the predicted one by more than `STANDARD_ERRORS` standard errors of a binomial sample
and by more than `TOLERANCE`: slices that changed meanwhile, as in a rollout, explain less than that. Services with
session affinity are not judged: their connections are not independent of each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import Final

from zoneward.advice.json_value import JsonValue, round_share, round_shares
from zoneward.kube.objects import EndpointSlice, Service
from zoneward.routing.demand import NodeDemand
from zoneward.routing.selection.endpoint_selection import Consumer
from zoneward.routing.selection.traffic import ConsumerDemand, predict_service_traffic
from zoneward.slices.cluster_state import ClusterState

LEAST_CONNECTIONS: Final = 30
STANDARD_ERRORS: Final = 4
"""One sample of 16,000 is as far off at random."""
TOLERANCE: Final = 0.05


class NodeTraffic(JsonValue, frozen=True, gc=False, kw_only=True):
    """The connections from one node to one Service in one family.

    ``measured`` and ``predicted`` have the shares by the zone of the endpoint; ``predicted`` is None where nothing can
    be predicted. ``in_zone`` and ``predicted_in_zone`` are the shares that stay in the node's own zone; None where that
    is unknown. ``deviates`` is the zone whose share differs the most where that is more than random variation explains,
    else None; ``""`` is the unknown zone.
    """

    node: str
    zone: str
    connections: int
    in_zone: float | None
    predicted_in_zone: float | None
    measured: dict[str, float]
    predicted: dict[str, float] | None
    deviates: str | None


class HonoredTraffic(JsonValue, frozen=True, gc=False):
    """One Service in one family, by node.

    ``in_zone`` is the share that stayed in its zone, of the connections from known zones, and ``predicted_in_zone`` the
    share that should have stayed, of the connections of nodes with a prediction; None without any.
    """

    connections: int
    in_zone: float | None
    predicted_in_zone: float | None
    deviating_nodes: tuple[str, ...]
    nodes: tuple[NodeTraffic, ...]

    def first(self, count: int) -> tuple[NodeTraffic, ...]:
        """At most ``count`` nodes: those that deviate first, then those with the most connections."""
        return tuple(sorted(self.nodes, key=lambda node: (node.deviates is None, -node.connections))[:count])


def honored_traffic(nodes: Sequence[NodeTraffic]) -> HonoredTraffic:
    """The nodes of one Service together, each with its connections as weight."""
    return HonoredTraffic(
        connections=sum(node.connections for node in nodes),
        in_zone=_weighted_share((node.connections, node.in_zone) for node in nodes),
        predicted_in_zone=_weighted_share((node.connections, node.predicted_in_zone) for node in nodes),
        deviating_nodes=tuple(node.node for node in nodes if node.deviates is not None),
        nodes=tuple(nodes),
    )


def _weighted_share(shares: Iterable[tuple[int, float | None]]) -> float | None:
    known = [(connections, share) for connections, share in shares if share is not None]
    total = sum(connections for connections, _ in known)
    return round_share(sum(connections * share for connections, share in known) / total) if total else None


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
    predictions = _Predictions(
        service, [slice_ for slice_ in slices if slice_.address_type == address_type], cluster_state
    )
    nodes = []
    for node, to in sorted(connections.items()):
        total = sum(to.values())
        if not total:
            continue
        zone = zone_of.get(node) or ""
        measured = {end: count / total for end, count in sorted(to.items())}
        predicted = predictions.on(node, zone)
        judged = predicted is not None and service.spec.session_affinity != "ClientIP"
        nodes.append(
            NodeTraffic(
                node=node,
                zone=zone,
                connections=total,
                in_zone=round_share(measured.get(zone, 0.0)) if zone else None,
                predicted_in_zone=round_share(predicted.get(zone, 0.0)) if zone and predicted is not None else None,
                measured=round_shares(measured),
                predicted=None if predicted is None else round_shares(predicted),
                deviates=_deviating_zone(measured, predicted, total) if judged and predicted is not None else None,
            )
        )
    return tuple(nodes)


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
    """Predictions for single nodes from the slices in force. Nodes of one zone and one kind of proxy select alike,
    except those that have an endpoint or are named in hints, so each prediction is computed once.
    """

    def __init__(self, service: Service, slices: Sequence[EndpointSlice], cluster_state: ClusterState) -> None:
        self._service = service
        self._slices = slices
        self._cluster_state = cluster_state
        self._special = {
            name
            for slice_ in slices
            for endpoint in slice_.endpoints or ()
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
