"""A client that opens connections at a steady rate: ``python -m e2e.opening RATE ADDRESS PORT [ADDRESS PORT...]``.

It connects to the targets in turn, and prints a line for each connection: its start (monotonic seconds), its target,
and the address that answered, or ``!`` and the reason of the failure. A retransmission counts as a failure, because the
first packet was lost. It finishes open connections and exits when its standard input is closed.

On a machine that is too slow for the rate it leaves connections out: they would only wait for each other.
"""

import errno
import os
import selectors
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Final

_LIMIT: Final = 10.0
"""Seconds until a connection is established; the kernel retransmits after one."""
_ANSWER_LIMIT: Final = 50.0
"""Seconds until an established connection is answered: by a server that may have to wait for the CPU."""
_MOST_DUE: Final = 20
"""Connections that are opened at once after a delay."""
_MOST_OPEN: Final = 400
_SYN_SENT: Final = 2
"""``tcpi_state`` of ``struct tcp_info``, its first byte."""
_RESET: Final = struct.pack("ii", 1, 0)
_RETRANSMITTED: Final = struct.Struct("=100xI")
"""``tcpi_total_retrans`` of ``struct tcp_info``."""
_PAUSE: Final = 0.05


def main(rate: float, targets: list[tuple[str, int]]) -> None:
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    open_ones: dict[socket.socket, tuple[float, str]] = {}
    start, serial, opened, is_ending = time.monotonic(), 0, 0, False

    def is_over(asking: socket.socket, outcome: str) -> None:
        since, target = open_ones.pop(asking)
        with suppress(KeyError):
            selector.unregister(asking)
        with suppress(OSError):
            # Reset, so that the port can be used again at once.
            asking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        asking.close()
        sys.stdout.write(f"{since:.4f} {target} {outcome}\n")

    while open_ones or not is_ending:
        now = time.monotonic()
        serial = max(serial, int((now - start) * rate) - _MOST_DUE)
        while not is_ending and start + serial / rate <= now:
            serial += 1
            if len(open_ones) >= _MOST_OPEN:
                continue
            address, port = targets[opened % len(targets)]
            opened += 1
            asking = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
            asking.setblocking(False)
            open_ones[asking] = now, f"{address}|{port}"
            failed = asking.connect_ex((address, port))
            if failed not in (0, errno.EINPROGRESS):
                is_over(asking, _why(failed))
            else:
                selector.register(asking, selectors.EVENT_READ, asking)
        until = _PAUSE if is_ending else max(0.0, start + serial / rate - now)
        for key, _ in selector.select(until):
            if key.fileobj is sys.stdin:
                is_ending = True
                selector.unregister(sys.stdin)
            elif outcome := _outcome(asking := key.data):
                is_over(asking, outcome)
        now = time.monotonic()
        for asking in [pending for pending, (since, _) in open_ones.items() if _is_late(pending, now - since)]:
            is_over(asking, "!late")
        sys.stdout.flush()


def _outcome(asking: socket.socket) -> str:
    """Empty while the connection is open."""
    failed = asking.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if failed:
        return _why(failed)
    try:
        said = asking.recv(256)
    except BlockingIOError:
        return ""
    except OSError as error:
        return _why(error.errno or 0)
    if not said:
        return "!empty"
    (again,) = _RETRANSMITTED.unpack(asking.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RETRANSMITTED.size))
    return "!again" if again else said.decode().split()[0]


def _is_late(asking: socket.socket, age: float) -> bool:
    if age < _LIMIT:
        return False
    return age > _ANSWER_LIMIT or asking.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _SYN_SENT


def _why(code: int) -> str:
    return f"!{errno.errorcode.get(code, os.strerror(code))}"


if __name__ == "__main__":
    nodes = sys.argv[2:]
    main(float(sys.argv[1]), [(address, int(port)) for address, port in zip(nodes[::2], nodes[1::2], strict=True)])
