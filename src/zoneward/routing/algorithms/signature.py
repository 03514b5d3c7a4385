"""What every algorithm takes and returns.

An algorithm is one function over small flat arrays, for n zones in name order. It allocates groups of endpoints: first
the n own groups, one for each zone, then groups that several zones consume. A group may be empty.

``demand[n]``
    weight of each zone (milli-CPU or nodes), an integer; 0 for a zone that only has endpoints.
``supply[n]``
    ready endpoints located in each zone.
``parameters``
    integers; first the threshold that overload must stay below, as numerator and denominator. The algorithm defines the
    others.
``previous[n * n]``
    at ``group * n + located``: endpoints that were in one of the own groups before and still exist.
``composition[max_groups(n) * n]``
    the result, in the same layout, which the function writes; it starts full of zeros.
``weights[max_groups(n) * n]``
    the other half of the result, at ``group * n + consumer``: how much of a zone's traffic an endpoint of the group
    gets, beside those of the other groups that the zone consumes; 0 where it consumes none. It starts full of zeros.
``scratch``, ``reals``
    room for `scratch_length` integers and `reals_length` real numbers, so that the function allocates nothing.

It returns the number of groups, or `IMPOSSIBLE` when no allocation may be made. The functions only index their arrays
and use no dictionary, object or string, so that lists serve as well as numpy arrays, and numba can compile them
(`zoneward.routing.numba_compiler`).

A zone's traffic goes to a group g in proportion to ``n_g * w_g``, and evenly to the endpoints in it; a zone that
consumes only its own group, with weight 1, sends all its traffic there.
"""

from collections.abc import Callable, MutableSequence, Sequence
from typing import Final

IMPOSSIBLE: Final = -1
"""No allocation may be made. Every other result is the number of groups of the allocation."""

IntegerSequence = Sequence[int]
AllocateFunction = Callable[
    [
        IntegerSequence,
        IntegerSequence,
        IntegerSequence,
        IntegerSequence,
        MutableSequence[int],
        MutableSequence[float],
        MutableSequence[int],
        MutableSequence[float],
    ],
    int,
]
"""(demand, supply, parameters, previous, composition, weights, scratch, reals) -> number of groups, or IMPOSSIBLE."""


def max_groups(zones: int) -> int:
    """Groups that the largest allocation has: one of each zone's own, one more for each, and two that many share."""
    return 2 * zones + 2


def scratch_length(zones: int) -> int:
    """Integers that the algorithm with the largest need has room for: ``Balanced``, which tries many sets."""
    return sorted_input_at(zones) + zones * (zones + 3) + 5 + max_groups(zones) * zones


def sorted_input_at(zones: int) -> int:
    """Where the integers end that searches use, and those begin in which ``Balanced`` sorts its input."""
    return 32 + 24 * zones + max_groups(zones) * (zones + 4)


def reals_length(zones: int) -> int:
    """Real numbers that the algorithm with the largest need has room for."""
    return sorted_weights_at(zones) + max_groups(zones) * zones


def sorted_weights_at(zones: int) -> int:
    """Where the real numbers end that searches use."""
    return 96 + 16 * zones + max_groups(zones) * (zones + 4)
