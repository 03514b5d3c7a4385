"""What a node serves, in the shape in which ``zoneward route -o json`` tells it."""

from collections.abc import Iterable
from typing import Any

from zoneward.proxy.model.node_service import ADDRESS_TYPES, Node, Served, ServedPort, Target


def selections(node: Node, served: Iterable[Served]) -> dict[str, Any]:
    """In values that JSON has."""
    return {
        "node": node.name,
        "zone": node.zone,
        "ports": [_port(each, port) for each in served for port in each.ports],
    }


def _port(served: Served, port: ServedPort) -> dict[str, Any]:
    found: dict[str, Any] = {
        "namespace": served.namespace,
        "service": served.name,
        "addressType": ADDRESS_TYPES[served.family],
        "port": port.name,
        "portNumber": port.port,
        "protocol": port.protocol.upper(),
        "cluster": _named(port.cluster) if _uses_cluster(served) else None,
        "local": _named(port.local) if served.internal_local or served.external_local else None,
        "allReachable": _named(port.reachable),
        "rule": port.rule.value,
        "hasEndpoints": port.has_any,
        "healthyLocal": served.healthy,
    }
    if port.weights is not None:
        found["weights"] = list(port.weights)
    return found


def _uses_cluster(served: Served) -> bool:
    is_external = bool(served.external or served.balancers) or any(port.node_port for port in served.ports)
    return not served.internal_local or is_external


def _named(targets: Iterable[Target]) -> list[str]:
    return [
        f"[{each.address}]:{each.port}" if ":" in each.address else f"{each.address}:{each.port}" for each in targets
    ]
