"""A snapshot that can be given away: decisions about it are the same, and nobody is named.

Replaced, each everywhere by the same: names of objects, namespaces, hostnames, addresses, UIDs, values of labels and
selectors. Kept, because decisions depend on them: zones and regions, numbers, times, names of ports, keys of labels,
traffic policies and distributions, what well-known annotations say. Everything else is left out: other annotations,
messages, conditions. Objects are built anew, so that a new field of theirs can't give anything away unseen; the tests
have a list of all that stays.
"""

from typing import Final

from zoneward.kube import names
from zoneward.kube.objects import (
    Endpoint,
    EndpointPort,
    EndpointSlice,
    ForNode,
    Hints,
    LoadBalancerIngress,
    LoadBalancerStatus,
    Node,
    NodeMeta,
    NodeStatus,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Pod,
    PodIP,
    PodMeta,
    PodSpec,
    PodStatus,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)
from zoneward.sources.impersonal import (
    is_kept_label,
    is_well_known,
    kept_annotations,
    kept_conditions,
    kept_containers,
    kept_time,
    readiness,
)
from zoneward.sources.pseudonyms import Gathering, Kind, Names
from zoneward.sources.snapshot import Snapshot

_LABEL_NAMES: Final[dict[str, Kind]] = {names.SERVICE_NAME_LABEL: "service", "kubernetes.io/hostname": "node"}
"""Labels whose values name objects."""
_OWNERS: Final[dict[str, Kind]] = {"Service": "service", "Endpoints": "service", "Node": "node"}
"""Endpoints have the name of their Service."""


def anonymized(snapshot: Snapshot) -> Snapshot:
    """The same cluster with other names. The order of objects stays, and so does that of names and addresses."""
    gathering = Gathering()
    # The same walk twice: what is replaced in the second was met in the first.
    _rewritten(snapshot, gathering)
    return _rewritten(snapshot, gathering.pseudonyms())


def _rewritten(snapshot: Snapshot, known: Names) -> Snapshot:
    rewriting = _Rewriting(known)
    return Snapshot(
        services=tuple(map(rewriting.service, snapshot.services)),
        nodes=tuple(map(rewriting.node, snapshot.nodes)),
        pods=tuple(map(rewriting.pod, snapshot.pods)),
        slices=tuple(map(rewriting.endpoint_slice, snapshot.slices)),
        lists_pods=snapshot.lists_pods,
    )


