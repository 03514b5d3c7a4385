"""The list of rules that a decision asked, in order, each with its numbers. There is no other explanation anywhere."""

import msgspec


class Rule(msgspec.Struct, frozen=True, gc=False):
    """One question, its answer, and the numbers behind it.

    ``rule`` is a stable name in kebab case, ``passed`` says whether the way went on from here, ``detail`` is a phrase
    for a person.
    """

    rule: str
    passed: bool
    detail: str


class Rules:
    """A list of rules in the making. It belongs to one decision; what leaves is a tuple."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked: list[Rule] = []

    def ask(self, rule: str, passed: bool, detail: str) -> bool:
        """Write down a rule with its answer, and return the answer."""
        self._asked.append(Rule(rule, passed, detail))
        return passed

    def as_tuple(self) -> tuple[Rule, ...]:
        return tuple(self._asked)


def counted(number: int, noun: str) -> str:
    """``1 endpoint``, ``2 endpoints``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: tuple[str, ...], most: int = 3, *, number: int | None = None) -> str:
    """``a, b, c and 4 more``. ``number``: of all names, where the first few are given."""
    number = len(names) if number is None else number
    if number <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {number - most} more"
