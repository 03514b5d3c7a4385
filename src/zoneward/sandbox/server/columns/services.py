"""Of Services."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from zoneward.sandbox.server.columns.ages import AGE, age
from zoneward.sandbox.server.kinds import NAME, Column, Object

COLUMNS: Final = (
    NAME,
    Column("Type", description="How the Service is exposed."),
    Column("Cluster-IP", description="The first of its virtual addresses."),
    Column("External-IP", description="Its addresses outside of the cluster."),
    Column("Port(s)", description="The ports it exposes, with their node ports."),
    AGE,
    Column("Selector", description="The labels of the pods it sends traffic to.", priority=1),
)

_NONE: Final = "<none>"


def cells(thing: Object, now: datetime) -> list[object]:
    spec = thing.get("spec") or {}
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP") or _NONE]
    selector = spec.get("selector") or {}
    return [
        thing["metadata"].get("name", ""),
        spec.get("type", ""),
        addresses[0],
        _external(spec, thing.get("status") or {}),
        ",".join(map(_port, spec.get("ports") or ())) or _NONE,
        age(thing, now),
        ",".join(f"{key}={selector[key]}" for key in sorted(selector)) or _NONE,
    ]


def _external(spec: Object, status: Object) -> str:
    own = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(own) or _NONE
        case "LoadBalancer":
            ingress = (status.get("loadBalancer") or {}).get("ingress") or ()
            return ",".join(sorted(set(_entrances(ingress))) + own) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return "<unknown>"


def _entrances(ingress: Iterable[Object]) -> Iterable[str]:
    for entrance in ingress:
        if address := entrance.get("ip") or entrance.get("hostname"):
            yield address


def _port(port: Object) -> str:
    node_port = port.get("nodePort")
    return f"{port['port']}{f':{node_port}' if node_port else ''}/{port.get('protocol', 'TCP')}"
