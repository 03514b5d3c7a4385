"""Whether nobody else writes what is ours, as a check of `zoneward.daemon.health`."""

from collections.abc import Collection
from typing import Final

from zoneward.daemon.health import Check
from zoneward.kube.objects import ObjectKey

_NAMED: Final = 3
"""Services that a sentence names; it says how many more there are."""


def alone(contested: Collection[ObjectKey]) -> Check:
    """A check that no other controller writes slices of our Services. ``contested`` is looked at each time."""

    def check() -> str | None:
        if not contested:
            return None
        first = ", ".join("/".join(key) for key in sorted(contested)[:_NAMED])
        more = f" and {len(contested) - _NAMED} more" if len(contested) > _NAMED else ""
        return f"the built-in controller writes slices of {first}{more}"

    return check
