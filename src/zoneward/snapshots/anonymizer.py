"""Anonymizes a snapshot so that it can be shared: decisions about it are the same, and it names nobody.

`TABLE` says for each field of each kind whether it is kept, replaced, or dropped. Objects are built from the table
alone, so that a field that is not in it never gets out. Numbers, times, and values that Kubernetes or Zoneward define
are kept. An unknown value becomes ``unknown-1``, which decisions do not know either. Names, namespaces, addresses,
UIDs, names of ports, labels, and zones and regions that are not those of a cloud are replaced, everywhere by the same
pseudonym and in the same order.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from zoneward.kube import names
from zoneward.kube import objects as k8s
from zoneward.kube import workload_objects as workloads
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION, encode_selector
from zoneward.kube.controller_lease import CONTROLLER_LEASE
from zoneward.kube.demand_text import parse_demand
from zoneward.kube.objects import Condition, ConfigMap, NodeCondition, ObjectKey, OwnerReference, ProgramContainer
from zoneward.kube.proxy_programs import (
    CONFIG_MAPS,
    SWITCHES,
    SYSTEM_NAMESPACE,
    command_of,
    find_program,
    parse_gates,
    reduce_config_map,
)
from zoneward.kube.struct_decoder import struct_of
from zoneward.kube.zone_weights import ZoneWeights, format_zone_weights, parse_zone_weights
from zoneward.snapshots import public_values as public
from zoneward.snapshots.cluster_snapshot import Snapshot
from zoneward.snapshots.pseudonyms import NameCollector, NameKind, NameMap

NumberParsers = Mapping[str, Callable[[str], object]]
"""By annotation, a function that returns None for text that decisions do not take for a number."""
_MAX_ORDINALS: Final = 10_000


def anonymized(snapshot: Snapshot, *, words: Collection[str] = (), numbers: NumberParsers | None = None) -> Snapshot:
    """The same cluster with pseudonyms. Objects, names and addresses keep their order.

    ``words``: the approaches, heuristics and reasons that decisions know by name. ``numbers``: the annotations that
    hold a number. Any other text there may be a secret.
    """
    collector = NameCollector()
    # The first pass collects all names, the second replaces them.
    _Anonymizer(snapshot, collector, words, numbers or {}).snapshot()
    return _Anonymizer(snapshot, collector.pseudonyms(), words, numbers or {}).snapshot()


_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class _Anonymizer:
    """Builds the objects of a snapshot with other names."""

    def __init__(self, snapshot: Snapshot, pseudonyms: NameMap, words: Collection[str], numbers: NumberParsers) -> None:
        self._snapshot = snapshot
        self.name, self.slice_name = pseudonyms.name, pseudonyms.slice
        self.words, self.numbers = frozenset(words), numbers
        self.object: Any = None
        """The object that contains the field."""
        self.daemon_sets: dict[ObjectKey, str] = {}
        for index, daemon_set in enumerate(snapshot.daemon_sets):
            program = find_program(daemon_set.spec.template.spec.containers)
            key = (daemon_set.metadata.namespace, daemon_set.metadata.name)
            self.daemon_sets[key] = f"{program.program if program else 'other'}-{index}"
        self.claims: dict[ObjectKey, tuple[str, str, int]] = {}
        """Template, StatefulSet and ordinal of the claims of StatefulSets."""
        for workload in snapshot.workload_objects:
            if isinstance(workload, workloads.StatefulSet):
                name, namespace = workload.metadata.name, workload.metadata.namespace
                for template in workload.spec.volume_claim_templates or ():
                    for ordinal in range(min(workload.spec.replicas or 1, _MAX_ORDINALS)):
                        claim = f"{template.metadata.name}-{name}-{ordinal}"
                        self.claims[namespace, claim] = (template.metadata.name, name, ordinal)

    def snapshot(self) -> Snapshot:
        before = self._snapshot
        return Snapshot(
            services=self._objects(k8s.Service, before.services),
            nodes=self._objects(k8s.Node, before.nodes),
            # A proxy's Pod becomes two: an endpoint of Services, and one that says which proxy runs on its Node.
            pods=(*self._objects(k8s.Pod, before.pods), *self._objects(k8s.ProxyPod, before.proxy_pods)),
            slices=self._objects(k8s.EndpointSlice, before.slices),
            daemon_sets=self._objects(k8s.DaemonSet, before.daemon_sets),
            config_maps=self._objects(ConfigMap, _without_overlay(before.config_maps)),
            workload_objects=tuple(self._object(type(obj), obj) for obj in before.workload_objects),
            lists_pods=before.lists_pods,
            unread_workloads=before.unread_workloads,
            lists_workloads=before.lists_workloads,
        )

    def _objects(self, kind: type[_Struct], objects: Iterable[_Struct]) -> tuple[_Struct, ...]:
        return tuple(self._object(kind, obj) for obj in objects)

    def _object(self, kind: type[_Struct], obj: _Struct) -> _Struct:
        self.object = obj
        return self._struct(kind, obj, kind, "")

    def _struct(self, struct: type[_Struct], value: Any, kind: type[msgspec.Struct], path: str) -> _Struct:
        """A new struct of the fields in the table. All other fields of ``value`` have no way into it."""
        return struct(
            **{field.name: self._field(field, getattr(value, field.name), kind) for field in _shape(struct, kind, path)}
        )

    def _field(self, field: "_Field", value: Any, kind: type[msgspec.Struct]) -> Any:
        if value is None:
            return None
        if isinstance(value, tuple):
            return tuple(new for item in value if (new := self._field(field, item, kind)) is not None)
        if field.rule is not None:
            return field.rule(value, self)
        return self._struct(field.struct, value, kind, field.path)


class _Field(NamedTuple):
    """A field of a struct: with its rule, or with the struct that it holds."""

    name: str
    rule: "Rule | None"
    struct: Any
    path: str


# --- rules ------------------------------------------------------------------------------------------------------------

Rule = Callable[[Any, _Anonymizer], Any]
"""What becomes of a value that is not None. For a list: of each item, which is left out if that is None."""


def KEEP(value: Any, _: _Anonymizer) -> Any:  # noqa: N802
    """For numbers and booleans."""
    return value


def DROP(_value: Any, _: _Anonymizer) -> None:  # noqa: N802
    """For a field with all that it contains."""


def pseudonym(kind: NameKind, *, public_name: str = "") -> Rule:
    """Replace a name, except the public one."""
    return lambda text, anonymizer: text if text == public_name else anonymizer.name(kind, text)


_policy_name: Final = pseudonym("workload", public_name=names.OVERLAY_CONFIG_MAP)


def known(values: Collection[str], *, other: str | None = None) -> Rule:
    """Keep a public value; any other becomes ``other``, or ``unknown`` with a number."""

    def rule(text: str, anonymizer: _Anonymizer) -> str:
        if text in values:
            return text
        return anonymizer.name("unknown", text) if other is None else other

    return rule


def public_part(convert: Callable[[Any], Any]) -> Rule:
    """``convert`` returns what is public of a value."""
    return lambda value, _: convert(value)


def _setting(values: Collection[str]) -> Rule:
    """A known value, or a heuristic: its name or ``<domain>/<heuristic>``."""

    def rule(text: str, anonymizer: _Anonymizer) -> str:
        is_known = text in values or text.removeprefix(f"{names.DOMAIN}/") in anonymizer.words
        return text if is_known else anonymizer.name("unknown", text)

    return rule


# --- labels, selectors and owners -------------------------------------------------------------------------------------

_LABEL_NAMES: Final[Mapping[str, NameKind]] = {
    names.SERVICE_NAME_LABEL: "service",
    **dict.fromkeys(public.NODE_LABELS, "node"),
    **dict.fromkeys(public.ZONE_LABELS, "zone"),
    **dict.fromkeys(public.REGION_LABELS, "region"),
}
_OWNERS: Final[dict[str, NameKind]] = {
    "Service": "service",
    "Endpoints": "service",
    "Node": "node",
    "DaemonSet": "owner",
    "StatefulSet": "workload",
}


def _labels(values: Mapping[str, str], anonymizer: _Anonymizer) -> dict[str, str]:
    return {_label_key(key, anonymizer): _label_value(key, value, anonymizer) for key, value in values.items()}


def _label_key(key: str, anonymizer: _Anonymizer) -> str:
    return key if key in public.KEPT_KEYS else anonymizer.name("key", key)


def _label_value(key: str, value: str, anonymizer: _Anonymizer) -> str:
    if public.is_public_label(key, value):
        return value
    return anonymizer.name(_LABEL_NAMES.get(key, "value"), value)


def _requirement(value: k8s.NodeSelectorRequirement, anonymizer: _Anonymizer) -> k8s.NodeSelectorRequirement:
    return k8s.NodeSelectorRequirement(
        key=_label_key(value.key, anonymizer),
        operator=known(public.OPERATORS)(value.operator, anonymizer),
        values=tuple(_label_value(value.key, text, anonymizer) for text in value.values or ()),
    )


def _owner(value: OwnerReference, anonymizer: _Anonymizer) -> OwnerReference:
    kind = _OWNERS.get(value.kind)
    other_kind, other_version = names.ANONYMIZED_OWNER
    version = "apps/v1" if kind in ("owner", "workload") else "v1"
    return OwnerReference(
        api_version=version if kind else other_version,
        kind=value.kind if kind else other_kind,
        name=anonymizer.name(kind or "owner", value.name),
        uid=anonymizer.name("uid", value.uid),
        controller=value.controller,
        block_owner_deletion=value.block_owner_deletion,
    )


# --- annotations ------------------------------------------------------------------------------------------------------


def _annotations(values: Mapping[str, str], anonymizer: _Anonymizer) -> dict[str, str] | None:
    """The annotations that decisions read; None rather than an empty map, which would cause one more slice write."""
    if not values:
        return {}
    converted = {key: _annotation(key, value, anonymizer) for key, value in values.items()}
    return {key: value for key, value in converted.items() if value is not None} or None


def _annotation(key: str, value: str, anonymizer: _Anonymizer) -> str | None:
    if key in public.SETTINGS:
        return str(_setting(public.SETTINGS[key])(value, anonymizer))
    if key in anonymizer.numbers:
        converted: str | None = value if anonymizer.numbers[key](value) is not None else None
    elif key in _ANNOTATIONS:
        converted = _ANNOTATIONS[key](value, anonymizer)
    elif key == names.TRIGGER_TIME_ANNOTATION:
        return value if public.is_time(value) else None
    else:
        return None
    return anonymizer.name("unknown", value) if converted is None else converted


def _approach(value: str, anonymizer: _Anonymizer) -> str | None:
    approach, slash, heuristic = value.removeprefix(names.SUSPENDED_PREFIX).partition("/")
    is_known = approach in anonymizer.words and (not slash or heuristic in anonymizer.words)
    return value if is_known else None


def _demand(value: str, anonymizer: _Anonymizer) -> str | None:
    if parse_demand(value) is None:
        return None
    parts = (part.partition("=") for part in value.split(","))
    return ",".join(f"{anonymizer.name('zone', zone.strip())}={share.strip()}" for zone, _, share in parts)


def _zones(value: str, anonymizer: _Anonymizer) -> str:
    """``a,b=0.75``. A weight that is not a number stays invalid."""

    def part(zone: str, equals: str, weight: str) -> str:
        weight = weight if not weight or public.is_number(weight) else "x"
        return anonymizer.name("zone", zone) + equals + weight

    return ",".join(part(*text.partition("=")) for text in value.split(","))


def _zone_weights(value: str, anonymizer: _Anonymizer) -> str | None:
    weights = parse_zone_weights(value)
    if weights is None:
        return None

    def zone(text: str) -> str:
        return anonymizer.name("zone", text)

    shares = {zone(start): {zone(end): share for end, share in row.items()} for start, row in weights.shares.items()}
    return format_zone_weights(ZoneWeights(shares, {zone(name): count for name, count in weights.counts.items()}))


def _adopted_selector(value: str, anonymizer: _Anonymizer) -> str | None:
    try:
        selector = msgspec.json.decode(value, type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return encode_selector(_labels(selector, anonymizer))


_ANNOTATIONS: Final[Mapping[str, Callable[[str, _Anonymizer], str | None]]] = {
    names.APPROACH_ANNOTATION: _approach,
    names.DEMAND_ANNOTATION: _demand,
    names.ZONES_ANNOTATION: _zones,
    names.ZONE_WEIGHTS_ANNOTATION: _zone_weights,
    SELECTOR_ANNOTATION: _adopted_selector,
}
"""Functions that return None for text that decisions cannot read, which then becomes ``unknown``."""


# --- other fields -----------------------------------------------------------------------------------------------------


def _cluster_ip(text: str, anonymizer: _Anonymizer) -> str:
    return text if text == names.HEADLESS else anonymizer.name("address", text)


def _target_port(port: int | str, anonymizer: _Anonymizer) -> int | str:
    return anonymizer.name("port", port) if isinstance(port, str) else port


def _app_protocol(text: str, anonymizer: _Anonymizer) -> str:
    return text if text in public.APP_PROTOCOLS else anonymizer.name("protocol", text)


def _condition(value: Condition, anonymizer: _Anonymizer) -> Condition | None:
    """Zoneward's own conditions. Of their messages only the requested approach is kept, with which they begin."""
    if value.type not in public.CONDITIONS:
        return None
    return Condition(
        type=value.type,
        status=known(public.STATES)(value.status, anonymizer),
        reason=known(anonymizer.words)(value.reason, anonymizer),
        message=_approach(value.message.partition(": ")[0], anonymizer) or "",
    )


