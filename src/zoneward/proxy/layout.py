"""From what a node serves of one Service to what that adds to its table of rules.

One verdict map leads from the destination of a packet to a chain that all ports with as many slots share, and this one
looks the endpoint up in one big map, by the destination and a slot drawn at random (`zoneward.proxy.base_rules`). So an
endpoint that changes is one element, and no chain is ever made for a Service but for what chains alone can do: clients
that keep their endpoint, and ranges of sources.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network

from zoneward.proxy.base_rules import LayoutOptions
from zoneward.proxy.ruleset import ADDRESS, Chain, Declared, Portion
from zoneward.proxy.served import Served, ServedPort, Target
from zoneward.proxy.slots import repeats, slots

Slots = Mapping[tuple[str, str, str], Sequence[Target]]
"""By the port's name and protocol, and ``cluster`` or ``local``: what stands in each slot."""


def slots_of(served: Served, before: Slots) -> dict[tuple[str, str, str], tuple[Target, ...]]:
    """What stands in each slot of each port, changed as little as can be from what stood there before."""
    found = {}
    for port in served.ports:
        for kind, targets in (("cluster", _repeated(port)), ("local", port.local)):
            key = port.name, port.protocol, kind
            if targets:
                found[key] = slots(targets, before.get(key, ()))
    return found


def portion(served: Served, there: Slots, options: LayoutOptions) -> Portion:
    """What a Service adds to its table. ``there``: see `slots_of`."""
    return _Portion(served, options).made(there)


def own_parts(served: Served) -> int:
    """How many chains and sets of its own a Service may have, beside one for its ranges of sources."""
    return sum(2 * len(port.reachable) + 2 for port in served.ports if port.affinity)


class _Portion:
    def __init__(self, served: Served, options: LayoutOptions) -> None:
        self._served = served
        self._family = served.family
        self._options = options
        self._elements: dict[str, dict[str, str]] = {"cluster-ips": {served.cluster_ip: ""}}
        self._shared: set[str] = set()
        self._chains: dict[str, Chain] = {}
        self._sets: dict[str, Declared] = {}

    def made(self, there: Slots) -> Portion:
        for port in self._served.ports:
            self._add(port, *(there.get((port.name, port.protocol, kind), ()) for kind in ("cluster", "local")))
        self._guard()
        return Portion(elements=self._elements, shared=frozenset(self._shared), chains=self._chains, sets=self._sets)

    def _add(self, port: ServedPort, cluster: Sequence[Target], local: Sequence[Target]) -> None:
        served = self._served
        way: _Drawing | _Keeping = _Drawing(self._elements, self._shared, cluster, local)
        if port.affinity:
            way = self._keeping(port, cluster, local)
        for target in port.reachable:
            if target.here:
                key = f"{target.address} . {target.address} . {port.protocol} . {target.port}"
                self._elements.setdefault("hairpin", {})[key] = ""
        inner = f"{served.cluster_ip} . {port.protocol} . {port.port}"
        kind = "l" if served.internal_local else "c"
        if way.has(kind):
            self._lead("services", inner, way.to(kind, inner))
        else:
            self._refuse("refused", inner, port)
        addresses = (*served.external, *served.balancers)
        for address in dict.fromkeys(addresses):
            self._outer("", f"{address} . {port.protocol} . {port.port}", way, port)
        if port.node_port is not None:
            self._outer("node-", f"{port.protocol} . {port.node_port}", way, port)

    def _outer(self, prefix: str, key: str, way: "_Drawing | _Keeping", port: ServedPort) -> None:
        """Traffic to an address of the outside, or to a node port."""
        lead = "node-ports" if prefix else "services"
        if not port.has_any:
            self._refuse(f"{prefix}refused", key, port)
        elif not self._served.external_local:
            if way.has("x"):
                self._lead(lead, key, way.to("x", key, node=bool(prefix)))
            else:
                self._refuse(f"{prefix}refused", key, port)
        else:
            self._lead(lead, key, f"{prefix}external")
            if way.has("c"):
                self._lead(f"{prefix}inside", key, way.to("c", key, node=bool(prefix)))
            if way.has("l"):
                self._lead(f"{prefix}outside", key, way.to("l", key, node=bool(prefix)))
            else:
                self._refuse(f"{prefix}refused", key, port)

    def _lead(self, name: str, key: str, chain: str) -> None:
        self._elements.setdefault(name, {})[key] = f"goto {chain}"

    def _refuse(self, name: str, key: str, port: ServedPort) -> None:
        """Without any endpoint the client is told at once; where others have some, it may try again elsewhere."""
        self._elements.setdefault(name, {})[key] = "drop" if port.has_any else "goto nobody"

    def _guard(self) -> None:
        served = self._served
        if not (served.sources and served.balancers):
            return
        sources = served.sources
        own = (self._options.own_addresses or {}).get(self._family)
        if own is not None and any(_is_in(own, each) for each in sources):
            # Where a balancer's address is on the node, the node itself calls from that one.
            sources = (*sources, *served.balancers)
        name = self._chain("guard", "", f"{self._family} saddr != {{ {', '.join(sources)} }} drop")
        for port in served.ports:
            for address in served.balancers:
                self._lead("guarded", f"{address} . {port.protocol} . {port.port}", name)

    # --- ways to the endpoints ----------------------------------------------------------------------------------------

    def _keeping(self, port: ServedPort, cluster: Sequence[Target], local: Sequence[Target]) -> "_Keeping":
        family, about = self._family, f"{port.protocol}/{port.name}"
        kept, leads = {}, {}
        for target in port.reachable:
            spec = f"type {ADDRESS[family]}; flags dynamic,timeout; timeout {port.affinity}s"
            rest = f"{about}/{target.address}/{target.port}"
            keep = kept[target] = _own_name("kept", self._served, rest, spec)
            self._sets[keep] = Declared("set", spec)
            to = f"[{target.address}]:{target.port}" if family == "ip6" else f"{target.address}:{target.port}"
            rules = f"update @{keep} {{ {family} saddr }}", f"meta l4proto {port.protocol} dnat {family} to {to}"
            leads[target] = self._chain("endpoint", rest, *rules)
        chains = {}
        for kind, name, targets in (("c", "keep", cluster), ("l", "keep-local", local)):
            if targets:
                again = [f"{family} saddr @{kept[each]} goto {leads[each]}" for each in dict.fromkeys(targets)]
                drawn = ", ".join(f"{slot} : goto {leads[each]}" for slot, each in enumerate(targets))
                draw = f"numgen random mod {len(targets)} vmap {{ {drawn} }}"
                # Just when the chain goes its map may be empty: a packet that is here then must not fall out.
                chains[kind] = self._chain(name, about, *again, draw, f"goto {leads[targets[0]]}")
        if "c" in chains:
            chains["x"] = self._chain("keep-outer", about, self._options.marked, f"goto {chains['c']}")
        return _Keeping(chains)

    def _chain(self, kind: str, rest: str, *rules: str) -> str:
        """A chain of the Service's own. Its name tells its rules: where these change it is another one."""
        name = _own_name(kind, self._served, rest, "\n".join(rules))
        self._chains[name] = Chain(rules)
        return name


