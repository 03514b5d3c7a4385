"""Which kind of proxy runs on each node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zoneward.advice.proxy_kinds import ProxyKind
from zoneward.kube.objects import Node
from zoneward.routing.selection.endpoint_selection import Consumer


@dataclass(frozen=True, slots=True)
class NodeProxies:
    """The kind of proxy on every node of the cluster, by the node's name, and what says so.

    ``default`` is the kind for a node that is not known. ``notes`` are lines to be shown: what could not be read, and
    where that led to a guess.
    """

    kind_of: Mapping[str, ProxyKind]
    evidence: Mapping[str, str]
    default: ProxyKind
    notes: tuple[str, ...] = ()

    def on(self, node: str) -> ProxyKind:
        return self.kind_of.get(node, self.default)

    @property
    def consumer_by_node(self) -> dict[str, Consumer]:
        """The consumers of nodes that differ from the ``default`` one."""
        return {node: kind.consumer for node, kind in self.kind_of.items() if kind.consumer != self.default.consumer}


def same_proxy_everywhere(nodes: Iterable[Node], kind: ProxyKind, *, evidence: str = "--proxy") -> NodeProxies:
    """One kind on all nodes, whatever runs there."""
    names = [node.metadata.name for node in nodes]
    return NodeProxies(dict.fromkeys(names, kind), dict.fromkeys(names, evidence), kind)
