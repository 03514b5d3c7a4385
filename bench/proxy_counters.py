"""The cost of counting connections in the kernel: new TCP connections a second with the counters and without.

Two network namespaces have the same Services, one with the counters; a process in each of them opens connections in
turns of a fraction of a second, so that whatever else the machine does falls upon both alike. Everything that a
connection needs is done in that process's own time, the kernel's part on loopback included, so that its CPU time says
what a connection costs; the machine's other work does not count.
"""

import ctypes
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final, TextIO

from bench.measuring import MIB, Figure
from zoneward.netlink.nftables import elements_request
from zoneward.proxy.kernel.nft_process import NftLibrary, query_kernel
from zoneward.proxy.measure.connection_set import CONNECTIONS_SET, MAX_ELEMENTS, parse_counts
from zoneward.proxy.model.node_service import Backend, NodeService, NodeServicePort
from zoneward.proxy.ruleset.base_rules import TABLE, RulesetOptions, base_chains
from zoneward.proxy.ruleset.nft_commands import render_commands
from zoneward.proxy.ruleset.ruleset_state import RulesetState
from zoneward.proxy.ruleset.service_rules import assign_slots, service_rules

_SERVICES, _ENDPOINTS = 1_000, 10
_USED = 100
"""Services that the clients of this node use."""
_TURNS, _CONNECTIONS = 400, 200
_WARM, _FIRST = 50, 20
"""Turns that are not measured, and connections of each turn that are not measured."""
_MOST_COST: Final = 2.0
_ALONE: Final = ("unshare", "--net", "--kill-child", "--")
_PODS: Final = {"client": "10.2.0", "server": "10.3.0"}
_NODE: Final = (
    "ip link set lo up",
    "sysctl --quiet net.ipv4.ip_forward=1",
    # Closed connections must not fill the tables.
    "sysctl --quiet net.netfilter.nf_conntrack_tcp_timeout_time_wait=1",
)
_LINK: Final = (
    "ip link add {name} type veth peer name eth0 netns {pod}",
    "ip address add {net}.1/24 dev {name}",
    "ip link set {name} up",
    "nsenter --net={pod} ip link set lo up",
    "nsenter --net={pod} ip address add {net}.2/24 dev eth0",
    "nsenter --net={pod} ip link set eth0 up",
    "nsenter --net={pod} ip route add default via {net}.1",
    "nsenter --net={pod} sysctl --quiet net.ipv4.ip_local_port_range='1024 65000'",
    "nsenter --net={pod} sysctl --quiet net.ipv4.tcp_max_tw_buckets=1000",
)
_ENDPOINTS_THERE: Final = (
    "ip route add 10.1.0.0/16 via 10.3.0.2",
    "nsenter --net={pod} ip route add local 10.1.0.0/16 dev lo",
)
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_NEW_NETWORK: Final = 0x40000000


def counters() -> Iterator[Figure]:
    """The rate without counters, their cost (at most 2 %), and the cost of reading a full set."""
    with _Node() as node:
        bare, counting = (_rules(RulesetOptions(count_connections=each)) for each in (False, True))
        for _ in range(_WARM):
            node.turn(counting)
        costs, noise, wall, rates = [], [], [], []
        for _ in range(_TURNS):
            # In both orders, so that a steady trend affects both.
            one, two, three, four = (node.turn(each) for each in (bare, counting, counting, bare))
            costs.append(((two[0] + three[0]) / (one[0] + four[0]) - 1) * 100)
            wall.append(((two[1] + three[1]) / (one[1] + four[1]) - 1) * 100)
            noise.append((four[0] / one[0] - 1) * 100)
            rates.append(2 * _CONNECTIONS / (one[0] + four[0]))
        what = f"{_SERVICES:,} Services x {_ENDPOINTS}, {_USED} of them used, from Pod to Pod"
        yield Figure(f"{what}: connections a second of CPU", median(rates), "1/s")
        yield Figure(
            f"  what it costs to count {_TURNS * 2 * _CONNECTIONS:,}, of the CPU", median(costs), "%", _MOST_COST
        )
        yield Figure("  the same by the clock", median(wall), "%")
        yield Figure("  what no difference at all seems to cost", median(noise), "%")
        counted = (_CONNECTIONS + _FIRST) * (_WARM + 2 * _TURNS)
        yield Figure("  connections that were not counted", counted - node.counted(), "", 0)
        read, size = node.full()
        yield Figure(f"all {MAX_ELEMENTS:,} counters read", read * 1000, "ms")
        yield Figure("  what the kernel tells", size / MIB, "MiB")


def _rules(options: RulesetOptions) -> str:
    """Commands that make the chains after the choice of an endpoint what they are with some options."""
    chains = base_chains("ip", options)
    lines = []
    for name in ("nat-postrouting", "nat-input"):
        rules = chains[name].rules if name in chains else ()
        lines += [f"flush chain ip {TABLE} {name}", *(f"add rule ip {TABLE} {name} {rule}" for rule in rules)]
    return "\n".join(lines)


