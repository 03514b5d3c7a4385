"""Ports of loopback, for servers that get their port as an argument."""

import socket
from contextlib import suppress
from random import SystemRandom
from typing import Final

_BELOW_EPHEMERAL: Final = range(20_000, 30_000)
"""The kernel gives none of these to a client: not before a server listens, and not while it is down."""
_NEVER_GIVEN: Final = iter(SystemRandom().sample(_BELOW_EPHEMERAL, len(_BELOW_EPHEMERAL)))
"""Each is used once: a killed server starts again at its port, which no other server of this process may use."""


def free_port() -> int:
    """Another one each time."""
    for port in _NEVER_GIVEN:
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
