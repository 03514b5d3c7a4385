"""Whether a Pod may run on a Node, by ``nodeSelector`` and required node affinity, as the scheduler decides."""

from collections.abc import Iterable, Mapping

from zoneward.kube.objects import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm


def selects_node(node: Node, *, labels: Mapping[str, str] | None = None, required: NodeSelector | None = None) -> bool:
    """Whether a Node has all ``labels`` of a node selector and meets a term of the ``required`` affinity."""
    if not (labels or {}).items() <= (node.metadata.labels or {}).items():
        return False
    return required is None or any(_matches(term, node) for term in required.node_selector_terms or ())


def _matches(term: NodeSelectorTerm, node: Node) -> bool:
    """An empty term matches no node, as in the API."""
    fields, labels = {"metadata.name": node.metadata.name}, node.metadata.labels or {}
    return bool(term.match_expressions or term.match_fields) and (
        meets(term.match_expressions, labels) and meets(term.match_fields, fields)
    )


def meets(requirements: Iterable[NodeSelectorRequirement] | None, values: Mapping[str, str]) -> bool:
    """Whether labels meet all requirements of a term of a node selector, or of a ``LabelSelector``."""
    return all(_meets(requirement, values) for requirement in requirements or ())


def _meets(requirement: NodeSelectorRequirement, values: Mapping[str, str]) -> bool:
    value, allowed = values.get(requirement.key), requirement.values or ()
    match requirement.operator:
        case "In":
            return value is not None and value in allowed
        case "NotIn":
            return value is None or value not in allowed
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or len(allowed) != 1 or not (value.isdecimal() and allowed[0].isdecimal()):
                return False
            more = _compare(value, allowed[0])
            return more > 0 if requirement.operator == "Gt" else more < 0
        case _:
            return False


def _compare(one: str, other: str) -> int:
    """Compare decimal numbers of any length; Python refuses to parse thousands of digits."""
    one, other = one.lstrip("0"), other.lstrip("0")
    return (len(one), one) > (len(other), other) or -((len(one), one) < (len(other), other))