class _Drawing:
    """A slot is drawn anew for each connection."""

    def __init__(
        self, elements: dict[str, dict[str, str]], shared: set[str], cluster: Sequence[Target], local: Sequence[Target]
    ) -> None:
        self._elements, self._shared = elements, shared
        self._targets = {"c": cluster, "l": local, "x": cluster}
        self._words = {id(each): [f"{one.address} . {one.port}" for one in each] for each in (cluster, local)}

    def has(self, kind: str) -> bool:
        return bool(self._targets[kind])

    def to(self, kind: str, key: str, *, node: bool = False) -> str:
        """The chain that leads to endpoints of a kind, which are written under the key."""
        targets = self._targets[kind]
        name = f"{'node-' if node else ''}{'local-' if kind == 'l' else ''}endpoints"
        elements = self._elements.setdefault(name, {})
        for slot, words in enumerate(self._words[id(targets)]):
            elements[f"{key} . {slot}"] = words
        prefix, number = "n" if node else "", len(targets)
        if kind == "x":
            self._shared.add(f"{prefix}c-{number}")
        chain = f"{prefix}{kind}-{number}"
        self._shared.add(chain)
        return chain


class _Keeping:
    """A client keeps its endpoint; chains of the Service's own lead there."""

    def __init__(self, chains: Mapping[str, str]) -> None:
        self._chains = chains

    def has(self, kind: str) -> bool:
        return kind in self._chains

    def to(self, kind: str, key: str, *, node: bool = False) -> str:  # noqa: ARG002 -- as `_Drawing` has it
        return self._chains[kind]


def _repeated(port: ServedPort) -> Iterable[Target]:
    if port.weights is None:
        return port.cluster
    return [each for each, number in zip(port.cluster, repeats(port.weights), strict=True) for _ in range(number)]


def _is_in(address: str, some: str) -> bool:
    try:
        return ip_address(address) in ip_network(some)
    except ValueError:
        return False


def _own_name(kind: str, served: Served, rest: str, content: str) -> str:
    """A name that no other has, and that says whose it is, as far as the kernel's 128 bytes allow."""
    whose = f"{served.namespace}/{served.name}/{rest}".rstrip("/").replace(":", ".")
    digest = hashlib.sha256(f"{whose}\n{content}".encode()).digest()
    return f"{kind}-{base64.b32encode(digest).decode()[:12]}-{whose}"[:120]
