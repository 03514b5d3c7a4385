"""Reads connection tracking of this network namespace: all live flows and messages about ended ones over netlink, and
from ``/proc`` whether the kernel counts bytes of connections, and how full its table of connections is.
"""

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from zoneward.netlink.conntrack import DESTROYED_GROUP, flows_request
from zoneward.netlink.messages import DONE, HEADER, error_number

_SETTINGS: Final = Path("/proc/sys/net/netfilter")
_ACCOUNTING: Final = _SETTINGS / "nf_conntrack_acct"
ACCOUNTING_SYSCTL: Final = "net.netfilter.nf_conntrack_acct"


def accounting_is_on() -> bool:
    """Whether flows that begin now have byte counters."""
    return _number(_ACCOUNTING) == 1


def enable_accounting() -> None:
    """Have flows that begin from now on counted. Raises OSError where that cannot be set from here."""
    _ACCOUNTING.write_text("1")


def tracked_connections() -> tuple[float, float]:
    """The connections in the kernel's table, and how many it has room for: infinite with a limit of 0."""
    return _number(_SETTINGS / "nf_conntrack_count"), _number(_SETTINGS / "nf_conntrack_max") or inf


def _number(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


_NETFILTER: Final = 12
_SO_RCVBUFFORCE: Final = 33
_SO_MEMINFO: Final = 55
_DROPS: Final = 8
"""Index in SO_MEMINFO of the number of dropped messages."""
_MEMINFO: Final = struct.Struct("=9I")
_BUFFER: Final = 32 << 20
"""Bytes of kernel memory for unread messages: a few seconds' worth, as each takes over a kilobyte."""
_MAX_MESSAGE: Final = 8 << 10
_DUMP_PART: Final = 256 << 10
_DUMP_TIMEOUT: Final = 10.0
_MULTIPART: Final = 2
_SHORTEST_FLOW: Final = 64


class ConntrackUnavailable(Exception):  # noqa: N818 -- it is a fact
    """Connection tracking cannot be read; the message has the reason."""


class ConntrackReader:
    """Listens inside its ``with`` block. Every method raises ConntrackUnavailable.

    It sees the flows of the network namespace in which it enters the block. Opening a socket and asking for a dump need
    CAP_NET_ADMIN: both happen inside the block of ``privilege``.
    """

    def __init__(self, *, privilege: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._privilege = privilege
        self._stack = ExitStack()
        self._listening: socket.socket | None = None

    def __enter__(self) -> Self:
        try:
            with ExitStack() as stack, self._privilege():
                listening = stack.enter_context(_netlink_socket())
                listening.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
                listening.setblocking(False)
                listening.bind((0, DESTROYED_GROUP))
                self._listening = listening
                self._stack = stack.pop_all()
        except OSError as error:
            raise ConntrackUnavailable(_wording(error)) from error
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._listening = None
        self._stack.close()

    def ended_flows(self) -> Iterator[bytes]:
        """The kernel's messages about flows that ended since the last call, one per flow."""
        if self._listening is None:
            return
        receive = self._listening.recv
        while True:
            try:
                yield receive(_MAX_MESSAGE)
            except BlockingIOError:
                return
            except OSError as error:
                # Reported once after the kernel dropped messages; `lost` counts them.
                if error.errno != errno.ENOBUFS:
                    raise ConntrackUnavailable(_wording(error)) from error

    @property
    def lost(self) -> int:
        """Number of messages that the kernel dropped since the block was entered."""
        if self._listening is None:
            return 0
        information = self._listening.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
        return int(_MEMINFO.unpack(information)[_DROPS])

    def dump(self) -> Iterator[bytes]:
        """All flows, part by part. The kernel writes a part only when it is read.

        Each dump has its own socket, so that the rest of an interrupted dump is discarded.
        """
        try:
            with ExitStack() as stack:
                with self._privilege():
                    dumping = stack.enter_context(_netlink_socket())
                    dumping.settimeout(_DUMP_TIMEOUT)
                    dumping.bind((0, 0))
                    dumping.send(flows_request())
                port, _ = dumping.getsockname()
                end = HEADER.pack(HEADER.size + 4, DONE, _MULTIPART, 1, port)
                while True:
                    part = dumping.recv(_DUMP_PART)
                    yield part
                    if part[-HEADER.size - 4 : -4] == end:
                        return
                    if len(part) < _SHORTEST_FLOW and (code := error_number(part)):
                        raise ConntrackUnavailable(f"the kernel refused to list connections: {os.strerror(code)}")
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
