"""Whether this network namespace's kernel counts bytes of connections, and how full its table of connections is."""

from pathlib import Path
from typing import Final

_SETTINGS: Final = Path("/proc/sys/net/netfilter")
_ACCOUNTING: Final = _SETTINGS / "nf_conntrack_acct"
ACCOUNTING_SYSCTL: Final = "net.netfilter.nf_conntrack_acct"


def accounting_is_on() -> bool:
    """Whether flows that begin now have byte counters."""
    return _number(_ACCOUNTING) == 1


def enable_accounting() -> None:
    """Have flows that begin from now on counted. Raises OSError where that cannot be set from here."""
    _ACCOUNTING.write_text("1")


def tracked_connections() -> tuple[int, int]:
    """The connections in the kernel's table, and how many it has room for; 0 where it does not say."""
    return _number(_SETTINGS / "nf_conntrack_count"), _number(_SETTINGS / "nf_conntrack_max")


def _number(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0
