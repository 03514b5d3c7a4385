"""Whether a decoder lost something of a JSON object: a key that stands twice, of which it keeps the last.

A *mirror* of a struct keeps all fields that an API server writes, as the bytes that they are. What it writes again says
all that the original does, unless a key stood twice or a field is not known here. To decode and write all values takes
three times as long.
"""

from functools import cache
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

import msgspec
from msgspec.structs import fields

from zoneward.kube.objects import (
    Container,
    Endpoint,
    EndpointSlice,
    Node,
    NodeMeta,
    NodeSpec,
    NodeStatus,
    Object,
    ObjectMeta,
    Pod,
    PodMeta,
    PodSpec,
    PodStatus,
    Service,
    ServiceSpec,
)

_META: Final = (
    "annotations creationTimestamp deletionGracePeriodSeconds finalizers generateName generation managedFields"
)
_UNREAD: Final[dict[type[msgspec.Struct], str]] = {
    EndpointSlice: "apiVersion kind",
    Node: "apiVersion kind",
    Pod: "apiVersion kind",
    Service: "apiVersion kind",
    ObjectMeta: "deletionGracePeriodSeconds managedFields",
    NodeMeta: f"{_META} ownerReferences resourceVersion uid",
    PodMeta: f"{_META} resourceVersion",
    ServiceSpec: "allocateLoadBalancerNodePorts externalName ipFamilyPolicy loadBalancerClass loadBalancerIP",
    NodeSpec: "podCIDR podCIDRs providerID unschedulable",
    NodeStatus: "capacity daemonEndpoints images runtimeHandlers volumesAttached volumesInUse",
    PodSpec: (
        "activeDeadlineSeconds affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks hostAliases"
        " hostIPC hostNetwork hostPID hostUsers imagePullSecrets nodeSelector overhead preemptionPolicy priority"
        " priorityClassName readinessGates restartPolicy runtimeClassName schedulerName securityContext serviceAccount"
        " serviceAccountName setHostnameAsFQDN shareProcessNamespace terminationGracePeriodSeconds tolerations"
        " topologySpreadConstraints volumes"
    ),
    Container: (
        "args command env envFrom image imagePullPolicy lifecycle livenessProbe name readinessProbe resizePolicy"
        " resources securityContext startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty"
        " volumeDevices volumeMounts workingDir"
    ),
    PodStatus: (
        "containerStatuses hostIP hostIPs initContainerStatuses message nominatedNodeName observedGeneration qosClass"
        " reason resize startTime"
    ),
    Endpoint: "deprecatedTopology",
}
"""The fields of the API beside those that are read. Where one is missing here, reading takes longer, and no more."""

_ENCODER: Final = msgspec.json.Encoder()
Head = tuple[msgspec.Raw, msgspec.Raw]
"""The JSON of ``apiVersion`` and ``kind``."""


def written_again(raw: msgspec.Raw, kind: type[Object], head: Head | None = None) -> bytearray | None:
    """What the mirror of a kind keeps of an object, without blanks; None where it does not fit, or where the object has
    another ``head``.

    It is never longer than the object is, and shorter by what it lost and by blanks.
    """
    # As long as it can get: to make room bit by bit takes longer than to write.
    again = bytearray(memoryview(raw).nbytes)
    try:
        mirror = _decoder(kind).decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if head is not None and (mirror.apiVersion, mirror.kind) != head:
        return None
    _ENCODER.encode_into(mirror, again)
    return again


@cache
def _decoder(kind: type[Object]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_mirror(kind))


def _mirror(annotation: Any) -> Any:
    """The type that keeps all keys of a value of this type, and the values of keys that nobody looks into as bytes."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        found = [(each.encode_name, _mirror(each.type)) for each in fields(annotation)]
        if all(kept is msgspec.Raw for _, kept in found):
            return dict[str, msgspec.Raw]
        unread = ((name, msgspec.Raw) for name in _UNREAD.get(annotation, "").split())
        members = [(name, kept | msgspec.UnsetType, msgspec.UNSET) for name, kept in (*found, *unread)]
        return msgspec.defstruct(annotation.__name__, members, frozen=True, gc=False)
    parts = get_args(annotation)
    if get_origin(annotation) in (Union, UnionType):
        kept = next((kept for part in parts if (kept := _mirror(part)) is not msgspec.Raw), msgspec.Raw)
        return kept | None if kept is not msgspec.Raw else kept
    if get_origin(annotation) is dict:
        return dict[str, msgspec.Raw]
    kept = _mirror(parts[0]) if get_origin(annotation) is tuple else msgspec.Raw
    return list[kept] if kept is not msgspec.Raw else kept  # type: ignore[valid-type]
