"""Who answers at an address, by how often: exactly those who should, spread as they should be."""

from collections.abc import Mapping

import pytest
from e2e.chances import FALSE_ALARM, chance, draws_for
from e2e.nodes import Namespace

_EACH = 50
"""Draws for each endpoint, beyond what is needed to meet all of them."""
_LOST = 0.3
"""Seconds without an answer after which there will be none."""


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
    found = client.tally(address, port, times=times, protocol=protocol, source=source)
    assert found.keys() == shares.keys(), f"{what}: {found} for {dict(shares)}"
    assert chance(found, shares) > FALSE_ALARM, f"{what}: {found} for {dict(shares)}"
