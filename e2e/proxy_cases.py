"""Services of every kind, and which endpoints each of their addresses reaches, by client.

A case is a Service of two families with the ports TCP 80 and UDP 53, which lead to 8080 and 8081 of its endpoints.
Its addresses are its own, and a node port for each port.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Place = Literal["cluster", "external", "balancer", "node-port", "loopback-node-port", "other-port"]
Who = Literal["pod", "node", "outside", "stranger", "itself"]
REFUSED: Final = "refused"
DROPPED: Final = "dropped"
LOCAL: Final = "Local"


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """An endpoint. ``zone``: of the slice that it is in, where these are labelled; ``zones``: the annotation beside it.

    ``hints`` are for zones, ``nodes`` for nodes.
    """

    name: str
    ready: bool = True
    serving: bool = True
    terminating: bool = False
    hints: Sequence[str] = ()
    nodes: Sequence[str] = ()
    zone: str | None = None
    zones: str | None = None

    @property
    def here(self) -> bool:
        """Whether it is on the node that has the proxy."""
        return self.name.startswith("here")


def here(index: int = 1, **about: object) -> At:
    return At(name=f"here-{index}", **about)  # type: ignore[arg-type]


def there(index: int = 1, **about: object) -> At:
    return At(name=f"there-{index}", **about)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Probe:
    """``reaches``: names of endpoints with their shares, or how it fails. ``seen``: the address that they see."""

    who: Who
    to: Place
    reaches: Mapping[str, float] | str
    seen: Literal["own", "node"] | None = None


def probe(who: Who, to: Place, *names: str, seen: Literal["own", "node"] | None = None) -> Probe:
    """Evenly to some endpoints, or `REFUSED` or `DROPPED`."""
    if names in ((REFUSED,), (DROPPED,)):
        return Probe(who, to, names[0])
    return Probe(who, to, dict.fromkeys(names, 1.0), seen)


@dataclass(frozen=True, slots=True)
class ProxyCase:
    """``spec`` are fields of the Service's; ``balancer`` the ipMode of its load balancer's address, if it has one.

    ``connections``: how many at least, where the usual number proves too little.
    """

    about: str
    endpoints: Sequence[At]
    probes: Sequence[Probe]
    spec: Mapping[str, object] = field(default_factory=dict)
    external: bool = False
    node_ports: bool = False
    balancer: str | None = None
    connections: int = 0


def balanced(**spec: object) -> dict[str, Any]:
    """A Service with addresses of every kind."""
    return {"spec": {"type": "LoadBalancer", **spec}, "external": True, "balancer": "VIP", "node_ports": True}


def on_node_ports(**spec: object) -> dict[str, Any]:
    return {"spec": {"type": "NodePort", **spec}, "node_ports": True}


BOTH: Final = (here(1), here(2), there(1), there(2))
ALL: Final = ("here-1", "here-2", "there-1", "there-2")
HERE: Final = ALL[:2]
LEAVING: Final = {"ready": False, "terminating": True}
GONE: Final = {"ready": False, "serving": False, "terminating": True}
OUTER: Final[Sequence[Place]] = ("external", "balancer", "node-port")
FROM_EVERYWHERE: Final[Sequence[Who]] = ("pod", "node", "outside")

CASES: Final = [
    ProxyCase(
        "a cluster address serves Pods with their own address, and all others with the node's",
        BOTH,
        [
            probe("pod", "cluster", *ALL, seen="own"),
            probe("node", "cluster", *ALL, seen="node"),
            probe("outside", "cluster", *ALL, seen="node"),
            *(probe(who, "other-port", REFUSED) for who in FROM_EVERYWHERE),
        ],
    ),
    ProxyCase(
        "all other addresses serve everybody with the node's address, but not on loopback",
        BOTH,
        [
            *(probe(who, to, *ALL, seen="node") for to in OUTER for who in FROM_EVERYWHERE),
            probe("node", "loopback-node-port", REFUSED),
        ],
        **balanced(),
    ),
    ProxyCase(
        "a load balancer's address that is a proxy's is left alone, and node ports are not",
        BOTH,
        [
            *(probe(who, "balancer", DROPPED) for who in FROM_EVERYWHERE),
            probe("outside", "node-port", *ALL, seen="node"),
        ],
        spec={"type": "LoadBalancer"},
        balancer="Proxy",
        node_ports=True,
    ),
    ProxyCase(
        "ranges of sources guard a load balancer's address, and neither node ports nor the cluster address",
        BOTH,
        [
            probe("outside", "balancer", *ALL, seen="node"),
            probe("stranger", "balancer", DROPPED),
            probe("pod", "balancer", DROPPED),
            probe("node", "balancer", DROPPED),
            probe("stranger", "node-port", *ALL, seen="node"),
            probe("stranger", "cluster", *ALL, seen="node"),
        ],
        spec={"type": "LoadBalancer", "load_balancer_source_ranges": ("OUTSIDE", " OUTSIDE ")},
        balancer="VIP",
        node_ports=True,
    ),
    ProxyCase(
        "the internal policy Local keeps cluster traffic on the node, and outer traffic has all endpoints",
        BOTH,
        [
            probe("pod", "cluster", *HERE, seen="own"),
            probe("node", "cluster", *HERE),
            probe("outside", "cluster", *HERE, seen="node"),
            probe("outside", "external", *ALL, seen="node"),
            probe("pod", "external", *ALL, seen="node"),
        ],
        spec={"internal_traffic_policy": LOCAL},
        external=True,
    ),
    ProxyCase(
        "the internal policy Local drops what no endpoint of the node can serve",
        (there(1), there(2)),
        [
            *(probe(who, "cluster", DROPPED) for who in FROM_EVERYWHERE),
            probe("outside", "external", "there-1", "there-2", seen="node"),
        ],
        spec={"internal_traffic_policy": LOCAL},
        external=True,
    ),
    ProxyCase(
        "the external policy Local keeps traffic of the outside on the node, with its address",
        BOTH,
        [
            *(probe("outside", to, *HERE, seen="own") for to in OUTER),
            *(probe("pod", to, *ALL, seen="own") for to in OUTER),
            *(probe("node", to, *ALL, seen="node") for to in OUTER),
            probe("pod", "cluster", *ALL, seen="own"),
        ],
        **balanced(external_traffic_policy=LOCAL),
    ),
    ProxyCase(
        "the external policy Local drops traffic of the outside that no endpoint of the node can serve",
        (there(1), there(2)),
        [
            *(probe("outside", to, DROPPED) for to in OUTER),
            *(probe("pod", to, "there-1", "there-2", seen="own") for to in OUTER),
            *(probe("node", to, "there-1", "there-2", seen="node") for to in ("external", "node-port")),
            probe("outside", "cluster", "there-1", "there-2", seen="node"),
        ],
        **balanced(external_traffic_policy=LOCAL),
    ),
    ProxyCase(
        "without any endpoint all clients are refused at once, with any policy",
        (there(1, ready=False, serving=False), here(1, **GONE)),
        [probe(who, to, REFUSED) for who in FROM_EVERYWHERE for to in ("cluster", *OUTER)],
        **balanced(internal_traffic_policy=LOCAL, external_traffic_policy=LOCAL),
    ),
    ProxyCase(
        "endpoints that leave but still serve are the last resort",
        (here(1, **LEAVING), there(1, **LEAVING), there(2, **GONE), here(2, ready=False)),
        [probe("pod", "cluster", "here-1", "there-1"), probe("outside", "external", "here-1", "there-1")],
        external=True,
    ),
    ProxyCase(
        "one that leaves serves the outside where the policy is Local and the node has no other",
        (here(1, **LEAVING), there(1), there(2)),
        [
            probe("outside", "node-port", "here-1", seen="own"),
            probe("pod", "cluster", "there-1", "there-2", seen="own"),
        ],
        **on_node_ports(external_traffic_policy=LOCAL),
    ),
    ProxyCase(
        "hints for zones are honored",
        (here(1, hints=("a",)), here(2, hints=("b",)), there(1, hints=("a", "b")), there(2, hints=("c",))),
        [probe("pod", "cluster", "here-1", "there-1"), probe("outside", "external", "here-1", "there-1")],
        external=True,
    ),
    ProxyCase(
        "hints for nodes are honored before those for zones",
        (
            here(1, hints=("a",), nodes=("other",)),
            there(1, hints=("a",), nodes=("here",)),
            there(2, hints=("b",), nodes=("here",)),
        ),
        [probe("pod", "cluster", "there-1", "there-2")],
    ),
    ProxyCase(
        "slices labelled for the zone serve it, with those that are for all",
        (here(1, zone="a"), here(2, zone="b"), there(1), there(2, zone="b", zones="a,b")),
        [
            probe("pod", "cluster", "here-1", "there-1", "there-2", seen="own"),
            probe("outside", "external", "here-1", "there-1", "there-2", seen="node"),
        ],
        external=True,
    ),
    ProxyCase(
        "endpoints of slice groups get traffic by their weights",
        (
            here(1, zone="a", zones="a=1,b=1"),
            there(1, zone="a", zones="a=0.5,b=1"),
            there(2, zone="b", zones="a=0.25,b=0.5"),
            here(2, zone="c"),
        ),
        [
            Probe("pod", "cluster", {"here-1": 1.0, "there-1": 0.5, "there-2": 0.25}, "own"),
            Probe("outside", "external", {"here-1": 1.0, "there-1": 0.5, "there-2": 0.25}, "node"),
            Probe("node", "node-port", {"here-1": 1.0, "there-1": 0.5, "there-2": 0.25}, "node"),
        ],
        spec={"type": "NodePort"},
        external=True,
        node_ports=True,
    ),
    ProxyCase(
        "weights that need many slots are kept",
        (
            here(1, zone="a", zones="a=0.37,b=1"),
            there(1, zone="a", zones="a=1,b=0.5"),
            there(2, zone="a", zones="a=0.81,b=1"),
        ),
        [Probe("pod", "cluster", {"here-1": 0.37, "there-1": 1.0, "there-2": 0.81}, "own")],
        connections=4_000,
    ),
    *(
        ProxyCase(
            f"an endpoint that calls itself through its Service gets an answer, with affinity {affinity}",
            (here(1),),
            [
                probe("itself", "cluster", "here-1", seen="node"),
                probe("itself", "external", "here-1", seen="node"),
                probe("pod", "cluster", "here-1", seen="own"),
            ],
            spec={"session_affinity": affinity},
            external=True,
        )
        for affinity in ("None", "ClientIP")
    ),
    ProxyCase(
        "a hundred endpoints are all reached, as often as each other",
        tuple(there(index) for index in range(1, 101)),
        [probe("pod", "cluster", *(f"there-{index}" for index in range(1, 101)))],
    ),
]
