"""CPU and memory of a meter on a busy node, and whether it counts all connections.

A node has the rules of Zoneward's proxy for a thousand Services. A Pod sends packets as a kernel would: first packets
that open lasting connections, then, at a steady rate, pairs that open and reset one. Nobody answers, so that only the
meter is measured.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from e2e.api_servers import SandboxServer
from e2e.door import Door
from e2e.meters import ZonewardMeter
from e2e.nodes import Bed, Namespace
from e2e.proxies import ZonewardProxy
from e2e.raw_connections import RawConnections, take_raw_connections

from bench.measuring import MIB, Figure
from bench.processes import cpu_of, peak_of
from bench.proxy_cluster import NODE, PORT, Object, address_of, cluster

_SERVICES, _ENDPOINTS = 1_000, 10
_LIVE, _RATE, _SECONDS, _WARM = 100_000, 5_000, 60.0, 15.0
_MOST_CPU, _MOST_MEMORY, _MOST_WRONG = 15.0, 150.0, 1.0
_FILLED: Final = 1.02
_SETTLED: Final = 3.0
_PODS, _CLIENT = "10.0.0.0/12", "10.15.255.1"


def meter() -> Iterator[Figure]:
    """With a hundred thousand connections, and five thousand new ones a second."""
    with TemporaryDirectory() as name, SandboxServer(Path(name)) as server, Bed(ports=()) as bed:
        folder = Path(name)
        server.api.create_all(_without_owner(object_) for object_ in cluster(_SERVICES, _ENDPOINTS))
        node = bed.node(NODE, pods=(_PODS,))
        take_raw_connections(node, PORT)
        client = node.pod(_CLIENT)
        with Door(node.path, server.port):
            with ZonewardProxy(node, server.kubeconfig, folder) as proxy:
                # Its rules stay.
                proxy.start()
            with ZonewardMeter(node, server.kubeconfig, folder, "--dump-period", "30s", "-q") as running:
                running.start()
                yield from _measure(client, running)


def _without_owner(object_: Object) -> Object:
    """Drop the owner: the server gives Services other UIDs, and deletes slices of a missing owner."""
    object_["metadata"].pop("ownerReferences", None)
    return object_


def _measure(client: Namespace, running: ZonewardMeter) -> Iterator[Figure]:
    pid = running.process.pid
    before = peak_of(pid)
    services = [address_of(index) for index in range(_SERVICES)]
    opening = RawConnections(services, 80, network="10.15")
    client.call(opening.stay, _LIVE)
    client.call(opening.come_and_go, _RATE, _WARM)
    cpu, clock, opened = cpu_of(pid), time.monotonic(), opening.opened
    client.call(opening.come_and_go, _RATE, _SECONDS)
    cpu, wall, opened = cpu_of(pid) - cpu, time.monotonic() - clock, opening.opened - opened
    what = f"{_LIVE:,} live connections and new ones"
    yield Figure(f"{what}: new ones a second", opened / wall, "1/s")
    yield Figure("  the meter's share of a core", cpu / wall * 100, "%", _MOST_CPU)
    yield Figure("  its peak memory", peak_of(pid) / MIB, "MiB", _MOST_MEMORY)
    yield Figure("  its memory before any connection", before / MIB, "MiB")
    yield Figure("  a dump, by the clock", running.metric("zoneward_meter_dump_seconds"), "s")
    yield Figure("  messages lost", running.metric("zoneward_meter_lost_messages_total"), "", 0)
    yield Figure("  connections that are counted wrong", _wrong(running, opening), "%", _MOST_WRONG)
    room = int(running.metric("zoneward_meter_conntrack_limit"))
    client.call(opening.stay, int(room * _FILLED))
    entries = running.metric("zoneward_meter_conntrack_entries")
    yield Figure("the kernel's table is filled to", entries / room * 100, "%")
    yield Figure("  connections that are counted wrong", _wrong(running, opening), "%", _MOST_WRONG)
    yield Figure("  the meter's peak memory", peak_of(pid) / MIB, "MiB")


def _wrong(running: ZonewardMeter, opening: RawConnections) -> float:
    """In percent."""
    time.sleep(_SETTLED)
    counted = sum(sum(service.zones.values()) for service in running.measured().services)
    return abs(counted / opening.opened - 1) * 100
