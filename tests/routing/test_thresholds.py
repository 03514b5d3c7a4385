"""Thresholds: overload (KEP-2433 § Overload), the start of subsetting (KEP-2004), and the in-zone tolerance."""

from fractions import Fraction

import pytest

from zoneward.routing.allocation import Allocation
from zoneward.routing.placement.groups import ZoneGroup, own_group
from zoneward.routing.thresholds import lost_in_zone

ZONES = ("a", "b")
OWN = tuple(map(own_group, ZONES))
AT_HOME = Allocation(ZONES, OWN, (4, 0, 0, 4))
"""By group, then by where the endpoints are."""


@pytest.mark.parametrize(
    ("kept", "demand", "lost"),
    [
        pytest.param(AT_HOME, (1, 1), Fraction(0), id="the-same"),
        pytest.param(Allocation(ZONES, OWN, (3, 1, 1, 3)), (1, 1), Fraction(1, 4), id="one-of-four-each"),
        pytest.param(Allocation(ZONES, OWN, (4, 1, 0, 3)), (3, 1), Fraction(3, 4) / 5, id="by-demand"),
        pytest.param(
            Allocation(ZONES, (*OWN, ZoneGroup(ZONES, (1.0, 1.0))), (0, 0, 0, 0, 4, 4)),
            (1, 1),
            Fraction(1, 2),
            id="shared",
        ),
    ],
)
def test_the_loss_is_a_share_of_all_traffic(kept: Allocation, demand: tuple[int, int], lost: Fraction) -> None:
    assert lost_in_zone(kept, AT_HOME, demand) == pytest.approx(float(lost))


def test_an_allocation_that_keeps_more_loses_nothing() -> None:
    assert lost_in_zone(AT_HOME, Allocation(ZONES, OWN, (3, 1, 1, 3)), (1, 1)) == 0
