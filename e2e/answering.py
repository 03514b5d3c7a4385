"""A server that answers with its name: ``python -m e2e.answering PORT...``, on every address of its network namespace.

It answers each connection and each datagram with its destination and source: ``10.1.0.5 8080 192.0.2.1 40213``. It
prints a line when it listens, and exits when its standard input is closed.
"""

import selectors
import socket
import struct
import sys
from contextlib import suppress

_BACKLOG = 4096
_IN_PKTINFO, _IN6_PKTINFO = struct.Struct("=I4s4s"), struct.Struct("=16sI")
_MOST_OPEN = 512


def main(ports: list[int]) -> None:
    selector = selectors.DefaultSelector()
    for family in (socket.AF_INET, socket.AF_INET6):
        for port in ports:
            for kind, answer in ((socket.SOCK_STREAM, _by_connection), (socket.SOCK_DGRAM, _by_datagram)):
                selector.register(_listening(family, kind, port), selectors.EVENT_READ, answer)
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    while True:
        for key, _ in selector.select():
            if key.data is None:
                return
            with suppress(OSError):
                for _ in range(_MOST_OPEN):
                    key.data(key.fileobj)


def _listening(family: int, kind: int, port: int) -> socket.socket:
    listening = socket.socket(family, kind)
    listening.setblocking(False)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    if kind == socket.SOCK_DGRAM:
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            # IP_PKTINFO has no name in Python 3.11.
            listening.setsockopt(socket.IPPROTO_IP, 8, 1)
    listening.bind(("", port))
    if kind == socket.SOCK_STREAM:
        listening.listen(_BACKLOG)
    return listening


def _by_connection(listening: socket.socket) -> None:
    connection, came_from = listening.accept()
    with connection:
        connection.sendall(_words(connection.getsockname(), came_from))


def _by_datagram(listening: socket.socket) -> None:
    _, about, _, came_from = listening.recvmsg(65536, 256)
    level, kind, data = about[0]
    if listening.family == socket.AF_INET:
        _, _, to = _IN_PKTINFO.unpack(data)
        # The answer must come from the address that was asked; the kernel chooses the route.
        back = _IN_PKTINFO.pack(0, to, bytes(4))
    else:
        to, _ = _IN6_PKTINFO.unpack(data)
        back = _IN6_PKTINFO.pack(to, 0)
    name = socket.inet_ntop(listening.family, to), listening.getsockname()[1]
    listening.sendmsg([_words(name, came_from)], [(level, kind, back)], 0, came_from)


def _words(client: tuple[str, int], server: tuple[str, int]) -> bytes:
    return f"{client[0]} {client[1]} {server[0]} {server[1]}".encode()


if __name__ == "__main__":
    main([int(port) for port in sys.argv[1:]])
