"""The kernel's tables as ``nft`` prints them, in a form in which two can be compared.

The slot of an endpoint in its Service depends on history, so only the endpoints and their number are compared. Entries
that the kernel adds (connections, clients with affinity) and numbers of rules are ignored.
"""

import json
import re
import subprocess
from collections import Counter
from typing import Any, Final

from e2e.nodes import Namespace

TABLE: Final = "zoneward"
State = dict[str, Any]
_DIGEST: Final = re.compile(r"-[A-Z2-7]{12}-")
"""In names of sets and chains of a Service with affinity; it depends on the order of endpoints."""


def rules_there(namespace: Namespace) -> State:
    """By ``family kind name``; empty where there is no table."""
    state: State = {}
    for family in ("ip", "ip6"):
        try:
            listed = namespace.run("nft", "--json", "list", "table", family, TABLE)
        except subprocess.CalledProcessError:
            continue
        state |= _state(family, json.loads(_DIGEST.sub("-", listed))["nftables"])
    return state


def rules_of(text: str) -> State:
    """The rules after loading ``text`` into an empty kernel. Raises CalledProcessError if nft rejects it."""
    empty = Namespace()
    try:
        empty.run("nft", "-f", "-", text=text)
        return rules_there(empty)
    finally:
        empty.close()


def difference(state: State, wanted: State) -> list[str]:
    """A line for each difference."""
    tables = []
    for name in sorted(state.keys() | wanted.keys()):
        one, other = state.get(name), wanted.get(name)
        if one == other:
            continue
        if isinstance(one, Counter) and isinstance(other, Counter):
            tables.append(f"{name}: {sorted((one - other).elements())} not {sorted((other - one).elements())}")
        else:
            tables.append(f"{name}: {one} not {other}")
    return tables


def _state(family: str, listed: list[dict[str, Any]]) -> State:
    state: State = {}
    for entry in listed:
        ((kind, value),) = entry.items()
        if kind == "metainfo":
            continue
        value = {key: field for key, field in value.items() if key not in ("handle", "family", "table")}
        if kind == "rule":
            chain, rule = value["chain"], value["expr"]
            is_kept = chain.startswith("keep-")
            rules = state.setdefault(f"{family} rules {chain}", Counter() if is_kept else [])
            rules.update([_unordered(rule)]) if is_kept else rules.append(json.dumps(rule))
            continue
        name = f"{family} {kind} {value['name']}"
        elements = value.pop("elem", [])
        state[name] = value
        if "timeout" not in value.get("flags", ()):
            state[f"{name} elements"] = _elements(value["name"], elements)
    return state


def _unordered(rule: list[Any]) -> str:
    """A rule for clients with affinity."""
    if "vmap" in rule[0]:
        return json.dumps(sorted(json.dumps(target) for _, target in rule[0]["vmap"]["data"]["set"]))
    # The target of clients of a removed endpoint.
    return "to one of them" if list(rule[0]) == ["goto"] else json.dumps(rule)


def _elements(name: str, elements: list[Any]) -> Counter[str]:
    if not name.endswith("endpoints"):
        return Counter(json.dumps(element) for element in elements)
    counts: Counter[str] = Counter()
    for key, value in elements:
        *prefix, _ = key["concat"]
        counts[json.dumps([prefix, value["concat"]])] += 1
    return counts