def _ready_condition(value: NodeCondition, anonymizer: _Anonymizer) -> NodeCondition | None:
    """Only readiness: people add their own conditions."""
    if value.type != "Ready":
        return None
    return NodeCondition(type="Ready", status=known(public.STATES)(value.status, anonymizer))


def _slice_name(text: str, anonymizer: _Anonymizer) -> str:
    service = (anonymizer.object.metadata.labels or {}).get(names.SERVICE_NAME_LABEL, "")
    return anonymizer.slice_name(service, text)


def _claim_name(text: str, anonymizer: _Anonymizer) -> str:
    parts = anonymizer.claims.get((anonymizer.object.metadata.namespace, text))
    if parts is None:
        return anonymizer.name("claim", text)
    template, workload, ordinal = parts
    return f"{anonymizer.name('claim', template)}-{anonymizer.name('workload', workload)}-{ordinal}"


# --- node proxies -----------------------------------------------------------------------------------------------------


def _proxy_namespace(text: str, anonymizer: _Anonymizer) -> str:
    """Proxies in kube-system take precedence over those in other namespaces."""
    return text if text == SYSTEM_NAMESPACE else anonymizer.name("namespace", text)


def _proxy_pod_name(text: str, anonymizer: _Anonymizer) -> str:
    return f"proxy-{anonymizer.name('node', anonymizer.object.spec.node_name)}-{anonymizer.name('pod', text)}"


