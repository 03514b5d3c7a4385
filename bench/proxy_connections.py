"""New TCP connections through a Service: with Zoneward's rules, and with those of the real kube-proxy.

Two nodes, each with a client and all endpoints in Pods of it, have 10,000 Services of 10 endpoints. Each proxy programs
its node from the same real API server and ends then; one process opens connections on both in turns of a fraction of a
second. Everything that a connection needs is done in that process's own time, the kernel's part included, so that its
CPU time says what a connection costs.
"""

import asyncio
import os
import random
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from statistics import median
from typing import Final

from e2e.door import Door
from e2e.nodes import Bed, Namespace
from e2e.programs import ProgramsError, find_programs

from bench.measuring import Figure
from bench.proxies import PODS, KubeProxy, Zoneward, create, plane
from bench.proxy_cluster import PORT, address_of, cluster

_SERVICES, _ENDPOINTS = 10_000, 10
_TURNS, _CONNECTIONS = 200, 200
_WARM, _FIRST = 20, 20
"""Turns that are not measured, and connections of each turn that are not measured."""
_MOST_PART: Final = 1.02
"""As a share of the cost of a connection with kube-proxy; smaller differences are noise."""
_CLIENT: Final = "10.15.200.1"
_BED_PORT: Final = 9_090
_RESET: Final = struct.pack("ii", 1, 0)


class _Node:
    """With a client in a Pod of it; ``listening`` is a socket that answers for all endpoints."""

    def __init__(self, stack: ExitStack, name: str, port: int) -> None:
        bed = stack.enter_context(Bed(ports=(_BED_PORT,)))
        self.node = bed.node(name, pods=(PODS,))
        self.client: Namespace = self.node.pod(_CLIENT)
        self.node.sysctl("net.netfilter.nf_conntrack_tcp_timeout_close", 1)
        self.listening = self.node.pods.call(socket.create_server, ("0.0.0.0", PORT), backlog=16)
        stack.enter_context(self.listening)
        stack.enter_context(Door(self.node.path, port))

    def turn(self, addresses: list[tuple[str, int]]) -> tuple[float, float]:
        """Seconds of CPU and of the clock for all but the first connections."""
        return self.client.call(_opened, self.listening, addresses)


def _opened(listening: socket.socket, addresses: list[tuple[str, int]]) -> tuple[float, float]:
    cpu = wall = 0.0
    for index, address in enumerate(addresses):
        if index == _FIRST:
            cpu, wall = time.process_time(), time.perf_counter()
        with socket.socket() as client:
            client.connect(address)
            listening.accept()[0].close()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    return time.process_time() - cpu, time.perf_counter() - wall


async def connections() -> AsyncIterator[Figure]:
    """The rates of both, and the CPU and time of a connection with Zoneward's rules as parts of kube-proxy's."""
    try:
        find_programs(environment=os.environ)
    except ProgramsError as error:
        print(f"not beside kube-proxy: {error}", file=sys.stderr)
        return
    with ExitStack() as stack:
        async with plane() as (control, server):
            await create(server, list(cluster(_SERVICES, _ENDPOINTS)))
            nodes = {name: _Node(stack, name, control.ports.server) for name in (Zoneward.name, KubeProxy.name)}
            for name, bench_node in nodes.items():
                inside = bench_node.node.enter
                contender = (
                    KubeProxy(control, inside=inside)
                    if name == KubeProxy.name
                    else Zoneward(control.kubeconfig(), control.folder, inside=inside)
                )
                with contender:
                    await asyncio.to_thread(bench_node.node.call, contender.until_programmed)
        # The proxies and the API server have stopped; the rules stay.
        for figure in _compared(nodes):
            yield figure


def _compared(nodes: dict[str, _Node]) -> Iterator[Figure]:
    drawn = random.Random(1)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in nodes}
    noise = []
    for turn in range(_WARM + _TURNS):
        addresses = [(address_of(drawn.randrange(_SERVICES)), 80) for _ in range(_FIRST + _CONNECTIONS)]
        there = {name: node.turn(addresses) for name, node in nodes.items()}
        # In both orders, so that a steady trend affects all of them.
        back = {name: nodes[name].turn(addresses) for name in reversed(nodes)}
        if turn < _WARM:
            continue
        noise.append(back[KubeProxy.name][0] / there[KubeProxy.name][0])
        for name, times in taken.items():
            times.append((there[name][0] + back[name][0], there[name][1] + back[name][1]))
    what = f"{_SERVICES:,} Services x {_ENDPOINTS}, from Pod to Pod"
    yield Figure(f"{what}, kube-proxy: connections a second of CPU", _rate(taken[KubeProxy.name]), "1/s")
    yield Figure("  noise: kube-proxy compared with itself", median(noise), "x")
    cpu, wall = (
        median(one[part] / other[part] for one, other in zip(taken[Zoneward.name], taken[KubeProxy.name], strict=True))
        for part in (0, 1)
    )
    yield Figure(f"  {Zoneward.name}: connections a second of CPU", _rate(taken[Zoneward.name]), "1/s")
    yield Figure("    CPU for one, part of kube-proxy's", cpu, "x", _MOST_PART)
    yield Figure("    time for one, part of kube-proxy's", wall, "x")


def _rate(taken: list[tuple[float, float]]) -> float:
    return median(2 * _CONNECTIONS / cpu for cpu, _ in taken)
