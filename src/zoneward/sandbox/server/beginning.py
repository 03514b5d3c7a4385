"""A sandbox as it is before anybody writes to it: what every cluster has."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from zoneward.sandbox.server.catalog import Gates, kinds
from zoneward.sandbox.server.filling import a_namespace
from zoneward.sandbox.server.registry import Registry
from zoneward.sandbox.server.store import Store

Object = dict[str, Any]

NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")


def begun(
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    chance: random.Random | None = None,
    gates: Gates | None = None,
) -> Registry:
    """The namespaces that are always there, and the Service of the API server, which has no endpoints here."""
    known = kinds(gates)
    registry = Registry(Store(known), known, now=now, chance=chance)
    for name in NAMESPACES:
        registry.restore(registry.kinds["namespaces"], _active(a_namespace(name)))
    registry.restore(registry.kinds["services"], _api_service())
    return registry


def _active(namespace: Object) -> Object:
    return namespace | {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}


def _api_service() -> Object:
    labels = {"component": "apiserver", "provider": "kubernetes"}
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {
            "clusterIP": "10.96.0.1",
            "clusterIPs": ["10.96.0.1"],
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    }