class _Rewriting:
    """Objects as they are with other names; whoever knows the names is asked for each."""

    def __init__(self, known: Names) -> None:
        self._known = known
        self._name = known.name

    # --- metadata -----------------------------------------------------------------------------------------------------

    def _meta(self, meta: ObjectMeta, name: str) -> ObjectMeta:
        owners = meta.owner_references
        version = meta.resource_version
        return ObjectMeta(
            name=name,
            namespace=self._name("namespace", meta.namespace),
            uid=self._name("uid", meta.uid),
            labels=self._labels(meta.labels),
            annotations=kept_annotations(meta.annotations),
            owner_references=tuple(map(self._owner, owners)) if owners is not None else None,
            generation=meta.generation,
            resource_version=version if version is not None and version.isdecimal() else None,
            creation_timestamp=kept_time(meta.creation_timestamp),
            deletion_timestamp=kept_time(meta.deletion_timestamp),
        )

    def _labels(self, labels: dict[str, str] | None) -> dict[str, str] | None:
        return {key: self._value(key, value) for key, value in labels.items()} if labels is not None else None

    def _value(self, key: str, value: str) -> str:
        return value if is_kept_label(key, value) else self._name(_LABEL_NAMES.get(key, "value"), value)

    def _owner(self, owner: OwnerReference) -> OwnerReference:
        kind = _OWNERS.get(owner.kind)
        return OwnerReference(
            api_version=owner.api_version if kind else "example.com/v1",
            kind=owner.kind if kind else "Owner",
            name=self._name(kind or "owner", owner.name),
            uid=self._name("uid", owner.uid),
            controller=owner.controller,
            block_owner_deletion=owner.block_owner_deletion,
        )

    # --- Service ------------------------------------------------------------------------------------------------------

    def service(self, service: Service) -> Service:
        spec, status = service.spec, service.status
        return Service(
            metadata=self._meta(service.metadata, self._name("service", service.metadata.name)),
            spec=ServiceSpec(
                type=spec.type,
                selector=self._labels(spec.selector),
                cluster_ip=self._cluster_ip(spec.cluster_ip) if spec.cluster_ip is not None else None,
                cluster_ips=tuple(map(self._cluster_ip, spec.cluster_ips)) if spec.cluster_ips is not None else None,
                ip_families=spec.ip_families,
                ports=tuple(map(self._service_port, spec.ports)) if spec.ports is not None else None,
                external_ips=self._addresses(spec.external_ips),
                publish_not_ready_addresses=spec.publish_not_ready_addresses,
                internal_traffic_policy=spec.internal_traffic_policy,
                external_traffic_policy=spec.external_traffic_policy,
                traffic_distribution=spec.traffic_distribution,
                topology_keys=spec.topology_keys,
            ),
            status=self._service_status(status) if status is not None else None,
        )

    def _service_port(self, port: ServicePort) -> ServicePort:
        return ServicePort(
            name=port.name,
            protocol=port.protocol,
            port=port.port,
            target_port=port.target_port,
            node_port=port.node_port,
            app_protocol=self._app_protocol(port.app_protocol),
        )

    def _service_status(self, status: ServiceStatus) -> ServiceStatus:
        balancer = status.load_balancer
        return ServiceStatus(
            conditions=kept_conditions(status.conditions),
            load_balancer=LoadBalancerStatus(
                ingress=tuple(LoadBalancerIngress(ip=self._address(each.ip)) for each in balancer.ingress)
                if balancer.ingress is not None
                else None
            )
            if balancer is not None
            else None,
        )

    def _app_protocol(self, protocol: str | None) -> str | None:
        if not protocol or "/" not in protocol or is_well_known(protocol.partition("/")[0]):
            return protocol
        return self._name("protocol", protocol)

    def _cluster_ip(self, address: str) -> str:
        return address if address == names.HEADLESS else self._name("address", address)

    def _address(self, address: str | None) -> str | None:
        return self._name("address", address) if address is not None else None

    def _addresses(self, addresses: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return tuple(self._name("address", each) for each in addresses) if addresses is not None else None

    # --- Node and Pod -------------------------------------------------------------------------------------------------

    def node(self, node: Node) -> Node:
        meta, status = node.metadata, node.status
        return Node(
            metadata=NodeMeta(name=self._name("node", meta.name), labels=self._labels(meta.labels)),
            status=NodeStatus(allocatable=status.allocatable, conditions=readiness(status.conditions))
            if status is not None
            else None,
        )

    def pod(self, pod: Pod) -> Pod:
        meta, spec, status = pod.metadata, pod.spec, pod.status
        ips = status.pod_ips
        return Pod(
            metadata=PodMeta(
                name=self._name("pod", meta.name),
                namespace=self._name("namespace", meta.namespace),
                uid=self._name("uid", meta.uid),
                labels=self._labels(meta.labels),
                deletion_timestamp=kept_time(meta.deletion_timestamp),
            ),
            spec=PodSpec(
                node_name=self._name("node", spec.node_name),
                hostname=self._name("host", spec.hostname),
                # The Service by which the Pod's hostname is found.
                subdomain=self._name("service", spec.subdomain),
                containers=kept_containers(spec.containers),
                init_containers=kept_containers(spec.init_containers),
            ),
            status=PodStatus(
                phase=status.phase,
                conditions=readiness(status.conditions),
                pod_ip=self._name("address", status.pod_ip),
                pod_ips=tuple(PodIP(ip=self._name("address", each.ip)) for each in ips) if ips is not None else None,
            ),
        )

    # --- EndpointSlice ------------------------------------------------------------------------------------------------

    def endpoint_slice(self, each: EndpointSlice) -> EndpointSlice:
        service = (each.metadata.labels or {}).get(names.SERVICE_NAME_LABEL, "")
        return EndpointSlice(
            metadata=self._meta(each.metadata, self._known.slice(service, each.metadata.name)),
            address_type=each.address_type,
            endpoints=tuple(map(self._endpoint, each.endpoints)) if each.endpoints is not None else None,
            ports=tuple(map(self._endpoint_port, each.ports)) if each.ports is not None else None,
        )

    def _endpoint_port(self, port: EndpointPort) -> EndpointPort:
        return EndpointPort(
            name=port.name, protocol=port.protocol, port=port.port, app_protocol=self._app_protocol(port.app_protocol)
        )

    def _endpoint(self, endpoint: Endpoint) -> Endpoint:
        target, node, host, hints = endpoint.target_ref, endpoint.node_name, endpoint.hostname, endpoint.hints
        return Endpoint(
            addresses=self._addresses(endpoint.addresses),
            conditions=endpoint.conditions,
            hostname=self._name("host", host) if host is not None else None,
            target_ref=self._target(target) if target is not None else None,
            node_name=self._name("node", node) if node is not None else None,
            zone=endpoint.zone,
            hints=self._hints(hints) if hints is not None else None,
        )

    def _target(self, target: ObjectReference) -> ObjectReference:
        # Whatever it is, it counts by its name, in the order of names: all are of one kind.
        return ObjectReference(
            kind=target.kind if target.kind in ("", "Pod", "Node") else "Target",
            namespace=self._name("namespace", target.namespace),
            name=self._name("pod", target.name),
            uid=self._name("uid", target.uid),
        )

    def _hints(self, hints: Hints) -> Hints:
        nodes = hints.for_nodes
        return Hints(
            for_zones=hints.for_zones,
            for_nodes=tuple(ForNode(name=self._name("node", each.name)) for each in nodes)
            if nodes is not None
            else None,
        )