def _proxy_owner(value: OwnerReference, anonymizer: _Anonymizer) -> OwnerReference | None:
    daemon_set = anonymizer.daemon_sets.get((anonymizer.object.metadata.namespace, value.name))
    if value.kind != "DaemonSet" or daemon_set is None:
        return None
    return OwnerReference(api_version="apps/v1", kind="DaemonSet", name=daemon_set)


def _daemon_set_name(text: str, anonymizer: _Anonymizer) -> str:
    return anonymizer.daemon_sets[anonymizer.object.metadata.namespace, text]


def _program(container: ProgramContainer, anonymizer: _Anonymizer) -> ProgramContainer | None:
    """A container that runs a proxy, with the flags that decide which hints the proxy honors."""
    program = find_program((container,))
    if program is None:
        return None
    flags = {flag: _flag_value(flag, value, anonymizer) for flag, value in program.flags.items()}
    return ProgramContainer(
        image=program.program + (f":v1.{program.minor}.0" if program.minor is not None else ""),
        command=command_of(program.program),
        args=tuple(f"--{flag}={value}" for flag, value in sorted(flags.items()) if value) or None,
    )


def _flag_value(flag: str, value: str, anonymizer: _Anonymizer) -> str:
    if flag == "service-proxy-name":
        return _label_value(names.PROXY_NAME_LABEL, value, anonymizer)
    if flag == "feature-gates":
        return ",".join(f"{gate}={str(on).lower()}" for gate, on in parse_gates(value).items())
    return value if value in SWITCHES else ""


