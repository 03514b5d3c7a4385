"""What the machine has that a proxy runs on."""

import ctypes
import os
from pathlib import Path
from typing import Final

from zoneward.netlink.messages import Family


def address_families() -> tuple[Family, ...]:
    """Of addresses: those that its kernel knows."""
    return ("ip", "ip6") if Path("/proc/net/if_inet6").exists() else ("ip",)


CAP_NET_ADMIN: Final = 12
"""Linux' ``capability.h``."""
_VERSION: Final = 0x20080522


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def drop_effective_capability(capability: int = CAP_NET_ADMIN) -> None:
    """This thread, and threads that it starts, act without it from now on; programs that they start have it.

    It stays permitted: a process that programs the kernel has to be started again where one dies. So what a mistake
    does here, it does without; it is no wall against whoever runs code here. Raises OSError where the system refuses.
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
