"""Builds the rules that a Service adds to a node's table.

One verdict map sends a packet by its destination to a chain that all ports with the same number of slots share. That
chain looks the endpoint up in one big map, by the cluster IP and a random slot (`zoneward.proxy.ruleset.base_rules`).
So an endpoint is one element, independent of the number of addresses. Only session affinity and source ranges need
chains for a single Service.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from zoneward.kube.addresses import is_in_cidr
from zoneward.proxy.model.node_service import Backend, NodeService, NodeServicePort
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.proxy.ruleset.endpoint_slots import place_in_slots, slots_per_endpoint
from zoneward.proxy.ruleset.nft_commands import safe_name
from zoneward.proxy.ruleset.ruleset import ADDRESS, NO_RULES, Chain, ServiceRuleset, SetDeclaration
from zoneward.proxy.ruleset.service_size import ServiceParts

_MOST_KEPT: Final = 1 << 20
"""The maximum number of clients with affinity, per port. Beyond it, new clients have none."""
EndpointSlots = Mapping[tuple[str, str, str], Sequence[Backend]]
"""By the port's name and protocol, and ``cluster`` or ``local``: the endpoint in each slot."""


def assign_slots(parts: ServiceParts, before: EndpointSlots) -> dict[tuple[str, str, str], tuple[Backend, ...]]:
    """The endpoint in each slot of each port, with minimal changes from ``before``."""
    slots = {}
    for port in (port for part in parts for port in part.ports):
        for kind, targets in (("cluster", _repeated(port)), ("local", port.local_endpoints)):
            key = port.name, port.protocol, kind
            if targets:
                slots[key] = place_in_slots(targets, before.get(key, ()))
    return slots


def service_rules(parts: ServiceParts, there: EndpointSlots, options: RulesetOptions) -> ServiceRuleset:
    """The rules that a Service adds to its table. ``there``: the endpoints in its slots (`assign_slots`)."""
    built = [_ServiceRulesBuilder(part, options).build(there) for part in parts]
    if len(built) <= 1:
        return built[0] if built else NO_RULES
    elements: dict[str, dict[str, str]] = {}
    chains: dict[str, Chain] = {}
    sets: dict[str, SetDeclaration] = {}
    for rules in built:
        for name, own_elements in rules.elements.items():
            elements.setdefault(name, {}).update(own_elements)
        chains |= rules.chains
        sets |= rules.sets
    return ServiceRuleset(
        elements=elements,
        shared_chains=frozenset[str]().union(*(rules.shared_chains for rules in built)),
        chains=chains,
        sets=sets,
    )


