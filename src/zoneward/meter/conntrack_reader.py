"""Reads connection tracking of this network namespace over netlink: dumps, and announcements of flows that end."""

import errno
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from zoneward.netlink.flow_counters import DESTROYED_GROUP, flows_request
from zoneward.netlink.messages import DONE, HEADER, error_message, error_number

_NETFILTER: Final = 12
_SO_RCVBUFFORCE: Final = 33
_SO_MEMINFO: Final = 55
_DROPS: Final = 8
"""Of the numbers of SO_MEMINFO: messages for which there was no room."""
_MEMINFO: Final = struct.Struct("=9I")
_BUFFER: Final = 32 << 20
"""Bytes of kernel memory for announcements that wait, each of which takes over a kilobyte: those of some seconds."""
_ANNOUNCEMENT: Final = 8 << 10
_DUMP_PART: Final = 256 << 10
_DUMP_TIMEOUT: Final = 10.0
_MULTIPART: Final = 2
_SHORTEST_FLOW: Final = 64


class ConntrackUnavailable(Exception):  # noqa: N818 -- it is a fact
    """Connection tracking cannot be read. The message says why."""


class ConntrackReader:
    """Listens from entering its block to leaving it. Both raise and pass on ConntrackUnavailable.

    A process needs CAP_NET_ADMIN for it, and sees the flows of the network namespace in which it enters the block.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            with ExitStack() as stack:
                self._listening = stack.enter_context(_netlink_socket())
                self._listening.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
                self._listening.setblocking(False)
                self._listening.bind((0, DESTROYED_GROUP))
                self._stack = stack.pop_all()
        except OSError as error:
            raise ConntrackUnavailable(_wording(error)) from error
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def announcements(self) -> Iterator[bytes]:
        """What was announced since the last call, one message for each flow."""
        receive = self._listening.recv
        while True:
            try:
                yield receive(_ANNOUNCEMENT)
            except BlockingIOError:
                return
            except OSError as error:
                # It is said once that there was no room for some: `lost` has how many.
                if error.errno != errno.ENOBUFS:
                    raise ConntrackUnavailable(_wording(error)) from error

    @property
    def lost(self) -> int:
        """Announcements for which there was no room, since the block was entered."""
        found = self._listening.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
        return int(_MEMINFO.unpack(found)[_DROPS])

    def dump(self) -> Iterator[bytes]:
        """All flows, part by part; a part that is not asked for is not written yet.

        Each dump has a socket of its own: what is left of one that broke off is in nobody's way.
        """
        try:
            with _netlink_socket() as dumping:
                dumping.settimeout(_DUMP_TIMEOUT)
                dumping.bind((0, 0))
                port, _ = dumping.getsockname()
                end = HEADER.pack(HEADER.size + 4, DONE, _MULTIPART, 1, port)
                dumping.send(flows_request())
                while True:
                    part = dumping.recv(_DUMP_PART)
                    yield part
                    if part[-HEADER.size - 4 : -4] == end:
                        return
                    # What is refused is answered with that alone.
                    if len(part) < _SHORTEST_FLOW and (number := error_number(part)):
                        raise ConntrackUnavailable(f"the kernel refuses a dump: {error_message(number)}")
        except OSError as error:
            raise ConntrackUnavailable(_wording(error)) from error


def _netlink_socket() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER)


def _wording(error: OSError) -> str:
    if error.errno in (errno.EPERM, errno.EACCES):
        return "expected root or CAP_NET_ADMIN to read connection tracking, got no permission"
    if error.errno in (errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.EINVAL):
        return f"expected a kernel with nf_conntrack_netlink, got {error.strerror or error}"
    return f"connection tracking cannot be read: {error.strerror or error}"
