"""The proxy's counts equal the clients', and replacing the table of an older version fails no connection."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec
import pytest
from e2e.nodes import Namespace
from e2e.proxied import NODE, Proxied, proxied
from tests.builders.objects import a_service, a_slice
from tests.contract.api import Object

from zoneward.kube.measured_traffic import MeasuredTraffic, ServiceTraffic
from zoneward.meter.accounting import accounting_is_on

ZONES: Final = {"10.1.0.1": "a", "10.2.0.1": "b", "fd00:1::1": "a", "fd00:2::1": "b"}
NODE_PORT: Final = 30_081
TIMES: Final = 60
CLUSTER_IPS: Final = {"tcp": "10.96.0.50", "udp": "10.96.0.51", "ipv6": "fd00:10:96::50"}
ACCOUNTING: Final = "net.netfilter.nf_conntrack_acct"
OLD_SET: Final = "type ipv4_addr . ipv4_addr . inet_service . inet_proto; flags dynamic,timeout; timeout 1h; size 65536"
OLD_RULE: Final = "update @connections { ip daddr . ct original ip daddr . ct original proto-dst . meta l4proto }"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    """A node in zone a, another one in zone b, and Services with endpoints in both."""
    with proxied(tmp_path_factory.mktemp("counters")) as site:
        site.bed.node("node-b", pods=("10.2.0.0/16", "fd00:2::/64"))
        for name, address in CLUSTER_IPS.items():
            protocol = "UDP" if name == "udp" else "TCP"
            port = {"name": "http", "port": 80, "protocol": protocol, "targetPort": 8080}
            spec: Object = {"clusterIP": address, "ports": [port]}
            if name == "ipv6":
                spec |= {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"}
            elif name == "tcp":
                spec |= {"type": "NodePort", "ports": [port | {"nodePort": NODE_PORT}]}
            site.server.api.create(a_service(name, **spec))
            for endpoint, zone in ZONES.items():
                if (":" in endpoint) == (name == "ipv6"):
                    slice_ = a_slice(
                        f"{name}-{zone}", service=name, addresses=[endpoint], zone=zone, node=f"node-{zone}"
                    )
                    ports = [{"name": "http", "port": 8080, "protocol": protocol}]
                    family = "IPv6" if name == "ipv6" else "IPv4"
                    site.server.api.create(slice_ | {"addressType": family, "ports": ports})
        node = site.server.api.read({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        site.server.api.replace(node | {"spec": {"podCIDRs": ["10.1.0.0/16", "fd00:1::/64"]}})
        yield site


@pytest.fixture(params=[False, True], ids=["without-accounting", "with-accounting"], scope="module")
def counting(site: Proxied, request: pytest.FixtureRequest) -> Iterator[Proxied]:
    site.node.sysctl(ACCOUNTING, int(request.param))
    site.proxy.start()
    site.proxy.wait_until(lambda: site.proxy.get("/measured")[0] == 200 and _began(site), what="the first dump")
    yield site
    assert site.proxy.terminate() == 0


def _began(site: Proxied) -> bool:
    """Whether connections of the client are counted."""
    site.client.ask("10.96.0.10", 80)
    return bool(_measured(site).services)


def _measured(site: Proxied) -> MeasuredTraffic:
    return msgspec.json.decode(site.proxy.get("/measured")[1], type=MeasuredTraffic)


def _traffic(site: Proxied, service: str) -> ServiceTraffic:
    empty = ServiceTraffic(namespace="default", service=service, address_type="IPv4")
    return next((traffic for traffic in _measured(site).services if traffic.service == service), empty)


def _by_zone(answers: Counter[str]) -> dict[str, int]:
    zones: Counter[str] = Counter()
    for address, count in answers.items():
        zones[ZONES[address]] += count
    return dict(sorted(zones.items()))


def _ask(client: Namespace, service: str) -> Counter[str]:
    protocol = "udp" if service == "udp" else "tcp"
    return client.tally(CLUSTER_IPS[service], 80, times=TIMES, protocol=protocol)


@pytest.mark.parametrize("service", CLUSTER_IPS)
def test_connections_and_bytes_are_counted_by_the_zone_that_answered(counting: Proxied, service: str) -> None:
    answers = _ask(counting.client, service)
    counting.proxy.wait_until(
        lambda: sum(_traffic(counting, service).zones.values()) >= TIMES, what=f"connections to {service}"
    )
    traffic = _traffic(counting, service)
    assert (traffic.zones, traffic.external) == (_by_zone(answers), {})
    if counting.node.call(accounting_is_on):
        assert not isinstance(traffic.bytes, msgspec.UnsetType)
        assert all(count.request and count.response for count in traffic.bytes.values())
    else:
        assert isinstance(traffic.bytes, msgspec.UnsetType)
    assert _measured(counting).complete


def test_connections_from_outside_are_counted_as_external(counting: Proxied) -> None:
    outside = counting.bed.outside()
    answers = outside.tally("192.0.2.1", NODE_PORT, times=TIMES)
    counting.proxy.wait_until(
        lambda: sum(_traffic(counting, "tcp").external.values()) >= TIMES, what="connections from outside"
    )
    assert _traffic(counting, "tcp").external == _by_zone(answers)


def test_a_table_of_an_older_version_is_replaced_and_no_connection_fails(site: Proxied) -> None:
    site.proxy.start()
    assert site.proxy.terminate() == 0
    lines = site.node.run("nft", "list", "table", "ip", "zoneward").splitlines()
    (layout,) = (line.split()[1] for line in lines if "chain layout-" in line)
    # As in versions that counted in the kernel.
    for command in (
        f"delete chain ip zoneward {layout}",
        "add chain ip zoneward layout-0123456789abcdef",
        f"add set ip zoneward connections {{ {OLD_SET}; counter; }}",
        "add chain ip zoneward count-connections",
        f"add rule ip zoneward count-connections meta l4proto tcp {OLD_RULE} return",
        "add chain ip zoneward nat-input { type nat hook input priority 100; }",
        "add rule ip zoneward nat-input ct status dnat jump count-connections",
        "insert rule ip zoneward nat-postrouting ct status dnat jump count-connections",
    ):
        site.node.run("nft", command)
    with site.opening() as opened:
        site.proxy.start()
    assert opened.all()
    assert not opened.failures()
    rules = site.node.run("nft", "list", "table", "ip", "zoneward")
    assert layout in rules
    assert not any(name in rules for name in ("connections", "nat-input"))
