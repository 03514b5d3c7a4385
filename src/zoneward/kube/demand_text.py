"""The annotation ``zoneward.dev/demand`` of a Service: the parts of zones in its traffic, where it starts."""

import re
from fractions import Fraction
from typing import Final

from zoneward.kube.formats import label_value_problems

DEMAND_EXPECTED: Final = "a part of the traffic for each zone, not all 0 (a=0.5,b=0.3,c=0.2)"
_PART: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?%?", re.ASCII)
_LONGEST: Final = 4096
"""Characters: enough for some fifty zones with the longest names."""


def parse_demand(text: str) -> dict[str, Fraction] | None:
    """The parts of zones in ``a=0.5,b=0.3``, or in percent; None for anything that is not `DEMAND_EXPECTED`.

    Only their ratios matter.
    """
    parts: dict[str, Fraction] = {}
    for item in text.split(",") if len(text) <= _LONGEST else ():
        zone, equals, part = (word.strip() for word in item.partition("="))
        if not equals or not zone or zone in parts or any(label_value_problems(zone)) or not _PART.fullmatch(part):
            return None
        parts[zone] = Fraction(part.removesuffix("%")) / (100 if part.endswith("%") else 1)
    return parts if any(parts.values()) else None
