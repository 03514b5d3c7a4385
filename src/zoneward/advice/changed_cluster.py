"""A cluster as it would be with other Nodes and Pods: without a zone or a Node, with more or fewer Pods of a Service.

Every function returns new values; an unchanged value stays the same object. `ServicePods` and `SliceReplicas` prepare
one Service once and then change it many times, each time from its first state, in time proportional to its Pods.
"""

from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from ipaddress import IPv4Address, IPv6Address
from itertools import count
from typing import Final, Generic, TypeVar

from msgspec.structs import replace

from zoneward.kube.objects import (
    Endpoint,
    EndpointConditions,
    EndpointIdentity,
    EndpointSlice,
    Node,
    NodeCondition,
    ObjectReference,
    Pod,
    PodIP,
    PodStatus,
    Service,
    has_ready_condition,
    identity,
    is_ready,
    is_terminating,
    node_zone,
)
from zoneward.routing.demand import counts_for_demand, is_node_ready
from zoneward.slices.endpoints import FINISHED_PHASES, IPV4, IPV6, address_types

ADDED_UID: Final = "added"
"""The UID of Pods that are added. They are the first to be removed again."""
NO_ZONE: Final = ""
"""The zone of Pods without a zone, and of Pods on no known Node."""
_FIRST_ADDRESS: Final = {IPV4: int(IPv4Address("240.0.0.1")), IPV6: int(IPv6Address("2001:db8::1"))}
"""Added Pods get addresses from ranges that no cluster uses: reserved (RFC 1112), documentation (RFC 3849)."""
_READY: Final = (NodeCondition(type="Ready", status="True"),)
_Key = TypeVar("_Key", bound=Hashable)


class ImpossibleChange(ValueError):  # noqa: N818 -- who asked for it turns it into an InputError with the option
    """A change that cannot be made. The text is one line: what was expected, and what was there instead."""


# --- without Nodes ----------------------------------------------------------------------------------------------------


def nodes_in_zone(nodes: Iterable[Node], zone: str) -> frozenset[str]:
    """The names of the Nodes of a zone."""
    return frozenset(node.metadata.name for node in nodes if node_zone(node) == zone)


def without_nodes(
    nodes: Sequence[Node], pods: Sequence[Pod], names: Collection[str]
) -> tuple[tuple[Node, ...], tuple[Pod, ...]]:
    """Nodes and Pods without the named Nodes and the Pods on them."""
    return (
        tuple(node for node in nodes if node.metadata.name not in names),
        tuple(pod for pod in pods if pod.spec.node_name not in names),
    )


def without_endpoints_on(
    slices: Iterable[EndpointSlice], *, nodes: Collection[str], zones: Collection[str] = ()
) -> tuple[EndpointSlice, ...]:
    """Slices without the endpoints on these Nodes or in these zones: where slices are all that is known of Pods."""
    return tuple(
        _only_endpoints(slice_, lambda endpoint: endpoint.node_name not in nodes and endpoint.zone not in zones)
        for slice_ in slices
    )


def _only_endpoints(slice_: EndpointSlice, keep: Callable[[Endpoint], bool]) -> EndpointSlice:
    endpoints = slice_.endpoints or ()
    endpoints_left = tuple(endpoint for endpoint in endpoints if keep(endpoint))
    return slice_ if len(endpoints_left) == len(endpoints) else replace(slice_, endpoints=endpoints_left)


# --- more or fewer Pods of a Service ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Replica(Generic[_Key]):
    """A Pod of a Service that counts: one that neither finished nor terminates, as a ReplicaSet counts them.

    ``key`` finds it again, ``name`` orders it. ``zone`` is `NO_ZONE` and ``node`` empty where they are not known.
    """

    key: _Key
    name: str
    zone: str
    node: str
    ready: bool
    added: bool


