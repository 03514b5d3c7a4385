"""The rules that all Services share: the fixed part of a table, and the chains that are identified by their names.

==================  ==================================================================================
``services``        address, protocol, port -> chain; ``node-ports`` the same without the address
``endpoints``       cluster address, protocol, port, slot -> endpoint; ``local-endpoints``: those of this node
``to-cluster-ip``   external address, protocol, port -> cluster address; ``node-to-cluster-ip`` the same for node
                    ports, and ``node-to-port`` their Service's port
``policy-cluster``  cluster address, protocol, port -> the chain for traffic that came to another address, by
                    its traffic policy; ``policy-local``
``inside``          for the external policy Local: the chain for traffic from this node and its Pods;
                    ``outside``: for all other traffic
``refused``         destinations without an endpoint: rejected where no endpoint exists, else dropped
``guarded``         load balancers' addresses with ranges of sources
``cluster-ips``     all cluster addresses; ``hairpin``: endpoints of this node, which may call themselves
==================  ==================================================================================

The name of a chain determines its rules, so the names alone show what a table does.
Chains: ``c-N`` and ``l-N`` send to one of N slots (cluster, local). ``external-cluster`` and ``external-local`` are the
external policies, ``to-cluster`` and ``to-local`` lead on from them. With ``node-`` before it the same for node ports.

The maps hold the endpoints of a Service's port once, under its cluster address. The first packet of a connection to
another address, or to a node port, has its destination rewritten to the cluster address before its endpoint is looked
up: nft (1.0.6) cannot otherwise pass the result of one lookup to the next. The translation to the endpoint rewrites it
again at once; connection tracking keeps the address that the client sent to.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zoneward.netlink.messages import Family
from zoneward.netlink.nftables import Hook
from zoneward.proxy.ruleset.ruleset import ADDRESS, LAYOUT_CHAIN, Chain, SetDeclaration, quote

TABLE: Final = "zoneward"
_PORT: Final = "meta l4proto . th dport"
_PROTOCOLS: Final = ("tcp", "udp", "sctp")
"""TCP has to be first: the map's values have the type of a TCP port, and where a rule names no protocol, or the first
rule of a transaction names another one, nft (1.0.6) adds TCP to the rule, or rejects it."""
_LOOPBACK: Final[dict[Family, str]] = {"ip": "127.0.0.0/8", "ip6": "::1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesetOptions:
    """Options of the rules from the settings and the Node, by family where they differ.

    ``pod_cidrs`` or ``pod_interfaces`` identify the Pods of this node: by CIDR, or by the name of an interface, or a
    prefix of such names with a ``*``. Traffic to unused addresses in ``service_cidrs``
    is dropped. ``node_port_cidrs``: CIDRs of the node's addresses that serve node ports; a family without any uses all
    of them, except loopback. ``node_ips``: the node's addresses, which source ranges may contain.
    ``masquerade_mark``: the mark bit of packets to masquerade.
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
        """The statement that marks a connection for masquerading."""
        return f"meta mark set meta mark | {self.masquerade_mark:#010x}"


_SHARED: Final = ("c", "l")
"""Kinds of chains that the ports of all Services share."""


def base_sets(family: Family) -> dict[str, SetDeclaration]:
    """The sets and maps of a table, without elements."""
    address = ADDRESS[family]
    by_address, by_port = f"{address} . inet_proto . inet_service", "inet_proto . inet_service"
    drawn = "numgen random mod 65536"
    sets = {
        "cluster-ips": SetDeclaration("set", f"type {address}"),
        "hairpin": SetDeclaration("set", f"type {address} . {address} . inet_proto . inet_service"),
        "to-cluster-ip": SetDeclaration("map", f"type {by_address} : {address}"),
        "node-to-cluster-ip": SetDeclaration("map", f"type {by_port} : {address}"),
        "node-to-port": SetDeclaration("map", f"type {by_port} : inet_service"),
    }
    for name in ("endpoints", "local-endpoints"):
        sets[name] = SetDeclaration("map", f"typeof {family} daddr . {_PORT} . {drawn} : {family} daddr . tcp dport")
    for name in ("services", "inside", "outside", "refused", "guarded", "policy-cluster", "policy-local"):
        sets[name] = SetDeclaration("map", f"type {by_address} : verdict")
    for name in ("node-ports", "node-inside", "node-outside", "node-refused"):
        sets[name] = SetDeclaration("map", f"type {by_port} : verdict")
    return sets


