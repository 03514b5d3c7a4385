"""One new object of each kind, for cases that hold for all of them."""

from collections.abc import Callable
from typing import Final

from tests.builders.objects import (
    a_bare_node,
    a_bare_pod,
    a_core_event,
    a_lease,
    a_namespace,
    a_service,
    a_slice,
    an_event,
    some_endpoints,
)
from tests.contract.api import Object

_NEW: Final[dict[str, Callable[[str], Object]]] = {
    "Service": lambda namespace: a_service("it", namespace=namespace),
    "Pod": lambda namespace: a_bare_pod("it", namespace=namespace),
    "EndpointSlice": lambda namespace: a_slice("it", service="cart", addresses=["10.0.0.1"], namespace=namespace),
    "Endpoints": lambda namespace: some_endpoints("it", namespace=namespace),
    "Lease": lambda namespace: a_lease("it", namespace=namespace),
    "Event": lambda namespace: a_core_event("it", namespace=namespace),
    "Event.events.k8s.io": lambda namespace: an_event("newer", namespace=namespace),
    "Node": lambda namespace: a_bare_node(f"{namespace}-it"),
    "Namespace": lambda namespace: a_namespace(f"{namespace}-it"),
}
KINDS: Final = tuple(_NEW)


def new(kind: str, namespace: str) -> Object:
    """Named ``it``; those without a namespace begin with its name."""
    return _NEW[kind](namespace)
