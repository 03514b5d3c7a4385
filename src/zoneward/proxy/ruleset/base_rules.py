"""The rules that all Services share: what is in a table with or without them, and chains known by their names.

==================  ==================================================================================
``services``        address, protocol, port -> chain; ``node-ports`` the same without the address
``endpoints``       cluster address, protocol, port, slot -> endpoint; ``local-endpoints``: those of this node
``to-cluster-ip``   external address, protocol, port -> cluster address; ``node-to-cluster-ip`` the same for node
                    ports, and ``node-to-port`` their Service's port
``policy-cluster``  cluster address, protocol, port -> the chain for traffic that came to another address, by
                    its traffic policy; ``policy-local``
``inside``          for the external policy Local: where traffic from this node and its Pods goes;
                    ``outside``: all other traffic
``refused``         what has no endpoint to serve it: rejected where no endpoint exists, else dropped
``guarded``         load balancers' addresses with ranges of sources
``cluster-ips``     all cluster addresses; ``hairpin``: endpoints of this node, which may call themselves
==================  ==================================================================================

A chain does what its name says: who finds a table needs no more than the names to know what it does.
Chains: ``c-N`` and ``l-N`` send to one of N slots (cluster, local). ``external-cluster`` and ``external-local`` are the
external policies, ``to-cluster`` and ``to-local`` lead on from them. With ``node-`` before it the same for node ports.

Endpoints are there once for a Service's port, under its cluster address. The first packet of a connection to another
address, or to a node port, has its destination rewritten to the cluster address before its endpoint is looked up: nft
(1.0.6) has no other place for a value that one lookup finds and the next one needs. It is rewritten again at once, by
the translation to the endpoint; connection tracking has kept the address that the client asked for.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zoneward.netlink.messages import Family
from zoneward.netlink.nftables import Hook
from zoneward.proxy.ruleset.nft_commands import quote
from zoneward.proxy.ruleset.ruleset import ADDRESS, Chain, SetDeclaration

TABLE: Final = "zoneward"
LAYOUT_CHAIN: Final = "layout"
"""The beginning of the name of a chain without rules, that stands for everything that no other name says."""
_PORT: Final = "meta l4proto . th dport"
_PROTOCOLS: Final = ("tcp", "udp", "sctp")
"""In this order: the map's values have the port of TCP, and where a rule names no protocol, or the first rule of a
transaction names another, nft (1.0.6) adds TCP to it by itself, or takes nothing."""
_LOOPBACK: Final[dict[Family, str]] = {"ip": "127.0.0.0/8", "ip6": "::1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesetOptions:
    """What the operator and the Node say about the rules, by family where it differs.

    ``pod_cidrs`` or ``pod_interfaces`` say who is a Pod of this node: ranges of addresses, or the name of an interface,
    or the beginning of such names with a ``*``. ``service_cidrs``: ranges whose unused addresses are dropped.
    ``node_port_cidrs``: ranges of the node's addresses that node ports are served on; all of them where there are none
    for a family, but never loopback. ``node_ips``: the node's own, which ranges of sources may have.
    ``masquerade_mark``: the bit that says to masquerade.
    """

    pod_cidrs: Mapping[Family, str] | None = None
    pod_interfaces: str | None = None
    masquerade_all: bool = False
    masquerade_mark: int = 1 << 14
    service_cidrs: Mapping[Family, Sequence[str]] | None = None
    node_port_cidrs: Mapping[Family, Sequence[str]] | None = None
    node_ips: Mapping[Family, str] | None = None

    @property
    def mark_statement(self) -> str:
        """The statement that has a connection masqueraded."""
        return f"meta mark set meta mark | {self.masquerade_mark:#010x}"


_SHARED: Final = ("c", "l")
"""Kinds of chains that ports share, whichever Service they are of."""


def base_sets(family: Family) -> dict[str, SetDeclaration]:
    """Sets and maps of a table, without elements."""
    address = ADDRESS[family]
    by_address, by_port = f"{address} . inet_proto . inet_service", "inet_proto . inet_service"
    drawn = "numgen random mod 65536"
    found = {
        "cluster-ips": SetDeclaration("set", f"type {address}"),
        "hairpin": SetDeclaration("set", f"type {address} . {address} . inet_proto . inet_service"),
        "to-cluster-ip": SetDeclaration("map", f"type {by_address} : {address}"),
        "node-to-cluster-ip": SetDeclaration("map", f"type {by_port} : {address}"),
        "node-to-port": SetDeclaration("map", f"type {by_port} : inet_service"),
    }
    for name in ("endpoints", "local-endpoints"):
        found[name] = SetDeclaration("map", f"typeof {family} daddr . {_PORT} . {drawn} : {family} daddr . tcp dport")
    for name in ("services", "inside", "outside", "refused", "guarded", "policy-cluster", "policy-local"):
        found[name] = SetDeclaration("map", f"type {by_address} : verdict")
    for name in ("node-ports", "node-inside", "node-outside", "node-refused"):
        found[name] = SetDeclaration("map", f"type {by_port} : verdict")
    return found


def base_chains(family: Family, options: RulesetOptions) -> dict[str, Chain]:
    """Chains that are there with or without Services, those without a hook first."""
    key = f"{family} daddr . {_PORT}"
    node, mark, ours = _to_node(family, options), options.mark_statement, _from_pods(family, options)
    services = []
    if options.masquerade_all:
        services.append(f"{family} daddr @cluster-ips {mark}")
    elif ours is not None:
        # Most of what comes is from Pods, and needs no look at the set.
        services.append(f"{ours[1]} {family} daddr @cluster-ips {mark}")
    services += [f"{key} vmap @services", f"{node} {_PORT} vmap @node-ports"]
    # What is under way, and what was sent to an endpoint, has nothing to be refused.
    passing = ("ct state != new accept", "ct status dnat accept")
    unknown = [f"{family} daddr @cluster-ips goto nobody"]
    unknown += [f"{family} daddr {each} drop" for each in (options.service_cidrs or {}).get(family, ())]
    refused = [f"{key} vmap @refused", f"{node} {_PORT} vmap @node-refused"]

    def local(prefix: str, lookup: str) -> Chain:
        rules = [] if ours is None else [f"{ours[0]} {lookup} vmap @{prefix}inside"]
        rules += [f"fib saddr type local {mark}", f"fib saddr type local {lookup} vmap @{prefix}inside"]
        return Chain((*rules, f"{lookup} vmap @{prefix}outside"))

    rewritten = (f"{family} daddr set {key} map @to-cluster-ip",)
    bit = f"{options.masquerade_mark:#010x}"
    masquerade = f"meta mark & {bit} != 0x00000000 meta mark set meta mark ^ {bit}"
    chains = {
        # The kernel sends few ICMP messages in a second; a TCP connection is refused without one.
        "nobody": Chain(("meta l4proto tcp reject with tcp reset", "reject")),
        "to-cluster": _onward(family, "cluster", rewritten),
        "to-local": _onward(family, "local", rewritten),
        "node-to-cluster": _onward(family, "cluster", _from_node_port(family)),
        "node-to-local": _onward(family, "local", _from_node_port(family)),
        "external-cluster": Chain((mark, "goto to-cluster")),
        "external-local": local("", key),
        "node-external-cluster": Chain((mark, "goto node-to-cluster")),
        "node-external-local": local("node-", _PORT),
        "services-nat": Chain(tuple(services)),
        "before-input": Chain((f"ct state new {key} vmap @guarded",), Hook("filter", "prerouting", -110)),
        "before-output": Chain((f"ct state new {key} vmap @guarded",), Hook("filter", "output", -110)),
        "input": Chain((*passing, *refused), Hook("filter", "input", 0)),
        "forward": Chain((*passing, *refused[:1], *unknown), Hook("filter", "forward", 0)),
        "output": Chain((*passing, *refused[:1], *unknown), Hook("filter", "output", 0)),
        "nat-prerouting": Chain(("jump services-nat",), Hook("nat", "prerouting", -100)),
        "nat-output": Chain(("jump services-nat",), Hook("nat", "output", -100)),
        "nat-postrouting": Chain(
            (
                f"{masquerade} masquerade fully-random",
                f"ct status dnat {family} saddr . {family} daddr . {_PORT} @hairpin masquerade fully-random",
            ),
            Hook("nat", "postrouting", 100),
        ),
    }
    # What was written by other options, or another version, is known by it.
    content = base_sets(family), chains, [shared_chain(f"{each}-2", family) for each in _SHARED]
    # A table that an older version wrote stays in service only if its layout has the same name: so does its text.
    text = repr(content).replace("SetDeclaration(", "Declared(")
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return chains | {f"{LAYOUT_CHAIN}-{digest}": Chain()}


def shared_chain(name: str, family: Family) -> Chain:
    """A chain by its name: ``c-3``, ``l-3``."""
    kind, _, number = name.partition("-")
    endpoints = "local-endpoints" if kind == "l" else "endpoints"
    # A packet that came here just before the last slot went draws one that is not there. The first always is.
    numbers = (number,) if number == "1" else (number, "1")
    return Chain(
        tuple(
            f"meta l4proto {protocol} dnat {family} addr . port to {family} daddr . {_PORT} . "
            f"numgen random mod {each} map @{endpoints}"
            for protocol in _PROTOCOLS
            for each in numbers
        )
    )


def _onward(family: Family, kind: str, rewritten: Sequence[str]) -> Chain:
    """To a Service's endpoints by way of its cluster IP, to which the rules ``rewritten`` change the packet's
    destination."""
    return Chain((*rewritten, f"{family} daddr . {_PORT} vmap @policy-{kind}"))


def _from_node_port(family: Family) -> tuple[str, ...]:
    """A datagram without a checksum stays without one: nft would add the difference to the 0 that says so."""
    port = f"dport set {_PORT} map @node-to-port"
    return (
        f"{family} daddr set {_PORT} map @node-to-cluster-ip",
        f"meta l4proto tcp tcp {port}",
        f"meta l4proto udp udp checksum 0 th {port}",
        f"meta l4proto udp udp checksum != 0 udp {port}",
        f"meta l4proto sctp sctp {port}",
    )


def _to_node(family: Family, options: RulesetOptions) -> str:
    """What matches traffic to the addresses that node ports are served on."""
    rule = f"fib daddr type local {family} daddr != {_LOOPBACK[family]}"
    ranges = (options.node_port_cidrs or {}).get(family, ())
    if not ranges or any(range_.endswith("/0") for range_ in ranges):
        return rule
    return f"{rule} {family} daddr {{ {', '.join(ranges)} }}"


def _from_pods(family: Family, options: RulesetOptions) -> tuple[str, str] | None:
    """What matches traffic of this node's Pods, and what all other; None where the options do not say."""
    if options.pod_interfaces is not None:
        name = quote(options.pod_interfaces)
        return f"iifname {name}", f"iifname != {name}"
    found = (options.pod_cidrs or {}).get(family)
    return None if found is None else (f"{family} saddr {found}", f"{family} saddr != {found}")
