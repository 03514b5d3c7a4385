"""Thresholds: overload (KEP-2433 § Overload), the start of subsetting (KEP-2004), and the in-zone tolerance."""

from fractions import Fraction

import pytest

from zoneward.routing.allocation import Allocation
from zoneward.routing.configuration import HintsSettings
from zoneward.routing.placement.groups import ZoneGroup, own_group
from zoneward.routing.thresholds import endpoints_needed, has_enough_endpoints, lost_in_zone, overload_threshold

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


def test_hints_in_force_are_kept_below_the_higher_threshold_and_others_start_below_the_lower() -> None:
    settings = HintsSettings(start_threshold=Fraction(1, 10), keep_threshold=Fraction(1, 2))
    assert overload_threshold(settings, kept=True) == Fraction(1, 2)
    assert overload_threshold(settings, kept=False) == Fraction(1, 10)


@pytest.mark.parametrize(
    ("padding", "starts", "stops"), [(3, range(12, 16), range(3, 7)), (0, range(9, 13), range(5, 9))], ids=["3", "none"]
)
def test_subsetting_starts_and_stops_a_padding_apart(padding: int, starts: range, stops: range) -> None:
    """KEP-2004's example: with 9 it starts at 12 and stops at 6; without padding it does not stop where it starts."""

    def enough(number: int, *, kept: bool) -> bool:
        needed = endpoints_needed(Fraction(3), padding, 3, kept=kept)
        return has_enough_endpoints(number, needed, padding, kept=kept)

    assert all(enough(number, kept=False) for number in starts)
    assert not enough(starts[0] - 1, kept=False)
    assert not any(enough(number, kept=True) for number in stops)
    assert enough(stops[-1] + 1, kept=True)
