"""The machine that a proxy runs on: its address families, and the capability that programming the kernel needs."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from zoneward.netlink.messages import Family


def address_families() -> tuple[Family, ...]:
    """The address families that this machine's kernel supports."""
    return ("ip", "ip6") if Path("/proc/net/if_inet6").exists() else ("ip",)


CAP_NET_ADMIN: Final = 12
"""From Linux' ``capability.h``."""
_VERSION: Final = 0x20080522


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def drop_effective_capability() -> None:
    """Drop CAP_NET_ADMIN from the effective set of this thread and of threads that it starts later. Programs that they
    start still have it.

    It stays permitted, because the process that programs the kernel may have to be restarted. So this protects against
    bugs, not against an attacker who runs code here. Raises OSError.
    """
    _set_effective(effective=False)


@contextmanager
def with_capability() -> Iterator[None]:
    """Have CAP_NET_ADMIN inside the block, if it is permitted, in this thread alone. Raises OSError."""
    was_effective = _set_effective(effective=True)
    try:
        yield
    finally:
        if not was_effective:
            _set_effective(effective=False)


def _set_effective(*, effective: bool) -> bool:
    """Set or clear the capability in the effective set; if it is not permitted, it stays cleared. Returns whether it
    was set before."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = _Header(_VERSION, 0), (_Sets * 2)()
    _raise_if(libc.capget(ctypes.byref(header), sets))
    word, bit = sets[0], 1 << CAP_NET_ADMIN
    was_effective = bool(word.effective & bit)
    word.effective = word.effective | bit & word.permitted if effective else word.effective & ~bit
    _raise_if(libc.capset(ctypes.byref(header), sets))
    return was_effective


def _raise_if(failed: int) -> None:
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