def base_chains(family: Family, options: RulesetOptions) -> dict[str, Chain]:
    """The chains that do not depend on Services, those without a hook first."""
    key = f"{family} daddr . {_PORT}"
    node, mark, from_pods = _to_node(family, options), options.mark_statement, _from_pods(family, options)
    services = []
    if options.masquerade_all:
        services.append(f"{family} daddr @cluster-ips {mark}")
    elif from_pods is not None:
        # Most traffic is from Pods, and skips the lookup in the set.
        services.append(f"{from_pods[1]} {family} daddr @cluster-ips {mark}")
    services += [f"{key} vmap @services", f"{node} {_PORT} vmap @node-ports"]
    # Established connections, and those already sent to an endpoint, are never refused.
    passing = ("ct state != new accept", "ct status dnat accept")
    unknown = [f"{family} daddr @cluster-ips goto nobody"]
    unknown += [f"{family} daddr {cidr} drop" for cidr in (options.service_cidrs or {}).get(family, ())]
    refused = [f"{key} vmap @refused", f"{node} {_PORT} vmap @node-refused"]

    def local(prefix: str, lookup: str) -> Chain:
        rules = [] if from_pods is None else [f"{from_pods[0]} {lookup} vmap @{prefix}inside"]
        rules += [f"fib saddr type local {mark}", f"fib saddr type local {lookup} vmap @{prefix}inside"]
        return Chain((*rules, f"{lookup} vmap @{prefix}outside"))

    rewritten = (f"{family} daddr set {key} map @to-cluster-ip",)
    bit = f"{options.masquerade_mark:#010x}"
    masquerade = f"meta mark & {bit} != 0x00000000 meta mark set meta mark ^ {bit}"
    chains = {
        # The kernel limits the rate of ICMP messages, so TCP connections are reset instead.
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
    # The digest identifies a table that was written with other options, or by another version.
    content = base_sets(family), chains, [shared_chain(f"{kind}-2", family) for kind in _SHARED]
    # A table that an older version wrote stays in service only if its layout has the same name: so does its text.
    text = repr(content).replace("SetDeclaration(", "Declared(")
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return chains | {f"{LAYOUT_CHAIN}-{digest}": Chain()}


def shared_chain(name: str, family: Family) -> Chain:
    """The chain with this name: ``c-3``, ``l-3``."""
    kind, _, slot_count = name.partition("-")
    endpoints = "local-endpoints" if kind == "l" else "endpoints"
    # A packet that is here while the last slot is deleted may draw that slot; the first slot always exists.
    moduli = (slot_count,) if slot_count == "1" else (slot_count, "1")
    return Chain(
        tuple(
            f"meta l4proto {protocol} dnat {family} addr . port to {family} daddr . {_PORT} . "
            f"numgen random mod {modulus} map @{endpoints}"
            for protocol in _PROTOCOLS
            for modulus in moduli
        )
    )


def _onward(family: Family, kind: str, rewritten: Sequence[str]) -> Chain:
    """The chain to a Service's endpoints through its cluster IP. The rules ``rewritten`` change the packet's
    destination to that address."""
    return Chain((*rewritten, f"{family} daddr . {_PORT} vmap @policy-{kind}"))


def _from_node_port(family: Family) -> tuple[str, ...]:
    """The rules that rewrite a packet to a node port. A UDP datagram without a checksum keeps 0: nft would add the
    difference to it."""
    port = f"dport set {_PORT} map @node-to-port"
    return (
        f"{family} daddr set {_PORT} map @node-to-cluster-ip",
        f"meta l4proto tcp tcp {port}",
        f"meta l4proto udp udp checksum 0 th {port}",
        f"meta l4proto udp udp checksum != 0 udp {port}",
        f"meta l4proto sctp sctp {port}",
    )


def _to_node(family: Family, options: RulesetOptions) -> str:
    """The match for traffic to the addresses that serve node ports."""
    rule = f"fib daddr type local {family} daddr != {_LOOPBACK[family]}"
    ranges = (options.node_port_cidrs or {}).get(family, ())
    if not ranges or any(range_.endswith("/0") for range_ in ranges):
        return rule
    return f"{rule} {family} daddr {{ {', '.join(ranges)} }}"


def _from_pods(family: Family, options: RulesetOptions) -> tuple[str, str] | None:
    """The matches for traffic from this node's Pods, and for all other traffic; None where the options do not say."""
    if options.pod_interfaces is not None:
        name = quote(options.pod_interfaces)
        return f"iifname {name}", f"iifname != {name}"
    pod_cidr = (options.pod_cidrs or {}).get(family)
    return None if pod_cidr is None else (f"{family} saddr {pod_cidr}", f"{family} saddr != {pod_cidr}")
