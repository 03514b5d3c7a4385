"""Traffic for which proxies have no endpoint: no finding about a Service is worse.

Proxies drop traffic for two reasons. No endpoint is ready, of the Service or of one of its ports; or the policy for
internal traffic is Local, and the node of the client has none.
"""

from collections.abc import Sequence
from typing import Any, Final

from zoneward.advice.json_value import JsonValue, round_part
from zoneward.kube.objects import (
    Endpoint,
    EndpointSlice,
    Service,
    ServicePort,
    is_ready,
    is_serving,
    is_terminating,
)
from zoneward.routing.demand import Demand
from zoneward.routing.phrases import counted, listed
from zoneward.routing.selection.endpoint_selection import LOCAL, endpoints_of_all_ports, is_proxied, port_key
from zoneward.routing.selection.traffic import ExpectedTraffic

CLUSTER_POLICY: Final[dict[str, Any]] = {"spec": {"internalTrafficPolicy": "Cluster"}}
"""The merge patch with which a Service uses endpoints on all nodes."""
EMPTY_FIX: Final = "Scale its workload up or correct its selector; delete the Service if nothing uses it."
_NOT_READY_FIX: Final = "Get its pods ready: kubectl describe says why they are not."
_LOCAL_FIX: Final = "Run a pod on every node, as a DaemonSet does, or set internalTrafficPolicy to Cluster."


class DroppedTraffic(JsonValue, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What is dropped of the traffic to a Service in one address family.

    ``share`` is of all of its traffic, 0 to 1. ``ports`` are those that no endpoint serves while others are served.
    ``reason`` is a phrase, ``fix`` a sentence. ``is_empty``: no endpoint is listed at all.
    """

    share: float
    ports: tuple[str, ...]
    reason: str
    fix: str
    is_empty: bool = False

    @property
    def what(self) -> str:
        """``90% of its traffic``, ``all traffic to port metrics``."""
        if not self.share:
            return f"all traffic to {'port' if len(self.ports) == 1 else 'the ports'} {listed(self.ports)}"
        return "all of its traffic" if self.share == 1 else f"{format_dropped(self.share)} of its traffic"


def dropped_traffic(
    service: Service, slices: Sequence[EndpointSlice], traffic: ExpectedTraffic | None, demand: Demand
) -> DroppedTraffic | None:
    """What proxies drop with these slices of one address family, of which ``traffic`` is the prediction.

    None where nothing is dropped, and for a Service that proxies ignore.
    """
    if not is_proxied(service):
        return None
    unserved = _unserved_ports(service, slices)
    if traffic is None or traffic.dropped:
        used = [endpoint for endpoint in endpoints_of_all_ports(slices) if _is_used(endpoint)]
        if not used:
            return _without_endpoint(slices, unserved)
        if traffic is not None:
            return DroppedTraffic(
                share=round_part(traffic.dropped), ports=(), reason=_local(used, demand), fix=_LOCAL_FIX
            )
    if unserved:
        ports = tuple(port.name or str(port.port) for port in unserved)
        return DroppedTraffic(share=0.0, ports=ports, reason=_no_target(unserved), fix=_fix_target(unserved))
    return None


def dropped_first(now: DroppedTraffic | None, planned: DroppedTraffic | None) -> DroppedTraffic | None:
    """What is dropped now, else what would be as planned. Where no slice lists anything, the plan says why."""
    if now is None or planned is None:
        return now or planned
    return planned if now.is_empty else now


def format_dropped(share: float) -> str:
    """In percent; neither 0 % nor 100 % where it is only nearly so."""
    percent = round(share * 100)
    if share and not percent:
        return "<1%"
    return ">99%" if percent == 100 and share < 1 else f"{percent}%"


def _is_used(endpoint: Endpoint) -> bool:
    """Whether proxies send to it, at least where there is no other."""
    return is_ready(endpoint) or (is_serving(endpoint) and is_terminating(endpoint))


def _unserved_ports(service: Service, slices: Sequence[EndpointSlice]) -> tuple[ServicePort, ...]:
    served = {
        port_key(port) for slice_ in slices if any(map(_is_used, slice_.endpoints or ())) for port in slice_.ports or ()
    }
    return tuple(port for port in service.spec.ports or () if (port.name or "", port.protocol or "TCP") not in served)


# --- no endpoint ------------------------------------------------------------------------------------------------------


def _without_endpoint(slices: Sequence[EndpointSlice], unserved: Sequence[ServicePort]) -> DroppedTraffic:
    listed_ = len(endpoints_of_all_ports(slices))
    if listed_:
        reason = "its only endpoint is not ready" if listed_ == 1 else f"none of its {listed_} endpoints is ready"
        return DroppedTraffic(share=1.0, ports=(), reason=reason, fix=_NOT_READY_FIX)
    if any(slice_.endpoints for slice_ in slices):
        return DroppedTraffic(share=1.0, ports=(), reason=_no_target(unserved), fix=_fix_target(unserved))
    return DroppedTraffic(share=1.0, ports=(), reason="no endpoint", fix=EMPTY_FIX, is_empty=True)


def _no_target(ports: Sequence[ServicePort]) -> str:
    """Endpoints without a port come from Pods that do not have the named one."""
    targets = tuple(dict.fromkeys(f"{port.target_port!r}" for port in ports if isinstance(port.target_port, str)))
    return f"no container port is called {listed(targets)}" if targets else "no endpoint serves it"


def _fix_target(ports: Sequence[ServicePort]) -> str:
    if not any(isinstance(port.target_port, str) for port in ports):
        return "Let a slice of the Service list endpoints with the port."
    return "Give a container port in the pod template that name, or set targetPort to one that the containers have."


# --- the policy for internal traffic ----------------------------------------------------------------------------------


def _local(used: Sequence[Endpoint], demand: Demand) -> str:
    hosts = {endpoint.node_name for endpoint in used}
    without = sum(node.name not in hosts for node in demand.nodes)
    nodes = counted(len(demand.nodes), "node")
    verb = "has" if without == 1 else "have"
    return f"internalTrafficPolicy is {LOCAL}, and {without} of {nodes} {verb} no ready endpoint"
