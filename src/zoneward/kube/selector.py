"""Label selectors as ``kubectl -l`` takes them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_KEY: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_REQUIREMENT: Final = re.compile(
    rf"\s*(?:(?P<key>{_KEY})\s*(?P<operator>==|=|!=)\s*(?P<value>[A-Za-z0-9._-]*)"
    rf"|(?P<set_key>{_KEY})\s+(?P<set_operator>in|notin)\s*\((?P<values>[^()]*)\)"
    rf"|(?P<absent>!)?\s*(?P<present>{_KEY}))\s*(?:,|$)"
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a label. ``wanted`` is False for ``!=``, ``notin`` and ``!key``; no values: presence alone."""

    key: str
    values: frozenset[str] | None
    wanted: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
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
    """Parse ``app=web,tier!=cache,zone in (a,b),!legacy``. Raises ValueError, with what was expected."""
    requirements = []
    position = 0
    while position < len(text):
        match = _REQUIREMENT.match(text, position)
        if match is None:
            raise ValueError(f"expected key=value, key!=value, key in (a,b), key or !key, got {text[position:]!r}")
        position = match.end()
        if match["key"] is not None:
            requirements.append(Requirement(match["key"], frozenset((match["value"],)), match["operator"] != "!="))
        elif match["set_key"] is not None:
            values = frozenset(value.strip() for value in match["values"].split(","))
            requirements.append(Requirement(match["set_key"], values, match["set_operator"] == "in"))
        else:
            requirements.append(Requirement(match["present"], None, match["absent"] is None))
    return LabelSelector(tuple(requirements))