class _Node:
    """A node with the Services, and a client and all endpoints in Pods of it. A context manager."""

    def __init__(self) -> None:
        command = (*_ALONE, sys.executable, "-m", "bench.proxy_counters")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> "_Node":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def turn(self, rules: str) -> tuple[float, float]:
        """Connections under some rules: seconds of CPU and of the clock."""
        cpu, wall = self._asked("turn", rules)
        return cpu, wall

    def counted(self) -> int:
        return int(self._asked("counted"))

    def full(self) -> tuple[float, int]:
        """Seconds and bytes for reading a full set."""
        took, size = self._asked("full")
        return took, size

    def _asked(self, *what: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


# --- on the node ------------------------------------------------------------------------------------------------------


def _serve() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    drawn = random.Random(1)
    kept = RulesetState("ip", TABLE, RulesetOptions())
    changes = [kept.start()]
    for number in range(_SERVICES):
        service = _service(number)
        changes.append(
            kept.set_service(
                ("bench", service.name), service_rules((service,), assign_slots((service,), {}), RulesetOptions())
            )
        )
    library = NftLibrary()
    _run(library, "".join(map(render_commands, changes)))
    with ExitStack() as stack:
        node, client, server = (stack.enter_context(each) for each in _networks())
        _enter(server)
        listening = stack.enter_context(socket.create_server(("0.0.0.0", 8080), backlog=16))
        for line in sys.stdin:
            what, *arguments = json.loads(line)
            _enter(client if what == "turn" else node)
            match what:
                case "turn":
                    # The library stays in the namespace in which it was loaded.
                    _run(library, *arguments)
                    _turn(listening, drawn, _FIRST)
                    answer: Any = _turn(listening, drawn, _CONNECTIONS)
                case "counted":
                    answer = sum(parse_counts(_dump()).values())
                case "full":
                    answer = _full(library)
            print(json.dumps(answer), flush=True)


def _networks() -> Iterator[TextIO]:
    """That of the node, in which we are; and those of two Pods, each a link away from it."""
    with ExitStack() as stack:
        node = stack.enter_context(_own_network())
        pods = {}
        for name in _PODS:
            _checked(_LIBC.unshare(_NEW_NETWORK))
            pods[name] = stack.enter_context(_own_network())
        _enter(node)
        commands = [*_NODE]
        for name, net in _PODS.items():
            pod = f"/proc/{os.getpid()}/fd/{pods[name].fileno()}"
            commands.extend(each.format(name=name, net=net, pod=pod) for each in _LINK)
        commands.extend(each.format(pod=pod) for each in _ENDPOINTS_THERE)
        for command in commands:
            subprocess.run(command, shell=True, check=True)
        stack.pop_all()
    yield node
    yield from pods.values()


def _own_network() -> TextIO:
    return Path("/proc/thread-self/ns/net").open()


def _enter(network: TextIO) -> None:
    _checked(_LIBC.setns(network.fileno(), _NEW_NETWORK))


def _checked(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), "no network namespace")


def _service(number: int) -> NodeService:
    targets = tuple(Backend(f"10.1.{number >> 4}.{(number & 15) * 16 + each}", 8080) for each in range(_ENDPOINTS))
    port = NodeServicePort(name="http", protocol="tcp", port=80, cluster_endpoints=targets, has_any_endpoints=True)
    return NodeService(
        namespace="bench", name=f"service-{number}", family="ip", cluster_ip=_address(number), ports=(port,)
    )


def _address(number: int) -> str:
    return f"10.96.{number >> 8}.{number & 255}"


def _turn(server: socket.socket, drawn: random.Random, connections: int) -> tuple[float, float]:
    addresses = [(_address(drawn.randrange(_USED)), 80) for _ in range(connections)]
    cpu, wall = time.process_time(), time.perf_counter()
    for address in addresses:
        with socket.socket() as client:
            client.connect(address)
            there, _ = server.accept()
            with there:
                client.send(b"?")
                there.recv(1)
                there.send(b"!")
                client.recv(1)
    return time.process_time() - cpu, time.perf_counter() - wall


def _dump() -> bytes:
    return b"".join(query_kernel(elements_request("ip", TABLE, CONNECTIONS_SET)))


def _full(library: NftLibrary) -> tuple[float, int]:
    _run(library, f"flush set ip {TABLE} {CONNECTIONS_SET}")
    for start in range(0, MAX_ELEMENTS, 4096):
        some = (f"10.1.{each >> 8}.{each & 255} . 10.96.0.1 . 80 . tcp" for each in range(start, start + 4096))
        _run(library, f"add element ip {TABLE} {CONNECTIONS_SET} {{ {', '.join(some)} }}")
    began = time.perf_counter()
    answer = _dump()
    found = parse_counts(answer)
    took = time.perf_counter() - began
    assert len(found) == MAX_ELEMENTS
    return took, len(answer)


def _run(library: NftLibrary, commands: str) -> None:
    done, said = library.run(commands.encode())
    assert done, said.decode()


if __name__ == "__main__":
    _serve()