def _without_overlay(config_maps: Iterable[ConfigMap]) -> tuple[ConfigMap, ...]:
    """Entries of an overlay have names and addresses, and say nothing that slices do not say."""
    return tuple(map_ for map_ in config_maps if map_.metadata.name != names.OVERLAY_CONFIG_MAP)


def _proxy_settings(data: dict[str, str], anonymizer: _Anonymizer) -> dict[str, str]:
    """The settings of a proxy that decide which hints it honors; their values are public."""
    reduced = reduce_config_map(ConfigMap(metadata=anonymizer.object.metadata, data=data))
    return dict(reduced.data or {}) if reduced is not None else {}


# --- the table --------------------------------------------------------------------------------------------------------


def _under(path: str, table: Mapping[str, Rule]) -> dict[str, Rule]:
    return {f"{path}.{name}": rule for name, rule in table.items()}


def _drop(*paths: str) -> dict[str, Rule]:
    return dict.fromkeys(paths, DROP)


_OBJECT_META: Final[dict[str, Rule]] = {
    "namespace": pseudonym("namespace"),
    "uid": pseudonym("uid"),
    "labels": _labels,
    "annotations": _annotations,
    "ownerReferences": _owner,
    "generation": KEEP,
    "resourceVersion": public_part(public.kept_version),
    "creationTimestamp": public_part(public.kept_time),
    "deletionTimestamp": public_part(public.kept_time),
    **_drop("generateName", "finalizers"),
}
_PORTS: Final[dict[str, Rule]] = {
    "name": pseudonym("port"),
    "protocol": known(public.TRANSPORTS),
    "port": KEEP,
    "appProtocol": _app_protocol,
}
_SERVICE: Final[dict[str, Rule]] = {
    "metadata.name": pseudonym("service"),
    **_under("metadata", _OBJECT_META),
    "spec.type": known(public.SERVICE_TYPES),
    "spec.selector": _labels,
    "spec.clusterIP": _cluster_ip,
    "spec.clusterIPs": _cluster_ip,
    "spec.ipFamilies": known(public.FAMILIES),
    **_under("spec.ports", {**_PORTS, "targetPort": _target_port, "nodePort": KEEP}),
    "spec.externalIPs": pseudonym("address"),
    "spec.publishNotReadyAddresses": KEEP,
    "spec.internalTrafficPolicy": known(public.POLICIES),
    "spec.externalTrafficPolicy": known(public.POLICIES),
    "spec.trafficDistribution": _setting(public.DISTRIBUTIONS),
    "spec.topologyKeys": known(public.TOPOLOGY_KEYS),
    **_drop("spec.healthCheckNodePort", "spec.loadBalancerSourceRanges"),
    **_drop("spec.sessionAffinity", "spec.sessionAffinityConfig"),
    "status.conditions": _condition,
    "status.loadBalancer.ingress.ip": pseudonym("address"),
    **_drop("status.loadBalancer.ingress.ipMode"),
}
_NODE: Final[dict[str, Rule]] = {
    "metadata.name": pseudonym("node"),
    "metadata.labels": _labels,
    **_drop("metadata.creationTimestamp", "metadata.deletionTimestamp", "spec", "status.addresses"),
    "status.allocatable.cpu": public_part(public.kept_cpu),
    "status.conditions": _ready_condition,
    "status.nodeInfo.kubeletVersion": public_part(public.kept_kubelet_version),
}
_CONTAINERS: Final[dict[str, Rule]] = {
    # A Service may select a port by its name.
    "ports.name": pseudonym("port"),
    "ports.containerPort": KEEP,
    "ports.protocol": known(public.TRANSPORTS),
    "restartPolicy": known(public.RESTART_POLICIES),
}
_POD: Final[dict[str, Rule]] = {
    "metadata.name": pseudonym("pod"),
    "metadata.namespace": pseudonym("namespace"),
    "metadata.uid": pseudonym("uid"),
    "metadata.labels": _labels,
    "metadata.ownerReferences": _owner,
    "metadata.deletionTimestamp": public_part(public.kept_time),
    "spec.nodeName": pseudonym("node"),
    "spec.hostname": pseudonym("host"),
    "spec.subdomain": pseudonym("service"),
    **_under("spec.containers", _CONTAINERS),
    **_under("spec.initContainers", _CONTAINERS),
    "status.phase": known(public.PHASES),
    "status.conditions": _ready_condition,
    "status.podIP": pseudonym("address"),
    "status.podIPs.ip": pseudonym("address"),
}
_ENDPOINT_SLICE: Final[dict[str, Rule]] = {
    "metadata.name": _slice_name,
    **_under("metadata", _OBJECT_META),
    "addressType": known(public.KINDS_OF_ADDRESSES),
    "endpoints.addresses": pseudonym("address"),
    "endpoints.conditions.ready": KEEP,
    "endpoints.conditions.serving": KEEP,
    "endpoints.conditions.terminating": KEEP,
    "endpoints.hostname": pseudonym("host"),
    # Endpoints sort by the name of their target, so that targets of all kinds are named alike.
    "endpoints.targetRef.kind": known(public.TARGETS, other="Target"),
    "endpoints.targetRef.namespace": pseudonym("namespace"),
    "endpoints.targetRef.name": pseudonym("pod"),
    "endpoints.targetRef.uid": pseudonym("uid"),
    "endpoints.nodeName": pseudonym("node"),
    "endpoints.zone": pseudonym("zone"),
    "endpoints.hints.forZones.name": pseudonym("zone"),
    "endpoints.hints.forNodes.name": pseudonym("node"),
    **_under("ports", _PORTS),
}
_NODE_SELECTOR: Final[dict[str, Rule]] = {
    "nodeSelectorTerms.matchExpressions": _requirement,
    "nodeSelectorTerms.matchFields.key": known(("metadata.name",)),
    "nodeSelectorTerms.matchFields.operator": known(public.OPERATORS),
    "nodeSelectorTerms.matchFields.values": pseudonym("node"),
}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_AFFINITY: Final = _under(f"affinity.nodeAffinity.{_REQUIRED}", _NODE_SELECTOR)
_PROXY_POD: Final[dict[str, Rule]] = {
    "metadata.name": _proxy_pod_name,
    "metadata.namespace": _proxy_namespace,
    "metadata.ownerReferences": _proxy_owner,
    **_drop("metadata.uid", "metadata.labels", "metadata.deletionTimestamp"),
    "spec.nodeName": pseudonym("node"),
    "spec.containers": _program,
    "spec.hostNetwork": KEEP,
    **_drop("spec.hostname", "spec.subdomain", "spec.initContainers"),
    "status.phase": known(public.PHASES),
    **_drop("status.conditions", "status.podIP", "status.podIPs"),
}
_DAEMON_SET: Final[dict[str, Rule]] = {
    "metadata.name": _daemon_set_name,
    "metadata.namespace": _proxy_namespace,
    "spec.template.spec.nodeSelector": _labels,
    **_under("spec.template.spec", _NODE_AFFINITY),
    "spec.template.spec.containers": _program,
    "spec.template.spec.hostNetwork": KEEP,
    **_drop("spec.selector"),
    "status.numberReady": KEEP,
}
_CONFIG_MAP: Final[dict[str, Rule]] = {
    "metadata.name": known(CONFIG_MAPS, other="other"),
    "metadata.namespace": _proxy_namespace,
    "data": _proxy_settings,
}
_POD_AFFINITY_TERM: Final[dict[str, Rule]] = {
    "topologyKey": known(public.SPREAD_KEYS, other="other"),
    "labelSelector.matchLabels": _labels,
    "labelSelector.matchExpressions": _requirement,
}
_POD_AFFINITY: Final = _under(_REQUIRED, _POD_AFFINITY_TERM) | _under(
    f"{_PREFERRED}.podAffinityTerm", _POD_AFFINITY_TERM
)
_POD_TEMPLATE: Final[dict[str, Rule]] = {
    "metadata.labels": _labels,
    "spec.nodeSelector": _labels,
    **_under("spec", _NODE_AFFINITY),
    **_under("spec.affinity.podAffinity", _POD_AFFINITY),
    **_under("spec.affinity.podAntiAffinity", _POD_AFFINITY),
    "spec.topologySpreadConstraints.topologyKey": known(public.SPREAD_KEYS, other="other"),
    "spec.volumes.persistentVolumeClaim.claimName": _claim_name,
}
_WORKLOAD: Final[dict[str, Rule]] = {
    "metadata.name": pseudonym("workload"),
    "metadata.namespace": pseudonym("namespace"),
    **_drop("metadata.resourceVersion"),
}
_PODS: Final[dict[str, Rule]] = {"spec.replicas": KEEP, **_under("spec.template", _POD_TEMPLATE)}
TABLE: Final[Mapping[type[msgspec.Struct], Mapping[str, Rule]]] = {
    k8s.Service: _SERVICE,
    k8s.Node: _NODE,
    k8s.Pod: _POD,
    k8s.EndpointSlice: _ENDPOINT_SLICE,
    k8s.ProxyPod: _PROXY_POD,
    k8s.DaemonSet: _DAEMON_SET,
    k8s.ConfigMap: _CONFIG_MAP,
    workloads.Deployment: _WORKLOAD | _PODS,
    workloads.StatefulSet: {**_WORKLOAD, **_PODS, "spec.volumeClaimTemplates.metadata.name": pseudonym("claim")},
    workloads.HorizontalPodAutoscaler: {
        **_WORKLOAD,
        "spec.scaleTargetRef.kind": known(public.SCALED_KINDS, other="Other"),
        "spec.scaleTargetRef.name": pseudonym("workload"),
        "spec.minReplicas": KEEP,
        "spec.maxReplicas": KEEP,
    },
    workloads.PersistentVolumeClaim: {
        **_WORKLOAD,
        "metadata.name": _claim_name,
        "spec.volumeName": pseudonym("volume"),
    },
    workloads.PersistentVolume: {
        "metadata.name": pseudonym("volume"),
        **_drop("metadata.namespace", "metadata.resourceVersion"),
        **_under("spec.nodeAffinity.required", _NODE_SELECTOR),
    },
    workloads.Lease: {
        **_WORKLOAD,
        "metadata.name": pseudonym("lease", public_name=CONTROLLER_LEASE),
        "spec.holderIdentity": pseudonym("lease"),
        "spec.leaseDurationSeconds": KEEP,
        "spec.renewTime": public_part(public.kept_time),
    },
    workloads.MutatingAdmissionPolicy: {
        "metadata.name": _policy_name,
        **_drop("metadata.namespace", "metadata.resourceVersion", "metadata.annotations"),
    },
    workloads.MutatingAdmissionPolicyBinding: {
        "metadata.name": _policy_name,
        "spec.policyName": _policy_name,
        "spec.paramRef.name": _policy_name,
        **_drop("metadata.namespace", "metadata.resourceVersion"),
    },
}
"""By kind and path of a field, what becomes of the field. A field that is not in the table is dropped."""


@cache
def _shape(struct: type[msgspec.Struct], kind: type[msgspec.Struct], path: str) -> tuple[_Field, ...]:
    """The fields of a struct at a path of a kind, without those that are dropped."""
    shape = []
    for field in msgspec.structs.fields(struct):
        inner_path = f"{path}.{field.encode_name}" if path else field.encode_name
        rule, inner = TABLE[kind].get(inner_path), struct_of(field.type)
        if rule is None and inner is not None:
            shape.append(_Field(field.name, None, inner, inner_path))
        elif rule is not None and rule is not DROP:
            shape.append(_Field(field.name, rule, None, inner_path))
    return tuple(shape)
