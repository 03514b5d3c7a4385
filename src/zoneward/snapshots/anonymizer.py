"""Anonymizes a snapshot so that it can be shared: decisions about it are the same, and it names nobody.

`TABLE` says for each field of each kind whether it is kept, replaced, or dropped. Objects are built from the table
alone, so that a field that is not in it never gets out. Numbers, times, and values that Kubernetes or Zoneward define
are kept. An unknown value becomes ``unknown-1``, which decisions do not know either. Names, namespaces other than
``kube-system``, addresses, UIDs, names of ports, labels, and zones and regions that are not those of a cloud are
replaced, everywhere by the same pseudonym and in the same order.

Kept values are on lists; there are no guesses. A domain such as ``kubernetes.io`` proves nothing: people name their own
things under it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from zoneward.kube import names
from zoneward.kube import objects as k8s
from zoneward.kube import workload_objects as workloads
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION, encode_selector
from zoneward.kube.demand import parse_demand
from zoneward.kube.formats import in_milli, parse_quantity
from zoneward.kube.leases import CONTROLLER_LEASE
from zoneward.kube.objects import ConfigMap, ObjectKey, ProgramContainer
from zoneward.kube.proxy_programs import (
    CONFIG_MAPS,
    SWITCHES,
    SYSTEM_NAMESPACE,
    command_of,
    find_program,
    parse_gates,
    reduce_config_map,
)
from zoneward.kube.schema import struct_of
from zoneward.kube.validation import ADDRESS_TYPES, PROTOCOLS
from zoneward.kube.zone_weights import ZoneWeights, format_zone_weights, parse_zone_weights
from zoneward.snapshots.cluster_snapshot import Snapshot
from zoneward.snapshots.pseudonyms import Pseudonyms

NumberParsers = Mapping[str, Callable[[str], object]]
"""By annotation, a function that returns None for text that decisions do not take for a number."""
Document = dict[str, Any]
_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def anonymized(snapshot: Snapshot, *, words: Collection[str] = (), numbers: NumberParsers | None = None) -> Snapshot:
    """The same cluster with pseudonyms. Objects keep their order, and so do the pseudonyms of a kind.

    ``words``: the approaches, heuristics and reasons that decisions know by name. ``numbers``: the annotations that
    hold a number. Any other text there may be a secret.
    """
    anonymizer = _Anonymizer(snapshot, words, numbers or {})
    # The first pass collects all names, the second replaces them.
    anonymizer.snapshot()
    anonymizer.names.assign()
    return anonymizer.snapshot()


class _Anonymizer:
    """Walks through the objects of a snapshot with the rules of `TABLE`."""

    def __init__(self, snapshot: Snapshot, words: Collection[str], numbers: NumberParsers) -> None:
        self._snapshot = snapshot
        self.names = Pseudonyms()
        self.name = self.names.name
        self.words = frozenset(words)
        self.annotations = {**ANNOTATIONS, **{key: _number(parse) for key, parse in numbers.items()}}
        self.object: Document = {}
        """The object that contains the value."""
        self.claims: dict[ObjectKey, tuple[str, str]] = {}
        """Template and StatefulSet by the name of their claims without the ordinal."""
        for workload in snapshot.workload_objects:
            if isinstance(workload, workloads.StatefulSet):
                name, namespace = workload.metadata.name, workload.metadata.namespace
                for template in workload.spec.volume_claim_templates or ():
                    self.claims[namespace, f"{template.metadata.name}-{name}"] = (template.metadata.name, name)

    def snapshot(self) -> Snapshot:
        before = self._snapshot
        # Entries of an overlay are made of names, addresses and zones.
        config_maps = (map_ for map_ in before.config_maps if map_.metadata.name != names.OVERLAY_CONFIG_MAP)
        return Snapshot(
            services=self._objects(before.services),
            nodes=self._objects(before.nodes),
            pods=self._objects(before.pods),
            slices=self._objects(before.slices),
            daemon_sets=self._objects(before.daemon_sets),
            config_maps=self._objects(config_maps),
            workload_objects=self._objects(before.workload_objects),
            lists_pods=before.lists_pods,
            unread_workloads=before.unread_workloads,
            lists_workloads=before.lists_workloads,
        )

    def _objects(self, objects: Iterable[_Struct]) -> tuple[_Struct, ...]:
        return tuple(map(self._object, objects))

    def _object(self, obj: _Struct) -> _Struct:
        kind = type(obj)
        self.object = msgspec.to_builtins(obj)
        return msgspec.convert(self.value(self.object, _rules(kind, kind.__name__)), kind)

    def value(self, value: Any, rule: "Rule") -> Any:
        if isinstance(value, tuple):
            return [new for item in value if (new := self.value(item, rule)) is not None]
        if isinstance(rule, str):
            # A port has a number or a name.
            return self.name(rule, value) if isinstance(value, str) else value
        if isinstance(rule, Mapping):
            # All other fields of the value have no way out.
            fields = ((field, self.value(value[field], inner)) for field, inner in rule.items() if field in value)
            return {field: new for field, new in fields if new is not None}
        return rule(value, self)


# --- rules ------------------------------------------------------------------------------------------------------------

Rule = str | Mapping[str, "Rule"] | Callable[[Any, _Anonymizer], Any]
"""What becomes of a value, or of each item of a list: another name of a kind of names, an object with a rule for each
field, or what a function returns: None leaves the value out."""


def KEEP(value: Any, _: _Anonymizer) -> Any:  # noqa: N802
    """For numbers and booleans."""
    return value


def DROP(_value: Any, _: _Anonymizer) -> None:  # noqa: N802
    """For a field with all that it contains."""


TextRule = Callable[[str, _Anonymizer], str]


def known(*values: str, kind: str = "unknown") -> TextRule:
    """Keep these public values; any other becomes a name of this kind."""
    return lambda text, anonymizer: text if text in values else anonymizer.name(kind, text)


def setting(*values: str) -> TextRule:
    """Keep these values, and words of decisions, such as a heuristic: its name or ``<domain>/<heuristic>``."""
    return lambda text, anonymizer: (
        text if text.removeprefix(f"{names.DOMAIN}/") in anonymizer.words else known(*values)(text, anonymizer)
    )


_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)
_KUBELET: Final = re.compile(r"(v1\.[0-9]{1,3}\.[0-9]{1,3})(\+(?:k3s|rke2r)[0-9]{1,3})?.*", re.ASCII | re.DOTALL)
_ORDINAL: Final = re.compile(r"(.*)-([0-9]{1,5})", re.ASCII | re.DOTALL)


def time(text: str, _: _Anonymizer) -> str:
    """The time, or 1970 for text that is not a time: only its presence matters then."""
    return text if _TIME.fullmatch(text) else "1970-01-01T00:00:00Z"


def kubelet_version(text: str, _: _Anonymizer) -> str:
    """The version, and the distribution where it has its own proxy; empty for any other text."""
    match = _KUBELET.fullmatch(text)
    return f"{match[1]}{match[2] or ''}" if match else ""


def cpu(value: k8s.Number, _: _Anonymizer) -> str | None:
    """A quantity in milli-CPUs. None for any other text."""
    try:
        return f"{in_milli(parse_quantity(value))}m"
    except ValueError:
        return None


def condition(types: Collection[str], table: "Rule") -> "Rule":
    """Keep conditions of these types alone: people add their own."""
    return lambda value, anonymizer: anonymizer.value(value, table) if value.get("type") in types else None


def slice_name(text: str, anonymizer: _Anonymizer) -> str:
    """If two slices have the same address, the first by name wins. Planned slices have the name of the Service with a
    hyphen and a hash: of the pseudonyms, ``a-slice-1`` sorts before ``service-1-0123456789``, and ``slice-1`` after.
    """
    service = anonymizer.object["metadata"].get("labels", {}).get(names.SERVICE_NAME_LABEL, "")
    return anonymizer.name("a-slice" if text < f"{service}-0" else "slice", text)


def claim_name(text: str, anonymizer: _Anonymizer) -> str:
    """The claims of a StatefulSet have the names of their template, the StatefulSet and its Pod's ordinal."""
    match = _ORDINAL.fullmatch(text)
    namespace = anonymizer.object["metadata"].get("namespace", "")
    parts = anonymizer.claims.get((namespace, match[1])) if match else None
    if match is None or parts is None:
        return anonymizer.name("claim", text)
    template, workload = parts
    return f"{anonymizer.name('claim', template)}-{anonymizer.name('workload', workload)}-{match[2]}"


