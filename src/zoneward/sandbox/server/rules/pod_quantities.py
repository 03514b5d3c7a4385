"""Amounts of resources, as an API server stores them: not finer than a thousandth."""

from fractions import Fraction
from functools import lru_cache
from math import ceil

from zoneward.kube import quantity
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.schema.scalars import canonical_quantity


def round_up(resources: Object, part: str) -> None:
    """The ``limits``, ``requests`` or other ``part`` of resources, which are spelt well; with a copy."""
    amounts = resources.get(part)
    if amounts:
        rounded = {name: _rounded(written) for name, written in amounts.items()}
        if rounded != amounts:
            resources[part] = rounded


@lru_cache(maxsize=8192)
def _rounded(written: str) -> str:
    amount = quantity.parse(written)
    if (amount * 1000).denominator == 1:
        return written
    return canonical_quantity(f"{ceil(amount * 1000)}e-3") if "e-" in written else spelt(amount)


def spelt(amount: Fraction, *, is_binary: bool = False) -> str:
    """``is_binary``: with a suffix such as ``Mi``, where that is possible."""
    thousandths = ceil(amount * 1000)
    if is_binary and thousandths % 1_024_000 == 0:
        return canonical_quantity(f"{thousandths // 1_024_000}Ki")
    return canonical_quantity(f"{thousandths}m")
