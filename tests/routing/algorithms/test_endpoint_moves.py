"""Where KEP-2004's algorithms take a shorter way, it ends where the long one does: with the same ties and doubles."""

import math
from itertools import product
from random import Random

from zoneward.routing.algorithms.endpoint_moves import lacking_endpoints, min_endpoints_below, spare_endpoints, surplus
from zoneward.routing.algorithms.zone_heaps import GIVERS, RECEIVERS, pop, push, push_and_pop


def test_push_and_pop_leaves_what_push_and_then_pop_leave() -> None:
    """Also among equals, and where keys changed while zones waited: whatever stands in the heap is sifted as it is."""
    for order, size in product((GIVERS, RECEIVERS), range(5)):
        for keys in product((1.0, 2.0, 3.0), repeat=size + 1):
            count = [2] * (size + 1)
            one, other = [*range(size), 7], [*range(size), 7]
            push(order, one, 0, size, size, keys, count)
            first = pop(order, one, 0, size + 1, keys, count)
            assert push_and_pop(order, other, 0, size, size, keys, count) == first
            assert other[:size] == one[:size], (order, keys)


def doubles() -> list[float]:
    """What may be expected: whole numbers, their neighbours among doubles, multiples of one and a half, anything."""
    random = Random(2004)
    whole = [float(number) for number in range(60)] + [1.5 * number for number in range(60)]
    near = [math.nextafter(each, towards) for each in whole if each for towards in (0.0, math.inf)]
    return [*whole, *near, 1e-17, 1e-300, *(random.uniform(0, 100) for _ in range(500))]


def test_the_fewest_below_is_where_the_overload_falls_below() -> None:
    for expected, limit in product(doubles(), (0.5, 0.2, 1 / 3, 0.0, 3.0, 1000.0)):
        number = min_endpoints_below(limit, expected)
        assert number >= 1
        assert expected / number - 1 < limit
        assert number == 1 or expected / (number - 1) - 1 >= limit, (expected, limit)


def test_what_a_zone_can_spare_or_lacks_is_counted_as_if_one_after_the_other() -> None:
    for expected, had in product(doubles(), (0, 1, 2, 3, 40, 100)):
        count = [had]
        while surplus(0, 1, [expected], count) >= 1:
            count[0] -= 1
        assert max(0, spare_endpoints(0, 1, [expected], [had])) == had - count[0], (expected, had)
        count = [had]
        while surplus(0, 1, [expected], count) <= -1:
            count[0] += 1
        assert max(0, lacking_endpoints(0, 1, [expected], [had])) == count[0] - had, (expected, had)
