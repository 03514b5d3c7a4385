"""Checks which endpoints answer at an address, and how often."""

from collections.abc import Mapping
from math import exp, log
from typing import Final

import pytest
from e2e.nodes import Namespace

_EACH: Final = 50
"""Draws for each endpoint, beyond what is needed to meet all of them."""
_LOST: Final = 0.3
"""Seconds without an answer after which there will be none."""
FALSE_ALARM: Final = 1e-10
"""Of one comparison. A suite makes some thousands: all together fail at random less than once in a million runs."""


def chance(counts: Mapping[str, int], shares: Mapping[str, float]) -> float:
    """At most the chance that counts differ from their shares as much as these, or more.

    They are measured by the likelihood-ratio chi-square, of which this bound holds for any number of draws, however
    small: R. Agrawal, Finite-sample concentration of the multinomial in relative entropy (2020), theorem I.2. The
    usual distribution is near only where there are many, and least so out where the bound of a test lies.
    """
    total, freedom = sum(counts.values()), len(shares) - 1
    whole = sum(shares.values())
    differing = sum(count * log(count / (total * shares[key] / whole)) for key, count in counts.items() if count)
    if differing <= freedom:
        return 1.0
    return exp(freedom * (1 + log(differing / freedom)) - differing) if freedom else 0.0


def draws_for(shares: Mapping[str, float]) -> int:
    """The number of draws that miss one of these with a probability below the false alarm."""
    least = min(shares.values()) / sum(shares.values())
    return 1 if least == 1 else round(log(FALSE_ALARM / len(shares)) / log(1 - least)) + 1


def check_spread(
    client: Namespace,
    address: str,
    port: int,
    *,
    shares: Mapping[str, float],
    refused: bool = False,
    protocol: str = "tcp",
    source: str | None = None,
    draws: int = 0,
) -> None:
    """``shares`` by address. Where there are none, a client is refused at once, or gets no answer at all.

    Raises AssertionError.
    """
    what = f"{protocol} to {address} port {port}"
    if not shares:
        with pytest.raises(ConnectionRefusedError if refused else TimeoutError):
            client.ask(address, port, protocol=protocol, source=source, limit=30.0 if refused else _LOST)
        return
    times = max(draws, draws_for(shares), _EACH * len(shares))
    counts = client.tally(address, port, times=times, protocol=protocol, source=source)
    assert counts.keys() == shares.keys(), f"{what}: {counts} for {dict(shares)}"
    assert chance(counts, shares) > FALSE_ALARM, f"{what}: {counts} for {dict(shares)}"
