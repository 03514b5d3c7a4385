"""Phrases for messages: counts, lists and shares in plain English."""

from fractions import Fraction


def counted(count: int, noun: str) -> str:
    """``1 endpoint``, ``2 endpoints``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(names: tuple[str, ...], most: int = 3, *, count: int | None = None) -> str:
    """``a, b, c and 4 more``. ``count`` counts all names where ``names`` holds only the first ones."""
    count = len(names) if count is None else count
    if count <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {count - most} more"


def describe_without(names: tuple[str, ...], noun: str, what: str, *, count: int | None = None) -> str:
    """``2 nodes without zone label (n1, n2)``; empty where there are none. ``count`` is as for `listed`."""
    count = len(names) if count is None else count
    return f"{counted(count, noun)} without {what} ({listed(names, count=count)})" if names else ""


def format_percent(share: Fraction) -> str:
    # Not of a product of fractions: nearly every rule says a few shares.
    return f"{share.numerator * 100 / share.denominator:.3g} %"