# --- labels, selectors and owners -------------------------------------------------------------------------------------

_operator: Final = known("In", "NotIn", "Exists", "DoesNotExist")
_HOSTNAME: Final = "kubernetes.io/hostname"
_ZONE: Final = (names.ZONE_LABEL, "failure-domain.beta.kubernetes.io/zone")
_REGION: Final = (names.REGION_LABEL, "failure-domain.beta.kubernetes.io/region")
_LABEL_NAMES: Final = {
    names.SERVICE_NAME_LABEL: "service",
    _HOSTNAME: "node",
    **dict.fromkeys(_ZONE, "zone"),
    **dict.fromkeys(_REGION, "region"),
}
_ROLES: Final = names.LEADER_ROLES | names.FOLLOWER_ROLES
_LABEL_VALUES: Final[Mapping[str, Collection[str]]] = {
    # Who manages a slice decides whether Zoneward writes it.
    names.MANAGED_BY_LABEL: (names.MANAGER, names.BUILT_IN_MANAGER, "endpointslicemirroring-controller.k8s.io"),
    names.OS_LABEL: ("linux", names.WINDOWS),
    names.NODE_TYPE_LABEL: (names.VIRTUAL_KUBELET,),
    **dict.fromkeys(names.ROLE_LABELS, _ROLES),
    **dict.fromkeys(names.ACTIVE_LABELS, ("true", "false")),
    **dict.fromkeys(names.MESH_LABELS, names.NO_MESH),
    names.ISTIO_WAYPOINT: (),
}
KEPT_KEYS: Final = frozenset(
    {*_LABEL_NAMES, *_LABEL_VALUES, names.HEADLESS_LABEL, names.PROXY_NAME_LABEL, *names.NODE_EXCLUDED_LABELS}
)
"""Labels that decisions or checks read. Of all others only presence and equality matter."""
_OWNERS: Final = {
    "Service": "service",
    "Endpoints": "service",
    "Node": "node",
    "DaemonSet": "owner",
    "StatefulSet": "workload",
}


