"""Numbers that a Service sets for itself, in annotations, in place of the configured ones."""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from zoneward.kube.objects import Service

_SHOWN: Final = 40
"""Characters of a value in messages: an annotation may have 256 KiB, and a condition has 32."""
_SHARE: Final = re.compile(r"(?P<number>[0-9]{1,5}(\.[0-9]{1,6})?)(?P<percent>%?)")
SHARE_EXPECTED: Final = "a share above 0, at most 1 (0.2), or a percentage above 0%, at most 10000% (20%)"


def quoted(value: str) -> str:
    """A value for messages: on one line, in quotes, and not too long."""
    return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")


def share_of(text: str) -> Fraction | None:
    """A share written as ``0.2`` or as ``20%``; None for anything that is not `SHARE_EXPECTED`.

    ``20`` would be a share of 2000 % and was meant as 20 %: above 1 the sign is required.
    """
    found = _SHARE.fullmatch(text)
    if found is None:
        return None
    share = Fraction(found["number"]) / (100 if found["percent"] else 1)
    return share if 0 < share <= (100 if found["percent"] else 1) else None


def own_value(
    service: Service,
    annotation: str,
    *,
    ask: Callable[[bool, str], bool],
    parse: Callable[[str], Fraction | None],
    expected: str,
    configured: Fraction,
) -> tuple[Fraction, str | None]:
    """The value that counts, and what is wrong with the Service's own; the rule is only asked where it has one."""
    text = (service.metadata.annotations or {}).get(annotation)
    if text is None:
        return configured, None
    value = parse(text)
    setting = f"{annotation}: {quoted(text)}"
    wrong = f"{setting} is not {expected}, so {float(configured):g} is used"
    if ask(value is not None, wrong if value is None else setting):
        assert value is not None
        return value, None
    return configured, wrong
