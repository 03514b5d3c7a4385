"""A meter counts what clients count, beside real kube-proxies and beside Zoneward's proxy; so does the proxy itself."""

import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pytest
from e2e.control_plane import ControlPlane
from e2e.door import Door
from e2e.kube_proxy import KubeProxy
from e2e.meters import ZonewardMeter
from e2e.nodes import Bed
from e2e.processes import wait_until
from e2e.proxies import ZonewardProxy
from e2e.raw_connections import RawConnections, begin_associations, take_raw_connections
from tests.builders.objects import a_namespace, a_node, a_service, a_slice
from tests.contract.api import Object
from tests.deploy.manifests import DEPLOY, METER_MODES, NAMESPACES

from zoneward.kube.demand import ServiceTraffic

NAMESPACE: Final = "measured"
IN_PROXY: Final = "in-proxy"
PROXIES: Final = ("nftables", "iptables", "ipvs", "zoneward", IN_PROXY)
"""Modes of kube-proxy, or Zoneward's proxy, beside a meter; and Zoneward's proxy without one."""
ENDPOINTS: Final = {
    "10.1.0.1": "a",
    "10.2.0.1": "b",
    "10.2.0.2": "b",
    "fd00:1::1": "a",
    "fd00:2::1": "b",
}
NODE_PORT: Final = 30_080
TIMES: Final = 60
_NODES: Final = {"a": ("10.1.0.0/16", "fd00:1::/64"), "b": ("10.2.0.0/16", "fd00:2::/64")}
_NETFILTER: Final = "12"
"""The protocol of netlink."""
_HAS_IPVS: Final = Path("/proc/net/ip_vs").exists()


@dataclass(frozen=True, slots=True)
class Shape:
    """A Service: its endpoints, the port and protocol that they listen on, and what its spec has beside."""

    endpoints: tuple[str, ...]
    target: int = 8080
    protocol: str = "TCP"
    spec: Object = field(default_factory=dict)


_FOUR: Final = ("10.1.0.1", "10.2.0.1", "10.2.0.2")
_QUIET: Final = 9
SERVICES: Final = {
    "started": Shape(("10.1.0.1",)),
    "plain": Shape(_FOUR, spec={"type": "NodePort"}),
    "datagrams": Shape(_FOUR, protocol="UDP"),
    "six": Shape(("fd00:1::1", "fd00:2::1"), spec={"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"}),
    "long": Shape(("10.1.0.1",), target=9090),
    "leaving": Shape(("10.1.0.1",), target=9090),
    "itself": Shape(("10.1.0.1",)),
    "associations": Shape(("10.1.0.1",), protocol="SCTP"),
    "quiet": Shape(("10.1.0.1",), target=_QUIET),
}


