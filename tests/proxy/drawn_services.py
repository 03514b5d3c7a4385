"""Services as a node serves them, drawn at random."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from zoneward.netlink.messages import Family
from zoneward.proxy.model.node_service import Backend, NodeService, NodeServicePort, ServiceKey

_SMALL = st.integers(1, 6)


def _address(family: Family, host: int) -> str:
    return f"10.0.0.{host}" if family == "ip" else f"fd00::{host:x}"


# These strategies are built once: building one takes longer than drawing from it.
_NODE_PORT = st.none() | _SMALL.map(lambda offset: 30_000 + offset)
_AFFINITY = st.none() | st.just(60)


@cache
def targets(family: Family) -> st.SearchStrategy[tuple[Backend, ...]]:
    """Some of six endpoints; the first two are on this node."""

    def backends(hosts: list[int]) -> tuple[Backend, ...]:
        return tuple(Backend(_address(family, host), 8080, host <= 2) for host in hosts)

    return st.lists(_SMALL, max_size=6, unique=True).map(backends)


@cache
def _outer(family: Family) -> st.SearchStrategy[tuple[str, ...]]:
    def addresses(hosts: list[int]) -> tuple[str, ...]:
        return tuple(_address(family, 200 + host) for host in hosts)

    return st.lists(_SMALL, max_size=2, unique=True).map(addresses)


@st.composite
def served_ports(draw: st.DrawFn, family: Family, *, name: str) -> NodeServicePort:
    cluster = draw(targets(family))
    weights = draw(st.none() | st.just(tuple(1.0 + 0.5 * (index % 3) for index in range(len(cluster)))))
    local = draw(targets(family))
    return NodeServicePort(
        name=name,
        protocol=draw(st.sampled_from(["tcp", "udp", "sctp"])),
        port=80 + draw(_SMALL),
        node_port=draw(_NODE_PORT),
        cluster_endpoints=cluster,
        local_endpoints=local,
        weights=weights if cluster else None,
        has_any_endpoints=bool(cluster or local) or draw(st.booleans()),
        affinity_seconds=draw(_AFFINITY),
    )


@st.composite
def services(draw: st.DrawFn, family: Family, *, name: str) -> NodeService:
    ports = draw(st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True))
    return NodeService(
        namespace="shop",
        name=name,
        family=family,
        cluster_ip=_address(family, 100 + int(name)),
        external_ips=draw(_outer(family)),
        load_balancer_ips=draw(_outer(family)),
        source_ranges=draw(st.sampled_from([(), (_address(family, 7),)])),
        internal_policy_local=draw(st.booleans()),
        external_policy_local=draw(st.booleans()),
        ports=tuple(draw(served_ports(family, name=port)) for port in ports),
    )


def changes(family: Family) -> st.SearchStrategy[list[tuple[str, NodeService | None]]]:
    """Services that are added, changed and deleted, by name."""

    def one(name: str) -> st.SearchStrategy[tuple[str, NodeService | None]]:
        return st.tuples(st.just(name), st.none() | services(family, name=name))

    return st.lists(st.sampled_from(["1", "2", "3"]).flatmap(one), max_size=8)


def key(served: NodeService) -> ServiceKey:
    return served.namespace, served.name


def one_port(*endpoints: Backend, protocol: str = "tcp", port: int = 80, **fields: Any) -> NodeServicePort:
    """A port with these endpoints for the whole cluster."""
    given: dict[str, Any] = {"name": protocol, "cluster_endpoints": endpoints, "has_any_endpoints": bool(endpoints)}
    return NodeServicePort(protocol=protocol, port=port, **given | fields)


def node_service(*ports: NodeServicePort, **fields: Any) -> NodeService:
    """shop/one of IPv4 at 10.96.0.1, unless fields say otherwise."""
    given = {"namespace": "shop", "name": "one", "family": "ip", "cluster_ip": "10.96.0.1"}
    return NodeService(ports=ports, **given | fields)
