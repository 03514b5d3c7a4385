"""Builds the rules that a Service adds to a node's table, assigns its endpoints to slots, and counts its entries.

One verdict map sends a packet by its destination to a chain that all ports with the same number of slots share. That
chain looks the endpoint up in one big map, by the cluster IP and a random slot (`zoneward.proxy.ruleset.base_rules`).
So an endpoint is one element, independent of the number of addresses. Only session affinity and source ranges need
chains for a single Service.

Endpoints keep their slots. The endpoint in the last slot replaces one that is removed, and a new endpoint gets a new
slot at the end. So a change of one endpoint changes at most two slots.

A Service has a limit of entries. One that is too large for one transaction is split: some of its ports at a time, each
port as a whole.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeVar

from zoneward.kube.addresses import is_in_cidr, parse_address
from zoneward.kube.objects import EndpointSlice, Service
from zoneward.netlink.messages import ADDRESS_TYPES, FAMILIES, Family
from zoneward.proxy.model.node_service import (
    Backend,
    NodeService,
    NodeServicePort,
    OnLeftOut,
    ProxyNode,
    ServiceKey,
    family_of_address,
    node_services,
)
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.proxy.ruleset.ruleset import ADDRESS, NO_RULES, Chain, ServiceRuleset, SetDeclaration, safe_name
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import (
    Consumer,
    SelectionRule,
    load_balancer_addresses,
    port_key,
)
from zoneward.routing.selection.entry_budget import EntryBudget

E = TypeVar("E", bound=Hashable)
MOST_PER_ENDPOINT: Final = 256
"""The maximum number of slots per endpoint, on average; it limits how exactly weights are met."""
_MOST_OF_ONE: Final = 100
"""The maximum number of slots of an endpoint with the smallest weight: rounding is then within half a percent."""
_TOLERANCE: Final = 0.01
"""The accepted relative difference from the share that a weight requests."""
_MOST_TRIED: Final = 400_000
"""Slot counts to try, times weights: a fifth of a second. Up to 60 weights, that is all of them."""


def place_in_slots(wanted: Iterable[E], before: Sequence[E] = ()) -> tuple[E, ...]:
    """The endpoint in each slot, with minimal changes. An endpoint may be wanted several times.

    ``before`` are the previous slots. New endpoints are added in the order of ``wanted``.
    """
    missing = Counter(wanted)
    if not before:
        return tuple(missing.elements())
    total = missing.total()
    slots: list[E | None] = []
    for endpoint in before:
        if missing[endpoint] > 0:
            missing[endpoint] -= 1
            slots.append(endpoint)
        else:
            slots.append(None)
    new = [endpoint for endpoint, count in missing.items() for _ in range(count)]
    new.reverse()
    for index, occupant in enumerate(slots):
        if occupant is None and new:
            slots[index] = new.pop()
    new.reverse()
    slots += new
    _close(slots, total)
    return tuple(endpoint for endpoint in slots if endpoint is not None)


def _close(slots: "list[E | None]", total: int) -> None:
    """Move slots from the end into the holes, until ``total`` are left and none is empty."""
    holes = [index for index, occupant in enumerate(slots[:total]) if occupant is None]
    for index in holes:
        while slots[-1] is None:
            slots.pop()
        slots[index] = slots.pop()
    del slots[total:]


def slots_per_endpoint(weights: tuple[float, ...]) -> tuple[int, ...]:
    """The number of slots of each endpoint, at least one, so that its share is within 1 % of what its weight requests.

    It uses as few slots as suffice. Where 256 slots per endpoint on average do not, it returns the nearest counts
    within that limit; where there are hundreds of weights, only some counts are tried. Weights are above 0.
    """
    slots_by_weight = _slots_by_weight(tuple(sorted(Counter(weights).items())))
    return tuple(slots_by_weight[weight] for weight in weights)


@lru_cache(maxsize=1024)
def _slots_by_weight(kinds: tuple[tuple[float, int], ...]) -> Mapping[float, int]:
    """The slots of an endpoint by its weight. ``kinds`` are the weights, each with the number of its endpoints."""
    total = sum(weight * count for weight, count in kinds)
    best: list[int] = []
    least = float("inf")
    for slot_counts in _candidates(kinds, total):
        pairs = list(zip(slot_counts, kinds, strict=True))
        fair = total / sum(slot_count * count for slot_count, (_, count) in pairs)
        worst = max(abs(slot_count * fair / weight - 1) for slot_count, (weight, _) in pairs)
        if worst < least:
            best, least = slot_counts, worst
        if worst <= _TOLERANCE:
            break
    return {weight: slot_count for (weight, _), slot_count in zip(kinds, best, strict=True)}


def _candidates(kinds: Sequence[tuple[float, int]], total: float) -> Iterator[list[int]]:
    """Slot counts by weight, near the requested shares, fewest slots first."""
    if not kinds:
        return
    most = MOST_PER_ENDPOINT * sum(count for _, count in kinds)
    scales = sorted({slot_count / weight for weight, _ in kinds for slot_count in range(1, _MOST_OF_ONE + 1)})
    # Anyone may write any number of weights: trying all counts would take minutes.
    for scale in scales[:: 1 + len(scales) * len(kinds) // _MOST_TRIED]:
        if scale * total > most:
            break
        yield [max(1, round(weight * scale)) for weight, _ in kinds]
    yield [max(1, round(weight * most / total)) for weight, _ in kinds]


MAX_SERVICE_ENTRIES: Final = 250_000
"""The default limit: 50 ports with 5,000 endpoints."""
_OF_A_CHAIN: Final = 20
"""One chain with its rules takes the kernel as long as this number of entries."""
ServiceParts = tuple[NodeService, ...]
"""A Service between two versions: each port once, with its addresses and policies. A single part is the whole Service;
no part: the Service does not exist."""


class ServiceTooLarge(Exception):  # noqa: N818 -- it is a fact about a Service
    """A Service exceeds its limit of entries in one family. ``addresses`` are those of its endpoints."""

    def __init__(self, family: Family, entries: int, most: int, addresses: Collection[str] = ()) -> None:
        super().__init__(
            f"the addresses, source ranges and endpoints of all its ports come to {entries:,} entries in"
            f" {ADDRESS_TYPES[family]}, "
            f"expected at most {most:,} (--max-service-entries)"
        )
        self.family, self.addresses = family, frozenset(addresses)


def node_services_within(
    most: int,
    service: Service,
    slices: Sequence[EndpointSlice],
    *,
    node: ProxyNode,
    consumer: Consumer,
    gates: FeatureGates,
    service_ranges: Sequence[str],
    left_out: OnLeftOut,
) -> dict[Family, NodeService]:
    """The result of `node_services` by family, with at most ``most`` entries in each. Raises ServiceTooLarge.

    Weights of zones are ignored where they take too many slots: with hints the Service may be small enough.
    """
    check_requested_entries(service, slices, most=most)

    def selected(consumer: Consumer) -> dict[Family, NodeService]:
        services = node_services(
            service,
            slices,
            node=node,
            consumer=consumer,
            gates=gates,
            service_ranges=service_ranges,
            left_out=left_out,
        )
        return {served.family: served for served in services}

    services = selected(consumer)
    if any(
        count_entries(served) > most and port.selection_rule is SelectionRule.ZONE_WEIGHTS
        for served in services.values()
        for port in served.ports
    ):
        left_out("weights of zones take too many entries (--max-service-entries)")
        services = selected(replace(consumer, zone_weights=False))
    for family, served in services.items():
        if (entries := count_entries(served)) > most:
            raise ServiceTooLarge(family, entries, most, _addresses(slices))
    return services


def check_requested_entries(service: Service, slices: Sequence[EndpointSlice], *, most: int) -> None:
    """Check the number of endpoints of all ports, ready or not, external addresses and source ranges, before any is
    selected or parsed. Raises ServiceTooLarge."""
    spec = service.spec
    ports = [(port.name, port.protocol) for port in spec.ports or ()]
    counts: Counter[str] = Counter()
    for text in (*(spec.external_ips or ()), *load_balancer_addresses(service)):
        counts[ADDRESS_TYPES[family_of_address(text)]] += len(ports)
    for text in spec.load_balancer_source_ranges or ():
        counts[ADDRESS_TYPES[family_of_address(text)]] += 1
    for slice_ in slices:
        slice_ports = Counter(map(port_key, slice_.ports or ()))
        counts[slice_.address_type] += sum(slice_ports[port] for port in ports) * len(slice_.endpoints or ())
    for family in FAMILIES:
        if (entries := counts[ADDRESS_TYPES[family]]) > most:
            raise ServiceTooLarge(family, entries, most, _addresses(slices))


def _addresses(slices: Sequence[EndpointSlice]) -> Collection[str]:
    words = (word for slice_ in slices for endpoint in slice_.endpoints or () for word in endpoint.addresses or ())
    return {address for word in words if (address := parse_address(word)) is not None}


def keep_endpoints(service: NodeService, addresses: Collection[str]) -> NodeService:
    """The Service with only the endpoints that have one of these addresses."""
    return replace(service, ports=tuple(_with_endpoints(port, addresses) for port in service.ports))


def _with_endpoints(port: NodeServicePort, addresses: Collection[str]) -> NodeServicePort:
    cluster, local, serving = (
        tuple(endpoint for endpoint in endpoints if endpoint.address in addresses)
        for endpoints in (port.cluster_endpoints, port.local_endpoints, port.serving_endpoints)
    )
    weights = port.weights
    if weights is not None:
        weights = tuple(
            weight
            for endpoint, weight in zip(port.cluster_endpoints, weights, strict=True)
            if endpoint.address in addresses
        )
    return replace(port, cluster_endpoints=cluster, local_endpoints=local, serving_endpoints=serving, weights=weights)


def count_entries(service: NodeService) -> int:
    """The number of entries of a Service in one family: for each port its addresses, its node port and its endpoints;
    and its source ranges, with which each load balancer IP counts twice.

    With weights, an endpoint counts once per slot; with affinity it has a chain, which counts as 20 entries.
    """
    addresses = 1 + len(service.external_ips) + len(service.load_balancer_ips)
    if service.source_ranges:
        addresses += len(service.load_balancer_ips)
    return 1 + len(service.source_ranges) + sum(addresses + _size(port) for port in service.ports)


def set_entries(budget: EntryBudget, service: ServiceKey, families: Mapping[Family, NodeService]) -> set[ServiceKey]:
    """Record the entries of a Service in all its families; no family: it was deleted. Returns the Services that are
    newly set aside, or no longer are."""
    entries = sum(map(count_entries, families.values())) if families else None
    creation_timestamp = next((family.creation_timestamp for family in families.values()), "")
    return budget.set_entries(service, entries, creation_timestamp=creation_timestamp)


def _size(port: NodeServicePort) -> int:
    slots = len(port.cluster_endpoints) if port.weights is None else sum(slots_per_endpoint(port.weights))
    chains = 0 if port.affinity_seconds is None else _OF_A_CHAIN * len(port.all_reachable_endpoints)
    return slots + len(port.local_endpoints) + chains + (port.node_port is not None)


def next_parts(programmed: ServiceParts, wanted: ServiceParts, *, most: int) -> ServiceParts:
    """The parts to program next: all of ``wanted`` where that changes at most ``most`` entries, else as many ports as
    that allows, and at least one.

    Each step costs as much as the whole Service, so a small change of a large Service takes one step.
    """
    if sum(map(count_entries, (*programmed, *wanted))) <= most:
        return wanted
    now, then = _by_port(programmed), _by_port(wanted)
    parts, room = dict(now), most
    for port in {**then, **now}:
        before, after = now.get(port), then.get(port)
        if before == after:
            continue
        if room <= 0:
            return tuple(parts.values())
        room -= _changed_entries(before, after)
        if after is None:
            del parts[port]
        else:
            parts[port] = after
    return wanted


def _changed_entries(before: NodeService | None, after: NodeService | None) -> int:
    """The number of entries of one port that change: all of them where more than its endpoints changes."""
    if before is not None and after is not None:
        (old,), (new,) = before.ports, after.ports
        is_plain = new.weights is None and new.affinity_seconds is None
        alike = replace(
            old,
            cluster_endpoints=new.cluster_endpoints,
            local_endpoints=new.local_endpoints,
            serving_endpoints=new.serving_endpoints,
        )
        if is_plain and replace(before, ports=(alike,)) == after:
            return sum(
                len(set(one) ^ set(other))
                for one, other in (
                    (old.cluster_endpoints, new.cluster_endpoints),
                    (old.local_endpoints, new.local_endpoints),
                )
            )
    return max(count_entries(part) for part in (before, after) if part is not None)


def _by_port(parts: Sequence[NodeService]) -> Mapping[tuple[str, str], NodeService]:
    """Each port as a separate Service, without the fields that no rule depends on."""
    return {
        (port.name, port.protocol): replace(part, ports=(port,), ready_local_endpoints=0, health_check_port=None)
        for part in parts
        for port in part.ports
    }


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


def service_rules(parts: ServiceParts, slots: EndpointSlots, options: RulesetOptions) -> ServiceRuleset:
    """The rules that a Service adds to its table. ``slots``: its endpoints by slot (`assign_slots`)."""
    if not parts:
        return NO_RULES
    builder = _ServiceRulesBuilder(parts[0].family, options)
    for part in parts:
        builder.add(part, slots)
    return ServiceRuleset(
        elements=builder.elements,
        shared_chains=frozenset(builder.shared_chains),
        chains=builder.chains,
        sets=builder.sets,
    )


class _ServiceRulesBuilder:
    """Collects the rules of the parts of one Service."""

    _served: NodeService

    def __init__(self, family: Family, options: RulesetOptions) -> None:
        self._family, self._options = family, options
        self.elements: dict[str, dict[str, str]] = {}
        self.shared_chains: set[str] = set()
        self.chains: dict[str, Chain] = {}
        self.sets: dict[str, SetDeclaration] = {}

    def add(self, served: NodeService, slots: EndpointSlots) -> None:
        self._served = served
        self.elements.setdefault("cluster-ips", {})[served.cluster_ip] = ""
        for port in served.ports:
            self._add(port, *(slots.get((port.name, port.protocol, kind), ()) for kind in ("cluster", "local")))
        self._add_source_ranges()

    def _add(self, port: NodeServicePort, cluster: Sequence[Backend], local: Sequence[Backend]) -> None:
        served = self._served
        inner = f"{served.cluster_ip} . {port.protocol} . {port.port}"
        chains_to = self._endpoint_chains(port, cluster, local)
        for target in port.all_reachable_endpoints:
            if target.is_local:
                key = f"{target.address} . {target.address} . {port.protocol} . {target.port}"
                self.elements.setdefault("hairpin", {})[key] = ""
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
                self.shared_chains.add(chains_to[kind])
                name, targets = ("local-endpoints", local) if kind == "local" else ("endpoints", cluster)
                elements = self.elements.setdefault(name, {})
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
            self.elements.setdefault(f"{prefix}to-cluster-ip", {})[key] = self._served.cluster_ip
            if prefix:
                self.elements.setdefault("node-to-port", {})[key] = str(port.port)
        if ("local" if self._served.external_policy_local else "cluster") not in kinds:
            self._add_refusal(f"{prefix}refused", key, port)

    def _add_verdict(self, name: str, key: str, chain: str) -> None:
        self.elements.setdefault(name, {})[key] = f"goto {chain}"

    def _add_refusal(self, name: str, key: str, port: NodeServicePort) -> None:
        """Reject the client where no endpoint exists; else drop its packets, so that it may try another node."""
        self.elements.setdefault(name, {})[key] = "drop" if port.has_any_endpoints else "goto nobody"

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
                self.sets[affinity_set] = SetDeclaration("set", spec)
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
        self.chains[name] = Chain(rules)
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
