"""Whether a change of one Node changes demand: Nodes say that they live every few seconds, and it hardly ever does."""

from fractions import Fraction

from zoneward.kube.objects import Node, node_zone
from zoneward.routing.demand.demand import allocatable_cpu, counts


def changes_demand(old: Node | None, new: Node | None) -> bool:
    """Whether `demand_of` may come to something else. None stands for a Node that is not there yet, or is gone."""
    return _seen(old) != _seen(new)


def _seen(node: Node | None) -> tuple[str | None, Fraction] | None:
    """All that demand reads of a Node beside its name; None for one that does not count."""
    return (node_zone(node), allocatable_cpu(node)) if node is not None and counts(node) else None
