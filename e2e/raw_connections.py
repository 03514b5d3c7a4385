"""Connections opened packet by packet: thousands a second, more than there are ports, and associations of SCTP.

Nobody answers: they only exercise a node's connection tracking.
"""

import random
import socket
import struct
import time
from collections.abc import Sequence
from typing import Final

from e2e.nodes import Node

SCTP_HEADER: Final = struct.Struct(">HHLL")
_INIT: Final = struct.pack(">BBHLLHHL", 1, 0, 20, 1, 65_536, 1, 1, 1)
_TICK: Final = 0.02
_BURST: Final = 100
_SYN, _RST = 0x02, 0x04
_PACKET: Final = struct.Struct("!BBHHHBBH4s4sHHIIBBHHH")


def take_raw_connections(node: Node, port: int) -> None:
    """Prepare a node for raw connections, and let its Pods drop packets to ``port``. Call it before `Node.pod`."""
    for name, value in {
        "nf_conntrack_tcp_timeout_syn_sent": 600,
        "nf_conntrack_tcp_timeout_close": 1,
        "nf_conntrack_acct": 1,
        "nf_conntrack_checksum": 0,
    }.items():
        node.sysctl(f"net.netfilter.{name}", value)
    # The Pod has many addresses.
    node.sysctl("net.ipv4.conf.default.rp_filter", 0)
    rules = (
        "add table ip quiet",
        "add chain ip quiet arriving { type filter hook prerouting priority raw ; }",
        f"add rule ip quiet arriving tcp dport {port} drop",
    )
    node.pods.run("nft", "-f", "-", text="\n".join(rules))


class RawConnections:
    """Opens connections to random Services from the network namespace in which its methods are called.

    ``network`` is the prefix of their source addresses, such as ``10.15``; ``opened`` counts them.
    """

    def __init__(self, services: Sequence[str], port: int, *, network: str) -> None:
        self.opened = 0
        self._services, self._port, self._network = services, port, network
        self._drawn = random.Random(1)

    def stay(self, count: int) -> None:
        """Open connections that stay open."""
        with _raw() as sending:
            for index in range(count):
                self._open(sending, closes=False)
                if not index % _BURST:
                    # The queue of the link must not overflow.
                    time.sleep(0.002)

    def come_and_go(self, rate: int, seconds: float) -> None:
        """Open and reset connections at this rate."""
        with _raw() as sending:
            began, done = time.monotonic(), 0
            while (passed := time.monotonic() - began) < seconds:
                for _ in range(int(passed * rate) - done):
                    self._open(sending, closes=True)
                    done += 1
                time.sleep(_TICK)

    def _open(self, sending: socket.socket, *, closes: bool) -> None:
        service = self._drawn.choice(self._services)
        # From different pairs of address and port, so that all are different connections.
        source, port = f"{self._network}.{self.opened >> 15 & 127}.1", 1024 + (self.opened & 0x7FFF)
        self.opened += 1
        for flags in (_SYN, _RST) if closes else (_SYN,):
            sending.sendto(_packet(source, service, (port, self._port), flags), (service, 0))


def _raw() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)


def _packet(source: str, destination: str, ports: tuple[int, int], flags: int) -> bytes:
    """A packet of 40 bytes without data; nothing verifies its checksums."""
    ends = socket.inet_aton(source), socket.inet_aton(destination)
    sequence = 1 if flags == _SYN else 2
    return _PACKET.pack(
        0x45, 0, 40, 0, 0, 64, socket.IPPROTO_TCP, 0, *ends, *ports, sequence, 0, 5 << 4, flags, 65_535, 0, 0
    )


def begin_associations(source: str, address: str, port: int, *, count: int) -> None:
    """Send the first packets of associations of SCTP, for which no kernel has to know how to talk it."""
    with socket.socket(
        socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_SCTP
    ) as sending:
        sending.bind((source, 0))
        for own in range(20_000, 20_000 + count):
            whole = SCTP_HEADER.pack(own, port, 0, 0) + _INIT
            sending.sendto(SCTP_HEADER.pack(own, port, 0, _checksum(whole)) + _INIT, (address, 0))


def _checksum(data: bytes) -> int:
    """CRC32c, the lowest byte first (RFC 9260, appendix A)."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return int.from_bytes((value ^ 0xFFFFFFFF).to_bytes(4, "little"), "big")