class Site:
    """A node in zone a with a proxy and the ``counter``, a node in zone b, and Services with endpoints in both."""

    def __init__(self, bed: Bed, plane: ControlPlane, folder: Path, kind: str) -> None:
        self.node: Final = bed.node(f"{kind}-a", pods=_NODES["a"])
        bed.node(f"{kind}-b", pods=_NODES["b"])
        take_raw_connections(self.node, _QUIET)
        self.client: Final = self.node.pod("10.1.200.1", "fd00:1::c8:1")
        self.outside: Final = bed.outside()
        self.plane, self.folder = plane, folder
        self.namespace: Final = f"{NAMESPACE}-{kind}"
        self.node_port: Final = NODE_PORT + PROXIES.index(kind)
        self.addresses: dict[str, str] = {}
        self._made: dict[str, list[Object]] = {}
        api = plane.api()
        node = a_node(self.node.name, zone="a", address=self.node.addresses[0])
        api.create_all([a_namespace(self.namespace), node | {"spec": {"podCIDRs": list(_NODES["a"])}}])
        for name, shape in SERVICES.items():
            port = {"name": "http", "port": 80, "protocol": shape.protocol, "targetPort": shape.target}
            if "type" in shape.spec:
                port["nodePort"] = self.node_port
            made = api.create(a_service(name, namespace=self.namespace, ports=[port], **shape.spec))
            self.addresses[name] = made["spec"]["clusterIP"]
            slices = [
                self._slice(name, shape, zone) for zone in sorted({ENDPOINTS[endpoint] for endpoint in shape.endpoints})
            ]
            self._made[name] = [made, *map(api.create, slices)]
        for document in (NAMESPACES, METER_MODES[1]):
            plane.kubectl("apply", "--kustomize", str(DEPLOY / document), "--validate=strict")
        self.counter: ZonewardMeter | ZonewardProxy
        if kind == IN_PROXY:
            self.counter = ZonewardProxy(self.node, plane.kubeconfig(), folder)
        else:
            account = plane.service_account("zoneward-meter", namespace="zoneward-meter")
            self.counter = ZonewardMeter(self.node, plane.kubeconfig(account), folder, "--enable-accounting")

    def _slice(self, service: str, shape: Shape, zone: str) -> Object:
        addresses = [endpoint for endpoint in shape.endpoints if ENDPOINTS[endpoint] == zone]
        location: Object = {"namespace": self.namespace, "node": f"{self.node.name[:-1]}{zone}", "zone": zone}
        made = a_slice(f"{service}-{zone}", service=service, addresses=addresses, **location)
        made["ports"] = [{"name": "http", "port": shape.target, "protocol": shape.protocol}]
        return made | {"addressType": "IPv6" if ":" in addresses[0] else "IPv4"}

    def delete_slices(self, service: str) -> None:
        while len(self._made[service]) > 1:
            self.plane.api().delete(self._made[service].pop())

    def delete_services(self) -> None:
        """Release their node ports."""
        for service in self._made.values():
            for object_ in service:
                self.plane.api().delete(object_)

    def start(self) -> None:
        """Start the counter, and wait until it counts."""
        self.counter.start()
        self.wait_until(lambda: self.answers("started") and bool(self.counter.measured().services), "a count")

    def answers(self, service: str) -> bool:
        with suppress(OSError):
            return bool(self.client.ask(self.addresses[service], 80, limit=1.0))
        return False

    def traffic(self, service: str) -> ServiceTraffic:
        in_namespace = [entry for entry in self.counter.measured().services if entry.namespace == self.namespace]
        empty = ServiceTraffic(namespace=self.namespace, service=service, address_type="IPv4")
        return next((entry for entry in in_namespace if entry.service == service), empty)

    def connections(self, service: str) -> Counter[str]:
        return Counter(self.traffic(service).zones)

    def wait_until(self, met: Callable[[], object], what: str) -> None:
        self.counter.wait_until(met, what=what)

    @contextmanager
    def long_connection(self, service: str = "long") -> Iterator[tuple[socket.socket, socket.socket]]:
        """An open connection: the ends of the client and of the endpoint."""
        with ExitStack() as stack:
            listening = stack.enter_context(self.node.pods.call(socket.create_server, ("10.1.0.1", 9090)))
            target = self.addresses[service], 80
            asking = stack.enter_context(self.client.call(socket.create_connection, target, 30.0))
            peer, _ = listening.accept()
            yield asking, stack.enter_context(peer)

    def has_answered(self, least: int, service: str = "long") -> bool:
        """Whether more bytes of responses are counted."""
        return _bytes(self.traffic(service))[1] > least

    def has_dropped_messages(self) -> bool:
        """Whether the kernel has dropped messages about connections that the counter did not read."""
        lines = self.node.call(Path("/proc/thread-self/net/netlink").read_text).splitlines()
        sockets = [dict(zip(lines[0].split(), line.split(), strict=True)) for line in lines[1:]]
        return any(int(one["Drops"]) for one in sockets if one["Eth"] == _NETFILTER and int(one["Groups"], 16))

    def sizes(self) -> tuple[int, int]:
        """Bytes of IP packets that the client's interface sent and received."""
        line = next(
            line
            for line in self.client.call(Path("/proc/thread-self/net/dev").read_text).splitlines()
            if "eth0" in line
        )
        received, packets_in, *_, sent, packets_out = (int(word) for word in line.split(":")[1].split()[:10])
        # Each frame has 14 bytes before the packet.
        return sent - 14 * packets_out, received - 14 * packets_in


