"""The nodes, and every address of the cluster."""

from dataclasses import dataclass
from typing import Final

ZONES: Final = ("zone-a", "zone-b", "zone-c")
PODS: Final = "10.210.0.0/16,fd00:210::/48"
SERVICES: Final = "10.96.0.0/16,fd00:96::/108"
DNS_IP: Final = "10.96.0.10"
CONTROL_PLANE_IPS: Final = ("10.200.0.1", "fd00:200::1")
SERVER: Final = f"https://{CONTROL_PLANE_IPS[0]}:6443"


@dataclass(frozen=True, slots=True)
class Site:
    """A node: its own addresses and those of its Pods, IPv4 before IPv6."""

    index: int
    zone: str

    @property
    def name(self) -> str:
        return f"n{self.index}"

    @property
    def ips(self) -> tuple[str, str]:
        return f"10.200.0.{10 + self.index}", f"fd00:200::1{self.index}"

    @property
    def pods(self) -> tuple[str, str]:
        return f"10.210.{self.index}.0/24", f"fd00:210:0:{self.index}::/64"


SITES: Final = tuple(Site(index, ZONES[(index - 1) % len(ZONES)]) for index in range(1, 7))
"""Two in each zone."""
