"""Sockets that notice by themselves when nobody is at the other end any more.

A machine or a balancer that dies, or a firewall that forgets, closes no connection. Whoever only reads, as a watch
does, would wait for as long as a watch may last. The system asks the other end instead, which costs an empty packet in
15 s of silence, and ends the connection when nothing comes back, whether or not something was sent.
"""

import socket
from typing import Final

SILENCE: Final = 15
"""Seconds until the other end is asked whether it is there."""
INTERVAL: Final = 5
"""Seconds between two such questions."""
QUESTIONS: Final = 3
UNANSWERED: Final = SILENCE + INTERVAL * QUESTIONS
"""Seconds until a connection is given up whose other end answers nothing."""
_OPTIONS: Final = (
    ("TCP_KEEPIDLE", SILENCE),
    ("TCP_KEEPINTVL", INTERVAL),
    ("TCP_KEEPCNT", QUESTIONS),
    ("TCP_USER_TIMEOUT", UNANSWERED * 1000),
)
"""As Linux calls them. Where the platform has not got one, its own times hold."""


def open_socket(address: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """A socket for an address as ``socket.getaddrinfo`` gives it, not connected yet."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        option = getattr(socket, name, None)
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
