"""A snapshot as it would be with the options that change the input: without a zone, with more Pods of a Service."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from zoneward.advice.changed_cluster import (
    ImpossibleChange,
    ServicePods,
    SliceReplicas,
    nodes_in_zone,
    without_endpoints_on,
    without_nodes,
)
from zoneward.cli.cluster_input import check_name, has_name
from zoneward.cli.options import AddedPods, InputChanges, ReplicasChange
from zoneward.kube import names
from zoneward.kube.adoption_marks import manager_of
from zoneward.kube.input_error import InputError
from zoneward.kube.objects import EndpointSlice, Pod, Service
from zoneward.routing.phrases import counted, listed
from zoneward.slices.endpoints import IPV4, IPV6
from zoneward.slices.plan import is_managed
from zoneward.snapshots.cluster_snapshot import Snapshot

_MANAGERS_FROM_PODS: Final = (names.BUILT_IN_MANAGER, names.MANAGER)


def change_snapshot(snapshot: Snapshot, changes: InputChanges) -> tuple[Snapshot, list[str]]:
    """The snapshot with all changes, and a line about each. Raises InputError.

    First Nodes go, with the Pods on them; then Pods of Services are added and removed. EndpointSlices that follow from
    Pods stay as they are, for they are what a controller finds after such a change.
    """
    snapshot, lines = _without_nodes(snapshot, changes)
    if changes.services:
        # Names and addresses that Pods which are added must not get.
        taken = {name for pod in snapshot.pods for name in _names(pod)}
        taken.update(name for slice_ in snapshot.slices for name in _names_in(slice_))
        for service, asked in _by_service(snapshot, changes):
            snapshot, line = _with_pods(snapshot, service, asked, taken)
            lines.append(line)
    return snapshot, lines


# --- Nodes ------------------------------------------------------------------------------------------------------------


def _without_nodes(snapshot: Snapshot, changes: InputChanges) -> tuple[Snapshot, list[str]]:
    zones = tuple(dict.fromkeys(changes.without_zones))
    gone = tuple(dict.fromkeys(changes.without_nodes))
    if not zones and not gone:
        return snapshot, []
    known = {zone for zone in snapshot.node_zones.values() if zone} | {
        endpoint.zone
        for slice_ in snapshot.slices
        if not _follows_pods(slice_, snapshot)
        for endpoint in slice_.endpoints or ()
        if endpoint.zone
    }
    for zone in zones:
        check_name("--without-zone", zone, known, "zones in the cluster")
    for name in gone:
        check_name("--without-node", name, snapshot.node_zones, "Nodes in the cluster")
    nodes = set(gone).union(*(nodes_in_zone(snapshot.nodes, zone) for zone in zones))
    if len(nodes) == len(snapshot.nodes) and nodes:
        option = "--without-zone" if zones else "--without-node"
        raise InputError(option, f"expected at least one Node to be left, got all {len(nodes)} Nodes")
    nodes_left, pods = without_nodes(snapshot.nodes, snapshot.pods, nodes)
    slices = tuple(
        slice_ if _follows_pods(slice_, snapshot) else without_endpoints_on((slice_,), nodes=nodes, zones=zones)[0]
        for slice_ in snapshot.slices
    )
    what = ", ".join((*(f"zone {zone}" for zone in zones), *(f"Node {name}" for name in gone)))
    if snapshot.has_pods:
        lost = counted(len(snapshot.pods) - len(pods), "Pod")
    else:
        lost = counted(_endpoints(snapshot.slices) - _endpoints(slices), "endpoint")
    line = f"what if: without {what}: {counted(len(nodes), 'Node')} and {lost} are gone"
    # Without any Pod left, the snapshot must still know that there are none.
    return replace(snapshot, nodes=nodes_left, pods=pods, slices=slices, lists_pods=snapshot.has_pods), [line]


def _follows_pods(slice_: EndpointSlice, snapshot: Snapshot) -> bool:
    """Whether the endpoints of a slice are decided by Pods that the snapshot has."""
    return snapshot.has_pods and manager_of(slice_) in _MANAGERS_FROM_PODS


def _endpoints(slices: Iterable[EndpointSlice]) -> int:
    return sum(len(slice_.endpoints or ()) for slice_ in slices)


# --- Pods -------------------------------------------------------------------------------------------------------------

_Asked = tuple[ReplicasChange | None, tuple[AddedPods, ...]]


def _by_service(snapshot: Snapshot, changes: InputChanges) -> list[tuple[Service, _Asked]]:
    replicas: dict[tuple[str, str], ReplicasChange] = {}
    added: dict[tuple[str, str], list[AddedPods]] = {}
    services: dict[tuple[str, str], Service] = {}
    zones = {zone for zone in snapshot.node_zones.values() if zone} | {
        endpoint.zone for slice_ in snapshot.slices for endpoint in slice_.endpoints or () if endpoint.zone
    }
    for wanted in changes.replicas:
        key, services[key] = _find(snapshot, wanted.service, "--replicas")
        if key in replicas and replicas[key] != wanted:
            raise InputError(
                "--replicas", f"expected one number for {wanted.service}, got {replicas[key]} and {wanted}"
            )
        replicas[key] = wanted
    for more in changes.added_pods:
        key, services[key] = _find(snapshot, more.service, "--add-pods")
        check_name("--add-pods", more.zone, zones, "zones in the cluster")
        added.setdefault(key, []).append(more)
    return [(service, (replicas.get(key), tuple(added.get(key, ())))) for key, service in services.items()]


def _find(snapshot: Snapshot, wanted: str, option: str) -> tuple[tuple[str, str], Service]:
    services = [service for service in snapshot.services if has_name(service, wanted)]
    if not services:
        titles = ["/".join(_key(service)) if "/" in wanted else service.metadata.name for service in snapshot.services]
        check_name(option, wanted, titles, "Services in the cluster")
    if len(services) > 1:
        same = listed(tuple(sorted("/".join(_key(service)) for service in services)))
        raise InputError(option, f"expected a Service with its namespace ({same}), got {wanted!r}")
    return _key(services[0]), services[0]


def _key(service: Service) -> tuple[str, str]:
    return service.metadata.namespace, service.metadata.name


def _with_pods(snapshot: Snapshot, service: Service, asked: _Asked, taken: set[str]) -> tuple[Snapshot, str]:
    name = "/".join(_key(service))
    option = "--add-pods" if asked[0] is None else "--replicas"
    if service.spec.type == "ExternalName":
        raise InputError(option, f"Service {name}", "expected one that has Pods, got one of type ExternalName")
    try:
        if snapshot.has_pods and is_managed(service):
            pods = snapshot.pods_of(service)
            present = ServicePods(service, pods, nodes=snapshot.nodes, taken=taken)
            changes = _changes(present, asked)
            changed = present.changed(changes)
            before, after = set(map(id, pods)), set(map(id, changed))
            gone, added = before - after, tuple(pod for pod in changed if id(pod) not in before)
            taken.update(name for pod in added for name in _names(pod))
            left = (pod for pod in snapshot.pods if id(pod) not in gone)
            # Without any Pod left, the snapshot must still know that there are none.
            snapshot = replace(snapshot, pods=(*left, *added), lists_pods=True)
            return snapshot, _line(name, present.by_zone, changes, "Pod")
        return _with_endpoints(snapshot, service, asked, taken)
    except ImpossibleChange as error:
        raise InputError(option, f"Service {name}", str(error)) from error


def _with_endpoints(snapshot: Snapshot, service: Service, asked: _Asked, taken: set[str]) -> tuple[Snapshot, str]:
    """The same where only the slices of a Service say what its endpoints are. Raises ImpossibleChange."""
    slices = snapshot.slices_of(service)
    line = ""
    families = [family for family in (IPV4, IPV6) if any(slice_.address_type == family for slice_ in slices)]
    for family in families or (IPV4,):
        present = SliceReplicas(service, slices, address_type=family, nodes=snapshot.nodes, taken=taken)
        changes = _changes(present, asked)
        slices = present.changed(changes)
        line = line or _line("/".join(_key(service)), present.by_zone, changes, "endpoint")
    new = {slice_.metadata.name: slice_ for slice_ in slices}
    old = set(map(id, snapshot.slices_of(service)))
    every = tuple(new[slice_.metadata.name] if id(slice_) in old else slice_ for slice_ in snapshot.slices)
    taken.update(name for slice_ in slices for name in _names_in(slice_))
    return replace(snapshot, slices=every), line


def _names(pod: Pod) -> tuple[str, ...]:
    return (pod.metadata.name, pod.status.pod_ip, *(address.ip for address in pod.status.pod_ips or ()))


def _names_in(slice_: EndpointSlice) -> Iterator[str]:
    for endpoint in slice_.endpoints or ():
        yield from endpoint.addresses or ()
        if endpoint.target_ref is not None:
            yield endpoint.target_ref.name


def _changes(present: ServicePods | SliceReplicas, asked: _Asked) -> Mapping[str, int]:
    """By how many Pods each zone changes: first to the number of replicas, and those that are added on top."""
    replicas, added = asked
    changes = Counter(present.changes_to(replicas.replicas) if replicas else {})
    for more in added:
        changes[more.zone] += more.count
    return changes


def _line(name: str, by_zone: Mapping[str, int], changes: Mapping[str, int], noun: str) -> str:
    before = sum(by_zone.values())
    parts = [f"{zone or 'no zone'} {change:+}" for zone, change in sorted(changes.items()) if change]
    what = listed(tuple(parts), most=6) or "no change"
    return f"what if: {name} has {counted(before + sum(changes.values()), noun)} instead of {before}: {what}"