_label_key: Final = known(*KEPT_KEYS, kind="key")


def labels(values: Mapping[str, str], anonymizer: _Anonymizer) -> dict[str, str]:
    return {_label_key(key, anonymizer): _label_value(key, value, anonymizer) for key, value in values.items()}


def _label_value(key: str, value: str, anonymizer: _Anonymizer) -> str:
    if (value.lower() if key in names.ROLE_LABELS else value) in _LABEL_VALUES.get(key, ()):
        return value
    return anonymizer.name(_LABEL_NAMES.get(key, "value"), value)


def requirement(value: Document, anonymizer: _Anonymizer) -> Document:
    key = value.get("key", "")
    return {
        "key": _label_key(key, anonymizer),
        "operator": _operator(value.get("operator", ""), anonymizer),
        "values": [_label_value(key, text, anonymizer) for text in value.get("values", ())],
    }


def owner(value: Document, anonymizer: _Anonymizer) -> Document:
    kind = _OWNERS.get(value.get("kind", ""))
    other_kind, other_version = names.ANONYMIZED_OWNER
    version = "apps/v1" if kind in ("owner", "workload") else "v1"
    return value | {
        "apiVersion": version if kind else other_version,
        "kind": value["kind"] if kind else other_kind,
        "name": anonymizer.name(kind or "owner", value.get("name", "")),
        "uid": anonymizer.name("uid", value.get("uid", "")),
    }


