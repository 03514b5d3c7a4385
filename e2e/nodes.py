"""Nodes of a cluster as network namespaces on one wire, with Pods that answer with their names. Needs root and ip.

::

    with Bed() as bed:
        a = bed.node("a", pods=("10.1.0.0/16", "fd00:1::/64"))   # a Node: what a machine's own processes see
        b = bed.node("b", pods=("10.2.0.0/16", "fd00:2::/64"))
        client = a.pod("10.1.200.1", "fd00:1::c8:1")             # a Pod to ask from
        outside = bed.outside()                                  # on the wire, no node
        outside.route("198.51.100.0/24", via=a)                  # external addresses through a node
        async with kernel_of(a) as kernel: ...                   # an NftClient that programs the namespace of a
        client.ask("10.96.0.1", 80)              # Answer(address="10.2.0.7", port=8080, client="10.1.200.1")
        client.ask("10.96.0.1", 80, protocol="udp", source=None, limit=30.0)
        client.tally("10.96.0.1", 80, times=500)  # Counter of the addresses that answered

Every address of a node's Pods answers on ``bed.ports``, TCP and UDP, because one namespace, ``a.pods``, has them all. A
client is a Pod in a separate namespace (`Node.pod`), except an endpoint that connects to itself:
``a.pods.ask(..., source=ADDRESS)``. `Namespace.run` runs a command inside, `Namespace.call` a function (in a thread
that is in the namespace), ``Namespace.enter`` begins a command line. ``Node.addresses`` are a node's own, of
192.0.2.0/24 and 2001:db8::/64; packets to other addresses are sent to the wire, and lost there.

A namespace ends with its last process: with this one, even if it is killed. Nothing has a name that stays.
"""

import ctypes
import itertools
import os
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, ParamSpec, Self, TypeVar

from zoneward.proxy.kernel.nft_client import REQUEST_LIMIT, NftClient

N = TypeVar("N", bound="Namespace")
P = ParamSpec("P")
T = TypeVar("T")
PORTS: Final = (8080, 8081)
_CLONE_NEWNET: Final = 0x40000000
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_ROOT: Final = Path(__file__).resolve().parent.parent
# Of a link that joins a node and its Pods: the same on every link.
_NODE_SIDE, _POD_SIDE = ("169.254.1.1", "fe80::1"), ("169.254.1.2", "fe80::2")
_RESET: Final = struct.pack("ii", 1, 0)
_FIRST_PORT: Final = 20_000
"""Of those that a namespace asks from by UDP: below the kernel's own choice."""
_KINDS: Final = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


@dataclass(frozen=True, slots=True)
class Answer:
    """The address and port that answered, and the client's address as they see it."""

    address: str
    port: int
    client: str


