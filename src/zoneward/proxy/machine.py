"""The machine that a proxy runs on: its address families, and the capability that programming the kernel needs."""

import ctypes
import os
from pathlib import Path
from typing import Final

from zoneward.netlink.messages import Family


def address_families() -> tuple[Family, ...]:
    """The address families that this machine's kernel supports."""
    return ("ip", "ip6") if Path("/proc/net/if_inet6").exists() else ("ip",)


CAP_NET_ADMIN: Final = 12
"""Linux' ``capability.h``."""
_VERSION: Final = 0x20080522


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def drop_effective_capability(capability: int = CAP_NET_ADMIN) -> None:
    """Make this thread, and threads that it starts, act without a capability; programs that they start still have it.

    The capability stays permitted, for the process that programs the kernel has to be started again where it dies. So
    this protects against mistakes, not against whoever runs code here. Raises OSError where the system refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = _Header(_VERSION, 0), (_Sets * 2)()
    _checked(libc.capget(ctypes.byref(header), sets))
    word = sets[capability // 32]
    word.effective &= ~(1 << capability % 32)
    _checked(libc.capset(ctypes.byref(header), sets))


def _checked(status: int) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