# --- annotations ------------------------------------------------------------------------------------------------------

AnnotationRule = Callable[[str, _Anonymizer], str | None]
"""Returns None for text that decisions cannot read, which then becomes ``unknown-1``."""


def annotations(values: Mapping[str, str], anonymizer: _Anonymizer) -> dict[str, str] | None:
    """The annotations that decisions read; None rather than an empty map, which would cause one more slice write."""
    anonymized = {}
    for key, value in values.items():
        if key == names.TRIGGER_TIME_ANNOTATION and _TIME.fullmatch(value):
            anonymized[key] = value
        elif key in anonymizer.annotations:
            converted = anonymizer.annotations[key](value, anonymizer)
            anonymized[key] = anonymizer.name("unknown", value) if converted is None else converted
    return anonymized or (None if values else {})


def _number(parse: Callable[[str], object]) -> AnnotationRule:
    return lambda text, _: text if parse(text) is not None else None


def _approach(value: str, anonymizer: _Anonymizer) -> str | None:
    approach, slash, heuristic = value.removeprefix(names.SUSPENDED_PREFIX).partition("/")
    is_known = approach in anonymizer.words and (not slash or heuristic in anonymizer.words)
    return value if is_known else None


def _demand(value: str, anonymizer: _Anonymizer) -> str | None:
    # Zones and shares have no blanks, but there may be some around them.
    return None if parse_demand(value) is None else _zones("".join(value.split()), anonymizer)


def _zones(value: str, anonymizer: _Anonymizer) -> str:
    """``a,b=0.75``. A weight that is not a number stays invalid."""

    def part(zone: str, equals: str, weight: str) -> str:
        weight = weight if not weight or re.fullmatch("[0-9.]{1,40}%?", weight) else "x"
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
    return encode_selector(labels(selector, anonymizer))


_setting_value: Final = setting(
    *names.AUTO_VALUES,
    *names.DISABLED_VALUES,
    "ProportionalZoneCPU",
    "PreferZone",
    *names.SUBSETTING_AUTO_VALUES,
    *names.SUBSETTING_DISABLED_VALUES,
    names.SUBSETTING_REQUIRE,
    *names.NLB_OF_PODS,
    names.NEG_OF_EVERY_SERVICE,
    names.OVERLAY_MODE,
)
ANNOTATIONS: Final[Mapping[str, AnnotationRule]] = {
    **dict.fromkeys(
        (
            names.TOPOLOGY_AWARE_HINTS_ANNOTATION,
            names.TOPOLOGY_MODE_ANNOTATION,
            names.SUBSETTING_ANNOTATION,
            names.SUBSETTING_ALGORITHM_ANNOTATION,
            *names.NLB_TARGET_ANNOTATIONS,
            names.NEG_ANNOTATION,
            names.NEG_STATUS_ANNOTATION,
            names.ISTIO_WAYPOINT,
            names.MODE_ANNOTATION,
        ),
        _setting_value,
    ),
    names.APPROACH_ANNOTATION: _approach,
    names.REQUESTED_APPROACH_ANNOTATION: _approach,
    names.DEMAND_ANNOTATION: _demand,
    names.ZONES_ANNOTATION: _zones,
    names.ZONE_WEIGHTS_ANNOTATION: _zone_weights,
    SELECTOR_ANNOTATION: _adopted_selector,
}


_APP_PROTOCOLS: Final = (
    *("kubernetes.io/h2c", "kubernetes.io/ws", "kubernetes.io/wss"),
    *("http", "https", "http2", "h2c", "grpc", "tcp", "udp", "tls", "ws", "wss", "redis", "mysql", "mongo"),
)


