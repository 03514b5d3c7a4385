"""The times at which the kernel applies changes of rules, from its notifications at the end of each transaction."""

import asyncio
import socket
import time
from collections.abc import Iterator
from typing import Final, Self

from zoneward.netlink.messages import GENERIC, attributes, messages
from zoneward.netlink.nftables import DEL_ELEMENTS, ELEMENTS, KEY, NEW_ELEMENTS, NEW_GENERATION, SET, SUBSYSTEM

_NETFILTER: Final = 12
_SOL_NETLINK, _ADD_MEMBERSHIP = 270, 1
_NFTABLES: Final = 7
_SO_RCVBUFFORCE: Final = 33
_ROOM: Final = 64 << 20
_NEW_GENERATION: Final = SUBSYSTEM << 8 | NEW_GENERATION
_OF_ELEMENTS: Final = frozenset((SUBSYSTEM << 8 | NEW_ELEMENTS, SUBSYSTEM << 8 | DEL_ELEMENTS))


class KernelEvents:
    """Used as a context manager, in the event loop's thread and in the network namespace that is listened to."""

    def __init__(self) -> None:
        self._awaited: dict[bytes, asyncio.Future[float]] = {}
        self.transactions = 0
        self.elements: set[tuple[bytes, bytes]] | None = None
        """The elements that changed, by set and key, if the caller gave a set for them."""

    def __enter__(self) -> Self:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _NETFILTER)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM)
        self._socket.bind((0, 0))
        self._socket.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, _NFTABLES)
        asyncio.get_running_loop().add_reader(self._socket, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def awaited(self, address: str) -> asyncio.Future[float]:
        """The moment (``time.perf_counter``) at which an IPv4 address is first in the rules."""
        future = self._awaited[socket.inet_aton(address)] = asyncio.get_running_loop().create_future()
        return future

    def _read(self) -> None:
        while True:
            try:
                data = self._socket.recv(1 << 20)
            except BlockingIOError:
                return
            now = time.perf_counter()
            for address in [awaited for awaited in self._awaited if awaited in data]:
                future = self._awaited.pop(address)
                if not future.done():
                    future.set_result(now)
            for kind, body in messages(data):
                self.transactions += kind == _NEW_GENERATION
                if self.elements is not None and kind in _OF_ELEMENTS:
                    self.elements.update(_changed(body))


def _changed(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    fields = dict(attributes(body, GENERIC.size))
    for _, element in attributes(fields[ELEMENTS]):
        yield fields[SET], dict(attributes(element))[KEY]