class _Replicas(Generic[_Key]):
    """The replicas of a Service by zone, and the Nodes on which others could run."""

    def __init__(self, replicas: Iterable[_Replica[_Key]], nodes: Iterable[Node], *, zones: Iterable[str] = ()) -> None:
        self._by_zone: dict[str, list[_Replica[_Key]]] = {}
        for replica in replicas:
            self._by_zone.setdefault(replica.zone, []).append(replica)
        for in_zone in self._by_zone.values():
            # A ReplicaSet also removes Pods first that are not ready.
            in_zone.sort(key=lambda replica: replica.name, reverse=True)
            in_zone.sort(key=lambda replica: (not replica.added, replica.ready))
        self.by_zone: Final = {zone: len(in_zone) for zone, in_zone in sorted(self._by_zone.items())}
        """Replicas by zone; `NO_ZONE` is for those on no known Node."""
        ready = [node for node in nodes if is_node_ready(node)]
        self._nodes: dict[str, list[str]] = {}
        for candidates in ([node for node in ready if counts_for_demand(node)], ready):
            # Nodes that are kept from workloads take replicas only where their zone has no others.
            taken = frozenset(self._nodes)
            for node in candidates:
                if (zone := node_zone(node)) and zone not in taken:
                    self._nodes.setdefault(zone, []).append(node.metadata.name)
        self.zones: Final = tuple(sorted(self._nodes.keys() | set(zones)))
        """Zones in which replicas can be added."""
        self._templates: dict[str, _Key] = {}
        self._used: Counter[str] = Counter(replica.node for in_zone in self._by_zone.values() for replica in in_zone)

    def changes_to(self, replicas: int) -> dict[str, int]:
        """By how many replicas each zone changes to reach a total of ``replicas``; unchanged zones are left out.

        Replicas are added where there are the fewest and removed where there are the most; of equal zones, the first by
        name. Raises ImpossibleChange.
        """
        missing = replicas - sum(self.by_zone.values())
        if missing > 0 and not self.zones:
            raise ImpossibleChange("expected a ready Node in a zone for more Pods, found none")
        step = 1 if missing > 0 else -1
        # With ``-1``, the zones with the most replicas come first.
        order = [(step * self.by_zone.get(zone, 0), zone) for zone in (self.zones if missing > 0 else self.by_zone)]
        heapify(order)
        changes: Counter[str] = Counter()
        for _ in range(abs(missing)):
            count, zone = order[0]
            changes[zone] += step
            heapreplace(order, (count + 1, zone))
        return dict(sorted(changes.items()))

    def _removed(self, zone: str, count: int) -> list[_Key]:
        """The keys of the first replicas to remove from a zone. Raises ImpossibleChange."""
        present = self._by_zone.get(zone, [])
        if count > len(present):
            where = f"in zone {zone}" if zone else "without a zone"
            raise ImpossibleChange(f"expected at most {len(present)} Pods to remove {where}, got {count}")
        return [replica.key for replica in present[: max(0, count)]]

    def _all_removed(self, changes: Mapping[str, int]) -> set[_Key]:
        return {key for zone, change in changes.items() for key in self._removed(zone, -change)}

    def _places(self, changes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """The zone and the Node of each replica that is added. Raises ImpossibleChange.

        Of the Nodes of a zone, those with the fewest replicas come first; of equal ones, the first by name.
        """
        for zone, change in sorted(changes.items()):
            if change <= 0:
                continue
            if zone not in self.zones:
                known = ", ".join(self.zones) or "there is none"
                raise ImpossibleChange(f"expected a zone with a ready Node ({known}), got {zone!r}")
            nodes = [(self._used[node], node) for node in self._nodes.get(zone, [""])]
            heapify(nodes)
            for _ in range(change):
                used, node = nodes[0]
                yield zone, node
                heapreplace(nodes, (used + 1, node))

    def _template(self, zone: str) -> _Key:
        """The key of the replica to copy: a ready one, of the same zone where there is one. Raises ImpossibleChange."""
        if zone not in self._templates:
            every = [replica for replicas in self._by_zone.values() for replica in replicas]
            if not every:
                raise ImpossibleChange("expected a Pod to copy, found none")
            best = min(
                every, key=lambda replica: (not replica.ready, replica.zone != zone, replica.added, replica.name)
            )
            self._templates[zone] = best.key
        return self._templates[zone]


class ServicePods(_Replicas[int]):
    """The Pods of one Service, to be changed any number of times, each time from the same start.

    ``taken`` has names and addresses of other Pods, which added Pods do not use.
    """

    def __init__(
        self, service: Service, pods: Iterable[Pod], *, nodes: Iterable[Node], taken: Container[str] = ()
    ) -> None:
        self._service = service
        self._pods = tuple(pods)
        nodes = tuple(nodes)
        zones = {node.metadata.name: node_zone(node) or NO_ZONE for node in nodes}
        super().__init__(
            (
                _Replica(
                    key=index,
                    name=pod.metadata.name,
                    zone=zones.get(pod.spec.node_name, NO_ZONE),
                    node=pod.spec.node_name,
                    ready=has_ready_condition(pod.status.conditions),
                    added=pod.metadata.uid == ADDED_UID,
                )
                for index, pod in enumerate(self._pods)
                if pod.metadata.deletion_timestamp is None and pod.status.phase not in FINISHED_PHASES
            ),
            nodes,
        )
        own = {pod.metadata.name for pod in self._pods} | {
            ip
            for pod in self._pods
            for ip in (pod.status.pod_ip, *(address.ip for address in pod.status.pod_ips or ()))
        }
        self._taken = (own, taken)

    def changed(self, changes: Mapping[str, int]) -> tuple[Pod, ...]:
        """The Pods after changing their number by zone; below 0, Pods are removed. Raises ImpossibleChange.

        A new Pod is a ready copy of another one, with a new name and new addresses, on a ready Node of its zone. Pods
        that were added are removed first, then those that are not ready.
        """
        gone = self._all_removed(changes)
        left = tuple(pod for index, pod in enumerate(self._pods) if index not in gone) if gone else self._pods
        fresh = _FreshNames(self._service, self._taken)
        added = (self._copy(self._pods[self._template(zone)], node, fresh) for zone, node in self._places(changes))
        return (*left, *added)

    def removed(self, zone: str, count: int) -> list[Pod]:
        """The Pods that are removed to have ``count`` less in a zone. Raises ImpossibleChange."""
        return [self._pods[index] for index in self._removed(zone, count)]

    def _copy(self, pod: Pod, node: str, fresh: "_FreshNames") -> Pod:
        name = fresh.name()
        ips = [address.ip for address in pod.status.pod_ips or ()] or [pod.status.pod_ip]
        families = [IPV6 if ":" in ip else IPV4 for ip in ips if ip] or address_types(self._service, self._pods)
        addresses = [fresh.address(family) for family in families]
        return Pod(
            metadata=replace(pod.metadata, name=name, uid=ADDED_UID, deletion_timestamp=None),
            spec=replace(pod.spec, node_name=node, hostname=name if pod.spec.hostname else ""),
            status=PodStatus(
                phase="Running", conditions=_READY, pod_ip=addresses[0], pod_ips=tuple(map(PodIP, addresses))
            ),
        )


# --- the same where slices are all that is known ----------------------------------------------------------------------


class SliceReplicas(_Replicas[EndpointIdentity]):
    """The endpoints of one Service in one address family, where no Pods are known, to be changed like `ServicePods`.

    ``slices`` are all those of the Service; slices of other families stay as they are.
    """

    def __init__(
        self,
        service: Service,
        slices: Iterable[EndpointSlice],
        *,
        address_type: str,
        nodes: Iterable[Node],
        taken: Container[str] = (),
    ) -> None:
        self._service = service
        self._slices = tuple(slices)
        self._address_type = address_type
        replicas: dict[EndpointIdentity, _Replica[EndpointIdentity]] = {}
        own: set[str] = set()
        own_slices = (slice_ for slice_ in self._slices if slice_.address_type == address_type)
        for endpoint in (endpoint for slice_ in own_slices for endpoint in slice_.endpoints or ()):
            target = endpoint.target_ref
            name = target.name if target else ",".join(endpoint.addresses or ())
            own.update((name, *(endpoint.addresses or ())))
            if not is_terminating(endpoint):
                replicas[identity(endpoint)] = _Replica(
                    key=identity(endpoint),
                    name=name,
                    zone=endpoint.zone or NO_ZONE,
                    node=endpoint.node_name or "",
                    ready=is_ready(endpoint),
                    added=target is not None and target.uid == ADDED_UID,
                )
        nodes = tuple(nodes)
        # Without any Node, only the zones of the endpoints are known.
        zones = () if nodes else {replica.zone for replica in replicas.values() if replica.zone}
        super().__init__(replicas.values(), nodes, zones=zones)
        self._taken = (own, taken)

    def changed(self, changes: Mapping[str, int]) -> tuple[EndpointSlice, ...]:
        """All slices after changing the number of endpoints by zone; below 0, endpoints are removed. Raises
        ImpossibleChange.

        A new endpoint is a ready copy of another one, in the same slices, without hints.
        """
        gone = self._all_removed(changes)
        added: dict[EndpointIdentity, list[Endpoint]] = {}
        fresh = _FreshNames(self._service, self._taken)
        for zone, node in self._places(changes):
            copy = Endpoint(
                addresses=(fresh.address(self._address_type),),
                conditions=EndpointConditions(ready=True, serving=True, terminating=False),
                target_ref=ObjectReference(
                    kind="Pod", namespace=self._service.metadata.namespace, name=fresh.name(), uid=ADDED_UID
                ),
                node_name=node or None,
                zone=zone,
            )
            added.setdefault(self._template(zone), []).append(copy)
        return tuple(self._changed(slice_, gone, added) for slice_ in self._slices)

    def _changed(
        self,
        slice_: EndpointSlice,
        gone: Container[EndpointIdentity],
        added: Mapping[EndpointIdentity, Sequence[Endpoint]],
    ) -> EndpointSlice:
        if slice_.address_type != self._address_type:
            return slice_
        reduced = _only_endpoints(slice_, lambda endpoint: identity(endpoint) not in gone)
        listed = {identity(endpoint) for endpoint in slice_.endpoints or ()} if added else set()
        more = tuple(copy for key, copies in added.items() if key in listed for copy in copies)
        return replace(reduced, endpoints=(*(reduced.endpoints or ()), *more)) if more else reduced


# --- names and addresses ----------------------------------------------------------------------------------------------


class _FreshNames:
    """Unused names and addresses; equal ones for equal input."""

    def __init__(self, service: Service, taken: Sequence[Container[str]]) -> None:
        self._prefix = f"{service.metadata.name}-added-"
        self._taken = taken
        self._names = count(1)
        self._next = {family: count(first) for family, first in _FIRST_ADDRESS.items()}

    def name(self) -> str:
        return next(name for value in self._names if not self._is_taken(name := f"{self._prefix}{value}"))

    def address(self, family: str) -> str:
        to_text = IPv6Address if family == IPV6 else IPv4Address
        return next(text for value in self._next[family] if not self._is_taken(text := str(to_text(value))))

    def _is_taken(self, text: str) -> bool:
        return any(text in names for names in self._taken)
