"""Ports of loopback, for servers that get their port as an argument."""

import socket
from contextlib import suppress
from random import SystemRandom
from typing import Final

_BELOW_EPHEMERAL: Final = range(20_000, 30_000)
"""The kernel gives none of these to a client: not before a server listens, and not while it is down."""
_NEVER_GIVEN: Final = iter(SystemRandom().sample(_BELOW_EPHEMERAL, len(_BELOW_EPHEMERAL)))
"""Each is used once: a killed server starts again at its port, which no other server of this process may use."""
_RESERVED: Final[list[socket.socket]] = []
"""A socket without a file for each port, which the kernel closes with this process. Until then no other process of
tests gets the port, even where its server has yet to start, or is down."""


def free_port() -> int:
    """Another one each time."""
    for port in _NEVER_GIVEN:
        reservation = socket.socket(socket.AF_UNIX)
        with socket.socket() as tried, suppress(OSError):
            reservation.bind(f"\0zoneward-port-{port}")
            tried.bind(("127.0.0.1", port))
            _RESERVED.append(reservation)
            return port
        reservation.close()
    raise AssertionError("no port is free")