# --- node proxies -----------------------------------------------------------------------------------------------------


def program_container(value: Document, anonymizer: _Anonymizer) -> Document:
    """A container, with the proxy that runs in it and the flags that decide which hints the proxy honors."""
    container: Document = anonymizer.value(value, _rules(k8s.Container, "Pod.spec.containers"))
    program = find_program((msgspec.convert(value, ProgramContainer),))
    if program is None:
        return container
    flags = {flag: _flag_value(flag, text, anonymizer) for flag, text in program.flags.items()}
    return container | {
        "image": program.program + (f":v1.{program.minor}.0" if program.minor is not None else ""),
        "command": command_of(program.program),
        "args": [f"--{flag}={text}" for flag, text in sorted(flags.items()) if text] or None,
    }


def _flag_value(flag: str, value: str, anonymizer: _Anonymizer) -> str:
    if flag == "service-proxy-name":
        return _label_value(names.PROXY_NAME_LABEL, value, anonymizer)
    if flag == "feature-gates":
        return ",".join(f"{gate}={str(on).lower()}" for gate, on in parse_gates(value).items())
    return value if value in SWITCHES else ""


def proxy_settings(_: dict[str, str], anonymizer: _Anonymizer) -> dict[str, str]:
    """The settings of a proxy that decide which hints it honors; their values are public."""
    reduced = reduce_config_map(msgspec.convert(anonymizer.object, ConfigMap))
    return dict(reduced.data or {}) if reduced is not None else {}


# --- the table --------------------------------------------------------------------------------------------------------