class _ServiceRulesBuilder:
    def __init__(self, served: NodeService, options: RulesetOptions) -> None:
        self._served = served
        self._family = served.family
        self._options = options
        self._elements: dict[str, dict[str, str]] = {"cluster-ips": {served.cluster_ip: ""}}
        self._shared: set[str] = set()
        self._chains: dict[str, Chain] = {}
        self._sets: dict[str, SetDeclaration] = {}

    def build(self, there: EndpointSlots) -> ServiceRuleset:
        for port in self._served.ports:
            self._add(port, *(there.get((port.name, port.protocol, kind), ()) for kind in ("cluster", "local")))
        self._add_source_ranges()
        return ServiceRuleset(
            elements=self._elements, shared_chains=frozenset(self._shared), chains=self._chains, sets=self._sets
        )

    def _add(self, port: NodeServicePort, cluster: Sequence[Backend], local: Sequence[Backend]) -> None:
        served = self._served
        inner = f"{served.cluster_ip} . {port.protocol} . {port.port}"
        chains_to = self._endpoint_chains(port, cluster, local)
        for target in port.all_reachable_endpoints:
            if target.is_local:
                key = f"{target.address} . {target.address} . {port.protocol} . {target.port}"
                self._elements.setdefault("hairpin", {})[key] = ""
        kind = "local" if served.internal_policy_local else "cluster"
        used = {kind}
        if kind in chains_to:
            self._add_verdict("services", inner, chains_to[kind])
        else:
            self._add_refusal("refused", inner, port)
        outer = [("", f"{address} . {port.protocol} . {port.port}") for address in served.external_addresses(port)]
        if port.node_port is not None:
            outer.append(("node-", f"{port.protocol} . {port.node_port}"))
        for prefix, key in dict.fromkeys(outer):
            self._add_external(prefix, key, chains_to, port)
        if outer and port.has_any_endpoints:
            kinds = {"cluster", "local"} if served.external_policy_local else {"cluster"}
            for policy_kind in sorted(kinds & chains_to.keys()):
                self._add_verdict(f"policy-{policy_kind}", inner, chains_to[policy_kind])
            used |= kinds
        if port.affinity_seconds is None:
            for kind in sorted(used & chains_to.keys()):
                self._shared.add(chains_to[kind])
                name, targets = ("local-endpoints", local) if kind == "local" else ("endpoints", cluster)
                elements = self._elements.setdefault(name, {})
                for slot, target in enumerate(targets):
                    elements[f"{inner} . {slot}"] = f"{target.address} . {target.port}"

    def _add_external(self, prefix: str, key: str, chains_to: Mapping[str, str], port: NodeServicePort) -> None:
        """Traffic to an address of the outside, or to a node port."""
        lead = "node-ports" if prefix else "services"
        kinds: set[str] = set()
        if port.has_any_endpoints and self._served.external_policy_local:
            self._add_verdict(lead, key, f"{prefix}external-local")
            kinds = {"cluster", "local"} & chains_to.keys()
            for kind, name in (("cluster", "inside"), ("local", "outside")):
                if kind in kinds:
                    self._add_verdict(f"{prefix}{name}", key, f"{prefix}to-{kind}")
        elif port.has_any_endpoints and "cluster" in chains_to:
            self._add_verdict(lead, key, f"{prefix}external-cluster")
            kinds = {"cluster"}
        if kinds:
            self._elements.setdefault(f"{prefix}to-cluster-ip", {})[key] = self._served.cluster_ip
            if prefix:
                self._elements.setdefault("node-to-port", {})[key] = str(port.port)
        if ("local" if self._served.external_policy_local else "cluster") not in kinds:
            self._add_refusal(f"{prefix}refused", key, port)

    def _add_verdict(self, name: str, key: str, chain: str) -> None:
        self._elements.setdefault(name, {})[key] = f"goto {chain}"

    def _add_refusal(self, name: str, key: str, port: NodeServicePort) -> None:
        """Reject the client where no endpoint exists; else drop its packets, so that it may try another node."""
        self._elements.setdefault(name, {})[key] = "drop" if port.has_any_endpoints else "goto nobody"

    def _add_source_ranges(self) -> None:
        served = self._served
        if not (served.source_ranges and served.load_balancer_ips):
            return
        sources = served.source_ranges
        own = (self._options.node_ips or {}).get(self._family)
        if own is not None and any(is_in_cidr(own, source) for source in sources):
            # If the load balancer's address is on the node, the node's own connections use it as their source.
            sources = (*sources, *served.load_balancer_ips)
        name = self._chain("guard", "", f"{self._family} saddr != {{ {', '.join(sources)} }} drop")
        for port in served.ports:
            for address in served.load_balancer_ips:
                if served.owns(address, port):
                    self._add_verdict("guarded", f"{address} . {port.protocol} . {port.port}", name)

    # --- chains to the endpoints -------------------------------------------------------------------------------------

    def _endpoint_chains(
        self, port: NodeServicePort, cluster: Sequence[Backend], local: Sequence[Backend]
    ) -> dict[str, str]:
        """The chain to the endpoints, by policy, without policies that have no endpoints.

        Without affinity the shared chains draw a slot for each connection; with affinity the Service has separate
        chains.
        """
        if port.affinity_seconds is None:
            return {
                kind: f"{kind[0]}-{len(endpoints)}"
                for kind, endpoints in (("cluster", cluster), ("local", local))
                if endpoints
            }
        family, address, about = self._family, ADDRESS[self._family], f"{port.protocol}/{port.name}"
        spec = (
            f"type {address} . {address} . inet_service; flags dynamic,timeout; timeout {port.affinity_seconds}s; "
            f"size {_MOST_KEPT}"
        )
        affinity_set = _own_name("kept", self._served, about, spec)
        leads = {}
        for target in port.all_reachable_endpoints:
            to = f"[{target.address}]:{target.port}" if family == "ip6" else f"{target.address}:{target.port}"
            leads[target] = self._chain(
                "endpoint",
                f"{about}/{target.address}/{target.port}",
                f"update @{affinity_set} {{ {family} saddr . {target.address} . {target.port} }}",
                f"meta l4proto {port.protocol} dnat {family} to {to}",
            )
        chains = {}
        for kind, name, targets in (("cluster", "keep", cluster), ("local", "keep-local", local)):
            if targets:
                self._sets[affinity_set] = SetDeclaration("set", spec)
                # The order of slots has no meaning here, and must not change the chain's digest.
                targets = sorted(targets, key=lambda target: (target.address, target.port))
                again = [
                    f"{self._match_kept(target)} @{affinity_set} goto {leads[target]}"
                    for target in dict.fromkeys(targets)
                ]
                drawn = ", ".join(f"{slot} : goto {leads[target]}" for slot, target in enumerate(targets))
                draw = f"numgen random mod {len(targets)} vmap {{ {drawn} }}"
                # While the chain is deleted its map may be empty: a packet that is here must still reach an endpoint.
                chains[kind] = self._chain(name, about, *again, draw, f"goto {leads[targets[0]]}")
        return chains

    def _match_kept(self, target: Backend) -> str:
        """The key for a client and an endpoint. nft (1.0.6) accepts no constant in a key, only an expression of one."""
        family, zero = self._family, "0.0.0.0" if self._family == "ip" else "::"
        return f"{family} saddr . {family} daddr & {zero} | {target.address} . th dport & 0 | {target.port}"

    def _chain(self, kind: str, rest: str, *rules: str) -> str:
        """Add a chain for this Service, and return its name, which has a digest of the rules."""
        name = _own_name(kind, self._served, rest, "\n".join(rules))
        self._chains[name] = Chain(rules)
        return name


def _repeated(port: NodeServicePort) -> Iterable[Backend]:
    if port.weights is None:
        return port.cluster_endpoints
    return [
        endpoint
        for endpoint, count in zip(port.cluster_endpoints, slots_per_endpoint(port.weights), strict=True)
        for _ in range(count)
    ]


def _own_name(kind: str, served: NodeService, rest: str, content: str) -> str:
    """A unique name that includes the Service, as far as the kernel's 128 bytes allow."""
    whose = f"{served.namespace}/{served.name}/{rest}".rstrip("/").replace(":", ".")
    digest = hashlib.sha256(f"{whose}\n{content}".encode(errors="surrogatepass")).digest()
    return f"{kind}-{base64.b32encode(digest).decode()[:12]}-{safe_name(whose)}"[:120]
