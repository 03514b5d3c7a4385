"""How likely counts are that should be spread by certain shares."""

from collections.abc import Mapping
from math import exp, log
from typing import Final

FALSE_ALARM: Final = 1e-10
"""Of one comparison. A suite makes some thousands: all together fail by chance less than once in a million runs."""


def chance(counts: Mapping[str, int], shares: Mapping[str, float]) -> float:
    """At most the chance that counts differ from their shares as much as these, or more.

    They are measured by the likelihood-ratio chi-square, of which this bound holds for any number of draws, however
    small: R. Agrawal, Finite-sample concentration of the multinomial in relative entropy (2020), theorem I.2. The
    usual distribution is near only where there are many, and least so out where the bound of a test lies.
    """
    total, freedom = sum(counts.values()), len(shares) - 1
    whole = sum(shares.values())
    differing = sum(number * log(number / (total * shares[each] / whole)) for each, number in counts.items() if number)
    if differing <= freedom:
        return 1.0
    return exp(freedom * (1 + log(differing / freedom)) - differing) if freedom else 0.0


def draws_for(shares: Mapping[str, float]) -> int:
    """How many draws leave out none of these, but by a chance below the false alarm."""
    least = min(shares.values()) / sum(shares.values())
    return 1 if least == 1 else round(log(FALSE_ALARM / len(shares)) / log(1 - least)) + 1
