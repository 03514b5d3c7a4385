"""What the machine has that a proxy runs on."""

from pathlib import Path

from zoneward.netlink.messages import Family


def families() -> tuple[Family, ...]:
    """Of addresses: those that its kernel knows."""
    return ("ip", "ip6") if Path("/proc/net/if_inet6").exists() else ("ip",)
