"""Makes a snapshot that can be shared: decisions about it are the same, and it names nobody.

What stays is what is known and what decisions need: numbers, times, and of fields and annotations that hold a choice
the values that somebody knows. What is unknown there becomes ``unknown-1``, which is as unknown. Replaced, each
everywhere by the same and in the same order: names of objects, namespaces, hostnames, addresses, UIDs, names of ports,
keys and values of labels and selectors, zones and regions that are not those of a cloud. Everything else is left out:
other annotations, messages, conditions. Objects are built anew, so that a new field of theirs can't give anything away
unseen; the tests fill every field with something secret.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

import msgspec

from zoneward.kube import names
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION, encode_selector
from zoneward.kube.demand_text import parse_demand
from zoneward.kube.leader_labels import ACTIVE_LABELS, ROLE_LABELS
from zoneward.kube.objects import (
    Affinity,
    Condition,
    ConfigMap,
    Container,
    ContainerPort,
    DaemonPodSpec,
    DaemonPodTemplate,
    DaemonSet,
    DaemonSetSpec,
    Endpoint,
    EndpointPort,
    EndpointSlice,
    ForNode,
    ForZone,
    Hints,
    LoadBalancerIngress,
    LoadBalancerStatus,
    Node,
    NodeAffinity,
    NodeCondition,
    NodeInfo,
    NodeMeta,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeStatus,
    ObjectKey,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    PlainMeta,
    Pod,
    PodIP,
    PodMeta,
    PodSpec,
    PodStatus,
    ProgramContainer,
    ProxyPod,
    ProxyPodSpec,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)
from zoneward.kube.proxy_programs import (
    CONFIG_MAPS,
    SWITCHES,
    SYSTEM_NAMESPACE,
    command_of,
    find_program,
    owning_daemon_set,
    parse_gates,
    reduce_config_map,
)
from zoneward.kube.zone_weights import ZoneWeights, format_zone_weights, parse_zone_weights
from zoneward.snapshots import public_values
from zoneward.snapshots.cluster_snapshot import Snapshot
from zoneward.snapshots.pseudonyms import NameCollector, NameKind, NameMap
from zoneward.snapshots.workload_anonymizer import WorkloadAnonymizer

_LABEL_NAMES: Final[Mapping[str, NameKind]] = {
    names.SERVICE_NAME_LABEL: "service",
    **dict.fromkeys(public_values.NODE_LABELS, "node"),
    **dict.fromkeys(public_values.ZONE_LABELS, "zone"),
    **dict.fromkeys(public_values.REGION_LABELS, "region"),
}
"""Labels whose values name something."""
_OWNERS: Final[dict[str, NameKind]] = {
    **dict.fromkeys(("Service", "Endpoints"), "service"),
    "Node": "node",
    "DaemonSet": "owner",
    "StatefulSet": "workload",
}
"""Endpoints have the name of their Service."""


Numbers = Mapping[str, Callable[[str], object]]
"""By annotation: what reads its text, and returns None for what is no number there."""
NO_NUMBERS: Final[Numbers] = MappingProxyType({})


def anonymized(snapshot: Snapshot, *, words: Collection[str] = (), numbers: Numbers = NO_NUMBERS) -> Snapshot:
    """The same cluster with other names. The order of objects stays, and so does that of names and addresses.

    ``words``: all that decisions know by name (approaches, heuristics, reasons), which may stand in settings and in
    what was told of them. ``numbers``: the annotations that hold a number. What decisions do not take for one there is
    no number to them, and may be a secret.
    """
    collector = NameCollector()
    # The same walk twice: what is replaced in the second was met in the first.
    _anonymize(snapshot, collector, words, numbers)
    return _anonymize(snapshot, collector.pseudonyms(), words, numbers)


def _anonymize(snapshot: Snapshot, known: NameMap, words: Collection[str], numbers: Numbers) -> Snapshot:
    anonymizer = _Anonymizer(known, words, numbers)
    daemon_sets = {
        (each.metadata.namespace, each.metadata.name): _daemon_set_name(number, each)
        for number, each in enumerate(snapshot.daemon_sets)
    }
    proxy_pods = (anonymizer.proxy_pod(pod, daemon_sets) for pod in snapshot.proxy_pods)
    return Snapshot(
        services=tuple(map(anonymizer.service, snapshot.services)),
        nodes=tuple(map(anonymizer.node, snapshot.nodes)),
        pods=(*map(anonymizer.pod, snapshot.pods), *proxy_pods),
        slices=tuple(map(anonymizer.endpoint_slice, snapshot.slices)),
        workload_objects=WorkloadAnonymizer(known.name, anonymizer, snapshot.workload_objects).objects(),
        daemon_sets=tuple(map(anonymizer.daemon_set, daemon_sets.values(), snapshot.daemon_sets)),
        config_maps=tuple(anonymizer.config_map(each) for each in snapshot.config_maps),
        lists_pods=snapshot.lists_pods,
        unread_workloads=snapshot.unread_workloads,
        lists_workloads=snapshot.lists_workloads,
    )


def _daemon_set_name(number: int, each: DaemonSet) -> str:
    program = find_program(each.spec.template.spec.containers)
    return f"{program.program if program else 'other'}-{number}"


class _Anonymizer:
    """Builds the same objects with other names, which ``known`` provides."""

    def __init__(self, known: NameMap, words: Collection[str], numbers: Numbers) -> None:
        self._known = known
        self._name = known.name
        self._words = frozenset(words)
        self._numbers = numbers

    def _choice(self, value: str, known: Collection[str]) -> str:
        return value if value in known else self._name("unknown", value)

    def _maybe(self, value: str | None, known: Collection[str]) -> str | None:
        return None if value is None else self._choice(value, known)

    def _choices(self, values: tuple[str, ...] | None, known: Collection[str]) -> tuple[str, ...] | None:
        return None if values is None else tuple(self._choice(each, known) for each in values)

    # --- metadata -----------------------------------------------------------------------------------------------------

    def _meta(self, meta: ObjectMeta, name: str) -> ObjectMeta:
        return ObjectMeta(
            name=name,
            namespace=self._name("namespace", meta.namespace),
            uid=self._name("uid", meta.uid),
            labels=self.labels(meta.labels),
            annotations=self._annotations(meta.annotations),
            owner_references=self._owners(meta.owner_references),
            generation=meta.generation,
            resource_version=public_values.kept_version(meta.resource_version),
            creation_timestamp=public_values.kept_time(meta.creation_timestamp),
            deletion_timestamp=public_values.kept_time(meta.deletion_timestamp),
        )

    def labels(self, labels: Mapping[str, str] | None) -> dict[str, str] | None:
        return (
            {self._key(key): self._value(key, value) for key, value in labels.items()} if labels is not None else None
        )

    def _key(self, key: str) -> str:
        return key if key in public_values.KEPT_KEYS else self._name("key", key)

    def _value(self, key: str, value: str) -> str:
        if key == names.MANAGED_BY_LABEL and value in public_values.MANAGERS:
            return value
        if key == names.OS_LABEL and value in ("linux", names.WINDOWS):
            return value
        if (key in ROLE_LABELS and value.lower() in public_values.ROLES) or (
            key in ACTIVE_LABELS and value in ("true", "false")
        ):
            return value
        return self._name(_LABEL_NAMES.get(key, "value"), value)

    def _annotations(self, annotations: dict[str, str] | None) -> dict[str, str] | None:
        """Those that decisions read. Where none is left there are no annotations, rather than a map without any: a
        slice with such a map would be written once more.
        """
        if not annotations:
            return annotations
        found = {key: self._annotation(key, value) for key, value in annotations.items()}
        return {key: value for key, value in found.items() if value is not None} or None

    def _annotation(self, key: str, value: str) -> str | None:
        if key in public_values.SETTINGS:
            return self._setting(value, public_values.SETTINGS[key])
        if key in self._numbers:
            return value if self._numbers[key](value) is not None else self._name("unknown", value)
        if key == names.APPROACH_ANNOTATION:
            return value if self._is_in_force(value) else self._name("unknown", value)
        if key == names.DEMAND_ANNOTATION:
            return self._demand(value)
        if key == names.ZONES_ANNOTATION:
            return ",".join(map(self._weighed, value.split(",")))
        if key == names.ZONE_WEIGHTS_ANNOTATION:
            return self._zone_weights(value)
        if key == SELECTOR_ANNOTATION:
            return self._mark(value)
        if key == names.TRIGGER_TIME_ANNOTATION and public_values.is_time(value):
            return value
        return None

    def _setting(self, value: str, known: Collection[str]) -> str:
        """A value that is known to everybody, or a heuristic, by its name or ``<domain>/<heuristic>``."""
        name = value.removeprefix(f"{names.DOMAIN}/")
        return value if value in known or name in self._words else self._name("unknown", value)

    def _is_in_force(self, value: str) -> bool:
        approach, slash, heuristic = value.removeprefix(names.SUSPENDED_PREFIX).partition("/")
        return approach in self._words and (not slash or heuristic in self._words)

    def _weighed(self, part: str) -> str:
        """``a`` or ``a=0.75``; what is no number stays none."""
        zone, equals, weight = part.partition("=")
        return self._name("zone", zone) + equals + (weight if not weight or public_values.is_number(weight) else "x")

    def _demand(self, value: str) -> str:
        """Parts of zones; what is invalid stays so."""
        if parse_demand(value) is None:
            return self._name("unknown", value)
        parts = (part.partition("=") for part in value.split(","))
        return ",".join(f"{self._name('zone', zone.strip())}={part.strip()}" for zone, _, part in parts)

    def _zone_weights(self, value: str) -> str:
        """Weights of zones; what is invalid stays so."""
        weights = parse_zone_weights(value)
        if weights is None:
            return self._name("unknown", value)
        name = partial(self._name, "zone")
        shares = {
            name(start): {name(end): share for end, share in row.items()} for start, row in weights.shares.items()
        }
        counts = {name(zone): number for zone, number in weights.counts.items()}
        return format_zone_weights(ZoneWeights(shares, counts)) or self._name("unknown", value)

    def _mark(self, value: str) -> str:
        """The selector of an adopted Service (`zoneward.kube.adoption_marks`); what is unreadable stays so."""
        try:
            selector = msgspec.json.decode(value, type=dict[str, str])
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return self._name("unknown", value)
        return encode_selector(self.labels(selector) or {})

    def _owners(self, owners: tuple[OwnerReference, ...] | None) -> tuple[OwnerReference, ...] | None:
        return tuple(map(self._owner, owners)) if owners is not None else None

    def _owner(self, owner: OwnerReference) -> OwnerReference:
        kind = _OWNERS.get(owner.kind)
        anonymized_kind, anonymized_version = names.ANONYMIZED_OWNER
        known_version = "apps/v1" if kind in ("owner", "workload") else "v1"
        return OwnerReference(
            api_version=known_version if kind else anonymized_version,
            kind=owner.kind if kind else anonymized_kind,
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
                type=self._maybe(spec.type, public_values.SERVICE_TYPES),
                selector=self.labels(spec.selector),
                cluster_ip=self._cluster_ip(spec.cluster_ip) if spec.cluster_ip is not None else None,
                cluster_ips=tuple(map(self._cluster_ip, spec.cluster_ips)) if spec.cluster_ips is not None else None,
                ip_families=self._choices(spec.ip_families, public_values.FAMILIES),
                ports=tuple(map(self._service_port, spec.ports)) if spec.ports is not None else None,
                external_ips=self._addresses(spec.external_ips),
                publish_not_ready_addresses=spec.publish_not_ready_addresses,
                internal_traffic_policy=self._maybe(spec.internal_traffic_policy, public_values.POLICIES),
                external_traffic_policy=self._maybe(spec.external_traffic_policy, public_values.POLICIES),
                traffic_distribution=self._setting(distribution, public_values.DISTRIBUTIONS)
                if (distribution := spec.traffic_distribution) is not None
                else None,
                topology_keys=self._choices(spec.topology_keys, public_values.TOPOLOGY_KEYS),
            ),
            status=self._service_status(status) if status is not None else None,
        )

    def _service_port(self, port: ServicePort) -> ServicePort:
        target = port.target_port
        return ServicePort(
            name=self._name("port", port.name),
            protocol=self._choice(port.protocol, public_values.TRANSPORTS),
            port=port.port,
            target_port=self._name("port", target) if isinstance(target, str) else target,
            node_port=port.node_port,
            app_protocol=self._app_protocol(port.app_protocol),
        )

    def _service_status(self, status: ServiceStatus) -> ServiceStatus:
        balancer = status.load_balancer
        return ServiceStatus(
            conditions=self._conditions(status.conditions),
            load_balancer=LoadBalancerStatus(
                ingress=tuple(LoadBalancerIngress(ip=self._address(each.ip)) for each in balancer.ingress)
                if balancer.ingress is not None
                else None
            )
            if balancer is not None
            else None,
        )

    def _conditions(self, conditions: tuple[Condition, ...] | None) -> tuple[Condition, ...] | None:
        """Zoneward's own. Their messages are left out, except the requested approach, with which they begin."""
        if conditions is None:
            return None
        return tuple(
            Condition(
                type=each.type,
                status=self._choice(each.status, public_values.STATES),
                reason=self._choice(each.reason, self._words),
                message=asked if self._is_in_force(asked := each.message.partition(": ")[0]) else "",
            )
            for each in conditions
            if each.type in public_values.CONDITIONS
        )

    def _app_protocol(self, protocol: str | None) -> str | None:
        if protocol is None or protocol in public_values.APP_PROTOCOLS:
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
            metadata=NodeMeta(name=self._name("node", meta.name), labels=self.labels(meta.labels)),
            status=NodeStatus(
                allocatable=public_values.kept_amount(status.allocatable),
                conditions=self._readiness(status.conditions),
                node_info=NodeInfo(kubelet_version=public_values.kept_kubelet_version(info.kubelet_version))
                if (info := status.node_info) is not None
                else None,
            )
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
                labels=self.labels(meta.labels),
                owner_references=self._owners(meta.owner_references),
                deletion_timestamp=public_values.kept_time(meta.deletion_timestamp),
            ),
            spec=PodSpec(
                node_name=self._name("node", spec.node_name),
                hostname=self._name("host", spec.hostname),
                # The Service by which the Pod's hostname is found.
                subdomain=self._name("service", spec.subdomain),
                containers=self._containers(spec.containers),
                init_containers=self._containers(spec.init_containers),
            ),
            status=PodStatus(
                phase=self._choice(status.phase, public_values.PHASES),
                conditions=self._readiness(status.conditions),
                pod_ip=self._name("address", status.pod_ip),
                pod_ips=tuple(PodIP(ip=self._name("address", each.ip)) for each in ips) if ips is not None else None,
            ),
        )

    def _readiness(self, conditions: tuple[NodeCondition, ...] | None) -> tuple[NodeCondition, ...] | None:
        """Whether a Node or a Pod is ready, and no other condition: people have conditions of their own."""
        if conditions is None:
            return None
        return tuple(
            NodeCondition(type=each.type, status=self._choice(each.status, public_values.STATES))
            for each in conditions
            if each.type == "Ready"
        )

    def _containers(self, containers: tuple[Container, ...] | None) -> tuple[Container, ...] | None:
        """Their ports: a Service may ask for one by its name."""
        if containers is None:
            return None
        return tuple(
            Container(
                ports=tuple(map(self._container_port, each.ports)) if each.ports is not None else None,
                restart_policy=self._maybe(each.restart_policy, public_values.RESTART_POLICIES),
            )
            for each in containers
        )

    def _container_port(self, port: ContainerPort) -> ContainerPort:
        return ContainerPort(
            name=self._name("port", port.name),
            container_port=port.container_port,
            protocol=self._choice(port.protocol, public_values.TRANSPORTS),
        )

    # --- the proxies of nodes -----------------------------------------------------------------------------------------

    def proxy_pod(self, pod: ProxyPod, daemon_sets: Mapping[ObjectKey, str]) -> ProxyPod:
        """What says which proxy runs on its node, as a Pod of its own that no Service selects. ``daemon_sets`` has the
        names of those that are left.
        """
        owner = daemon_sets.get((pod.metadata.namespace, owning_daemon_set(pod)))
        return ProxyPod(
            metadata=PodMeta(
                name=f"proxy-{self._name('node', pod.spec.node_name)}-{self._name('pod', pod.metadata.name)}",
                namespace=self._proxy_namespace(pod.metadata.namespace),
                owner_references=(OwnerReference(api_version="apps/v1", kind="DaemonSet", name=owner),)
                if owner is not None
                else None,
            ),
            spec=ProxyPodSpec(
                node_name=self._name("node", pod.spec.node_name),
                containers=self._programs(pod.spec.containers),
                host_network=pod.spec.host_network,
            ),
            status=PodStatus(phase=self._choice(pod.status.phase, public_values.PHASES)),
        )

    def _proxy_namespace(self, namespace: str) -> str:
        """Proxies in kube-system count before those of other namespaces."""
        return SYSTEM_NAMESPACE if namespace == SYSTEM_NAMESPACE else self._name("namespace", namespace)

    def daemon_set(self, name: str, each: DaemonSet) -> DaemonSet:
        spec = each.spec.template.spec
        affinity = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
        pods = DaemonPodSpec(
            node_selector=self.labels(spec.node_selector),
            affinity=Affinity(node_affinity=NodeAffinity(required=self.node_selector(affinity))) if affinity else None,
            containers=self._programs(spec.containers),
            host_network=spec.host_network,
        )
        return DaemonSet(
            metadata=PlainMeta(name=name, namespace=self._proxy_namespace(each.metadata.namespace)),
            spec=DaemonSetSpec(template=DaemonPodTemplate(spec=pods)),
            status=each.status,
        )

    def config_map(self, each: ConfigMap) -> ConfigMap:
        """Its name says what it is, and the settings that are read are everybody's."""
        known = (each.metadata.name,) if each.metadata.name in CONFIG_MAPS else ("other",)
        meta = PlainMeta(name=known[0], namespace=self._proxy_namespace(each.metadata.namespace))
        found = ConfigMap(metadata=meta, data=each.data)
        return reduce_config_map(found) or ConfigMap(metadata=meta)

    def _programs(self, containers: tuple[ProgramContainer, ...] | None) -> tuple[ProgramContainer, ...]:
        found = []
        for container in containers or ():
            program = find_program((container,))
            if program is not None:
                version = f":v1.{program.minor}.0" if program.minor is not None else ""
                flags = {name: value for name, value in map(self._flag, program.flags.items()) if value}
                found.append(
                    ProgramContainer(
                        image=program.program + version,
                        command=command_of(program.program),
                        args=tuple(f"--{name}={value}" for name, value in sorted(flags.items())) or None,
                    )
                )
        return tuple(found)

    def _flag(self, flag: tuple[str, str]) -> tuple[str, str]:
        name, value = flag
        if name == "service-proxy-name":
            return name, self._value(names.PROXY_NAME_LABEL, value)
        if name == "feature-gates":
            return name, ",".join(f"{gate}={str(on).lower()}" for gate, on in parse_gates(value).items())
        return name, value if value in SWITCHES else ""

    def node_selector(self, selector: NodeSelector) -> NodeSelector:
        return NodeSelector(
            node_selector_terms=tuple(
                NodeSelectorTerm(
                    match_expressions=tuple(map(self.requirement, term.match_expressions or ())),
                    match_fields=tuple(map(self._field_requirement, term.match_fields or ())),
                )
                for term in selector.node_selector_terms or ()
            )
        )

    def requirement(self, each: NodeSelectorRequirement) -> NodeSelectorRequirement:
        return NodeSelectorRequirement(
            key=self._key(each.key),
            operator=self._choice(each.operator, public_values.OPERATORS),
            values=tuple(self._value(each.key, value) for value in each.values or ()),
        )

    def _field_requirement(self, each: NodeSelectorRequirement) -> NodeSelectorRequirement:
        return NodeSelectorRequirement(
            key=self._choice(each.key, ("metadata.name",)),
            operator=self._choice(each.operator, public_values.OPERATORS),
            values=tuple(self._name("node", value) for value in each.values or ()),
        )

    # --- EndpointSlice ------------------------------------------------------------------------------------------------

    def endpoint_slice(self, each: EndpointSlice) -> EndpointSlice:
        service = (each.metadata.labels or {}).get(names.SERVICE_NAME_LABEL, "")
        return EndpointSlice(
            metadata=self._meta(each.metadata, self._known.slice(service, each.metadata.name)),
            address_type=self._choice(each.address_type, public_values.KINDS_OF_ADDRESSES),
            endpoints=tuple(map(self._endpoint, each.endpoints)) if each.endpoints is not None else None,
            ports=tuple(map(self._endpoint_port, each.ports)) if each.ports is not None else None,
        )

    def _endpoint_port(self, port: EndpointPort) -> EndpointPort:
        return EndpointPort(
            name=self._name("port", port.name) if port.name is not None else None,
            protocol=self._maybe(port.protocol, public_values.TRANSPORTS),
            port=port.port,
            app_protocol=self._app_protocol(port.app_protocol),
        )

    def _endpoint(self, endpoint: Endpoint) -> Endpoint:
        target, node, host, hints = endpoint.target_ref, endpoint.node_name, endpoint.hostname, endpoint.hints
        return Endpoint(
            addresses=self._addresses(endpoint.addresses),
            conditions=endpoint.conditions,
            hostname=self._name("host", host) if host is not None else None,
            target_ref=self._target(target) if target is not None else None,
            node_name=self._name("node", node) if node is not None else None,
            zone=self._name("zone", endpoint.zone) if endpoint.zone is not None else None,
            hints=self._hints(hints) if hints is not None else None,
        )

    def _target(self, target: ObjectReference) -> ObjectReference:
        # Whatever it is, it counts by its name, in the order of names: all are of one kind.
        return ObjectReference(
            kind=target.kind if target.kind in public_values.TARGETS else "Target",
            namespace=self._name("namespace", target.namespace),
            name=self._name("pod", target.name),
            uid=self._name("uid", target.uid),
        )

    def _hints(self, hints: Hints) -> Hints:
        zones, nodes = hints.for_zones, hints.for_nodes
        return Hints(
            for_zones=tuple(ForZone(name=self._name("zone", each.name)) for each in zones)
            if zones is not None
            else None,
            for_nodes=tuple(ForNode(name=self._name("node", each.name)) for each in nodes)
            if nodes is not None
            else None,
        )
