"""The cost of counting connections in the kernel: new TCP connections a second with the counters and without.

A node has the Services, and a process opens connections from one Pod to others in turns of a fraction of a second, with
the counters and without, so that whatever else the machine does affects both alike. Everything that a connection needs
is done in that process's own time, the kernel's part included, so that its CPU time says what a connection costs.
"""

import os
import random
import socket
import time
from collections.abc import Iterator
from statistics import median
from typing import Final

from e2e.nodes import Bed
from tests.proxy.drawn_services import key, node_service, one_port

from bench.measuring import MIB, Figure
from zoneward.netlink.nftables import elements_request
from zoneward.proxy.kernel.nft_process import NftLibrary, query_kernel
from zoneward.proxy.measure.connection_set import CONNECTIONS_SET, MAX_ELEMENTS, parse_counts
from zoneward.proxy.model.node_service import Backend
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
_PODS, _CLIENT, _PORT = "10.1.0.0/16", "10.1.250.1", 8080
_BED_PORT: Final = 9_090


def counters() -> Iterator[Figure]:
    """The rate without counters, their cost (at most 2 %), and the cost of reading a full set."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with Bed(ports=(_BED_PORT,)) as bed:
        node = bed.node("counting", pods=(_PODS,))
        client = node.pod(_CLIENT)
        # Closed connections must not fill the tables.
        node.sysctl("net.netfilter.nf_conntrack_tcp_timeout_time_wait", 1)
        for each in (client, node.pods):
            each.sysctl("net.ipv4.tcp_max_tw_buckets", 1000)
        client.sysctl("net.ipv4.ip_local_port_range", "1024 65000")
        # The library stays in the namespace in which it was loaded.
        library, drawn = node.call(NftLibrary), random.Random(1)
        node.call(_run, library, _services())
        bare, counting = (_rules(RulesetOptions(count_connections=each)) for each in (False, True))
        with node.pods.call(socket.create_server, ("0.0.0.0", _PORT), backlog=16) as listening:

            def turn(rules: str) -> tuple[float, float]:
                node.call(_run, library, rules)
                return client.call(_turn, listening, drawn)

            for _ in range(_WARM):
                turn(counting)
            # In both orders, so that a steady trend affects both.
            turns = [tuple(turn(each) for each in (bare, counting, counting, bare)) for _ in range(_TURNS)]
        sums = [
            [(with_[0][part] + with_[1][part]) / (one[part] + four[part]) for one, *with_, four in turns]
            for part in (0, 1)
        ]
        opened = (_CONNECTIONS + _FIRST) * (_WARM + 2 * _TURNS)
        missing = opened - sum(parse_counts(node.call(_dump)).values())
        read, size = node.call(_full, library)
        rate = median(2 * _CONNECTIONS / (one[0] + four[0]) for one, *_, four in turns)
        what = f"{_SERVICES:,} Services x {_ENDPOINTS}, {_USED} of them used, from Pod to Pod"
        yield Figure(f"{what}: connections a second of CPU", rate, "1/s")
        cost, wall = ((median(each) - 1) * 100 for each in sums)
        counted = f"  what it costs to count {_TURNS * 2 * _CONNECTIONS:,}, of the CPU"
        yield Figure(counted, cost, "%", _MOST_COST)
        yield Figure("  the same by the clock", wall, "%")
        noise = median(four[0] / one[0] for one, *_, four in turns)
        yield Figure("  what no difference at all seems to cost", (noise - 1) * 100, "%")
        yield Figure("  connections that were not counted", missing, "", 0)
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


def _services() -> str:
    """Commands that program all of them."""
    kept = RulesetState("ip", TABLE, RulesetOptions())
    changes = [kept.start()]
    for number in range(_SERVICES):
        low = (number & 15) * 16
        targets = [Backend(f"10.1.{number >> 4}.{low + each}", _PORT) for each in range(_ENDPOINTS)]
        service = node_service(one_port(*targets), name=f"service-{number}", cluster_ip=_address(number))
        rules = service_rules((service,), assign_slots((service,), {}), RulesetOptions())
        changes.append(kept.set_service(key(service), rules))
    return "".join(map(render_commands, changes))


def _address(number: int) -> str:
    return f"10.96.{number >> 8}.{number & 255}"


def _turn(server: socket.socket, drawn: random.Random) -> tuple[float, float]:
    """Seconds of CPU and of the clock for all but the first connections."""
    cpu = wall = 0.0
    for number in range(_FIRST + _CONNECTIONS):
        if number == _FIRST:
            cpu, wall = time.process_time(), time.perf_counter()
        with socket.socket() as client:
            client.connect((_address(drawn.randrange(_USED)), 80))
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
    """Seconds and bytes for reading a full set."""
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
