"""Selectors: of labels, as ``kubectl -l`` writes them, and of the Nodes on which a Pod may run.

Grammar and errors of label selectors are those of ``k8s.io/apimachinery/pkg/labels`` (v1.37).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from zoneward.kube.formats import label_value_problems, qualified_name_problems, quoted
from zoneward.kube.objects import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

_TOKEN: Final = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+|$)")
_SPECIAL: Final = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">", ""})
_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")


class SelectorError(ValueError):
    """Invalid text. ``problem`` is upstream's message."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(f"expected key=value, key!=value, key in (a,b), key or !key, got {text!r}")
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on a label; without values, on its presence. ``wanted`` is False for ``!=``, ``notin``, ``!key``."""

    key: str
    values: frozenset[str] | None
    wanted: bool
    limit: tuple[Literal["<", ">"], int] | None = None
    """For ``key<5`` and ``key>5``: only labels that are integers match."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.limit is not None:
            value = labels.get(self.key, "")
            if not _INTEGER.fullmatch(value):
                return False
            operator, limit = self.limit
            return int(value) < limit if operator == "<" else int(value) > limit
        if self.values is None:
            return (self.key in labels) is self.wanted
        return (labels.get(self.key) in self.values) is self.wanted


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements that all have to hold."""

    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        return all(requirement.matches(labels or {}) for requirement in self.requirements)


def parse_selector(text: str) -> LabelSelector:
    """Parse ``app=web,tier!=cache,zone in (a,b),!legacy``. Raises SelectorError."""
    try:
        return LabelSelector(tuple(_Parser(text).requirements()))
    except _Problem as problem:
        raise SelectorError(text, str(problem)) from None


class _Problem(Exception):  # noqa: N818 -- becomes an error once the whole text is known
    pass


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._next = 0

    def requirements(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while self._ahead():
            if self._ahead() in _SPECIAL - {"!"}:
                raise _Problem(f"found '{self._ahead()}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except _Problem as problem:
                raise _Problem(f"unable to parse requirement: {problem}") from None
            token = self._take()
            if token not in (",", ""):
                raise _Problem(f"found '{token}', expected: ',' or 'end of string'")
            if token == "," and self._ahead() in _SPECIAL - {"!"}:
                raise _Problem(f"found '{self._ahead()}', expected: identifier after ','")
        return requirements

    def _requirement(self) -> Requirement:
        is_absent = self._ahead() == "!"
        if is_absent:
            self._take()
        key = self._identifier("expected: identifier")
        if problems := "; ".join(qualified_name_problems(key)):
            raise _Problem(f"<nil>: Invalid value: {quoted(key)}: {problems}")
        if is_absent:
            return Requirement(key, None, wanted=False)
        if self._ahead() in (",", ""):
            return Requirement(key, None, wanted=True)
        operator = self._take()
        match operator:
            case "in" | "notin":
                values = self._values()
            case "=" | "==" | "!=" | "<" | ">":
                values = [self._value()]
            case _:
                raise _Problem(f"found '{operator}', expected: {_OPERATORS}")
        if operator in ("<", ">") and not _INTEGER.fullmatch(values[0]):
            rule = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise _Problem(f"values[0]: Invalid value: {quoted(values[0])}: {rule}")
        for index, value in enumerate(sorted(set(values))):
            if problems := "; ".join(label_value_problems(value)):
                raise _Problem(f"values[{index}][{key}]: Invalid value: {quoted(value)}: {problems}")
        if operator in ("<", ">"):
            return Requirement(key, None, wanted=True, limit=("<" if operator == "<" else ">", int(values[0])))
        return Requirement(key, frozenset(values), wanted=operator in ("in", "=", "=="))

    def _values(self) -> list[str]:
        """``(a, b)``; nothing between two commas is the empty value."""
        if (token := self._take()) != "(":
            raise _Problem(f"found '{token}' expected: '('")
        if self._ahead() == ")":
            self._take()
            # Upstream refuses an empty set.
            raise _Problem("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
        if self._ahead() in _SPECIAL - {","}:
            raise _Problem(f"found '{self._ahead()}', expected: ',', ')' or identifier")
        values = []
        while True:
            values.append("" if self._ahead() in (",", ")") else self._identifier("expected: ',', or identifier"))
            match self._take():
                case ")":
                    return values
                case ",":
                    continue
                case token:
                    raise _Problem(f"found '{token}', expected: ',' or ')'")

    def _value(self) -> str:
        return "" if self._ahead() in (",", "") else self._identifier("expected: identifier")

    def _identifier(self, expected: str) -> str:
        token = self._take()
        if token in _SPECIAL:
            raise _Problem(f"found '{token}', {expected}")
        return token

    def _ahead(self) -> str:
        return str(self._tokens[self._next]) if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._ahead()
        self._next += 1
        return token


# --- node selectors ---------------------------------------------------------------------------------------------------


def selects_node(node: Node, *, labels: Mapping[str, str] | None = None, required: NodeSelector | None = None) -> bool:
    """Whether a Node has all ``labels`` of a node selector and meets a term of the ``required`` affinity, as the
    scheduler decides."""
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
