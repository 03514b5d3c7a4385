"""Makes objects smaller before a cache keeps them: equal values of thousands of objects are stored once.

Only structs that were just decoded are changed: no other code has a reference to them yet.
"""

from sys import intern
from typing import Final, TypeVar

from msgspec.structs import force_setattr

from zoneward.client.resources import LivePod
from zoneward.kube.objects import EndpointSlice

MAX_SHARED: Final = 20_000
"""Number of different values that are remembered. Beyond it the interner forgets all, which costs a few copies, and
frees the values of deleted objects."""

_Value = TypeVar("_Value")


class Interner:
    """Remembers values, so that equal ones become the same object."""

    def __init__(self, *, limit: int = MAX_SHARED) -> None:
        self._seen: dict[object, object] = {}
        self._limit = limit

    def intern_pod(self, pod: LivePod) -> None:
        """Share all values except the labels, which `SelectorIndex` shares: it groups Pods by them."""
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        force_setattr(metadata, "namespace", intern(metadata.namespace))
        force_setattr(spec, "node_name", intern(spec.node_name))
        if spec.containers is not None:
            force_setattr(spec, "containers", self._shared(spec.containers))
        if spec.init_containers is not None:
            force_setattr(spec, "init_containers", self._shared(spec.init_containers))
        if spec.subdomain:
            force_setattr(spec, "subdomain", intern(spec.subdomain))
        if spec.hostname == metadata.name:
            force_setattr(spec, "hostname", metadata.name)
        force_setattr(status, "phase", intern(status.phase))
        if status.conditions is not None:
            for condition in status.conditions:
                if condition.last_transition_time is not None:
                    if condition.type == "Ready":
                        force_setattr(status, "ready_since", condition.last_transition_time)
                    force_setattr(condition, "last_transition_time", None)
            force_setattr(status, "conditions", self._shared(status.conditions))
        if status.pod_ips and status.pod_ips[0].ip == status.pod_ip:
            force_setattr(status, "pod_ip", status.pod_ips[0].ip)

    def intern_slice(self, slice_: EndpointSlice) -> None:
        """Share zones, Nodes, conditions and hints of endpoints, which have few values; not addresses and names."""
        force_setattr(slice_.metadata, "namespace", intern(slice_.metadata.namespace))
        if slice_.ports is not None:
            force_setattr(slice_, "ports", self._shared(slice_.ports))
        for endpoint in slice_.endpoints or ():
            for field in ("conditions", "hints"):
                value = getattr(endpoint, field)
                if value is not None:
                    force_setattr(endpoint, field, self._shared(value))
            for field in ("node_name", "zone"):
                text = getattr(endpoint, field)
                if text is not None:
                    force_setattr(endpoint, field, intern(text))
            if endpoint.target_ref is not None:
                force_setattr(endpoint.target_ref, "kind", intern(endpoint.target_ref.kind))
                force_setattr(endpoint.target_ref, "namespace", intern(endpoint.target_ref.namespace))

    def _shared(self, value: _Value) -> _Value:
        if len(self._seen) >= self._limit:
            self._seen.clear()
        return self._seen.setdefault(value, value)  # type: ignore[return-value]