class Namespace:
    """A network namespace with loopback. ``path`` refers to it while this process runs; ``addresses``: IPv4 first."""

    def __init__(self, addresses: Sequence[str] = ()) -> None:
        self.addresses: Final = tuple(addresses)
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._file = self._thread.submit(_enter_a_new_one).result()
        self.path: Final = Path(f"/proc/{os.getpid()}/fd/{self._file}")
        self.enter: Final = ("nsenter", f"--net={self.path}", "--")
        self._unused_ports = itertools.count(_FIRST_PORT)
        self.sysctl("net.ipv4.conf.all.rp_filter", 0)
        self.sysctl("net.ipv6.conf.default.accept_dad", 0)
        # Otherwise an interface sends a packet now and then, where tests count bytes.
        self.sysctl("net.ipv6.conf.default.router_solicitations", 0)
        self.ip("link set lo up")

    def close(self) -> None:
        self._thread.shutdown()
        os.close(self._file)

    def run(self, *command: str, text: str | None = None) -> str:
        """The output of a command; ``text`` is its input. Raises CalledProcessError."""
        done = subprocess.run([*self.enter, *command], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, [*command, done.stderr.strip()])
        return done.stdout

    def ip(self, *lines: str) -> None:
        """Run commands of ``ip``, without that word."""
        self.run("ip", "-batch", "-", text="\n".join(lines))

    def call(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Call a function in the namespace's thread, one at a time."""
        return self.start(function, *args, **named).result()

    def start(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> "Future[T]":
        """As `call`, without waiting for it."""
        return self._thread.submit(function, *args, **named)

    def sysctl(self, name: str, value: object) -> None:
        self.call(Path("/proc/sys", *name.split(".")).write_text, str(value))

    def route(self, *ranges: str, via: "Node") -> None:
        """Route some addresses to a node."""
        self.ip(*(f"route replace {range_} via {via.addresses[':' in range_]}" for range_ in ranges))

    # --- asking -------------------------------------------------------------------------------------------------------

    def ask(
        self, address: str, port: int, *, protocol: str = "tcp", source: str | None = None, limit: float = 30.0
    ) -> Answer:
        """One connection, or datagram from a port that no other was from: from the same port it would be the same
        connection. Raises OSError: TimeoutError after ``limit`` seconds, ConnectionRefusedError."""
        own_port = next(self._unused_ports) if protocol == "udp" else 0
        return self.call(ask, address, port, protocol, source, limit, own_port=own_port)

    def tally(
        self, address: str, port: int, *, times: int, protocol: str = "tcp", source: str | None = None
    ) -> Counter[str]:
        """How often each address answered, asked as `ask` does. Raises OSError as that does."""
        own = self._unused_ports if protocol == "udp" else itertools.repeat(0)

        def all_of_them() -> Counter[str]:
            ports = itertools.islice(own, times)
            return Counter(ask(address, port, protocol, source, own_port=from_port).address for from_port in ports)

        return self.call(all_of_them)


class Node(Namespace):
    """``pods`` is the namespace of its Pods, ``ranges`` are their addresses."""

    def __init__(self, bed: "Bed", name: str, index: int, pods: Sequence[str]) -> None:
        super().__init__(_on_the_wire(index))
        self.name: Final = name
        self.ranges: Final = tuple(pods)
        self.pods: Final = Namespace()
        self._bed, self._links = bed, 0
        for setting in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
            self.sysctl(setting, 1)
        for setting in ("net.ipv4.icmp_ratelimit", "net.ipv6.icmp.ratelimit"):
            # Otherwise the kernel rejects only a few packets a second.
            self.sysctl(setting, 0)
        for family in ("ipv4", "ipv6"):
            # Otherwise only addresses of interfaces are local.
            self.pods.sysctl(f"net.{family}.ip_nonlocal_bind", 1)

    def pod(self, *addresses: str) -> Namespace:
        """A Pod of this node, in a separate namespace, to ask from."""
        namespace = self._bed.made(Namespace(addresses))
        self.join(namespace, addresses)
        # The namespace that answers for all addresses of the node does not have these.
        self.pods.ip(
            *(f"route add {address} via {_NODE_SIDE[':' in address]} dev eth0 onlink" for address in addresses)
        )
        namespace.ip(
            *(
                f"addr add {address} dev eth0 nodad" if ":" in address else f"addr add {address} dev eth0"
                for address in addresses
            )
        )
        return namespace

    def join(self, other: Namespace, ranges: Iterable[str]) -> str:
        """Link a namespace with the node, and route addresses to it. Returns the name of the node's interface."""
        name = f"pods{self._links}"
        self._links += 1
        self.ip(f"link add {name} type veth peer name eth0 netns {other.path}")
        # With link scope, packets through this link have the node's own address.
        self.ip(f"addr add {_NODE_SIDE[0]}/32 dev {name} scope link", f"addr add {_NODE_SIDE[1]}/64 dev {name} nodad")
        self.ip(f"link set {name} up")
        other.ip(f"addr add {_POD_SIDE[0]}/32 dev eth0 scope link", f"addr add {_POD_SIDE[1]}/64 dev eth0 nodad")
        other.ip("link set eth0 up")
        other.ip(*(f"route add default via {address} dev eth0 onlink" for address in _NODE_SIDE))
        self.send(name, ranges)
        return name

    def send(self, link: str, ranges: Iterable[str]) -> None:
        self.ip(*(f"route replace {range_} via {_POD_SIDE[':' in range_]} dev {link} onlink" for range_ in ranges))


class Bed:
    """A wire with nodes; everything is removed when the block ends."""

    def __init__(self, ports: Sequence[int] = PORTS) -> None:
        self.ports: Final = tuple(ports)
        self.nodes: dict[str, Node] = {}
        self._cleanup = ExitStack()
        self._number = 0

    def __enter__(self) -> Self:
        self._wire = self.made(Namespace())
        self._wire.ip("link add wire type bridge", "link set wire up")
        here = _on_the_wire(254)
        self._wire.ip(f"addr add {here[0]}/24 dev wire", f"addr add {here[1]}/64 dev wire nodad")
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def node(self, name: str, *, pods: Sequence[str]) -> Node:
        """``pods`` are ranges of either family."""
        node = Node(self, name, self._next(), pods)
        self.made(node)
        self.made(node.pods)
        self._plug(node)
        node.join(node.pods, pods)
        for other in self.nodes.values():
            other.route(*pods, via=node)
            node.route(*other.ranges, via=other)
        self.nodes[name] = node
        node.pods.ip(*_any(pods))
        self._answering(node.pods)
        return node

    def outside(self) -> Namespace:
        """A machine on the wire that is not a node; it has routes to the nodes' own addresses only."""
        namespace = self.made(Namespace(_on_the_wire(self._next())))
        self._plug(namespace)
        return namespace

    # --- within -------------------------------------------------------------------------------------------------------

    def made(self, namespace: N) -> N:
        self._cleanup.callback(namespace.close)
        return namespace

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _plug(self, namespace: Namespace) -> None:
        index, addresses = self._number, namespace.addresses
        self._wire.ip(f"link add port{index} type veth peer name eth0 netns {namespace.path}")
        self._wire.ip(f"link set port{index} master wire up")
        namespace.ip(f"addr add {addresses[0]}/24 dev eth0", f"addr add {addresses[1]}/64 dev eth0 nodad")
        namespace.ip("link set eth0 up")
        namespace.ip(*(f"route add default via {address}" for address in _on_the_wire(254)))

    def _answering(self, namespace: Namespace) -> None:
        command = [*namespace.enter, sys.executable, "-m", "e2e.answering", *map(str, self.ports)]
        pipe = subprocess.PIPE
        process = self._cleanup.enter_context(
            subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=_ROOT, start_new_session=True)
        )
        assert process.stdin is not None
        assert process.stdout is not None
        # It ends when the pipe is closed, also when this process is killed.
        self._cleanup.callback(process.stdin.close)
        process.stdout.readline()


def kernel_of(namespace: Namespace, *, limit: float = REQUEST_LIMIT) -> NftClient:
    """A client that programs a namespace's rules; an asynchronous context manager. ``limit``: as `NftClient` has it."""
    command = (*namespace.enter, sys.executable, "-m", "zoneward.proxy.kernel.nft_process")
    return NftClient(command=command, limit=limit)


def _enter_a_new_one() -> int:
    """Move the calling thread into a new namespace, and return a file that refers to it."""
    if _LIBC.unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "no network namespace can be made")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _on_the_wire(index: int) -> tuple[str, str]:
    return f"192.0.2.{index}", f"2001:db8::{index:x}"


def _any(ranges: Iterable[str]) -> list[str]:
    """Routes that make all addresses of the ranges local."""
    return [f"route replace local {range_} dev lo table main" for range_ in ranges]


def ask(
    address: str, port: int, protocol: str = "tcp", source: str | None = None, limit: float = 30.0, *, own_port: int = 0
) -> Answer:
    """`Namespace.ask`, from where the calling thread is: for what `Namespace.start` runs. ``own_port`` 0: any."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, _KINDS[protocol]) as asking:
        asking.settimeout(limit)
        if source is not None or own_port:
            asking.bind((source or "", own_port))
        asking.connect((address, port))
        if protocol == "udp":
            # A drop on the way out is an error here; only the answer shows a rejection.
            with suppress(PermissionError):
                asking.send(b"?")
        words = asking.recv(256).decode().split()
        if protocol != "udp":
            # Reset, so that the port can be used again at once.
            asking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    if not words:
        raise ConnectionResetError("the connection ended without an answer")
    return Answer(words[0], int(words[1]), words[2])
