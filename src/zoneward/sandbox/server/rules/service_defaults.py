"""What a Service gets where it says nothing, and what it loses with its type (upstream's v1.36)."""

from typing import Final

from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.rules.service_needs import (
    WITH_NODE_PORTS,
    Spec,
    has_cluster_ips,
    needs_health_check,
    node_ports,
)

CLIENT_IP: Final = "ClientIP"
CLIENT_IP_SECONDS: Final = 10800
"""How long a client stays with its endpoint."""

_LEFT_OUT_EMPTY: Final = frozenset(
    {
        "ports",
        "selector",
        "clusterIP",
        "clusterIPs",
        "type",
        "externalIPs",
        "sessionAffinity",
        "loadBalancerIP",
        "loadBalancerSourceRanges",
        "externalName",
        "externalTrafficPolicy",
        "healthCheckNodePort",
        "publishNotReadyAddresses",
        "ipFamilies",
    }
)
"""Of a spec: fields that upstream writes only with a value. The others have one as soon as they are there."""
_PORT_LEFT_OUT_EMPTY: Final = frozenset({"name", "protocol", "nodePort"})
_CONDITION: Final[Object] = {"type": "", "status": "", "lastTransitionTime": None, "reason": "", "message": ""}
_INGRESS_PORT: Final[Object] = {"port": 0, "protocol": ""}


def fill(service: Object) -> None:
    """``SetDefaults_Service``, without what is empty; what is complete is left as it is, not copied."""
    spec: Object = service.get("spec") or {}
    filled = {
        name: value for name, value in spec.items() if value or (value is not None and name not in _LEFT_OUT_EMPTY)
    }
    type_ = filled.setdefault("type", "ClusterIP")
    if filled.setdefault("sessionAffinity", "None") == "None":
        filled.pop("sessionAffinityConfig", None)
    elif filled["sessionAffinity"] == CLIENT_IP:
        _fill_affinity(filled)
    if ports := filled.get("ports"):
        filled["ports"] = [_filled_port(port) for port in ports]
    if is_reached_from_outside(filled):
        filled.setdefault("externalTrafficPolicy", "Cluster")
    if type_ in ("ClusterIP", "NodePort", "LoadBalancer"):
        filled.setdefault("internalTrafficPolicy", "Cluster")
    if type_ == "LoadBalancer":
        filled.setdefault("allocateLoadBalancerNodePorts", True)
    service["spec"] = filled
    service["status"] = _filled_status(service.get("status") or {}, type_)


def is_reached_from_outside(spec: Spec) -> bool:
    """By node ports, a load balancer or addresses that somebody routes here."""
    type_ = spec.get("type")
    return type_ in ("NodePort", "LoadBalancer") or (type_ == "ClusterIP" and bool(spec.get("externalIPs")))


def _fill_affinity(spec: Object) -> None:
    client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    if client.get("timeoutSeconds") is None:
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": CLIENT_IP_SECONDS}}


def _filled_port(port: Object) -> Object:
    filled = {
        name: value for name, value in port.items() if value or (value is not None and name not in _PORT_LEFT_OUT_EMPTY)
    }
    filled.setdefault("protocol", "TCP")
    number = filled.setdefault("port", 0)
    if not filled.get("targetPort"):
        filled["targetPort"] = number
    return filled


def _filled_status(status: Object, type_: str) -> Object:
    filled: Object = {"loadBalancer": {}}
    if ingress := (status.get("loadBalancer") or {}).get("ingress"):
        filled["loadBalancer"] = {"ingress": [_filled_ingress(each, type_) for each in ingress]}
    if conditions := status.get("conditions"):
        filled["conditions"] = [_CONDITION | _without_nulls(each) for each in conditions]
    return filled


def _filled_ingress(ingress: Object, type_: str) -> Object:
    filled = {name: value for name, value in ingress.items() if value or (value == "" and name == "ipMode")}
    if type_ == "LoadBalancer" and "ip" in filled:
        filled.setdefault("ipMode", "VIP")
    if ports := filled.get("ports"):
        filled["ports"] = [_INGRESS_PORT | _without_nulls(each) for each in ports]
    return filled


def _without_nulls(thing: Object) -> Object:
    return {name: value for name, value in thing.items() if value is not None}


def drop_with_type(new: Object, old: Object) -> None:
    """What another type, or another policy, has no use for goes, unless the client has just changed it
    (``dropTypeDependentFields``); and a load balancer's status with the load balancer.
    """
    spec, before = new["spec"], old["spec"]
    if (
        spec.get("type") == before.get("type")
        and spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy")
        and spec.get("externalIPs") == before.get("externalIPs")
    ):
        return
    if has_cluster_ips(before) and not has_cluster_ips(spec):
        addresses = ("clusterIP", "clusterIPs")
        if all(spec.get(field) == before.get(field) for field in addresses):
            for field in addresses:
                spec.pop(field, None)
        _drop_unchanged(spec, before, "ipFamilies")
        _drop_unchanged(spec, before, "ipFamilyPolicy")
    had_ports, has_ports = (each.get("type") in WITH_NODE_PORTS for each in (before, spec))
    if (
        had_ports
        and not has_ports
        and (ports := spec.get("ports"))
        and set(node_ports(spec)) <= set(node_ports(before))
    ):
        spec["ports"] = [{name: value for name, value in port.items() if name != "nodePort"} for port in ports]
    if needs_health_check(before) and not needs_health_check(spec):
        _drop_unchanged(spec, before, "healthCheckNodePort")
    if before.get("type") == "LoadBalancer" != spec.get("type"):
        _drop_unchanged(spec, before, "allocateLoadBalancerNodePorts")
        _drop_unchanged(spec, before, "loadBalancerClass")
        if new["status"].get("loadBalancer"):
            new["status"] = new["status"] | {"loadBalancer": {}}
    if is_reached_from_outside(before) and not is_reached_from_outside(spec):
        _drop_unchanged(spec, before, "externalTrafficPolicy")


def _drop_unchanged(spec: Object, before: Spec, field: str) -> None:
    if spec.get(field) == before.get(field):
        spec.pop(field, None)