@contextmanager
def _proxy(kind: str, site: Site) -> Iterator[None]:
    if kind != "zoneward":
        with KubeProxy(site.plane, node=site.node.name, mode=kind, network=site.node):
            yield
        return
    with (
        Door(site.node.path, site.plane.ports.server),
        ZonewardProxy(site.node, site.plane.kubeconfig(), site.folder) as proxy,
    ):
        proxy.start()
        yield


@pytest.fixture(scope="module", params=PROXIES)
def site(
    request: pytest.FixtureRequest, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    kind: str = request.param
    if kind == "ipvs" and not _HAS_IPVS:
        pytest.skip("this kernel has no IPVS")
    with ExitStack() as stack:
        made = Site(stack.enter_context(Bed()), control_plane, tmp_path_factory.mktemp(kind), kind)
        stack.callback(made.delete_services)
        if kind == IN_PROXY:
            stack.enter_context(Door(made.node.path, control_plane.ports.server))
        else:
            stack.enter_context(_proxy(kind, made))
            for name in ("plain", "six"):
                wait_until(partial(made.answers, name), f"an answer of {name}")
        stack.enter_context(made.counter)
        made.start()
        yield made


def by_zone(answers: Counter[str]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for address, count in answers.items():
        counts[ENDPOINTS[address]] += count
    return dict(counts)


@pytest.mark.parametrize(("service", "protocol"), [("plain", "tcp"), ("six", "tcp"), ("datagrams", "udp")])
def test_short_connections_are_counted_by_zone(site: Site, service: str, protocol: str) -> None:
    before = site.connections(service)
    answers = site.client.tally(site.addresses[service], 80, times=TIMES, protocol=protocol)
    site.wait_until(lambda: (site.connections(service) - before).total() >= TIMES, f"connections to {service}")
    assert dict(site.connections(service) - before) == by_zone(answers)
    document = site.counter.measured()
    assert (document.node, document.zone) == (site.node.name, "a")


def test_clients_from_outside_are_counted_as_external(site: Site) -> None:
    before = site.traffic("plain")
    outside = site.outside.tally(site.node.addresses[0], site.node_port, times=TIMES)
    inside = site.client.tally(site.node.addresses[0], site.node_port, times=TIMES)

    def counted() -> tuple[Counter[str], Counter[str]]:
        traffic = site.traffic("plain")
        return Counter(traffic.external) - Counter(before.external), Counter(traffic.zones) - Counter(before.zones)

    site.wait_until(lambda: min(counts.total() for counts in counted()) >= TIMES, "connections from both sides")
    assert tuple(map(dict, counted())) == (by_zone(outside), by_zone(inside))


def test_open_connection_is_counted_with_its_bytes(site: Site) -> None:
    before = site.sizes()
    with site.long_connection() as (asking, peer):
        for times in (1, 2):
            _exchange(asking, peer)
            site.wait_until(partial(site.has_answered, times * _ANSWER), "what was sent")
        assert site.connections("long") == {"a": 1}
        real = [after - first for after, first in zip(site.sizes(), before, strict=True)]
        assert _bytes(site.traffic("long")) == pytest.approx(real, rel=0.03, abs=200)


def test_restart_counts_nothing_twice(site: Site) -> None:
    with site.long_connection() as (asking, peer):
        _exchange(asking, peer)
        site.start()
        assert site.connections("long").total() == 0
        _exchange(asking, peer)
        site.wait_until(partial(site.has_answered, _ANSWER), "what was sent since")
        assert _bytes(site.traffic("long"))[1] < 2 * _ANSWER
        if isinstance(site.counter, ZonewardMeter):
            since = site.counter.measured().since.timestamp()
            assert site.counter.metric("zoneward_meter_counting_since_seconds") == pytest.approx(since, abs=0.1)


_ASKED, _ANSWER = 1_000, 2_000_000


def _exchange(asking: socket.socket, peer: socket.socket) -> None:
    """A short request and a long response, each read to its end."""
    asking.sendall(b"q" * _ASKED)
    _read(peer, _ASKED)
    writing = threading.Thread(target=peer.sendall, args=(b"r" * _ANSWER,))
    writing.start()
    _read(asking, _ANSWER)
    writing.join()


def _read(connection: socket.socket, size: int) -> None:
    while size:
        size -= len(connection.recv(size))


def _bytes(traffic: ServiceTraffic) -> tuple[int, int]:
    counted = traffic.bytes
    sizes = [] if isinstance(counted, msgspec.UnsetType) else list(counted.values())
    return sum(size.request for size in sizes), sum(size.response for size in sizes)


# --- corners ----------------------------------------------------------------------------------------------------------

in_one_mode = pytest.mark.parametrize("site", ["nftables"], indirect=True)
"""What is a matter of the meter, not of the proxy."""


@in_one_mode
def test_sctp_associations_are_counted(site: Site) -> None:
    address = site.addresses["associations"]
    site.client.call(begin_associations, "10.1.200.1", address, 80, count=TIMES)
    site.wait_until(lambda: site.connections("associations").total() >= TIMES, "associations")
    assert site.connections("associations") == {"a": TIMES}


@in_one_mode
def test_hairpin_connection_is_counted_once(site: Site) -> None:
    for _ in range(TIMES):
        site.node.pods.ask(site.addresses["itself"], 80, source="10.1.0.1")
    site.wait_until(lambda: site.connections("itself").total() >= TIMES, "connections to itself")
    assert site.connections("itself") == {"a": TIMES}


@in_one_mode
def test_zone_of_a_removed_endpoint_is_known(site: Site) -> None:
    with site.long_connection("leaving") as (asking, peer):
        _exchange(asking, peer)
        site.delete_slices("leaving")
        _exchange(asking, peer)
        site.wait_until(partial(site.has_answered, 2 * _ANSWER, "leaving"), "what was sent since")
    assert site.connections("leaving") == {"a": 1}


@in_one_mode
def test_lost_messages_are_reported(site: Site) -> None:
    assert site.counter.metric("zoneward_meter_lost_messages_total") == 0
    assert site.counter.measured().complete
    site.counter.signal(signal.SIGSTOP)
    opening = RawConnections([site.addresses["quiet"]], 80, network="10.14")

    def are_more_than_the_kernel_holds() -> bool:
        site.client.call(opening.come_and_go, 12_000, 1.0)
        return site.has_dropped_messages()

    site.wait_until(are_more_than_the_kernel_holds, "messages that the kernel drops")
    site.counter.signal(signal.SIGCONT)
    site.wait_until(lambda: site.counter.metric("zoneward_meter_lost_messages_total") > 0, "lost messages")
    assert not site.counter.measured().complete


@in_one_mode
def test_missing_capability_is_reported_in_one_line(site: Site) -> None:
    command = [*site.node.enter, "setpriv", "--inh-caps", "-all", "--bounding-set", "-all"]
    command += [sys.executable, "-m", "zoneward", "meter", "--node", site.node.name, "--listen", "127.0.0.1:0", "-q"]
    command += ["--kubeconfig", str(site.counter.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "zoneward: the kernel: expected root or CAP_NET_ADMIN to read connection tracking, got no permission"
    ]