_HEADLESS_OR: Final = known(names.HEADLESS, kind="address")
_CONDITION_STATUS: Final = known("True", "False", "Unknown")
_READY: Final = condition(("Ready",), {"type": KEEP, "status": _CONDITION_STATUS})
_POLICY: Final = known(names.OVERLAY_CONFIG_MAP, kind="workload")
_TRAFFIC_POLICY: Final = known("Cluster", "Local")
TABLE: Final[Mapping[str, Rule]] = {
    # Names.
    "Service.metadata.name": "service",
    "Node.metadata.name": "node",
    "Pod.metadata.name": "pod",
    "ProxyPod.metadata.name": "pod",
    "EndpointSlice.metadata.name": slice_name,
    "DaemonSet.metadata.name": "owner",
    "ConfigMap.metadata.name": known(*CONFIG_MAPS),
    "Deployment.metadata.name": "workload",
    "StatefulSet.metadata.name": "workload",
    "HorizontalPodAutoscaler.metadata.name": "workload",
    "PersistentVolumeClaim.metadata.name": claim_name,
    "PersistentVolume.metadata.name": "volume",
    "Lease.metadata.name": known(CONTROLLER_LEASE, kind="lease"),
    "MutatingAdmissionPolicy.metadata.name": _POLICY,
    "MutatingAdmissionPolicyBinding.metadata.name": _POLICY,
    "volumeClaimTemplates.metadata.name": "claim",
    # Other metadata.
    # Proxies in kube-system take precedence over those in other namespaces.
    "namespace": known(SYSTEM_NAMESPACE, kind="namespace"),
    "uid": "uid",
    "labels": labels,
    "annotations": annotations,
    "ownerReferences": owner,
    "generation": KEEP,
    "creationTimestamp": time,
    "deletionTimestamp": time,
    # Services and their ports.
    "Service.spec.type": known("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
    "Service.spec.selector": labels,
    "clusterIP": _HEADLESS_OR,
    "clusterIPs": _HEADLESS_OR,
    "ipFamilies": known("IPv4", "IPv6"),
    "externalIPs": "address",
    "publishNotReadyAddresses": KEEP,
    "internalTrafficPolicy": _TRAFFIC_POLICY,
    "externalTrafficPolicy": _TRAFFIC_POLICY,
    "sessionAffinity": known("None", "ClientIP"),
    "trafficDistribution": setting(*names.TRAFFIC_DISTRIBUTIONS),
    "topologyKeys": known("*", _HOSTNAME, *_ZONE, *_REGION),
    "Service.status.conditions": condition(
        (names.ACCEPTED_CONDITION, names.PROGRAMMED_CONDITION),
        {
            "type": KEEP,
            "status": _CONDITION_STATUS,
            "reason": setting(),
        },
    ),
    "ip": "address",
    # A Service may select the port of a container by its name.
    "ports.name": "port",
    "protocol": known(*PROTOCOLS),
    "port": KEEP,
    "targetPort": "port",
    "nodePort": KEEP,
    "containerPort": KEEP,
    "appProtocol": known(*_APP_PROTOCOLS, kind="protocol"),
    # Nodes and Pods.
    "cpu": cpu,
    "kubeletVersion": kubelet_version,
    "conditions": _READY,
    "nodeName": "node",
    "hostname": "host",
    "subdomain": "service",
    "restartPolicy": known("Always", "OnFailure", "Never"),
    "phase": known("Pending", "Running", "Succeeded", "Failed", "Unknown"),
    "podIP": "address",
    # EndpointSlices.
    "addressType": known(*ADDRESS_TYPES),
    "endpoints.addresses": "address",
    "endpoints.conditions": {"ready": KEEP, "serving": KEEP, "terminating": KEEP},
    # Endpoints sort by the name of their target, so that targets of all kinds are named alike.
    "targetRef.kind": known("Pod", "Node"),
    "targetRef.name": "pod",
    "zone": "zone",
    "forZones.name": "zone",
    "forNodes.name": "node",
    # The proxies of nodes.
    "ProxyPod.spec.containers": program_container,
    "DaemonSet.spec.template.spec.containers": program_container,
    "hostNetwork": KEEP,
    "numberReady": KEEP,
    "data": proxy_settings,
    # Workloads and their volumes.
    "nodeSelector": labels,
    "matchLabels": labels,
    "matchExpressions": requirement,
    "matchFields": {"key": known("metadata.name"), "operator": _operator, "values": "node"},
    "topologyKey": known(names.ZONE_LABEL, names.REGION_LABEL, _HOSTNAME),
    "claimName": claim_name,
    "volumeName": "volume",
    "replicas": KEEP,
    "scaleTargetRef.kind": known("Deployment", "StatefulSet", "ReplicaSet"),
    "scaleTargetRef.name": "workload",
    "minReplicas": KEEP,
    "maxReplicas": KEEP,
    # Leases and admission policies.
    "holderIdentity": "lease",
    "leaseDurationSeconds": KEEP,
    "renewTime": time,
    "policyName": _POLICY,
    "paramRef.name": _POLICY,
    # No decision and no check reads these, and a person may have written some of them.
    "generateName": DROP,
    "finalizers": DROP,
    "resourceVersion": DROP,
    "healthCheckNodePort": DROP,
    "loadBalancerSourceRanges": DROP,
    "sessionAffinityConfig": DROP,
    "ipMode": DROP,
    "Node.spec": DROP,
    "Node.status.addresses": DROP,
}
"""What becomes of a field, by the end of its path, which begins with the kind; the longest end counts. A field that is
not in the table is dropped."""


def rule_of(path: str) -> Rule | None:
    steps = path.split(".")
    ends = (".".join(steps[start:]) for start in range(len(steps)))
    return next((TABLE[end] for end in ends if end in TABLE), None)


@cache
def _rules(struct: type[msgspec.Struct], path: str) -> Mapping[str, Rule]:
    """The rules of the table for the fields of a struct."""
    rules: dict[str, Rule] = {}
    for field in msgspec.structs.fields(struct):
        field_path = f"{path}.{field.encode_name}"
        rule, inner = rule_of(field_path), struct_of(field.type)
        if rule is None and inner is not None:
            rule = _rules(inner, field_path)
        if rule is not None and rule is not DROP:
            rules[field.encode_name] = rule
    return rules
