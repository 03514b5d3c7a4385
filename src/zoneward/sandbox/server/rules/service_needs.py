"""What a Service needs of addresses and ports, and what it has (upstream's ``pkg/registry/core/service``, v1.36)."""

from collections.abc import Mapping
from typing import Any, Final

from zoneward.kube.names import HEADLESS

Spec = Mapping[str, Any]

WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")
_BEARING: Final = (
    "type",
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "ipFamilyPolicy",
    "ports",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "allocateLoadBalancerNodePorts",
)
"""What decides on addresses and ports; for a headless Service, whether it has a selector does as well."""


def is_same(new: Spec, old: Spec) -> bool:
    """Whether nothing of all this changes."""
    for field in _BEARING:
        if new.get(field) != old.get(field):
            return False
    return new.get("clusterIP") != HEADLESS or bool(new.get("selector")) == bool(old.get("selector"))


def needs_node_ports(spec: Spec) -> bool:
    """Whether its ports get node ports unasked."""
    if spec.get("type") == "LoadBalancer":
        return bool(spec.get("allocateLoadBalancerNodePorts", True))
    return spec.get("type") == "NodePort"


def needs_health_check(spec: Spec) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def has_cluster_ips(spec: Spec) -> bool:
    """Also of a headless one: all types but one need the fields."""
    return spec.get("type") != "ExternalName"


def node_ports(spec: Spec) -> list[int]:
    """Those of its ports, of whatever type it is."""
    return [port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")]


def held_addresses(spec: Spec) -> list[str]:
    """What it has taken."""
    return [ip for ip in spec.get("clusterIPs") or () if ip != HEADLESS] if has_cluster_ips(spec) else []


def held_ports(spec: Spec) -> set[int]:
    """What it has taken, its health check's too."""
    ports = numbers_of(spec)
    if needs_health_check(spec) and (port := spec.get("healthCheckNodePort")):
        ports.add(port)
    return ports


def numbers_of(spec: Spec) -> set[int]:
    """The node ports that its ports have taken."""
    return set(node_ports(spec)) if spec.get("type") in WITH_NODE_PORTS else set()


# --- what an update leaves out ----------------------------------------------------------------------------------------


def fill_from(old: Spec, new: dict[str, Any]) -> None:
    """What has been allocated stays, where an update says nothing of it (``patchAllocatedValues``)."""
    if has_cluster_ips(old) and has_cluster_ips(new) and not new.get("clusterIP") and "clusterIP" in old:
        new["clusterIP"] = old["clusterIP"]
    if needs_node_ports(old) and needs_node_ports(new):
        _fill_node_ports(old, new)
    if needs_health_check(old) and needs_health_check(new) and not new.get("healthCheckNodePort"):
        new["healthCheckNodePort"] = old.get("healthCheckNodePort", 0)


def _fill_node_ports(old: Spec, new: dict[str, Any]) -> None:
    """Ports are known by their names; a node port that another one has got since is gone."""
    ports = new.get("ports") or ()
    if all(port.get("nodePort") for port in ports):
        return
    used = set(node_ports(old)) & set(node_ports(new))
    known = {port.get("name", ""): port.get("nodePort", 0) for port in old.get("ports") or ()}
    new["ports"] = ports = [dict(port) for port in ports]
    for port in ports:
        former = known.get(port.get("name", ""), 0)
        if not port.get("nodePort") and former and former not in used:
            port["nodePort"] = former


def normalize(new: dict[str, Any], old: Spec | None) -> None:
    """``clusterIP`` and ``clusterIPs`` say the same, for clients that know but one (``normalizeClusterIPs``)."""
    first, all_of_them = new.get("clusterIP"), new.get("clusterIPs") or []
    if old is None:
        if first and not all_of_them:
            new["clusterIPs"] = [first]
        return
    if first == old.get("clusterIP"):
        if not all_of_them and "clusterIPs" in old:
            new["clusterIPs"] = old["clusterIPs"]
    elif not all_of_them or all_of_them == old.get("clusterIPs"):
        new.pop("clusterIPs", None)
        if first:
            new["clusterIPs"] = [first]
