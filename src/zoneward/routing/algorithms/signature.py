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

A zone's traffic is sent to a group g in proportion to ``n_g * w_g``, and evenly to the endpoints in it; a zone that
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


_PARTS: Final = 32


def max_groups(zones: int) -> int:
    """Groups of the largest allocation: the own group of each zone, one more for each, and two that many share."""
    return 2 * zones + 2


def scratch_length(zones: int) -> int:
    """Integers for the algorithm with the largest need: ``Balanced``, which tries many sets."""
    return _PARTS * _part_length(zones)


def reals_length(zones: int) -> int:
    """Real numbers for the algorithm with the largest need."""
    return scratch_length(zones)


def part(index: int, zones: int) -> slice:
    """One of 32 parts of ``scratch`` or ``reals``, with a value for each group and zone, and 72 more.

    Such a slice is a view of an array of numpy, and a copy of a part of a list: take each part once.
    """
    start = index * _part_length(zones)
    return slice(start, start + _part_length(zones))


def _part_length(zones: int) -> int:
    return max_groups(zones) * zones + 72
